//! Tensors whose results are known beforehand, and the codec that hands them to a worker.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use netfold_control::Mode;
use netfold_proto::{
    Codec, CodedChunk, Collective, Contributors, DType, Descriptor, IMPORTANCE_MAX, Importance, OpId, OpSpec,
    PREDICTED_CHUNKS_MAX, Parts, Sharing, Tolerance,
};
use netfold_wire::{CLASSES_MAX, LaneOp};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// Lanes at the start of each chunk in which lane `r` counts the contributions of rank `r` (in sums), of rank `r + 32` too.
const TALLY: usize = 32;

/// Added to every lane once for each unit of the agreed exponent, so that a wrong exponent shows.
const EXPONENT_WEIGHT: i32 = 0x0101_0101;

/// What a block that is not finite is given to hold.
const NOT_A_NUMBER: i32 = i32::MIN;

/// One operation with the inputs of all ranks and the exact result.
#[derive(Debug)]
pub struct OpPlan {
    /// As submitted by every rank.
    pub spec: OpSpec,
    elements: usize,
    inputs: Vec<Vec<i32>>,
    exponents: Vec<Vec<u8>>,
    expected: Vec<i32>,
    /// Bits by which values are shifted right in chunks that are retransmitted after their sum saturated; `None` at a switch
    /// whose sums wrap around.
    headroom: Option<u32>,
    /// What such chunks come to.
    expected_again: Vec<i32>,
    /// Which of both each chunk came to, on the first rank that received it.
    again: RefCell<Vec<Option<bool>>>,
    /// What each chunk came to that lacks contributions, on the first rank that received it.
    partial: RefCell<HashMap<u32, (u16, Vec<i32>)>>,
    /// The exponent of each chunk, as the first rank received it.
    published: RefCell<HashMap<u32, u8>>,
    /// Of each rank, what it knows the tensor by; none where exponents are not predicted.
    keys: Vec<u64>,
}

/// Largest magnitude of values in chunks whose sums may saturate, and in others.
const HOT: i32 = 1 << 30;
const COLD: i32 = 1 << 20;

impl OpPlan {
    /// Draws the tensors of `world` ranks, `elements` each, in chunks of `lane_words` elements.
    pub fn generate(
        rng: &mut Xoshiro256PlusPlus,
        world: u16,
        lane_words: usize,
        elements: usize,
        lane_op: LaneOp,
        exponents: bool,
    ) -> Self {
        let data_chunks = elements.div_ceil(lane_words) as u32;
        let (mode, dtype) = if exponents { (Mode::Bfp32, DType::F32) } else { (Mode::I32, DType::I32) };
        let collective = if elements == 0 { Collective::Barrier } else { Collective::AllReduce };
        let (op, elements_sent) = (lane_op.reduction(), elements as u64);
        let descriptor =
            Descriptor { collective, dtype, mode, op, elements: elements_sent, ..Descriptor::BARRIER };
        let class: u8 = rng.random_range(0..16);
        let importance = Importance::new(class % IMPORTANCE_MAX + 1, CLASSES_MAX - class);
        let spec = OpSpec {
            descriptor,
            data_chunks,
            exponents,
            class,
            importance: importance.unwrap_or(Importance::NONE),
            lane_op,
            sharing: Sharing::All,
        };
        let mut input = |rank: usize| -> Vec<i32> {
            let tally = |at: usize| lane_op == LaneOp::Sum && at % lane_words < TALLY;
            let mut value = |at| {
                if tally(at) { i32::from(at % lane_words == rank % TALLY) } else { rng.random() }
            };
            (0..elements).map(&mut value).collect()
        };
        let inputs: Vec<_> = (0..usize::from(world)).map(&mut input).collect();
        let mut block = |_| if rng.random_bool(0.02) { 255 } else { rng.random_range(30..=254) };
        let mut proposals = |_| (0..data_chunks).map(&mut block).collect();
        let exponents = if exponents { (0..world).map(&mut proposals).collect() } else { Vec::new() };
        let again = RefCell::new(vec![None; data_chunks as usize]);
        let (expected, expected_again) = (Vec::new(), Vec::new());
        let partial = RefCell::default();
        let mut plan = Self {
            spec,
            elements,
            inputs,
            exponents,
            expected,
            headroom: None,
            expected_again,
            again,
            partial,
            published: RefCell::default(),
            keys: Vec::new(),
        };
        plan.expected = (0..elements).map(|at| plan.expect(at, lane_words, false)).collect();
        plan
    }

