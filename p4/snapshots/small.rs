// Generated from the program `netfold_all_reduce`; do not edit.
// in-network all-reduce: 16 word lanes of 32 bits, 4 slots x 2 sets, up to 2 children

const LANES: usize = 16;
const NETFOLD_AT: usize = 0;
const NETFOLD_END: usize = 32;
const LANES_AT: usize = 32;
const LANES_END: usize = 96;

#[derive(Clone, Copy, Default)]
struct Cells8 {
    claim_seen: u32,
    claim_chunk: u32,
    version_chunk: u32,
    exponent_exponent: u8,
}

#[derive(Clone, Copy)]
enum JobAction {
    Admit { base: u32, bit_mask: u32, others: u32, world: u16, group: u16 },
    AdmitController { base: u32 },
    Deny { reason: u8 },
    Refuse { reason: u8 },
    Challenge { token_high: u32, token_low: u32 },
}
fn job_action(id: u32, params: &[u64]) -> JobAction {
    match id {
        0x01000001 => JobAction::Admit { base: params[0] as u32, bit_mask: params[1] as u32, others: params[2] as u32, world: params[3] as u16, group: params[4] as u16 },
        0x01000002 => JobAction::AdmitController { base: params[0] as u32 },
        0x01000004 => JobAction::Refuse { reason: params[0] as u8 },
        0x0100000b => JobAction::Challenge { token_high: params[0] as u32, token_low: params[1] as u32 },
        _ => JobAction::Deny { reason: params[0] as u8 },
    }
}
static JOB: rt::TableInfo = rt::TableInfo {
    id: 0x02000001,
    name: "job",
    size: 13,
    keys: &[
        rt::KeyInfo { id: 1, bits: 16, word: 0, shift: 48, exact: false },
        rt::KeyInfo { id: 2, bits: 4, word: 0, shift: 44, exact: false },
        rt::KeyInfo { id: 3, bits: 16, word: 0, shift: 28, exact: false },
        rt::KeyInfo { id: 4, bits: 32, word: 1, shift: 32, exact: false },
        rt::KeyInfo { id: 5, bits: 32, word: 1, shift: 0, exact: false },
        rt::KeyInfo { id: 6, bits: 15, word: 0, shift: 13, exact: false },
    ],
    actions: &[
        rt::ActionInfo { id: 0x01000001, name: "admit", params: &[32, 32, 32, 16, 16] },
        rt::ActionInfo { id: 0x01000002, name: "admit_controller", params: &[32] },
        rt::ActionInfo { id: 0x01000003, name: "deny", params: &[8] },
        rt::ActionInfo { id: 0x01000004, name: "refuse", params: &[8] },
        rt::ActionInfo { id: 0x0100000b, name: "challenge", params: &[32, 32] },
    ],
};

/// in-network all-reduce: 16 word lanes of 32 bits, 4 slots x 2 sets, up to 2 children.
pub(super) struct Program {
    cells8: Box<[Cells8]>,
    sum: rt::LaneRegister<u32, LANES>,
    packets: [u64; 15],
    answers: [u64; 2],
    job: rt::Table<2, JobAction>,
    simd: rt::SimdLevel,
}

impl Program {
    /// A pipeline whose registers and counters are zero and whose tables are empty.
    pub(super) fn new() -> Self {
        Self {
            cells8: vec![Cells8::default(); 8].into_boxed_slice(),
            sum: rt::LaneRegister::new(8),
            packets: [0; 15],
            answers: [0; 2],
            job: rt::Table::new(&JOB, job_action(0x01000003, &[5])),
            simd: rt::SimdLevel::detect(),
        }
    }
}

