//! Missing prerequisites are reported, and nothing stays behind.

use std::process::Command;

use netfold_dpdk::{Device, DpdkError, Eal, Huge, Memory, Options, Port, PortConfig, Spec, rings};

use crate::network::alone;
use crate::{eal, open, options};

fn refused(words: &str) -> DpdkError {
    open(words).err().unwrap_or_else(|| panic!("{words} was taken"))
}

#[test]
fn devices_that_do_not_exist() {
    let error = refused("net_nonsense0");
    assert!(matches!(&error, DpdkError::Driver { device, .. } if device == "net_nonsense0"), "{error}");
    alone(|| {
        let error = refused("net_af_packet,iface=nowhere0");
        assert!(matches!(&error, DpdkError::Device { log, .. } if log.contains("No such device")), "{error}");
        let error = refused("net_af_packet,nonsense=1");
        assert!(matches!(&error, DpdkError::Device { .. }), "{error}");
    });
    let eal = eal();
    let card: Spec = "0000:ff:1f.7".parse().unwrap();
    let error = Eal::start(&card.options, true).err();
    assert!(matches!(error, Some(DpdkError::Started { .. })), "cards must be requested first");
    let error = Device::attach(&eal, &card).err();
    assert!(matches!(error, Some(DpdkError::Device { .. })), "{error:?}");
}

#[test]
fn more_than_a_device_has() {
    let eal = eal();
    let (a, b) = rings(&eal, 63).expect("rings");
    let error = Port::start(a, &PortConfig { queues: 2, ..PortConfig::default() }).err();
    assert!(matches!(error, Some(DpdkError::Queues { asked: 2, max: 1, .. })), "{error:?}");
    let error = Port::start(b, &PortConfig { mtu: Some(20), ..PortConfig::default() }).err();
    assert!(matches!(error, Some(DpdkError::Mtu { asked: 20, .. })), "{error:?}");
    let (a, b) = rings(&eal, 63).expect("rings");
    let huge = PortConfig { mtu: Some(60_000), descriptors: 4096, ..PortConfig::default() };
    let error = Port::start(a, &huge).err();
    assert!(matches!(error, Some(DpdkError::Memory { .. })), "half a gigabyte of buffers: {error:?}");
    Port::start(b, &PortConfig::default()).expect("there is still some");
}

#[test]
fn options_are_fixed_when_dpdk_starts() {
    assert_eq!(eal().memory(), Memory::Ordinary);
    for other in [
        Options { huge: Huge::Always, ..options() },
        Options { memory_mb: 100_000, ..options() },
        Options { more: vec!["-l".into(), "0".into()], ..options() },
    ] {
        let error = Eal::start(&other, false).err();
        assert!(
            matches!(&error, Some(DpdkError::Started { with, .. }) if with.contains("--no-huge")),
            "{error:?}"
        );
    }
    Eal::start(&Options { memory_mb: 64, huge: Huge::WhereFree, ..options() }, false)
        .expect("there is enough");
}

/// Runs an ignored test of this file in a process of its own, below a command.
fn in_a_process(command: &[&str], test: &str) -> Option<String> {
    let exe = std::env::current_exe().expect("this program");
    let mut words = command.iter().copied();
    let mut process = match words.next() {
        Some(first) => Command::new(first),
        None => Command::new(&exe),
    };
    process.args(words);
    if !command.is_empty() {
        process.arg(&exe);
    }
    let output = process.args(["--exact", "--ignored", "--nocapture", &format!("errors::{test}")]).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {command:?} cannot be run: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

#[test]
#[ignore = "in a process of its own, run by missing_hugepages_are_reported"]
fn starts_with_hugepages() {
    let spec: Spec = "net_ring0 --in-memory -m 1000000".parse().unwrap();
    let error = Eal::start(&spec.options, false).expect_err("no machine has a terabyte of hugepages");
    println!("log: {error}");
    assert!(matches!(error, DpdkError::Hugepages { needed_mb: 1_000_000, .. }));
    Eal::start(&options(), false).expect("it was not started, so it can be");
}

#[test]
fn missing_hugepages_are_reported() {
    let text = in_a_process(&[], "starts_with_hugepages").expect("this program runs");
    assert!(text.contains("nr_hugepages"), "{text}");
}

#[test]
#[ignore = "in a process of its own, run by invalid_options_are_reported"]
fn starts_with_invalid_options() {
    let spec: Spec = "net_ring0 --no-huge --lcores nonsense".parse().unwrap();
    let error = Eal::start(&spec.options, false).expect_err("nonsense");
    assert!(matches!(&error, DpdkError::Start { log, .. } if log.contains("lcores")), "{error}");
}

#[test]
fn invalid_options_are_reported() {
    in_a_process(&[], "starts_with_invalid_options");
}

#[test]
#[ignore = "in a process of its own, run by missing_privileges_are_reported"]
fn starts_without_privilege() {
    let error = refused("net_af_packet,iface=lo");
    assert!(matches!(error, DpdkError::Privilege { capability: "CAP_NET_RAW", .. }), "{error}");
    assert!(error.to_string().contains("udp take none"), "{error}");
    let error = refused("net_tap,iface=nf1");
    assert!(matches!(error, DpdkError::Privilege { capability: "CAP_NET_ADMIN", .. }), "{error}");
    rings(&eal(), 63).expect("what needs no privilege works");
}

#[test]
fn missing_privileges_are_reported() {
    in_a_process(
        &["setpriv", "--bounding-set=-net_raw,-net_admin", "--inh-caps=-net_raw,-net_admin"],
        "starts_without_privilege",
    );
}

#[test]
#[ignore = "in a process of its own, run by nothing_is_left_in_the_file_system"]
fn lists_files() {
    let before = files();
    let links = rings(&eal(), 63).expect("rings");
    assert_eq!(files(), before, "while it runs");
    drop(links);
}

/// The files that DPDK writes by default: the folder of a process, and hugepages.
fn files() -> Vec<std::path::PathBuf> {
    let ours = format!("netfold-{}", std::process::id());
    let places = ["/var/run/dpdk", "/dev/hugepages", "/tmp/dpdk"].map(std::path::PathBuf::from);
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| std::path::Path::new(&folder).join("dpdk"));
    let entries = places.into_iter().chain(user).filter_map(|place| std::fs::read_dir(place).ok());
    let paths = entries.flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.to_string_lossy().contains(&ours)).collect()
}

#[test]
fn nothing_is_left_in_the_file_system() {
    in_a_process(&[], "lists_files");
}
