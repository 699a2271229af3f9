use netfold_testkit::directory::TemporaryDirectory;

use super::*;

/// A process without capabilities on a host where nothing is wrong.
fn healthy() -> Readings {
    Readings {
        receive_buffer_max: Some(8 << 20),
        send_buffer_max: Some(8 << 20),
        capabilities: Some(0),
        memory_lock_max: Some(8 << 20),
        clock_source: Some("tsc".into()),
        clock_sources: vec!["tsc".into(), "hpet".into()],
        governors: ["performance".to_owned()].into(),
        processors: Some(8),
        steal: Some(0.01),
        hugepages_free: Some(0),
    }
}

fn checks(readings: &Readings, access: PacketAccess) -> Vec<&'static str> {
    readings.judge(&Needs::new(access)).iter().map(|finding| finding.check).collect()
}

#[test]
fn nothing_is_found_on_a_healthy_host() {
    assert_eq!(checks(&healthy(), PacketAccess::Sockets), [""; 0]);
    let root = Readings { capabilities: Some(u64::MAX), hugepages_free: Some(512), ..healthy() };
    for access in [PacketAccess::PacketSockets, PacketAccess::XdpSockets, PacketAccess::Dpdk] {
        assert_eq!(checks(&root, access), [""; 0]);
    }
    assert_eq!(
        checks(&Readings::default(), PacketAccess::XdpSockets),
        [""; 0],
        "what is unknown is not judged"
    );
}

#[test]
fn each_reading_out_of_bounds_is_found() {
    type Change = fn(&mut Readings);
    let cases: [(&str, Change); 7] = [
        ("receive_buffer", |host| host.receive_buffer_max = Some((8 << 20) - 1)),
        ("send_buffer", |host| host.send_buffer_max = Some(212_992)),
        ("clock_source", |host| host.clock_source = Some("hpet".into())),
        ("governor", |host| host.governors = ["performance".to_owned(), "powersave".to_owned()].into()),
        ("processors", |host| host.processors = Some(1)),
        ("steal", |host| host.steal = Some(0.051)),
        ("steal", |host| host.steal = Some(1.0)),
    ];
    for (check, change) in cases {
        let mut host = healthy();
        change(&mut host);
        let findings = host.judge(&Needs::new(PacketAccess::Sockets));
        assert_eq!(findings.iter().map(|finding| finding.check).collect::<Vec<_>>(), [check]);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert!(!findings[0].remedy.is_empty() && !findings[0].limit.is_empty());
    }
}

#[test]
fn remedies_name_the_value_to_set() {
    let host = Readings { receive_buffer_max: Some(1), clock_source: Some("acpi_pm".into()), ..healthy() };
    let findings = host.judge(&Needs::new(PacketAccess::Sockets));
    assert_eq!(findings[0].remedy, "sysctl -w net.core.rmem_max=8388608");
    assert!(findings[1].remedy.starts_with("echo tsc > /sys/"), "{findings:?}");
}

#[test]
fn a_process_that_may_exceed_limits_does() {
    let host =
        Readings { receive_buffer_max: Some(1), capabilities: Some(1 << capability::NET_ADMIN), ..healthy() };
    assert_eq!(checks(&host, PacketAccess::Sockets), [""; 0]);
}

#[test]
fn packet_io_needs_permissions_and_memory() {
    let with = |bits: &[u32]| Readings {
        capabilities: Some(bits.iter().fold(0, |all, bit| all | 1 << bit)),
        ..healthy()
    };
    use capability::{BPF, IPC_LOCK, NET_ADMIN, NET_RAW, SYS_ADMIN};
    assert_eq!(checks(&with(&[]), PacketAccess::PacketSockets), ["packet_access"]);
    assert_eq!(checks(&with(&[NET_RAW]), PacketAccess::PacketSockets), [""; 0]);
    assert_eq!(
        checks(&with(&[NET_RAW, NET_ADMIN]), PacketAccess::XdpSockets),
        ["packet_access", "locked_memory"]
    );
    assert_eq!(checks(&with(&[NET_RAW, NET_ADMIN, BPF]), PacketAccess::XdpSockets), ["locked_memory"]);
    assert_eq!(checks(&with(&[NET_RAW, SYS_ADMIN, IPC_LOCK]), PacketAccess::XdpSockets), [""; 0]);
    assert_eq!(checks(&with(&[]), PacketAccess::Dpdk), ["hugepages"]);
}

/// Writes files below a folder.
fn files(folder: &TemporaryDirectory, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn files_of_the_system_are_read() {
    let folder = TemporaryDirectory::new("readings");
    let clock = "sys/devices/system/clocksource/clocksource0";
    files(
        &folder,
        &[
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/core/wmem_max", "425984\n"),
            ("proc/self/status", "Name:\tnetfold\nCapEff:\t0000000000002000\nCpus_allowed_list:\t0-3,8\n"),
            (
                "proc/self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536    unlimited   bytes\n",
            ),
            (&format!("{clock}/current_clocksource"), "hpet\n"),
            (&format!("{clock}/available_clocksource"), "tsc hpet \n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", "intel_pstate\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "conservative\n"),
            ("proc/stat", "cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1\n"),
            ("proc/meminfo", "MemTotal: 1 kB\nHugePages_Free:       17\n"),
        ],
    );
    let read = Readings::take(folder.path(), Duration::ZERO);
    let expected = Readings {
        receive_buffer_max: Some(212_992),
        send_buffer_max: Some(425_984),
        capabilities: Some(0x2000),
        memory_lock_max: Some(65_536),
        clock_source: Some("hpet".into()),
        clock_sources: vec!["tsc".into(), "hpet".into()],
        governors: ["powersave".to_owned()].into(),
        processors: Some(5),
        steal: None,
        hugepages_free: Some(17),
    };
    assert_eq!(read, expected);
    assert_eq!(read.unread(), ["stolen processor time"], "no time has passed");
}

#[test]
fn stolen_time_is_a_share_of_the_time_that_passed() {
    let time = |total, stolen| ProcessorTime { total, stolen };
    assert_eq!(steal(time(100, 10), time(200, 35)), Some(0.25));
    assert_eq!(steal(time(100, 10), time(100, 10)), None);
    assert_eq!(steal(time(200, 10), time(100, 9)), None, "counters of a resumed machine");
}

#[test]
fn files_that_are_absent_wrong_or_long_are_not_judged() {
    let folder = TemporaryDirectory::new("no-readings");
    assert_eq!(Readings::take(folder.path(), Duration::ZERO), Readings::default());
    let long = "9".repeat(100_000);
    files(
        &folder,
        &[
            ("proc/sys/net/core/rmem_max", &long),
            ("proc/sys/net/core/wmem_max", "many"),
            ("proc/self/status", "CapEff: xyz\nCpus_allowed_list: 3-0,-\n"),
            ("proc/self/limits", "Max locked memory"),
            ("proc/stat", "cpu  18446744073709551615 1 1 1 1 1 1 1\n"),
            ("proc/meminfo", "HugePages_Free: -1\n"),
        ],
    );
    assert_eq!(Readings::take(folder.path(), Duration::ZERO), Readings::default());
}

#[test]
fn this_system_is_read() {
    let read = Readings::take(Path::new("/"), Duration::from_millis(20));
    assert!(read.receive_buffer_max.is_some() && read.processors.is_some_and(|count| count > 0), "{read:?}");
}