#[inline(always)]
#[allow(unused, clippy::all, reason = "generated")]
fn packet(state: &mut Program, port: u16, congestion_mark: bool, data: &mut [u8]) -> rt::Verdict {
    let length = data.len();
    let mut m_port: u16 = 0;
    let mut m_reason: u8 = 0;
    let mut m_answer: u8 = 0;
    let mut m_bit_mask: u32 = 0;
    let mut m_others: u32 = 0;
    let mut m_world: u16 = 0;
    let mut m_group: u16 = 0;
    let mut m_index: u32 = 0;
    let mut m_seen: u32 = 0;
    let mut m_stored: u32 = 0;
    let mut m_diff: u32 = 0;
    let mut m_duplicate: u32 = 0;
    let mut m_missing: u32 = 0;
    let mut m_controller: u8 = 0;
    let mut has_netfold = false;
    let mut has_lanes = false;
    let mut cut_lanes = false;
    'parser: {
        if length < NETFOLD_END { break 'parser; }
        has_netfold = true;
        if (u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1))) & 0x80 == 0x80 {
        } else {
            if length < LANES_END { break 'parser; }
            has_lanes = true;
        }
    }
    let mut checksum_error = false;
    let mut send = rt::Send::Drop;
    m_port = port;
    if (congestion_mark && (((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) >> 0) & 0xf) as u8 == 0x1_u8)) {
        if has_netfold { let word: u8 = ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) | 0x2_u8)) as u8; rt::put::<1>(data, NETFOLD_AT + 1, &word.to_be_bytes()[0..]); }
    }
    if has_netfold {
        if (((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) >> 4) & 0xf) as u8 == 0x2_u8) {
            if ((has_lanes && ((length as u32) == 0x60_u32)) || ((!has_lanes && ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) & 0x80_u8) == 0x80_u8)) && ((length as u32) == 0x20_u32))) {
                if !(((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 2)) >> 4) & 0xf) as u8 == 0x0_u8) {
                    m_reason = 0x4_u8;
                }
            } else {
                m_reason = 0x2_u8;
            }
        } else {
            m_reason = 0x3_u8;
        }
    } else {
        m_reason = 0x2_u8;
    }
    if (m_reason == 0x0_u8) {
        match *state.job.lookup(&[(u64::from(m_port) << 48) | (u64::from(((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) >> 0) & 0xf) as u8) << 44) | (u64::from(u16::from_be_bytes(rt::get::<2>(data, NETFOLD_AT + 4))) << 28) | (u64::from(((u16::from_be_bytes(rt::get::<2>(data, NETFOLD_AT + 6)) >> 1) & 0x7fff) as u16) << 13), (u64::from(u32::from_be_bytes(rt::get::<4>(data, NETFOLD_AT + 12))) << 32) | (u64::from(u32::from_be_bytes(rt::get::<4>(data, NETFOLD_AT + 8))) << 0)]) {
            JobAction::Admit { base, bit_mask, others, world, group } => {
                m_index = base;
                m_bit_mask = bit_mask;
                m_others = others;
                m_world = world;
                m_group = group;
            }
            JobAction::AdmitController { base } => {
                m_index = base;
                m_controller = 0x1_u8;
            }
            JobAction::Deny { reason } => {
                m_reason = reason;
            }
            JobAction::Refuse { reason } => {
                m_reason = reason;
                m_answer = 0x1_u8;
            }
            JobAction::Challenge { token_high, token_low } => {
                m_others = token_high;
                m_bit_mask = token_low;
                m_reason = 0xe_u8;
                m_answer = 0x3_u8;
            }
        }
        if (m_reason == 0x0_u8) {
            m_index = m_index.wrapping_add((((((u16::from_be_bytes(rt::get::<2>(data, NETFOLD_AT + 6)) >> 1) & 0x7fff) as u16 as u16) << 1 | ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 7)) >> 0) & 0x1) as u8 as u16) as u32));
            if (((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) >> 0) & 0xf) as u8 == 0x6_u8) {
                {
                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                    let old0 = cell.claim_seen;
                    let old1 = cell.claim_chunk;
                    let new0 = old0;
                    let new1 = old1;
                    let output: u32 = old0;
                    m_seen = output;
                }
                {
                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                    let old0 = cell.version_chunk;
                    let new0 = old0;
                    let output: u32 = old0;
                    m_stored = output;
                }
            } else {
                {
                    let f_netfold_chunk = u32::from_be_bytes(rt::get::<4>(data, NETFOLD_AT + 16));
                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                    let old0 = cell.claim_seen;
                    let old1 = cell.claim_chunk;
                    let cond0 = (f_netfold_chunk == old1);
                    let cond1 = (f_netfold_chunk.wrapping_sub(old1).cast_signed() > 0x0_u32.cast_signed());
                    let new0 = if cond1 { m_bit_mask } else if cond0 { (old0 | m_bit_mask) } else { old0 };
                    cell.claim_seen = new0;
                    let new1 = if cond1 { f_netfold_chunk } else { old1 };
                    cell.claim_chunk = new1;
                    let output: u32 = if cond0 { old0 } else { 0 };
                    m_seen = output;
                }
                {
                    let f_netfold_chunk = u32::from_be_bytes(rt::get::<4>(data, NETFOLD_AT + 16));
                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                    let old0 = cell.version_chunk;
                    let cond0 = (f_netfold_chunk.wrapping_sub(old0).cast_signed() > 0x0_u32.cast_signed());
                    let new0 = if cond0 { f_netfold_chunk } else { old0 };
                    cell.version_chunk = new0;
                    let output: u32 = old0;
                    m_stored = output;
                }
            }
            m_diff = u32::from_be_bytes(rt::get::<4>(data, NETFOLD_AT + 16)).wrapping_sub(m_stored);
            m_duplicate = (m_seen & m_bit_mask);
            m_missing = (m_others & !m_seen);
            if (m_controller == 0x1_u8) {
                if ((((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) >> 0) & 0xf) as u8 == 0x7_u8) && (m_diff.cast_signed() > 0x0_u32.cast_signed())) {
                    {
                        let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                        let old0 = cell.exponent_exponent;
                        let new0 = 0x0_u8;
                        cell.exponent_exponent = new0;
                    }
                    {
                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                        for i in 0..LANES {
                            let old0 = slot[i];
                            let new0: u32 = 0x0_u32;
                            slot[i] = new0;
                        }
                    }
                } else {
                    if has_netfold { let word: u32 = (m_stored) as u32; rt::put::<4>(data, NETFOLD_AT + 16, &word.to_be_bytes()[0..]); }
                    if has_netfold { let word: u32 = (m_seen) as u32; rt::put::<4>(data, NETFOLD_AT + 20, &word.to_be_bytes()[0..]); }
                }
                m_answer = 0x2_u8;
                send = rt::Send::Unicast(m_port);
            } else {
                if (0x0_u32.cast_signed() > m_diff.cast_signed()) {
                    if has_netfold { let word: u8 = (u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) & !0xf) | ((((0x4_u8) as u8) << 0) & 0xf); rt::put::<1>(data, NETFOLD_AT + 0, &word.to_be_bytes()[0..]); }
                    cut_lanes |= has_lanes; has_lanes = false;
                    if has_netfold { let word: u8 = ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) | 0x80_u8)) as u8; rt::put::<1>(data, NETFOLD_AT + 1, &word.to_be_bytes()[0..]); }
                    m_reason = 0xa_u8;
                    m_answer = 0x2_u8;
                    send = rt::Send::Unicast(m_port);
                } else {
                    if (m_duplicate != 0x0_u32) {
                        if (m_missing == 0x0_u32) {
                            {
                                let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                let old0 = cell.exponent_exponent;
                                let new0 = old0;
                                let output: u8 = new0;
                                if has_netfold { let word: u8 = (output) as u8; rt::put::<1>(data, NETFOLD_AT + 27, &word.to_be_bytes()[0..]); }
                            }
                            if has_lanes {
                                {
                                    let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                    if !has_lanes { return rt::Verdict::DROP; }
                                    let Some(bytes) = data.get_mut(LANES_AT..LANES_END) else { return rt::Verdict::DROP; };
                                    let Ok(lanes) = <&mut [[u8; 4]; LANES]>::try_from(bytes.as_chunks_mut::<4>().0) else { return rt::Verdict::DROP; };
                                    for i in 0..LANES {
                                        let old0 = slot[i];
                                        let new0: u32 = old0;
                                        let out: u32 = new0;
                                        lanes[i] = out.to_be_bytes();
                                    }
                                }
                            }
                            if has_netfold { let word: u8 = ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) & 0xfe_u8)) as u8; rt::put::<1>(data, NETFOLD_AT + 1, &word.to_be_bytes()[0..]); }
                            if has_netfold { let word: u8 = (u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) & !0xf) | ((((0x2_u8) as u8) << 0) & 0xf); rt::put::<1>(data, NETFOLD_AT + 0, &word.to_be_bytes()[0..]); }
                            if has_netfold { let word: u32 = ((m_others | m_bit_mask)) as u32; rt::put::<4>(data, NETFOLD_AT + 20, &word.to_be_bytes()[0..]); }
                            if has_netfold { let word: u16 = (m_world) as u16; rt::put::<2>(data, NETFOLD_AT + 24, &word.to_be_bytes()[0..]); }
                            m_answer = 0x2_u8;
                            send = rt::Send::Unicast(m_port);
                            if let Some(count) = state.answers.get_mut(0x1_u32 as usize) { *count += 1; }
                        } else {
                            m_reason = 0xb_u8;
                        }
                    } else {
                        if (m_missing == 0x0_u32) {
                            if (m_diff != 0x0_u32) {
                                {
                                    let f_netfold_exp_next = u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 27));
                                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                    let old0 = cell.exponent_exponent;
                                    let new0 = f_netfold_exp_next;
                                    cell.exponent_exponent = new0;
                                    let output: u8 = new0;
                                    if has_netfold { let word: u8 = (output) as u8; rt::put::<1>(data, NETFOLD_AT + 27, &word.to_be_bytes()[0..]); }
                                }
                                if has_lanes {
                                    {
                                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                        if !has_lanes { return rt::Verdict::DROP; }
                                        let Some(bytes) = data.get_mut(LANES_AT..LANES_END) else { return rt::Verdict::DROP; };
                                        let Ok(lanes) = <&mut [[u8; 4]; LANES]>::try_from(bytes.as_chunks_mut::<4>().0) else { return rt::Verdict::DROP; };
                                        for i in 0..LANES {
                                            let lane = u32::from_be_bytes(lanes[i]);
                                            let old0 = slot[i];
                                            let new0: u32 = lane;
                                            slot[i] = new0;
                                            let out: u32 = new0;
                                            lanes[i] = out.to_be_bytes();
                                        }
                                    }
                                } else {
                                    {
                                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                        for i in 0..LANES {
                                            let old0 = slot[i];
                                            let new0: u32 = 0x0_u32;
                                            slot[i] = new0;
                                        }
                                    }
                                }
                            } else {
                                {
                                    let f_netfold_exp_next = u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 27));
                                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                    let old0 = cell.exponent_exponent;
                                    let new0 = old0.max(f_netfold_exp_next);
                                    cell.exponent_exponent = new0;
                                    let output: u8 = new0;
                                    if has_netfold { let word: u8 = (output) as u8; rt::put::<1>(data, NETFOLD_AT + 27, &word.to_be_bytes()[0..]); }
                                }
                                if has_lanes {
                                    {
                                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                        if !has_lanes { return rt::Verdict::DROP; }
                                        let Some(bytes) = data.get_mut(LANES_AT..LANES_END) else { return rt::Verdict::DROP; };
                                        let Ok(lanes) = <&mut [[u8; 4]; LANES]>::try_from(bytes.as_chunks_mut::<4>().0) else { return rt::Verdict::DROP; };
                                        for i in 0..LANES {
                                            let lane = u32::from_be_bytes(lanes[i]);
                                            let old0 = slot[i];
                                            let new0: u32 = old0.wrapping_add(lane);
                                            slot[i] = new0;
                                            let out: u32 = new0;
                                            lanes[i] = out.to_be_bytes();
                                        }
                                    }
                                }
                            }
                            if has_netfold { let word: u8 = ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) & 0xfe_u8)) as u8; rt::put::<1>(data, NETFOLD_AT + 1, &word.to_be_bytes()[0..]); }
                            if has_netfold { let word: u8 = (u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) & !0xf) | ((((0x2_u8) as u8) << 0) & 0xf); rt::put::<1>(data, NETFOLD_AT + 0, &word.to_be_bytes()[0..]); }
                            if has_netfold { let word: u32 = ((m_others | m_bit_mask)) as u32; rt::put::<4>(data, NETFOLD_AT + 20, &word.to_be_bytes()[0..]); }
                            if has_netfold { let word: u16 = (m_world) as u16; rt::put::<2>(data, NETFOLD_AT + 24, &word.to_be_bytes()[0..]); }
                            m_answer = 0x2_u8;
                            send = rt::Send::Multicast(m_group);
                            if let Some(count) = state.answers.get_mut(0x0_u32 as usize) { *count += 1; }
                        } else {
                            if (m_diff != 0x0_u32) {
                                {
                                    let f_netfold_exp_next = u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 27));
                                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                    let old0 = cell.exponent_exponent;
                                    let new0 = f_netfold_exp_next;
                                    cell.exponent_exponent = new0;
                                }
                                if has_lanes {
                                    {
                                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                        if !has_lanes { return rt::Verdict::DROP; }
                                        let Some(bytes) = data.get_mut(LANES_AT..LANES_END) else { return rt::Verdict::DROP; };
                                        let Ok(lanes) = <&mut [[u8; 4]; LANES]>::try_from(bytes.as_chunks_mut::<4>().0) else { return rt::Verdict::DROP; };
                                        for i in 0..LANES {
                                            let lane = u32::from_be_bytes(lanes[i]);
                                            let old0 = slot[i];
                                            let new0: u32 = lane;
                                            slot[i] = new0;
                                        }
                                    }
                                } else {
                                    {
                                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                        for i in 0..LANES {
                                            let old0 = slot[i];
                                            let new0: u32 = 0x0_u32;
                                            slot[i] = new0;
                                        }
                                    }
                                }
                            } else {
                                {
                                    let f_netfold_exp_next = u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 27));
                                    let Some(cell) = state.cells8.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                    let old0 = cell.exponent_exponent;
                                    let new0 = old0.max(f_netfold_exp_next);
                                    cell.exponent_exponent = new0;
                                }
                                if has_lanes {
                                    {
                                        let Some(slot) = state.sum.get_mut(m_index as usize) else { return rt::Verdict::DROP; };
                                        if !has_lanes { return rt::Verdict::DROP; }
                                        let Some(bytes) = data.get_mut(LANES_AT..LANES_END) else { return rt::Verdict::DROP; };
                                        let Ok(lanes) = <&mut [[u8; 4]; LANES]>::try_from(bytes.as_chunks_mut::<4>().0) else { return rt::Verdict::DROP; };
                                        for i in 0..LANES {
                                            let lane = u32::from_be_bytes(lanes[i]);
                                            let old0 = slot[i];
                                            let new0: u32 = old0.wrapping_add(lane);
                                            slot[i] = new0;
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    if (m_answer == 0x1_u8) {
        if has_netfold { let word: u8 = (u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) & !0xf) | ((((0x5_u8) as u8) << 0) & 0xf); rt::put::<1>(data, NETFOLD_AT + 0, &word.to_be_bytes()[0..]); }
        if has_netfold { let word: u8 = (m_reason) as u8; rt::put::<1>(data, NETFOLD_AT + 3, &word.to_be_bytes()[0..]); }
        cut_lanes |= has_lanes; has_lanes = false;
        if has_netfold { let word: u8 = ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) | 0x80_u8)) as u8; rt::put::<1>(data, NETFOLD_AT + 1, &word.to_be_bytes()[0..]); }
        m_answer = 0x2_u8;
        send = rt::Send::Unicast(m_port);
    } else {
        if (m_answer == 0x3_u8) {
            if has_netfold { let word: u32 = (m_others) as u32; rt::put::<4>(data, NETFOLD_AT + 16, &word.to_be_bytes()[0..]); }
            if has_netfold { let word: u32 = (m_bit_mask) as u32; rt::put::<4>(data, NETFOLD_AT + 20, &word.to_be_bytes()[0..]); }
            if has_netfold { let word: u8 = (u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 0)) & !0xf) | ((((0x5_u8) as u8) << 0) & 0xf); rt::put::<1>(data, NETFOLD_AT + 0, &word.to_be_bytes()[0..]); }
            if has_netfold { let word: u8 = (m_reason) as u8; rt::put::<1>(data, NETFOLD_AT + 3, &word.to_be_bytes()[0..]); }
            cut_lanes |= has_lanes; has_lanes = false;
            if has_netfold { let word: u8 = ((u8::from_be_bytes(rt::get::<1>(data, NETFOLD_AT + 1)) | 0x80_u8)) as u8; rt::put::<1>(data, NETFOLD_AT + 1, &word.to_be_bytes()[0..]); }
            m_answer = 0x2_u8;
            send = rt::Send::Unicast(m_port);
        } else {
            if (m_answer == 0x0_u8) {
                send = rt::Send::Drop;
            }
        }
    }
    if let Some(count) = state.packets.get_mut((m_reason as u32) as usize) { *count += 1; }
    if send == rt::Send::Drop { return rt::Verdict::DROP; }
    let mut sent = length;
    if cut_lanes { sent = LANES_AT; }
    rt::Verdict { send, len: sent as u32 }
}

