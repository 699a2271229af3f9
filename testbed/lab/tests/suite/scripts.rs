//! Scripts that people wrote: each passes on the interpreter. A script names its profile in a comment, as in
//! `netfold testbed stf run FILE --profile small`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use netfold_lab::stf::{Script, run};
use netfold_p4::{allreduce, profile};
use netfold_switch::InterpretedPipeline;

#[test]
fn every_script_passes() {
    let mut found = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = text.split("--profile ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        let program = allreduce::program(&profile::by_name(name).unwrap()).unwrap();
        let pipeline = InterpretedPipeline::new(Arc::new(program.clone())).unwrap();
        let outcome = run(&Script::parse(&text).unwrap(), &program, Box::new(pipeline)).unwrap();
        assert!(outcome.failures.is_empty(), "{}: {:?}", path.display(), outcome.failures);
        assert!(outcome.met > 0, "{} expects nothing", path.display());
        found += 1;
    }
    assert!(found > 0, "there are scripts");
}
