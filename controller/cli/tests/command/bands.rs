//! A controller that assigns classes of packets to jobs by GPU intensity.

use std::process::Stdio;

use netfold_testkit::wait::poll_state;
use serde_json::Value;

use crate::process::{Process, netfold, number, run, text};

#[test]
fn jobs_that_share_links_have_classes_by_what_they_declare() {
    let any = "127.0.0.1:0";
    let mut controller = Process::start(&format!(
        "controller --dev --ranking crux --bands 12-15,4-11,0-3 --dscp 8,0,10,46 --workers {any} --listen {any} --http {any}"
    ));
    let controlling = controller.event("controlling");
    let (workers, grpc) = (text(&controlling, "workers"), text(&controlling, "grpc"));
    let declare = |job: &str, work: u32| {
        let (code, lines) = run(&format!(
            "job declare {job} --world 2 --mode i32 --work {work} --compute-us 100000 --bytes 1MB --controller {grpc}"
        ));
        assert_eq!(code, Some(0), "{lines:?}");
        assert_eq!(lines[0]["spec"]["iteration"]["send_after_us"], 100_000);
    };
    declare("red/light", 100);
    declare("blue/heavy", 1600);
    // They do what they declare: a declaration that differs from what is measured is ignored.
    let start = |job: &str| {
        let (tenant, job) = job.split_once('/').unwrap_or_default();
        [0, 1].map(|rank| {
            let mut command = netfold(&format!(
                "testbed rank --switch {workers} --tenant {tenant} --job {job} --rank {rank} --world 2 --slots 256 \
                 --bytes 1000000 --compute-us 100000 --begin-unix-ms 0 --faults loss=0"
            ));
            // A rank ends with its standard input.
            command.stdin(Stdio::piped());
            Process::spawn(command)
        })
    };
    let stop = |ranks: &mut [Process]| {
        for rank in ranks {
            rank.signal("TERM");
            rank.wait();
        }
    };
    let band_of = |job: &str, first: u32| -> Value {
        poll_state(format_args!("{job} in the classes from {first} on"), || {
            let (_, lines) = run(&format!("job describe {job} --controller {grpc}"));
            let band = lines.into_iter().next().unwrap_or_default()["band"].take();
            if band["first"] == first { Ok(band) } else { Err(band) }
        })
    };
    let mut light = start("red/light");
    let alone = band_of("red/light", 12);
    assert_eq!(alone["dscp"], serde_json::json!([46, 46, 46, 46]));
    let mut heavy = start("blue/heavy");
    band_of("blue/heavy", 12);
    let shared = band_of("red/light", 4);
    assert_eq!((number(&shared, "classes"), &shared["dscp"][7]), (8.0, &Value::from(10)));
    stop(&mut heavy);
    band_of("red/light", 12);
    stop(&mut light);
    controller.signal("TERM");
    let changes = controller.rest().into_iter().filter(|line| line["kind"] == "job_banded");
    let messages: Vec<String> = changes.map(|line| text(&line, "message").to_owned()).collect();
    assert!(
        messages.iter().any(|message| message == "job 'red/light' has classes 4-11 of packets"),
        "{messages:?}"
    );
}
