//! C programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use netfold_controller::JobEvent;
use netfold_embedded::{EmbeddedSwitch, Tampering};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::vacant_address;
use netfold_testkit::captured::CapturedProcess;
use netfold_testkit::process::{built_library, present};

use crate::install::{compile, pkg_config, prefix, sanitizer_runtime, source};
use crate::process::run;

const LIMIT: Duration = Duration::from_secs(120);

/// Seed of lost packets.
const SEED: u64 = 20038;

/// A switch that loses one packet in a hundred, both ways.
pub(crate) fn lossy_switch() -> EmbeddedSwitch {
    println!("seed of losses: {SEED}");
    let lossy = |io| Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(SEED, 0.01))) as _);
    EmbeddedSwitch::builder().middleware(lossy).start().unwrap()
}

pub(crate) fn tools(test: &str) -> bool {
    present("gcc", test) && present("pkg-config", test)
}

/// The flags to link with the static library: pkg-config's, with the archive instead of the name.
fn static_flags() -> Vec<String> {
    let archive = prefix().join("lib/libnetfold.a").display().to_string();
    let flags = pkg_config(&["--cflags", "--libs", "--static"]).into_iter();
    flags.map(|flag| if flag == "-lnetfold" { archive.clone() } else { flag }).collect()
}

/// The C example, by shared library and by static one, in two to four processes, at a switch that loses packets.
#[test]
fn the_example_in_processes() {
    if !tools("the C example") {
        return;
    }
    let example = "hostlib/c/examples/all_reduce.c";
    let mut strict = pkg_config(&["--cflags", "--libs"]);
    strict.extend(["-std=c11", "-pedantic"].map(str::to_owned));
    let shared = compile("gcc", example, "all_reduce_shared", &strict);
    let fixed = compile("gcc", example, "all_reduce_static", &static_flags());
    let needs = run(Command::new("readelf").arg("-d").arg(&fixed));
    assert!(!needs.contains("libnetfold"), "the static program needs the shared library:\n{needs}");
    let switch = lossy_switch();
    for (world, program) in [(2, &shared), (3, &fixed), (4, &shared)] {
        let ranks: Vec<CapturedProcess> = (0..world)
            .map(|rank| {
                let mut command = Command::new(program);
                command.env("LD_LIBRARY_PATH", prefix().join("lib"));
                command.arg(switch.control().to_string()).arg(format!("example of {world}"));
                CapturedProcess::start(command.arg(rank.to_string()).arg(world.to_string()), LIMIT)
            })
            .collect();
        for (rank, running) in ranks.into_iter().enumerate() {
            let output = running.finish().success();
            assert!(output.contains(&format!("rank {rank} of {world}")), "{output}");
            assert!(output.contains("through the switch at"), "{output}");
            assert!(output.contains("0 elements wrong"), "{output}");
        }
    }
    assert!(switch.stop().unwrap().results > 0);
}

/// Sums that may lack contributions, at a switch that receives trimmed packets: the same on all ranks, and complete without a tolerance.
#[test]
fn contributions_are_left_out_within_the_tolerance() {
    if !tools("the tolerance of C programs") {
        return;
    }
    let mut flags = pkg_config(&["--cflags", "--libs"]);
    flags.extend(["-std=c11", "-pedantic"].map(str::to_owned));
    let program = compile("gcc", "hostlib/c/tests/suite/tolerance.c", "tolerance", &flags);
    let trimming = |io| Ok(Box::new(Tampering::trimming(io, 0.4, 7)) as _);
    let switch = EmbeddedSwitch::builder().middleware(trimming).start().unwrap();
    let ranks = (0..3).map(|rank: u16| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", prefix().join("lib"));
        command.args([switch.control().to_string(), "tolerance".into(), rank.to_string(), "3".into()]);
        CapturedProcess::start(&mut command, LIMIT)
    });
    let output: Vec<String> =
        ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.finish().success()).collect();
    let lines = |output: &str| -> Vec<String> {
        output.lines().filter(|line| line.contains("partial")).map(str::to_owned).collect()
    };
    let first = lines(&output[0]);
    assert!(output.iter().all(|output| lines(output) == first), "ranks differ: {output:?}");
    let [own, more, exact] = &first[..] else { panic!("{first:?}") };
    for (line, lacking) in [(own, true), (more, true), (exact, false)] {
        assert!(line.contains(&format!("lacking {}, odd 0", u8::from(lacking))), "{line}");
    }
    assert!(exact.contains("partial 0,"), "{exact}");
}

