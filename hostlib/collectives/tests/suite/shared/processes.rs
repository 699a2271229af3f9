//! Ranks as processes: this test executable started again, with its role in the environment.

use std::time::{Duration, Instant};

use netfold_collectives::shared::{SharedConfig, SharedError, SharedGroup, SharedHandle};
use netfold_collectives::{DType, ReduceOp};
use netfold_testkit::process::{self, Process};

use crate::shared::ranks::{HANG, config, fold, tensor};

pub(crate) fn start(part: &str, rank: u16, handle: &[u8]) -> Process {
    let hex: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = process::this_test("shared::processes::child");
    command.env("SHARED_PART", part).env("SHARED_RANK", rank.to_string()).env("SHARED_HANDLE", hex);
    Process::spawn(command)
}

/// Not a test: the main function of the other processes.
#[test]
fn child() {
    let Ok(part) = std::env::var("SHARED_PART") else { return };
    let rank: u16 = std::env::var("SHARED_RANK").unwrap().parse().unwrap();
    let hex = std::env::var("SHARED_HANDLE").unwrap();
    if part == "create" {
        let (_zero, handle) = SharedGroup::create(config(2)).unwrap();
        println!("\npath {}", String::from_utf8(handle.to_bytes()[30..].to_vec()).unwrap());
        std::thread::park();
    }
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    let mut shared = SharedGroup::join(&SharedHandle::from_bytes(&bytes).unwrap(), rank).unwrap();
    match part.as_str() {
        "sums" => sums(&mut shared),
        "until-error" => println!("\nerror {:?}", until_error(&mut shared)),
        "parent" => {
            let grandchild = forked(std::thread::park);
            println!("\ngrandchild {grandchild}");
            until_error(&mut shared);
        }
        other => panic!("no part {other}"),
    }
}

fn sums(shared: &mut SharedGroup) {
    let world = shared.world();
    for count in [1usize, 5000, 200_000, 1_000_000] {
        let tensors: Vec<_> = (0..world).map(|rank| tensor(DType::F32, count, u64::from(rank))).collect();
        let mut bytes = tensors[usize::from(shared.local_rank())].clone();
        shared.all_reduce(DType::F32, ReduceOp::Sum, &mut bytes[..]).unwrap();
        assert!(bytes == fold(DType::F32, ReduceOp::Sum, &tensors));
        shared.barrier().unwrap();
    }
}

fn until_error(shared: &mut SharedGroup) -> SharedError {
    let mut bytes = vec![1; 3_000_000];
    loop {
        if let Err(error) = shared.all_reduce(DType::U8, ReduceOp::Max, &mut bytes[..]) {
            return error;
        }
    }
}

/// The process id of a child of fork that runs `main` and ends.
fn forked(main: impl FnOnce()) -> i32 {
    // SAFETY: the child runs on with one thread; what it calls takes no lock that another thread may have held.
    #[expect(unsafe_code, reason = "the standard library does not fork without exec")]
    match unsafe { libc::fork() } {
        0 => {
            main();
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        pid => pid,
    }
}

fn expect_success(mut rank: Process) -> String {
    let output = rank.rest().join("\n");
    assert!(rank.wait().success(), "{output}");
    output
}

#[test]
fn processes_get_the_same_sums() {
    for world in [2, 4, 5, 8] {
        let (mut zero, handle) = SharedGroup::create(SharedConfig::new(world)).unwrap();
        let others: Vec<_> = (1..world).map(|rank| start("sums", rank, &handle.to_bytes())).collect();
        sums(&mut zero);
        others.into_iter().map(expect_success).for_each(drop);
    }
}

#[test]
fn a_killed_process_is_reported_lost_on_all_ranks() {
    for (attempt, delay_us) in [0u64, 300, 3000, 20_000].into_iter().enumerate() {
        let (mut zero, handle) = SharedGroup::create(SharedConfig::new(4)).unwrap();
        let bytes = handle.to_bytes();
        let path = String::from_utf8(bytes[30..].to_vec()).unwrap();
        let mut others: Vec<_> = (1..4).map(|rank| start("until-error", rank, &bytes)).collect();
        let mut victim = others.remove(1);
        zero.wait_joined().unwrap();
        let killer = std::thread::spawn(move || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(delay_us) {
                std::thread::yield_now();
            }
            victim.kill_without_reaping();
            // Not reaped, on purpose: a zombie must count as lost.
            victim
        });
        let error = until_error(&mut zero);
        assert!(matches!(error, SharedError::PeerLost { local_rank: 2 }), "attempt {attempt}: {error:?}");
        let _victim = killer.join().unwrap();
        for other in others {
            let output = expect_success(other);
            assert!(output.contains("error PeerLost { local_rank: 2 }"), "attempt {attempt}: {output}");
        }
        assert!(!std::fs::exists(&path).unwrap(), "nothing is left behind");
    }
}