    /// The same where some ranks contribute, or one receives: by a random collective, or as it is.
    pub fn shared(mut self, rng: &mut Xoshiro256PlusPlus, lane_words: usize) -> Self {
        let world = self.inputs.len() as u16;
        if self.elements == 0 {
            return self;
        }
        let root = rng.random_range(0..world);
        let part = (self.elements as u64).div_ceil(world.into());
        let parts = Parts { first: 0, part, chunk: lane_words as u64 };
        // Headers stand for zeros, which change sums and exponents not.
        let zeros = self.spec.lane_op == LaneOp::Sum && !self.spec.exponents;
        self.spec.sharing = match rng.random_range(0..6) {
            0 => Sharing::To(root),
            1 => Sharing::ToEach(parts),
            2 if zeros => Sharing::From(root),
            3 if zeros => Sharing::FromEach(parts),
            _ => Sharing::All,
        };
        for (rank, input) in self.inputs.iter_mut().enumerate() {
            for (at, value) in input.iter_mut().enumerate() {
                let contributors = self.spec.sharing.contributors((at / lane_words) as u32, world);
                if !contributors.contains(&(rank as u16)) {
                    *value = 0;
                }
            }
        }
        self.expected = (0..self.elements).map(|at| self.expect(at, lane_words, false)).collect();
        self
    }

    /// The same where exponents may be predicted, from those of the operations with the same descriptor and a rank's `keys`.
    pub fn predicted(self, keys: Vec<u64>) -> Self {
        Self { keys, ..self }
    }

    /// Whether its exponents are predicted if there is room for predictions.
    pub fn may_be_predicted(&self) -> bool {
        self.spec.exponents && self.spec.data_chunks as usize <= PREDICTED_CHUNKS_MAX
    }

    /// Another operation of the same descriptor, with new values, and mostly with the same exponents.
    pub fn successor(&self, rng: &mut Xoshiro256PlusPlus, lane_words: usize) -> Self {
        let (world, spec) = (self.inputs.len() as u16, self.spec);
        let mut plan = Self::generate(rng, world, lane_words, self.elements, spec.lane_op, spec.exponents);
        plan.spec.sharing = spec.sharing;
        for chunk in (0..spec.data_chunks as usize).filter(|_| rng.random_bool(0.9)) {
            for (new, old) in plan.exponents.iter_mut().zip(&self.exponents) {
                new[chunk] = old[chunk];
            }
        }
        plan.expected = (0..plan.elements).map(|at| plan.expect(at, lane_words, false)).collect();
        plan
    }

    /// Whether sums need not have contributions of all ranks.
    pub fn may_lack_contributions(&self) -> bool {
        let some = matches!(self.spec.sharing, Sharing::From(_) | Sharing::FromEach(_));
        some || self.spec.descriptor.tolerance.any()
    }

    /// Whether a rank receives the lanes of a chunk.
    fn receives(&self, rank: usize, chunk: u32) -> bool {
        self.spec.sharing.owner(chunk, self.inputs.len() as u16).includes(rank as u16)
    }

    /// The same for a switch whose sums saturate: every third chunk or so has values with which they may.
    pub fn saturating(mut self, rng: &mut Xoshiro256PlusPlus, lane_words: usize) -> Self {
        if !self.spec.exponents {
            return self;
        }
        self.headroom = Some(self.inputs.len().next_power_of_two().trailing_zeros());
        let hot: Vec<bool> = (0..self.spec.data_chunks).map(|_| rng.random_bool(0.3)).collect();
        for input in &mut self.inputs {
            for (at, value) in input.iter_mut().enumerate().filter(|(at, _)| at % lane_words >= TALLY) {
                let most = if hot[at / lane_words] { HOT } else { COLD };
                *value = rng.random_range(-most..=most);
            }
        }
        let all = |again| (0..self.elements).map(|at| self.expect(at, lane_words, again)).collect();
        (self.expected, self.expected_again) = (all(false), all(true));
        self
    }

