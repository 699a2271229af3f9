#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| netfold_fuzz::switch_control::run(data));
