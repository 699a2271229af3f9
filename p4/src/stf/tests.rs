//! Reading and writing scripts.

use super::*;

#[test]
fn what_is_written_is_read() {
    let text = "\
add IngressImpl.job 60 port:0x0001 slot:0x00* IngressImpl.admit(base:0x0, world:0x2)
add EgressImpl.child instance:0x0003 EgressImpl.keep()
mc_mgrp_create 1
mc_node_create 3 1 2
mc_node_associate 1 0
expect 1 00ff*a
expect 2 01$
expect 3
packet 1 00ff1a
check_counter \"IngressImpl.packets\"(3) packets >= 7
check_counter \"packets\"(0)
register_read claim_seen 4
wait
";
    let script = Script::parse(text).unwrap();
    assert_eq!(script.to_string(), text);
    let commented = Script::parse("\n  wait # and nothing else\n").unwrap();
    assert_eq!(commented.statements, [(2, Statement::Wait)]);
}

#[test]
fn nonsense_is_refused_with_its_line() {
    for (text, expected) in [
        ("fly away", "unknown"),
        ("packet", "not a number"),
        ("packet 1 0", "even"),
        ("packet 1 zz", "hexadecimal"),
        ("packet 1 +f", "hexadecimal"),
        ("packet +1 ff", "not a number"),
        ("packet 0x+1 ff", "not a number"),
        ("packet 70000 00", "too large"),
        ("expect 1 xyz", "neither"),
        ("add job admit", "expected"),
        ("add job port:0xg admit()", "no digit"),
        ("add job port:0x00112233445566778 admit()", "64 bits"),
        ("add job port:99999999999999999999 admit()", "not a number"),
        ("check_counter packets(1) packets ~ 3", "expected"),
        ("mc_node_create 1", "port"),
        ("mc_node_associate 1", "expected"),
    ] {
        let error = Script::parse(&format!("wait\n{text}")).unwrap_err();
        assert!(error.line == 2 && error.problem.contains(expected), "{text}: {error}");
    }
}

/// Before, a value was written with fewer digits than it was read with, or as one without an open digit.
#[test]
fn digits_that_count_are_written() {
    for (text, written) in [
        ("5", "0x0000000000000005"),
        ("0x05", "0x05"),
        ("0x*5", "0x*5"),
        ("0x**5", "0x*5"),
        ("0x***", "0x*"),
        ("0b101", "0b101"),
        ("0b1*1", "0b1*1"),
        ("0b*11", "0b*11"),
        ("0b1111", "0xf"),
        ("0b0011****", "0x3*"),
    ] {
        let script = Script::parse(&format!("add t k:{text} a()")).unwrap();
        assert_eq!(script.to_string(), format!("add t k:{written} a()\n"), "{text}");
        assert_eq!(Script::parse(&script.to_string()).unwrap(), script, "{text}");
    }
}