    /// The same where so many contributions of each rank may be left out of sums.
    pub fn tolerant(mut self, tolerance: Tolerance) -> Self {
        let all_contribute = !matches!(self.spec.sharing, Sharing::From(_) | Sharing::FromEach(_));
        if self.spec.descriptor.collective == Collective::AllReduce
            && self.spec.lane_op == LaneOp::Sum
            && all_contribute
        {
            self.spec.descriptor.tolerance = tolerance;
        }
        self
    }

    /// Asserts that an exponent that a rank received is the agreed one: the largest of all ranks', or of the contributors', which all
    /// receive alike.
    fn check_exponent(&self, chunk: u32, exp: u8) {
        if !self.spec.descriptor.tolerance.tolerates_stragglers() {
            assert_eq!(exp, self.agreed(chunk), "the agreed exponent of chunk {chunk}");
        }
        let first = *self.published.borrow_mut().entry(chunk).or_insert(exp);
        assert_eq!(first, exp, "two exponents of chunk {chunk}");
        assert!(exp <= self.agreed(chunk), "an exponent of chunk {chunk} that no rank proposed");
    }

    /// Ranks whose contributions are in these lanes of a sum, by their counters; none where lanes have no counters.
    fn members(&self, lanes: &[i32], exp: u8, count: u16) -> Option<Vec<usize>> {
        let world = self.inputs.len();
        if world > TALLY.min(lanes.len()) || exp == 255 || self.headroom.is_some() {
            return None;
        }
        let weights = (0..count).fold(0i32, |sum, _| sum.wrapping_add(weight(exp)));
        let times = |rank: &usize| lanes[*rank].wrapping_sub(weights);
        assert!(
            (0..world).all(|rank| (0..=1).contains(&times(&rank))),
            "each contribution at most once: {lanes:?}"
        );
        Some((0..world).filter(|rank| times(rank) == 1).collect())
    }

    /// Asserts that a sum which lacks contributions is that of the contributions in it, and the same on all ranks.
    fn check_partial(&self, chunk: u32, lane_words: usize, exp: u8, count: u16, lanes: &[i32]) {
        assert!(self.spec.descriptor.tolerance.any(), "nothing may be left out of chunk {chunk}");
        let mut known = self.partial.borrow_mut();
        let first = known.entry(chunk).or_insert_with(|| (count, lanes.to_vec()));
        assert_eq!((first.0, &first.1[..]), (count, lanes), "two results of chunk {chunk}");
        let Some(members) = self.members(lanes, exp, count) else { return };
        assert_eq!(members.len(), usize::from(count), "as many contributions as the result counts");
        for (lane, value) in lanes.iter().enumerate() {
            let at = chunk as usize * lane_words + lane;
            let contributions = members.iter().map(|rank| self.inputs[*rank][at].wrapping_add(weight(exp)));
            assert_eq!(*value, contributions.fold(0, i32::wrapping_add), "chunk {chunk}, lane {lane}");
        }
    }

    /// What a rank sends of its value `value` at element `at`.
    fn contribution(&self, value: i32, at: usize, lane_words: usize, exp: u8, again: bool) -> i32 {
        match self.headroom {
            None => value.wrapping_add(weight(exp)),
            Some(headroom) if again && at % lane_words >= TALLY => (value >> headroom) + i32::from(exp),
            Some(_) => value + i32::from(exp),
        }
    }

