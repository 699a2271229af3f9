//! What the simulator asks of a switch.

use std::ops::Range;

/// A job as a switch must know it before the first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSetup {
    /// Job number.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// First slot of the job's range, a multiple of `slots`.
    pub base: u32,
    /// Slots, a power of two.
    pub slots: u32,
    /// Chunk number of the first position that the simulation sends.
    pub first_chunk: u32,
    /// The chunk that every slot of the range holds before: older than the first, by at most 2^30 + 1, as an ADVANCE leaves it.
    pub held: u32,
    /// Port of each child: of each rank, at the only switch.
    pub ports: Vec<u16>,
    /// Lowest and highest rank behind each child, of results that one rank receives; `None` where a child receives all.
    pub behind: Vec<Option<(u16, u16)>>,
    /// Port of the switch above, if there is one.
    pub parent: Option<u16>,
    /// Number of this switch among that one's children.
    pub rank: u8,
    /// Workers below this switch.
    pub workers: u16,
    /// Workers of the whole job.
    pub world: u16,
}

impl JobSetup {
    /// The contributor bitmap of all children.
    pub fn full(&self) -> u32 {
        u32::MAX >> (32 - self.ports.len())
    }
}

/// A switch under simulation.
pub trait SimSwitch {
    /// Takes a datagram that came in on `port` and appends what to send: port and datagram.
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>);

    /// A digest of everything stored for these slots, both sets of each. Equal state gives equal digests.
    fn digest(&self, slots: Range<u32>) -> u64;

    /// Slots of the whole switch.
    fn slots(&self) -> u32;
}

/// Two switches that must do the same, byte for byte.
#[derive(Debug)]
pub struct Lockstep<A, B> {
    first: A,
    second: B,
}

impl<A: SimSwitch, B: SimSwitch> Lockstep<A, B> {
    /// Runs `first` and `second` side by side. Both must have been set up alike.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: SimSwitch, B: SimSwitch> SimSwitch for Lockstep<A, B> {
    /// # Panics
    ///
    /// When the two switches send different packets.
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        let start = out.len();
        self.first.process(port, datagram, out);
        let mut other = Vec::new();
        self.second.process(port, datagram, &mut other);
        assert_eq!(out[start..], other, "switches differ after {datagram:02x?} from port {port}");
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        self.first.digest(slots.clone()) ^ self.second.digest(slots).rotate_left(1)
    }

    fn slots(&self) -> u32 {
        self.first.slots()
    }
}

/// Folds the many words of a slot's lanes into a digest: simulations spend much of their time here, so four chains of multiplications go on at a time.
pub(super) fn fold_lanes(digest: u64, words: impl Iterator<Item = u32>) -> u64 {
    let mut chains = [digest, 1, 2, 3];
    let mut words = words.map(u64::from);
    let mut pair = || Some(words.next()? | words.next().unwrap_or_default() << 32);
    'words: loop {
        for chain in &mut chains {
            let Some(pair) = pair() else { break 'words };
            *chain = (*chain ^ pair).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        }
    }
    fold_digest(0, chains.into_iter().flat_map(|chain| [chain as u32, (chain >> 32) as u32]))
}

/// Folds words into a digest.
pub(super) fn fold_digest(digest: u64, words: impl IntoIterator<Item = u32>) -> u64 {
    words.into_iter().fold(digest, |digest, word| {
        (digest ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
    })
}