/// Three processes of which one dies, so that two remain; then another one joins.
#[test]
fn a_job_shrinks_and_grows_in_place() {
    if !tools("resizable jobs of C programs") {
        return;
    }
    let mut flags = pkg_config(&["--cflags", "--libs"]);
    flags.extend(["-std=c11", "-pedantic", "-D_POSIX_C_SOURCE=200809L"].map(str::to_owned));
    let program = compile("gcc", "hostlib/c/tests/suite/resize.c", "resize", &flags);
    let (started, worlds) = std::sync::mpsc::channel();
    let note = move |event: &JobEvent| {
        if let JobEvent::Started { spec, .. } = event {
            let _ = started.send(spec.world);
        }
    };
    let switch = EmbeddedSwitch::builder().on_event(note).start().unwrap();
    let process = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", prefix().join("lib"));
        command.arg(switch.control().to_string()).arg("resize").args(arguments);
        CapturedProcess::start(&mut command, LIMIT)
    };
    let ranks = ["0", "1", "2"].map(|rank| process(&[rank, "3"]));
    let next = || worlds.recv_timeout(LIMIT).expect("the next generation starts");
    assert_eq!([next(), next()], [3, 2]);
    let joined = process(&["join"]);
    for (rank, running) in ranks.into_iter().enumerate() {
        let output = running.finish().success();
        assert_eq!(output.contains("resize: passed"), rank < 2, "rank {rank}: {output}");
    }
    let output = joined.finish().success();
    assert!(output.contains("generation 3: rank 2 of 3"), "{output}");
    assert!(output.contains("resize: passed"), "{output}");
}

#[test]
fn device_memory_is_reduced_behind_its_stream() {
    if !tools("device memory of C programs") {
        return;
    }
    let mut flags = pkg_config(&["--cflags", "--libs"]);
    flags.extend(["-std=c11", "-ldl"].map(str::to_owned));
    let program = compile("gcc", "hostlib/c/tests/suite/cuda.c", "cuda", &flags);
    let switch = lossy_switch();
    let ranks = (0..2).map(|rank: u16| {
        let mut command = Command::new(&program);
        command
            .env("LD_LIBRARY_PATH", prefix().join("lib"))
            .env("NETFOLD_CUDA_LIBRARY", built_library("libnetfold_fake_cuda.so"));
        command.args([switch.control().to_string(), "cuda".into(), rank.to_string(), "2".into()]);
        CapturedProcess::start(&mut command, LIMIT)
    });
    for rank in ranks.collect::<Vec<_>>() {
        let output = rank.finish().success();
        assert!(output.contains("cuda: 0 wrong"), "{output}");
    }
}

/// Runs the abuse of every function, under another program if one is given.
fn abuse(program: &Path, before: &[&str]) {
    let addresses: Vec<String> = (0..5).map(|_| vacant_address().unwrap().to_string()).collect();
    let mut command = match before {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.env("LD_LIBRARY_PATH", prefix().join("lib")).args(addresses);
    let output = CapturedProcess::start(&mut command, 2 * LIMIT).finish().success();
    assert!(output.contains("abuse: passed"), "{output}");
}

#[test]
fn abuse_gives_results_and_no_crash() {
    if !tools("abuse of the C interface") {
        return;
    }
    let file = "hostlib/c/tests/suite/abuse.c";
    let flags = pkg_config(&["--cflags", "--libs"]);
    let plain = compile("gcc", file, "abuse", &flags);
    abuse(&plain, &[]);
    if sanitizer_runtime().is_some() {
        println!(
            "skipped: abuse under valgrind and under gcc's sanitizer: the library has a sanitizer of its own"
        );
        return;
    }
    if present("valgrind", "abuse under valgrind") {
        let exit = "--error-exitcode=9";
        let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
        abuse(&plain, &["valgrind", exit, leaks[0], leaks[1], leaks[2], "--child-silent-after-fork=yes"]);
    }
    let sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"].map(str::to_owned);
    let probe = Command::new("gcc").args(&sanitize).args(["-x", "c", "-", "-o", "/dev/null"]).output();
    // Standard input is empty, so that only main is missing where the sanitizer is installed.
    if probe.is_ok_and(|probe| String::from_utf8_lossy(&probe.stderr).contains("cannot find -lasan")) {
        println!("skipped: abuse under the address sanitizer: libasan is absent");
        return;
    }
    abuse(&compile("gcc", file, "abuse_asan", &[&sanitize[..], &flags].concat()), &[]);
    abuse(&compile("gcc", file, "abuse_asan_static", &[&sanitize[..], &static_flags()].concat()), &[]);
}

/// The shared library exports what the header declares, under one version, and nothing else.
#[test]
fn the_symbols_are_those_of_the_header() {
    if !(tools("the exported symbols") && present("nm", "the exported symbols")) {
        return;
    }
    let library = prefix().join("lib/libnetfold.so");
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let names = listed.lines().filter_map(|line| line.split_whitespace().last());
    let mut exported = BTreeSet::new();
    for name in names.filter(|name| *name != "NETFOLD_0") {
        let base = name.strip_suffix("@@NETFOLD_0").unwrap_or_else(|| panic!("{name} has no version"));
        exported.insert(base.to_owned());
    }
    let header = fs::read_to_string(source("hostlib/c/include/netfold/netfold.h")).unwrap();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '}', '/']) && !line.starts_with("typedef"))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("netfold_"))
        .map(str::to_owned)
        .collect();
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(exported, declared);
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("Library soname: [libnetfold.so.0]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}