    fn expect(&self, at: usize, lane_words: usize, again: bool) -> i32 {
        let exp = self.agreed((at / lane_words) as u32);
        if exp == 255 {
            return NOT_A_NUMBER;
        }
        let contributions =
            self.inputs.iter().map(|input| self.contribution(input[at], at, lane_words, exp, again));
        let fold = |a: u32, b| self.spec.lane_op.fold(a, b);
        contributions.map(i32::cast_unsigned).reduce(fold).unwrap_or(0).cast_signed()
    }

    /// The exponent that all ranks must agree on.
    fn agreed(&self, chunk: u32) -> u8 {
        self.exponents.iter().map(|proposed| proposed[chunk as usize]).max().unwrap_or(0)
    }

    /// Stream positions that the operation takes with this window.
    pub fn positions(&self, window: u32) -> u64 {
        let lead = if self.spec.exponents { self.spec.data_chunks.clamp(1, window) } else { 1 };
        u64::from(lead) + u64::from(self.spec.data_chunks)
    }
}

fn weight(exp: u8) -> i32 {
    i32::from(exp).wrapping_mul(EXPONENT_WEIGHT)
}

/// One rank's tensors, overwritten in place by results. Every call and every result is checked.
#[derive(Debug)]
pub(super) struct Tensors {
    rank: usize,
    lane_words: usize,
    plans: Rc<Vec<OpPlan>>,
    data: Vec<Vec<i32>>,
    taken: Vec<Vec<bool>>,
    /// Of each operation, the chunks whose results lack this rank's contribution.
    left_out: Vec<Vec<u32>>,
}

impl Tensors {
    pub(super) fn new(rank: usize, lane_words: usize, plans: Rc<Vec<OpPlan>>) -> Self {
        let data = plans.iter().map(|plan| plan.inputs[rank].clone()).collect();
        let taken = plans.iter().map(|plan| vec![false; plan.spec.data_chunks as usize]).collect();
        let left_out = vec![Vec::new(); plans.len()];
        Self { rank, lane_words, plans, data, taken, left_out }
    }

    /// Asserts that operation `op` holds its result, whole.
    pub(super) fn assert_result(&self, op: usize) {
        assert!(
            self.taken[op].iter().all(|taken| *taken),
            "rank {} reported operation {op} too early",
            self.rank
        );
        let plan = &self.plans[op];
        let again = plan.again.borrow();
        let partial = plan.partial.borrow();
        assert!(
            self.left_out[op].len() <= plan.spec.contributions_to_spare() as usize,
            "rank {} lacks more of operation {op} than it tolerates",
            self.rank
        );
        let wrong = self.data[op].iter().enumerate().find(|(at, value)| {
            if !plan.receives(self.rank, (at / self.lane_words) as u32) {
                return **value != plan.inputs[self.rank][*at];
            }
            if let Some((_, lanes)) = partial.get(&((at / self.lane_words) as u32)) {
                return **value != lanes[at % self.lane_words];
            }
            let redone = again[at / self.lane_words] == Some(true);
            **value != if redone { plan.expected_again[*at] } else { plan.expected[*at] }
        });
        assert!(wrong.is_none(), "rank {} has a wrong result of operation {op}: {wrong:?}", self.rank);
    }

    fn block(&self, op: usize, chunk: u32) -> std::ops::Range<usize> {
        let start = chunk as usize * self.lane_words;
        start..(start + self.lane_words).min(self.plans[op].elements)
    }
}

impl Codec for Tensors {
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8 {
        let op = op.0 as usize;
        assert!(!self.taken[op][chunk as usize], "the exponent of a chunk that was overwritten");
        self.plans[op].exponents[self.rank][chunk as usize]
    }

    fn tensor_key(&mut self, op: OpId) -> u64 {
        self.plans[op.0 as usize].keys.get(self.rank).copied().unwrap_or_default()
    }

