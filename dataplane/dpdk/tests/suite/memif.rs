//! Memory that two processes share, and both ends in one process: when one is closed, the driver takes the other apart on a thread of
//! DPDK's, and does not expect it to be closed at the same time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netfold_dpdk::Dpdk;
use netfold_io::link::Link;
use netfold_io::{IoSpec, OpenOptions, PortId, RxBatch, Transmit};

use crate::{HANG_TIMEOUT, eal, is_ours, numbered, open, receive, send};

const FRAMES: u32 = 300;
const AT_ONCE: u32 = 20;
/// What names the socket to the other process.
const SOCKET: &str = "NETFOLD_TEST_MEMIF";

fn wait_for(link: &Dpdk, up: bool) {
    let begun = Instant::now();
    while link.port().link_state().up != up {
        assert!(begun.elapsed() < HANG_TIMEOUT, "the other end does not come or go");
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

/// What stands behind `--io` for both ends; nothing is left of the socket, where it is a file.
#[test]
fn datagrams_pass_through_memory_and_no_file_is_left() {
    let _eal = eal();
    let folder = std::env::temp_dir().join(format!("netfold-memif-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of ours");
    let file = folder.join("socket");
    for (round, socket) in [
        format!("/netfold-io-{},socket-abstract=yes", std::process::id()),
        format!("{},socket-abstract=no", file.display()),
        format!("{},socket-abstract=no", file.display()),
    ]
    .into_iter()
    .enumerate()
    {
        let choice = |role: &str, host: u8| -> IoSpec {
            let words = format!("dpdk:net_memif,role={role},socket={socket} address=10.3.0.{host} --no-huge");
            words.parse().expect("a device of DPDK")
        };
        let any = OpenOptions::at(([0, 0, 0, 0], 20038).into());
        let mut hub = netfold_dpdk::open(&choice("server", 1), &any).expect("a server");
        let at = hub.local_addr().expect("the address that was given");
        let peer = OpenOptions { local: ([0, 0, 0, 0], 4000).into(), peer: Some(at), ..any };
        let mut spoke = netfold_dpdk::open(&choice("client", 2), &peer).expect("a client");
        hub.bind_port(PortId(0), ([10, 3, 0, 2], 4000).into()).expect("a port");
        assert_eq!(file.exists(), round > 0);
        let (begun, mut batch) = (Instant::now(), hub.capabilities().batch());
        while hub.receive(&mut batch).expect("receive") == 0 {
            spoke.transmit(b"hello", &[Transmit { port: PortId(0), offset: 0, len: 5 }]).expect("transmit");
            hub.wait(Duration::from_millis(1)).expect("wait");
            spoke.wait(Duration::from_millis(1)).expect("wait");
            spoke.receive(&mut RxBatch::new(16, 40_000)).expect("receive");
            assert!(begun.elapsed() < HANG_TIMEOUT, "nothing gets through");
        }
        assert_eq!(batch.bytes(&batch.packets()[0]), b"hello");
        // Either may go first.
        if round == 1 {
            drop((hub, spoke))
        } else {
            drop((spoke, hub))
        }
        assert!(!file.exists(), "{} is still there", file.display());
    }
    std::fs::remove_dir(&folder).expect("it is empty");
}
