//! Devices that need no card: rings between two ports, packet sockets on a pair of virtual interfaces, a tap interface, and memif.
//! DPDK runs once in this process, and the tests share it.

mod allocation;
mod errors;
mod kernel;
mod memif;
mod network;
mod rings;
mod swx;
mod threads;

use std::time::{Duration, Instant};

use netfold_dpdk::{Device, Dpdk, DpdkError, Eal, Huge, Options, Port, PortConfig, Spec};
use netfold_io::RxBatch;
use netfold_io::link::Link;
use netfold_testkit::allocation::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Long enough for any machine; only failing tests wait that long.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// How DPDK starts in these tests, whichever of them is first.
fn options() -> Options {
    Options { huge: Huge::Never, memory_mb: 256, more: Vec::new() }
}

fn eal() -> Eal {
    Eal::start(&options(), false).expect("DPDK starts with ordinary pages and no files")
}

/// The device's one link.
fn open(words: &str) -> Result<Dpdk, DpdkError> {
    let spec = Spec { options: options(), ..words.parse()? };
    Ok(Dpdk::open(&spec)?.remove(0))
}

fn start(device: Device, config: &PortConfig) -> Dpdk {
    let (_, mut queues) = Port::start(device, config).expect("the port starts");
    Dpdk::new(queues.remove(0)).expect("a link")
}

/// Sends a frame, and waits for room where there is none.
fn send(link: &mut impl Link, bytes: &[u8]) {
    let begun = Instant::now();
    loop {
        if let Some(frame) = link.frame(bytes.len()) {
            frame.copy_from_slice(bytes);
            link.push();
            link.flush().expect("flush");
            return;
        }
        link.wait(Duration::from_millis(1)).expect("wait");
        assert!(begun.elapsed() < HANG_TIMEOUT, "no room for a frame");
    }
}

/// The next frames that are `wanted`, `count` of them; others are left out.
fn receive(link: &mut impl Link, count: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let begun = Instant::now();
    let mut batch = RxBatch::new(64, 200_000);
    let mut got = Vec::new();
    while got.len() < count {
        if link.receive(&mut batch).expect("receive") == 0 {
            link.wait(Duration::from_millis(50)).expect("wait");
        }
        let frames = batch.packets().iter().map(|packet| batch.bytes(packet));
        got.extend(frames.filter(|frame| wanted(frame)).map(<[u8]>::to_vec));
        assert!(begun.elapsed() < HANG_TIMEOUT, "{} of {count} frames came", got.len());
    }
    got
}

/// A frame of an unused type, with its number.
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; len];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x88, 0xb5])
}

/// Sends frames of many lengths both ways, and checks that they arrive whole and in order.
fn both_ways(a: &mut impl Link, b: &mut impl Link, frame_len_max: usize) {
    let frames: Vec<_> =
        (0..300).map(|number| numbered(number, 60 + number as usize * 97 % (frame_len_max - 59))).collect();
    for few in frames.chunks(20) {
        few.iter().for_each(|frame| send(a, frame));
        assert!(receive(b, few.len(), is_ours) == few, "there");
        few.iter().for_each(|frame| send(b, frame));
        assert!(receive(a, few.len(), is_ours) == few, "and back");
    }
}
