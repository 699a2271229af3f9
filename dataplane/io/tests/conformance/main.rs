//! Every backend and every middleware keeps the contract of `PacketIo`: one list of checks, run over all of them.

mod checks;
mod rigs;
mod sockets;

use rigs::Rig;

/// One test per check, each over every rig; a failure names the rig.
macro_rules! conformance {
    ($($check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                for (name, make) in rigs::ALL {
                    println!("rig: {name}");
                    checks::$check(make());
                }
            }
        )*
    };
}

conformance!(
    order_per_port_is_kept,
    interleaved_multicast_arrives_in_order,
    bursts_larger_than_the_batch,
    small_batches_lose_nothing,
    empty_datagrams_arrive,
    datagrams_of_mixed_lengths_arrive,
    largest_datagram_arrives,
    oversize_is_an_error_and_sends_nothing,
    packets_outside_memory_are_an_error,
    unbound_ports_swallow,
    waker_ends_wait,
    early_wake_is_not_lost,
    arrival_ends_wait,
    wait_times_out,
    traffic_both_ways_between_threads,
);

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("test datagrams begin with a number"))
}

impl Rig {
    /// Longest datagram of the rig's backends in bytes.
    fn datagram_len_max(&self) -> usize {
        self.hub.capabilities().datagram_len_max
    }
}