#[inline(always)]
fn burst_body(state: &mut Program, packets: &[rt::Received], memory: &mut [u8], verdicts: &mut Vec<rt::Verdict>) {
    for received in packets {
        let start = received.offset as usize;
        let verdict = match memory.get_mut(start..start + received.len as usize) {
            Some(data) => packet(state, received.port.0, received.ecn == rt::CE, data),
            None => rt::Verdict::DROP,
        };
        verdicts.push(verdict);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
fn burst_avx512(state: &mut Program, packets: &[rt::Received], memory: &mut [u8], verdicts: &mut Vec<rt::Verdict>) {
    burst_body(state, packets, memory, verdicts);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn burst_avx2(state: &mut Program, packets: &[rt::Received], memory: &mut [u8], verdicts: &mut Vec<rt::Verdict>) {
    burst_body(state, packets, memory, verdicts);
}

impl rt::Pipeline for Program {
    fn info(&self) -> &'static rt::PipelineInfo {
        static INFO: rt::PipelineInfo = rt::PipelineInfo {
            name: std::borrow::Cow::Borrowed("netfold_all_reduce"),
            fingerprint: 0xcf25de42ca8b7d77,
            lane_words: 16,
            numerics: rt::Numerics::Word,
            lane_ops: rt::LaneOps::of(&[rt::LaneOp::Sum]),
            bounded_loss: false,
            owners: false,
            growth: None,
            rewriting: None,
            entries: 8,
            bookkeeping_bytes: 8 * size_of::<Cells8>(),
            lane_bytes: 8 * LANES * 4,
        };
        &INFO
    }
    fn burst(&mut self, packets: &[rt::Received], memory: &mut [u8], verdicts: &mut Vec<rt::Verdict>) {
        #[cfg(target_arch = "x86_64")]
        match self.simd {
            rt::SimdLevel::Avx512 => {
                // SAFETY: rt::SimdLevel::detect() found every feature that burst_avx512 is compiled for on this processor.
                return unsafe { burst_avx512(self, packets, memory, verdicts) };
            }
            rt::SimdLevel::Avx2 => {
                // SAFETY: rt::SimdLevel::detect() found every feature that burst_avx2 is compiled for on this processor.
                return unsafe { burst_avx2(self, packets, memory, verdicts) };
            }
            rt::SimdLevel::Portable => {}
        }
        burst_body(self, packets, memory, verdicts);
    }
    fn set_simd(&mut self, level: rt::SimdLevel) {
        self.simd = level.min(rt::SimdLevel::detect());
    }
    fn egress(&mut self, instance: u16, queue_depth: u32, frame: &mut [u8]) -> usize {
        let _ = (instance, queue_depth);
        frame.len()
    }
    fn insert(&mut self, entry: &rt::TableEntry) -> Result<(), rt::EntryError> {
        match entry.table {
            0x02000001 => self.job.insert(entry, job_action),
            other => Err(rt::EntryError::Table(other)),
        }
    }
    fn delete(&mut self, entry: &rt::TableEntry) -> Result<(), rt::EntryError> {
        match entry.table {
            0x02000001 => self.job.delete(entry),
            other => Err(rt::EntryError::Table(other)),
        }
    }
    fn counters(&self, id: u32) -> &[u64] {
        match id {
            0x12000001 => &self.packets,
            0x12000002 => &self.answers,
            _ => &[],
        }
    }
    fn counters_mut(&mut self, id: u32) -> &mut [u64] {
        match id {
            0x12000001 => &mut self.packets,
            0x12000002 => &mut self.answers,
            _ => &mut [],
        }
    }
    fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {
        match name {
            "claim" => self.cells8.get(index).map(|cell| out.extend([u32::from(cell.claim_seen), u32::from(cell.claim_chunk)])).is_some(),
            "version" => self.cells8.get(index).map(|cell| out.extend([u32::from(cell.version_chunk)])).is_some(),
            "exponent" => self.cells8.get(index).map(|cell| out.extend([u32::from(cell.exponent_exponent)])).is_some(),
            "sum" => self.sum.get(index).map(|lanes| out.extend(lanes)).is_some(),
            _ => false,
        }
    }
    fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        match name {
            "claim" => match (self.cells8.get_mut(index), values) {
                (Some(cell), &[value0, value1]) => {
                    cell.claim_seen = (value0 & 0xffffffff) as u32;
                    cell.claim_chunk = (value1 & 0xffffffff) as u32;
                    true
                }
                _ => false,
            },
            "version" => match (self.cells8.get_mut(index), values) {
                (Some(cell), &[value0]) => {
                    cell.version_chunk = (value0 & 0xffffffff) as u32;
                    true
                }
                _ => false,
            },
            "exponent" => match (self.cells8.get_mut(index), values) {
                (Some(cell), &[value0]) => {
                    cell.exponent_exponent = (value0 & 0xff) as u8;
                    true
                }
                _ => false,
            },
            "sum" => match self.sum.get_mut(index) {
                Some(lanes) if values.len() == LANES => {
                    for (lane, value) in lanes.iter_mut().zip(values) {
                        *lane = *value as u32;
                    }
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }
}
