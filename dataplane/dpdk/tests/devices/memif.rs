//! Memory that two processes share. Both ends in one process would be simpler; but when one is closed, the driver takes the other
//! apart on a thread of DPDK's, and does not expect it to be closed at the same time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netfold_dpdk::Dpdk;
use netfold_io::RxBatch;
use netfold_io::link::Link;

use crate::{PATIENCE, is_ours, numbered, open, receive, send};

const FRAMES: u32 = 300;
const AT_ONCE: u32 = 20;
/// What names the socket to the other process.
const SOCKET: &str = "NETFOLD_TEST_MEMIF";

fn wait_for(link: &Dpdk, up: bool) {
    let begun = Instant::now();
    while link.port().link_state().up != up {
        assert!(begun.elapsed() < PATIENCE, "the other end does not come or go");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "the other process, run by two_processes_share_memory"]
fn other_end() {
    let socket = std::env::var(SOCKET).expect("run by the test below");
    let mut client = open(&format!("net_memif,role=client,{socket}")).expect("a client");
    wait_for(&client, true);
    // A client has buffers for the server to write to after it has looked for the first time.
    client.receive(&mut RxBatch::new(1, 2000)).expect("receive");
    for _ in 0..FRAMES / AT_ONCE {
        let frames = receive(&mut client, AT_ONCE as usize, is_ours);
        frames.iter().for_each(|frame| send(&mut client, frame));
    }
    wait_for(&client, false);
}

#[test]
fn two_processes_share_memory() {
    let socket = format!("socket=/netfold-{},socket-abstract=yes", std::process::id());
    let mut server = open(&format!("net_memif,role=server,{socket}")).expect("a server");
    let mut other = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "memif::other_end"])
        .env(SOCKET, socket)
        .stdout(Stdio::null())
        .spawn()
        .expect("this program runs");
    wait_for(&server, true);
    for first in (0..FRAMES).step_by(AT_ONCE as usize) {
        let sent: Vec<_> =
            (first..first + AT_ONCE).map(|number| numbered(number, 60 + number as usize * 4)).collect();
        sent.iter().for_each(|frame| send(&mut server, frame));
        // What the client had no buffer for is offered again by `wait`, which `receive` calls.
        assert!(receive(&mut server, sent.len(), is_ours) == sent);
    }
    drop(server);
    assert!(other.wait().expect("a process of ours").success(), "the other end failed");
}
