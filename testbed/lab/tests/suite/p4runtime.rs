//! The software switch and bmv2's `simple_switch_grpc`, two P4Runtime servers that know nothing of each other: the same
//! script to both, and the same responses except for the differences that are listed with their reasons.

mod different;
#[allow(dead_code, reason = "the tests of the switch's own server use all of it")]
#[path = "../../../../dataplane/switch/p4runtime/tests/suite/rig.rs"]
mod rig;
mod script;

use different::DIFFERENT;
use netfold_lab::bmv2::{Bmv2, Bmv2Config, compile, missing_tool};
use rig::{Client, Device, small};
use script::{Target, run};

#[test]
fn the_same_responses_as_bmv2_except_those_listed() {
    if let Some(tool) = missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    let device = Device::start();
    let address = format!("http://{}", device.address());
    let ours = run(&Target {
        connect: &|| Client::connect_to(address.clone()),
        config: small().to_json().into_bytes(),
    });
    let json = compile(&small()).expect("a program of ours").json.clone();
    let bmv2 = Bmv2::start(Bmv2Config::default()).expect("bmv2 starts");
    let theirs = run(&Target { connect: &|| Client::connect_to(bmv2.p4runtime().to_owned()), config: json });
    assert_eq!(ours.len(), theirs.len());
    let mut wrong = Vec::new();
    for ((name, ours), (same, theirs)) in ours.iter().zip(&theirs) {
        assert_eq!(name, same);
        let listed = DIFFERENT.iter().find(|(step, _)| step == name);
        match (ours == theirs, listed) {
            (true, None) => {}
            (false, Some((_, reason))) => println!("{name}: {reason}"),
            (false, None) => wrong.push(format!("{name}: differs\n  we {ours}\n  bmv2 {theirs}")),
            (true, Some(_)) => wrong.push(format!("{name}: listed as different, but both say {ours}")),
        }
    }
    for (name, _) in DIFFERENT {
        assert!(ours.iter().any(|(step, _)| step == name), "{name} is no step");
    }
    println!("{} of {} steps alike", ours.len() - DIFFERENT.len(), ours.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
