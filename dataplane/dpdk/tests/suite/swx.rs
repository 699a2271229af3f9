//! DPDK's software pipeline: specifications that are executed, and ones that are refused with their line.

use netfold_dpdk::swx::{Externs, Packets, Pipeline, PipelineConfig, SwxError};

use crate::eal;

/// Counts packets by their first byte, sends those of table `known` to the port of the entry, and drops the others.
const SPEC: &str = "
struct kind_t {
    bit<8> kind
    bit<16> value
}
header kind instanceof kind_t
struct metadata_t {
    bit<32> input
    bit<32> output
    bit<8> kind
}
metadata instanceof metadata_t
struct send_args_t {
    bit<32> port
    bit<16> value
}
regarray packets size 0x100 initval 0x0
regarray all size 0x4 initval 0x5
action send args instanceof send_args_t {
    mov m.output t.port
    mov h.kind.value t.value
    return
}
action refuse args none {
    mov m.output 0x7
    return
}
table known {
    key {
        m.kind exact
    }
    actions {
        send
        refuse
    }
    default_action refuse args none const
    size 0x10
}
apply {
    rx m.input
    extract h.kind
    mov m.kind h.kind.kind
    regadd packets m.kind 0x1
    regadd all 0x2 0x1
    jmpeq L1 m.kind 0xff
    table known
    emit h.kind
    tx m.output
    L1 : drop
}
";

fn config() -> PipelineConfig {
    PipelineConfig { inputs: 2, outputs: 4, packets: 8, packet_bytes_max: 64, number_at: None }
}

fn run(pipeline: &mut Pipeline) -> Vec<(u32, Option<u32>, Vec<u8>)> {
    let mut sent = Vec::new();
    pipeline
        .run(|packet| sent.push((packet.token, packet.port, packet.bytes.to_vec())))
        .expect("packets leave");
    sent.sort();
    sent
}

#[test]
fn a_specification_forwards_counts_and_drops() {
    let mut pipeline = Pipeline::build(&eal(), SPEC, &config()).expect("the pipeline is built");
    pipeline.insert("known", "match 0x1 action send port 0x3 value 0x1234").expect("the entry fits");
    pipeline.commit().expect("the table has room");
    assert!(pipeline.offer(0, 10, &[&[1, 0, 0], b"rest"]));
    assert!(pipeline.offer(1, 11, &[&[2, 0, 0]]));
    assert!(pipeline.offer(1, 12, &[&[0xff, 0, 0]]));
    let sent = run(&mut pipeline);
    assert_eq!(sent[0], (10, Some(3), b"\x01\x12\x34rest".to_vec()));
    // To a port that does not exist, and dropped.
    assert_eq!((sent[1].1, sent[2].1), (None, None));
    for (index, count) in [(0, 0), (1, 1), (2, 1), (0xff, 1)] {
        assert_eq!(pipeline.read_register("packets", index).expect("it exists"), count, "{index}");
    }
    assert_eq!(pipeline.read_register("all", 2).expect("it exists"), 8);
    pipeline.write_register("all", 3, 9).expect("it exists");
    assert_eq!(pipeline.read_register("all", 3).expect("it exists"), 9);
    assert!(matches!(pipeline.read_register("all", 4), Err(SwxError::Register { index: 4, .. })));
    assert!(matches!(pipeline.read_register("none", 0), Err(SwxError::Register { .. })));

    pipeline.delete("known", "match 0x1 action send port 0x3 value 0x1234").expect("the entry is there");
    pipeline.commit().expect("the change is applied");
    assert!(pipeline.offer(0, 1, &[&[1, 0, 0]]));
    assert_eq!(run(&mut pipeline)[0].1, None);
}

/// Adds the first two bytes of the packet to what it has so far, by packet memory and by mailbox, and makes packets longer.
#[derive(Default)]
struct Sums(Vec<u32>);

impl Externs for Sums {
    fn call(&mut self, object: usize, mailbox: &mut [u32], packets: &mut Packets<'_>) {
        let [value, sum, number] = mailbox else { panic!("three fields: {mailbox:?}") };
        self.0.resize(2, 0);
        self.0[object] += *value;
        *sum = self.0[object];
        let Some(packet) = packets.get(*number) else { return };
        packet[8] = 0xee;
        if object == 1 {
            assert!(packets.grow(*number, 2) && !packets.grow(*number, u32::MAX) && !packets.grow(99, 1));
        }
    }
}

#[test]
fn external_objects_have_a_mailbox_and_the_packet() {
    const SPEC: &str = "
struct head_t {
    bit<32> number
    bit<16> value
    bit<16> sum
}
struct tail_t {
    bit<16> two
}
struct adder_t {
    bit<32> value
    bit<32> sum
    bit<32> number
}
header head instanceof head_t
header tail instanceof tail_t
extobj first instanceof adder
extobj second instanceof adder
struct metadata_t {
    bit<32> input
}
metadata instanceof metadata_t
apply {
    rx m.input
    extract h.head
    jmpeq L1 h.head.value 0x1
    mov e.first.value h.head.value
    mov e.first.number h.head.number
    extern e.first.run
    mov h.head.sum e.first.sum
    jmp L2
    L1 : mov e.second.value 0x10
    mov e.second.number h.head.number
    extern e.second.run
    mov h.head.sum e.second.sum
    extract h.tail
    L2 : emit h.head
    emit h.tail
    tx 0x0
}
";
    let config = PipelineConfig { number_at: Some(0), ..config() };
    let mut pipeline = Pipeline::build(&eal(), SPEC, &config).expect("the pipeline is built");
    let mut sums = Sums::default();
    for (token, value) in [(0, 5), (1, 7), (2, 1)] {
        assert!(pipeline.offer(0, token, &[&[0; 4], &[0, value, 0, 0], b"rest"]));
    }
    let mut sent = Vec::new();
    pipeline
        .run_with(&mut sums, |packet| sent.push((packet.token, packet.bytes[6..].to_vec())))
        .expect("packets leave");
    sent.sort();
    assert_eq!(sent[0], (0, b"\x00\x05\xeeest".to_vec()));
    assert_eq!(sent[1], (1, b"\x00\x0c\xeeest".to_vec()));
    // Longer than it came.
    assert_eq!(sent[2].1[..6], *b"\x00\x10\xeeest");
    assert_eq!(sent[2].1.len(), 8);
    assert!(pipeline.instructions() >= 20);
}

