//! The rows of docs/connection-errors.md of `netfold job`, and of `netfold worker`.

use std::time::Instant;

use netfold_connect_errors::{Answer, Client, Mistake, Ports, Row, Target};

use crate::addresses::failure;

fn answer(arguments: &str) -> Answer {
    let start = Instant::now();
    let message = failure(arguments);
    Answer { message, took: start.elapsed() }
}

fn option(name: &str, value: Option<&String>) -> String {
    value.map(|value| format!("--{name} {value}")).unwrap_or_default()
}

#[test]
fn commands_that_call_a_controller() {
    let ports = Ports::start();
    let row = Row::of(Client::Job, |mistake| {
        let target = ports.command(mistake);
        let Target { address, ca, token, .. } = &target;
        let command = match mistake {
            Mistake::UnknownTenant => "job list --tenant acne",
            Mistake::UnknownJob => "job describe acme/trian",
            Mistake::UnknownSwitch => "switch describe leaf9",
            _ => "job list",
        };
        let ca = option("ca", ca.as_ref());
        let answer = answer(&format!("{command} --controller {address} --token {token} {ca}"));
        (target, answer)
    });
    row.check();
}

#[test]
fn workers() {
    let ports = Ports::start();
    let row = Row::of(Client::Worker, |mistake| {
        let target = ports.worker(mistake);
        let Target { address, ca, tenant, token, rendezvous } = &target;
        // Alone, or as one that connects to the rendezvous.
        let rank = if rendezvous.is_some() { "--rank 1 --world 2" } else { "--rank 0 --world 1" };
        let (ca, rendezvous) = (option("ca", ca.as_ref()), option("rendezvous", rendezvous.as_ref()));
        let answer = answer(&format!(
            "worker --job train {rank} --controller {address} --tenant {tenant} --token {token} {ca} {rendezvous}"
        ));
        (target, answer)
    });
    row.check();
}
