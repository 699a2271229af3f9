//! What clients of P4Runtime and of the service `Ports` send to a switch: bids to become primary, pipelines, entities, patterns, peers. What
//! is refused changes nothing, and what is accepted is there when it is read.

mod arbitration;
mod entities;
mod entity;
mod pipelines;
mod ports;

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::link::segment;
use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::Profile;
use netfold_p4_runtime::Schema;
use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1;
use netfold_switch::switch::PORTS_MAX;
use netfold_switch::{EmptyPipeline, Handle, Switch};
use netfold_switch_p4runtime::fuzzing::{Control, Refused};

use crate::input::Input;

/// The port of the controllers' packets.
const CPU_PORT: u16 = 510;
const DEVICE: u64 = 1;
const FRAMES: usize = 64;
const FRAME_LEN_MAX: usize = 1514;
/// Words of a short packet, and of one that leaves no room for a tag in a frame.
const LANE_WORDS: [u32; 2] = [8, 360];

/// The first byte chooses what is called, modulo 16: up to `3` arbitration, up to `6` ports, `7` pipelines, and the others entities.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let switch = switch();
    match input.below(16) {
        0..4 => arbitration::run(&mut input, switch),
        4..7 => ports::run(&mut input, switch),
        7 => pipelines::run(&mut input, switch),
        _ => entities::run(&mut input, switch),
    }
}

/// The switch. Its data path is a segment without another station: nothing leaves it.
struct Idle {
    handle: Handle,
    program: Program,
    info: P4Info,
    schema: Schema,
}

fn switch() -> &'static Idle {
    static SWITCH: OnceLock<Idle> = OnceLock::new();
    SWITCH.get_or_init(|| {
        let handle = idle_switch();
        let profile = Profile { slots: 2, jobs: 2, workers: 2, hierarchy: false, ..Profile::software(8) };
        let program = allreduce::program(&profile).expect("a right profile");
        let info = netfold_p4_runtime::p4info(&program).expect("what was written is read");
        let schema = Schema::new(&info).expect("a right P4Info");
        Idle { handle, program, info, schema }
    })
}

fn idle_switch() -> Handle {
    let station = segment(1, FRAMES, FRAME_LEN_MAX).remove(0);
    let config = EthernetConfig::at(Ipv4Addr::new(198, 18, 0, 1));
    let io = Ethernet::bind(station, config).expect("a right configuration");
    Switch::bare(Box::new(EmptyPipeline::new(8)), Box::new(io)).idle()
}

/// Client 1 becomes the primary.
fn bid(control: &Control) {
    let bid = v1::MasterArbitrationUpdate { device_id: DEVICE, election_id: primary(), ..Default::default() };
    control.bid(1, &bid).expect("the first bid");
}

impl Idle {
    /// Control of the switch without a program, for packets of so many words, and without ports.
    fn control(&self, lane_words: u32) -> Control {
        let cleared = self.handle.call(move |core| {
            core.replace_pipeline(Box::new(EmptyPipeline::new(lane_words)));
            for port in 1..=PORTS_MAX {
                if core.peer(port).is_some() {
                    core.unbind_port(port).expect("a port with a peer");
                }
            }
        });
        cleared.expect("calls of an idle switch take place");
        Control::new(&self.handle, CPU_PORT).expect("calls of an idle switch take place")
    }

    /// The same, with client 1 as the primary.
    fn controlled(&self, lane_words: u32) -> Control {
        let control = self.control(lane_words);
        bid(&control);
        control
    }
}

/// The election id of client 1.
fn primary() -> Option<v1::Uint128> {
    Some(v1::Uint128 { high: 0, low: 7 })
}

/// Nothing that a client sends is a fault of the switch, and every refusal has a reason.
fn check(refused: &Refused) {
    let (code, message) = refused;
    assert!(!message.is_empty());
    let faults = [Code::Ok, Code::Internal, Code::Unknown, Code::Unavailable, Code::DataLoss];
    assert!(!faults.contains(code), "{refused:?}");
}