    fn pack(&mut self, coded: CodedChunk, lanes: &mut [u8]) {
        let CodedChunk { op: OpId(op), chunk, exp, full_headroom } = coded;
        let op = op as usize;
        assert!(!self.taken[op][chunk as usize], "a chunk that was overwritten is packed");
        let plan = &self.plans[op];
        // A wrong prediction shows in what is delivered.
        if plan.keys.is_empty() || !plan.may_be_predicted() {
            plan.check_exponent(chunk, exp);
        }
        if let Some(own) = plan.exponents.get(self.rank) {
            assert!(own[chunk as usize] <= exp, "rank {}'s block of chunk {chunk} does not fit", self.rank);
        }
        assert!(!full_headroom || plan.headroom.is_some(), "nothing saturates here");
        assert_eq!(lanes.len(), 4 * self.lane_words);
        lanes.fill(0);
        if exp < 255 {
            for (word, at) in lanes.chunks_exact_mut(4).zip(self.block(op, chunk)) {
                let contribution =
                    plan.contribution(self.data[op][at], at, self.lane_words, exp, full_headroom);
                word.copy_from_slice(&contribution.to_be_bytes());
            }
        }
    }

    fn unpack(&mut self, coded: CodedChunk, Contributors { count, own }: Contributors, lanes: &[u8]) {
        let CodedChunk { op: OpId(op), chunk, exp, full_headroom } = coded;
        let op = op as usize;
        assert!(
            !std::mem::replace(&mut self.taken[op][chunk as usize], true),
            "chunk {chunk} is delivered twice"
        );
        assert!(self.plans[op].receives(self.rank, chunk), "rank {} receives chunk {chunk}", self.rank);
        let plan = &self.plans[op];
        plan.check_exponent(chunk, exp);
        let lanes: Vec<i32> = lanes
            .chunks_exact(4)
            .take(self.block(op, chunk).len())
            .map(|word| i32::from_be_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        if !own {
            self.left_out[op].push(chunk);
        }
        if usize::from(count) != plan.inputs.len() {
            assert!(exp < 255 && !full_headroom, "chunk {chunk} must have every contribution");
            plan.check_partial(chunk, self.lane_words, exp, count, &lanes);
            let members = plan.members(&lanes, exp, count);
            assert!(members.is_none_or(|members| members.contains(&self.rank) == own));
            let block = self.block(op, chunk);
            self.data[op][block].copy_from_slice(&lanes);
            return;
        }
        assert!(own && !plan.partial.borrow().contains_key(&chunk), "all contributions to chunk {chunk}");
        let first = *plan.again.borrow_mut()[chunk as usize].get_or_insert(full_headroom);
        assert_eq!(first, full_headroom, "all ranks send chunk {chunk} again, or none");
        for (at, lane) in self.block(op, chunk).zip(lanes) {
            let value = if exp == 255 { NOT_A_NUMBER } else { lane };
            let want = if full_headroom { plan.expected_again[at] } else { plan.expected[at] };
            assert_eq!(value, want, "rank {} operation {op} chunk {chunk} element {at}", self.rank);
            self.data[op][at] = value;
        }
    }

    fn pass(&mut self, coded: CodedChunk, Contributors { count, own }: Contributors) {
        let CodedChunk { op: OpId(op), chunk, exp, full_headroom } = coded;
        let op = op as usize;
        let plan = &self.plans[op];
        assert!(!plan.receives(self.rank, chunk), "rank {} is to receive chunk {chunk}", self.rank);
        assert!(
            !std::mem::replace(&mut self.taken[op][chunk as usize], true),
            "chunk {chunk} is passed twice"
        );
        plan.check_exponent(chunk, exp);
        if !own {
            self.left_out[op].push(chunk);
        }
        if usize::from(count) != plan.inputs.len() {
            assert!(exp < 255 && !full_headroom, "chunk {chunk} must have every contribution");
            return;
        }
        let first = *plan.again.borrow_mut()[chunk as usize].get_or_insert(full_headroom);
        assert_eq!(first, full_headroom, "all ranks send chunk {chunk} again, or none");
    }

    fn is_expendable(&mut self, op: OpId, chunk: u32) -> bool {
        assert!(!self.taken[op.0 as usize][chunk as usize], "a chunk that was overwritten is asked for");
        !(self.rank as u32 + chunk).is_multiple_of(7)
    }
}