#[test]
fn packets_beyond_the_limits_are_not_taken() {
    let mut pipeline = Pipeline::build(&eal(), SPEC, &config()).expect("the pipeline is built");
    assert!(!pipeline.offer(2, 0, &[&[1, 0, 0]]), "there are two ports");
    assert!(!pipeline.offer(0, 0, &[&[0; 65]]), "64 bytes are allowed");
    for token in 0..8 {
        assert!(pipeline.offer(0, token, &[&[1, 0, 0]]));
    }
    assert!(!pipeline.offer(0, 8, &[&[1, 0, 0]]), "there is room for eight");
    assert_eq!(run(&mut pipeline).len(), 8);
    assert!(pipeline.offer(0, 8, &[&[1, 0, 0]]));
    // Shorter than its header: what the program reads is undefined, and stays within the packet's memory.
    assert!(pipeline.offer(0, 9, &[&[1]]));
    assert_eq!(run(&mut pipeline).len(), 2);
}

#[test]
fn entries_that_do_not_fit_are_refused() {
    let mut pipeline = Pipeline::build(&eal(), SPEC, &config()).expect("the pipeline is built");
    let bad = ["match 0x1 action none", "match 0x1 action send port 0x3", "", "match"];
    for entry in bad {
        let refused = pipeline.insert("known", entry);
        assert!(matches!(refused, Err(SwxError::Entry { .. })), "{entry}: {refused:?}");
    }
    assert!(matches!(pipeline.insert("other", "match 0x1 action refuse"), Err(SwxError::Entry { .. })));
}

/// The line and the text of the error for `SPEC` with a change.
fn error(from: &str, to: &str) -> (u32, String) {
    let text = SPEC.replacen(from, to, 1);
    assert_ne!(text, SPEC);
    match Pipeline::build(&eal(), &text, &config()) {
        Err(error @ (SwxError::Spec { line, .. } | SwxError::Refused { line, .. })) => {
            (line, error.to_string())
        }
        other => panic!("{to}: {other:?}"),
    }
}

#[test]
fn errors_name_the_line_and_the_construct() {
    for (from, to, line, what) in [
        ("bit<16> value", "bit<12> value", 4, "'value' has 12 bits"),
        ("bit<16> value", "value", 4, "a field is 'bit<BITS> NAME'"),
        ("header kind instanceof kind_t", "header kind instanceof none_t", 6, "'none_t' is no structure"),
        ("bit<16> value", "bit<2048> value", 4, "'value' has 2048 bits"),
        // A field that no instruction can have as its operand.
        ("bit<16> value", "bit<72> value", 21, "'h.kind.value' is not a field"),
        ("regarray packets", "extobj one instanceof none\nregarray packets", 17, "has no mailbox"),
        (
            "regarray packets",
            "extobj one instanceof kind\nregarray packets",
            2,
            "of a mailbox has not 32 bits",
        ),
        ("regadd all 0x2 0x1", "extern e.all.run", 44, "'e.all.run' is not function 'run'"),
        ("initval 0x0", "initval zero", 17, "'zero' is not a number"),
        ("regarray packets", "metarray packets", 17, "'metarray' is not supported"),
        ("m.kind exact", "m.kind lpm", 30, "a key is"),
        ("refuse args none const", "other args none const", 28, "default action 'other'"),
        ("extract h.kind", "extract h.none", 41, "'h.none' is not a header"),
        ("extract h.kind", "recirculate", 41, "'recirculate' is not supported"),
        ("regadd all 0x2 0x1", "regadd none 0x2 0x1", 44, "'none' is not a register array"),
        ("jmpeq L1 m.kind 0xff", "jmpeq L2 m.kind 0xff", 45, "'L2' is not a label further down"),
        ("    mov m.output 0x7\n    return", "    mov m.output 0x7", 25, "an action ends with"),
        ("tx m.output", "return", 48, "only an action returns"),
        ("table known\n    emit", "rx m.input\n    emit", 46, "'rx' is the first instruction"),
        ("emit h.kind", "L1 : emit h.kind", 49, "label 'L1' is used twice"),
        ("mov m.output 0x7", "extract h.kind", 25, "does not belong in an action"),
        ("metadata instanceof metadata_t", "", 20, "'m.output' is not a field"),
        ("size 0x10\n", "hash crc32\n", 37, "'hash' in a table is not supported"),
    ] {
        let (found, text) = error(from, to);
        assert!(text.contains(what) && found == line, "{to}: {text}");
    }
}