#[test]
fn a_stopped_process_stalls() {
    let (mut zero, handle) =
        SharedGroup::create(SharedConfig::new(2).stall_timeout(Duration::from_secs(1))).unwrap();
    let mut other = start("until-error", 1, &handle.to_bytes());
    zero.barrier().unwrap_err(); // all-reduce there, barrier here: both get the mismatch
    let mut other_output = other.line_after("error ");
    assert!(other_output.starts_with("Mismatch"), "{other_output}");
    drop((zero, other));

    let (mut zero, handle) =
        SharedGroup::create(SharedConfig::new(2).stall_timeout(Duration::from_secs(1))).unwrap();
    let other = start("until-error", 1, &handle.to_bytes());
    zero.wait_joined().unwrap();
    other.signal("STOP");
    let error = until_error(&mut zero);
    assert!(matches!(error, SharedError::Stalled { local_rank: 1 }), "{error:?}");
    other.signal("CONT");
    other_output = expect_success(other);
    assert!(other_output.contains("error Stalled { local_rank: 1 }"), "{other_output}");
}

#[test]
fn children_of_a_killed_rank_do_not_hide_its_loss() {
    let (mut zero, handle) = SharedGroup::create(SharedConfig::new(2).stall_timeout(HANG)).unwrap();
    let mut other = start("parent", 1, &handle.to_bytes());
    let grandchild: u64 = other.line_after("grandchild ").parse().unwrap();
    let mut bytes = [1; 10];
    zero.wait_joined().unwrap();
    other.kill_without_reaping();
    let mut result = Ok(());
    while result.is_ok() {
        result = zero.all_reduce(DType::U8, ReduceOp::Max, &mut bytes[..]);
        // The other rank calls it with more elements until it is killed.
        if matches!(result, Err(SharedError::Mismatch { .. })) {
            result = Ok(());
        }
    }
    process::signal(grandchild, "KILL");
    assert!(matches!(result, Err(SharedError::PeerLost { local_rank: 1 })), "{result:?}");
}

#[test]
fn a_forked_child_is_refused_and_the_group_unharmed() {
    let (mut zero, handle) = SharedGroup::create(config(2)).unwrap();
    let mut one = SharedGroup::join(&handle, 1).unwrap();
    let mut member = Some(zero);
    let pid = forked(|| {
        let mut shared = member.take().unwrap();
        let refused = matches!(shared.barrier(), Err(SharedError::Forked));
        shared.aborter().abort();
        drop(shared);
        // SAFETY: ends this process.
        #[expect(unsafe_code, reason = "the status says what was found")]
        unsafe {
            libc::_exit(if refused { 7 } else { 1 })
        }
    });
    let mut status = 0;
    // SAFETY: `status` lives through the call; `pid` is a child of this process.
    #[expect(unsafe_code, reason = "waits for a child that the standard library did not start")]
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((waited, libc::WEXITSTATUS(status)), (pid, 7));
    zero = member.take().unwrap();
    let thread = std::thread::spawn(move || one.barrier());
    zero.barrier().unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn files_of_killed_groups_are_removed_by_the_next() {
    let mut creator = start("create", 0, &[]);
    let path = creator.line_after("path ");
    assert!(std::fs::exists(&path).unwrap());
    // Another group does not touch it as long as its creator runs.
    drop(SharedGroup::create(config(1)).unwrap());
    assert!(std::fs::exists(&path).unwrap());
    drop(creator);
    drop(SharedGroup::create(config(1)).unwrap());
    assert!(!std::fs::exists(&path).unwrap());
}
