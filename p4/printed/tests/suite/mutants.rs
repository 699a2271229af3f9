//! Changes of printed texts, each of which a comparison must notice: statements and entries left out, other operators, conditions, numbers and actions.
//! Every third to twelfth is played, by program; `MUTANTS=all` plays all of them, in a few minutes.

use netfold_p4::allreduce;
use netfold_p4::profile::{Numerics, Profile};
use netfold_p4::tna::{Chip, print_in_passes};

use netfold_p4_printed::Tofino;
use netfold_wire::LaneOp;

use crate::rig::Trace;

/// Packets of a sequence.
const PACKETS: usize = 400;

/// The first seed of the sequences.
const FIRST_SEED: u64 = 50_000;

/// The seed of a sequence that alone shows one change of the parser of egress, in programs with trimming.
const TRIMMED_OPTIONS: u64 = 50_086;

/// A changed text.
struct Mutant {
    line: usize,
    /// The action, state, table or control that is changed.
    place: String,
    change: String,
    text: String,
}

/// Changes without an effect: where, what, and why. A name stands for all that begin with it.
const EQUAL: &[(&str, &str, &str)] = &[
    ("x_zero_present", "", "the controller's packets have no lanes"),
    ("x_outcome", "drop_ctl", "a packet without a destination is dropped"),
    (
        "x_outcome",
        "without meta.x_packets_index = meta.reason",
        "the reason is 0 there, as the index was before",
    ),
    ("x_outcome", "without meta.x_answers_index = 8w0x0", "the index was 0 before"),
    ("x_outcome", "hdr.harvest.unused", "nothing reads it"),
    ("x_outcome", "hdr.harvest.port = 0", "a packet to a group has no port"),
    ("x_outcome_11", "x_counts_packets", "it is the default, and every packet has an entry"),
    ("x_outcome_14", "x_counts_packets", "it is the default, and every packet has an entry"),
    ("x_outcome", "without hdr.netfold.version_kind[3:0] = 4w0x2", "the parent's RESULT is one already"),
    ("x_outcome", "_, 0x0): x_outcome", "the default drops it, too"),
    ("harvest", "meta.x_version_kind", "only the harvest follows, which does not depend on it"),
    ("harvest", "extract(hdr.lanes_1)", "the upper half leaves as it came, extracted or not"),
    ("exponent_clear", "out_word", "the output has no target"),
    ("x_outcome", "without meta.x_forwarded_index = 8w0x0", "the index was 0 before"),
    ("x_queue_0", "without ig_tm_md.qid = 0", "the queue was 0 before"),
    ("x_queue", "): x_queue_0(); is (_, ", "packets without the header are in queue 0"),
    ("every_member", "is meta.first = 16w0;", "packets name owners from 1"),
    (
        "admit_below",
        "without meta.group = group",
        "a sum goes up, and the parent's RESULT has an action of its own",
    ),
    ("x_sum_", "_read_out(); is", "lanes that are read in vain are not sent"),
    ("x_settled", "_read_out(); is", "what is read in vain is compared with nothing"),
    ("x_settled", "without", "the same"),
    ("x_exponent", "_read_out(); is", "the packet is dropped"),
    ("x_claim", "_peek_out(); is", "what is read in vain is compared with nothing"),
    ("x_version", "_peek_out(); is", "the same"),
    ("x_sum_", "is (0x0, 0x0, 0x0, _, _, 0x0, 0x0, _, _): sum", "absent lanes are zeros"),
    ("x_sum_", "is (0x0, 0x0, 0x0, _, _, 0x0, _, _, _, _, 0x0): sum", "absent lanes are zeros"),
    ("x_sum_", "is (0x0, 0x0, _, _, 0x0, _, _, _, _, 0x0): sum", "absent lanes are zeros"),
    ("x_sum_", "is (0x0, 0x0, _, _, 0x0, 0x0, _, _): sum", "absent lanes are zeros"),
];

/// The same of programs with this name in them.
const EQUAL_WITH: &[(&str, &str, &str, &str)] = &[
    (
        "x_settled_differs",
        "x_outcome_18",
        "x_counts_packets",
        "it is the default, and every packet has an entry",
    ),
    ("pass_t", "x_outcome", "hdr.pass.unused", "nothing reads it"),
    ("pass_t", "shed", "meta.x_check = 255; is", "any reason but 0 keeps registers from being accessed"),
    ("pass_t", "shed", "meta.x_version_kind", "only words are removed there"),
    ("pass_t", "back", "meta.x_version_kind", "only words are read there"),
    ("pass_t", "x_version", "without (0x8 &&& 0x8", "the chunk is there already"),
    ("pass_t", "x_exponent", "_): exponent_clear_quiet(); is (_", "exponents of other parts are 0"),
    ("pass_t", "x_outcome_7", "", "the controller's packets have no words"),
    ("pass_t", "x_outcome", "): x_outcome_16()", "parts differ only by loss: see module `passes`"),
    ("pass_t", "x_outcome_16", "hdr.netfold.chunk", "the same"),
    ("pass_t", "x_outcome_16", "hdr.pass.world", "the controller's packets become no result"),
    ("pass_t", "x_outcome_16", "hdr.pass.group", "the same"),
    ("pass_t", "x_outcome_16", "hdr.pass.others", "the same"),
    ("pass_t", "x_outcome_6", "hdr.netfold.chunk", "an earlier pass has set it"),
    ("pass_t", "x_outcome", "): x_outcome_6()", "parts differ only by loss: see module `passes`"),
    (
        "pass_t",
        "x_outcome",
        "0x0, 0x0, _): x_outcome_17(); is",
        "an older packet is older for the last part, too, which then replies",
    ),
    ("pass_t", "x_outcome_10", "hdr.pass.port", "a packet to a group has no port"),
    ("pass_t", "x_outcome_9", "hdr.netfold.flags", "a packet without lanes is marked and as long as a reply"),
    ("pass_t", "x_outcome_9", "_len = ", "the same"),
    ("pass_t", "x_outcome_9", "udp.length = ", "the same"),
    ("pass_t", "x_outcome_20", "hdr.netfold.flags", "the same"),
    ("pass_t", "x_outcome_20", "_len = ", "the same"),
    ("pass_t", "x_outcome_20", "udp.length = ", "the same"),
    ("pass_t", "x_outcome_22", "hdr.netfold.flags", "the same"),
    ("pass_t", "x_outcome_22", "_len = ", "the same"),
    ("pass_t", "x_outcome_22", "udp.length = ", "the same"),
    ("pass_t", "x_sum_", "0x0, 0x0, _, _): sum", "absent lanes are zeros"),
    ("pass_t", "x_zero", "without (0, 0x1, _)", "the controller's packets have no lanes"),
    ("pass_t", "x_outcome_23", "x_counts_packets", "it is the default, and every packet has an entry"),
    (
        "x_note_end",
        "x_outcome",
        "0x80000000, 0x0, 0x0, _, _): x_outcome_3",
        "absent lanes are at no end, marked or not",
    ),
    ("x_note_end", "x_outcome", "0x80000000, _, 0x0, _, _): x_outcome_6", "the same"),
    (
        "x_note_end",
        "start",
        "meta.x_marks = 0;",
        "lanes that were removed are at an end in one of 2^31 cases",
    ),
    (
        "meta.way = 0",
        "x_outcome",
        "): x_outcome_8()",
        "a reply without lanes has none to lose, and is marked and as long as one that has lost them",
    ),
    ("meta.way = 0", "x_outcome", "_, 0x0, _, _, _, _, _): x_outcome_7", "the same"),
    ("meta.way = 0", "x_outcome_12", "x_counts_packets", "it is the default, and every packet has an entry"),
    ("meta.way = 0", "x_sum_", "0x0, 0x0, _, _): sum", "absent lanes are zeros"),
    ("x_repeat", "x_repeat", "x_repeat_zeros(); is", "lanes of packets that are not sent, and absent lanes"),
    ("x_repeat", "x_sum_", "is (0x0, 0x0, _, _, 0x0, 0x0, _, 0x0, _): sum", "absent lanes are zeros"),
    ("x_repeat", "x_sum_", "0x80000000, _, _, _, 0x0): sum", "absent lanes are zeros"),
    ("x_repeat", "x_outcome_9", "x_counts_packets", "it is the default, and every packet has an entry"),
];

/// Metadata that is assigned before it is read, or that is not read, although the parser sets it.
const ASSIGNED: &[&str] = &[
    "port",
    "others",
    "world",
    "group",
    "index",
    "seen",
    "stored",
    "diff",
    "duplicate",
    "missing",
    "up",
    "workers",
    "settled",
    "swap",
    "first",
    "last",
    "reply",
    "x_sign_0",
    "x_sign_1",
    "x_forwarded_index",
    "x_settled_differs",
    "x_version_kind",
    "x_pass",
    "x_port",
    "x_target",
    "x_bad_checksum",
    "x_counts_packets",
    "x_packets_index",
    "x_answers_index",
    "emit",
];

impl Mutant {
    /// Whether the change has no effect, by the lists above.
    fn is_equal(&self, chip: Chip) -> bool {
        let declared =
            |name: &str| self.place == "start" && self.change.contains(&format!("meta.{name} = 0;"));
        let listed = |(place, change, _): &(&str, &str, &str)| {
            self.place.starts_with(place) && self.change.contains(change)
        };
        ASSIGNED.iter().any(|name| declared(name))
            || chip == Chip::Tofino2 && declared("x_harvest")
            || EQUAL.iter().any(listed)
            || EQUAL_WITH
                .iter()
                .any(|(name, place, change, why)| self.text.contains(name) && listed(&(place, change, why)))
    }

    fn is_of_table(&self) -> bool {
        self.change.contains("();")
    }
}

/// Operators, and what they become.
const OPERATORS: &[(&str, &str)] = &[
    (" + ", " - "),
    (" - ", " + "),
    (" & ", " | "),
    (" | ", " & "),
    (" == ", " != "),
    (" > ", " < "),
    (" = ~", " = "),
    ("& ~", "& "),
    ("max(", "min("),
    (" != ", " == "),
    (" && ", " || "),
    (" || ", " && "),
    ("min(", "max("),
    ("setInvalid", "setValid"),
    ("setValid", "setInvalid"),
    ("|+|", "+"),
];

/// Every change of a text.
fn mutants(text: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let place = |at: usize| {
        let words = lines[..at].iter().rev().filter_map(|line| named(line.trim_start()));
        words.map(String::from).next().unwrap_or_default()
    };
    let mut add = |at: usize, change: String, new: Option<String>| {
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
        match new {
            Some(new) => changed[at] = new,
            None => drop(changed.remove(at)),
        }
        found.push(Mutant { line: at + 1, place: place(at), change, text: changed.join("\n") + "\n" });
    };
    let code = lines.iter().position(|line| line.starts_with("parser ")).unwrap();
    for (at, line) in lines.iter().enumerate().skip(code) {
        if line.starts_with("Pipeline(") {
            break;
        }
        let trimmed = line.trim_start();
        if is_entry(trimmed) {
            add(at, format!("without {trimmed}"), None);
            for new in wider_entries(line) {
                add(at, format!("{trimmed} is {}", new.trim_start()), Some(new));
            }
            continue;
        }
        if is_statement(trimmed) {
            add(at, format!("without {trimmed}"), None);
        }
        if let Some(new) = with_another_number(line).filter(|_| is_statement(trimmed)) {
            add(at, format!("{trimmed} is {}", new.trim_start()), Some(new));
        }
        if is_statement(trimmed) || trimmed.starts_with("if (") || trimmed.starts_with("} else if (") {
            for (from, to) in OPERATORS.iter().filter(|(from, _)| line.contains(from)) {
                let new = line.replacen(from, to, 1);
                add(at, format!("{trimmed} is {}", new.trim_start()), Some(new));
            }
        }
    }
    found
}

/// The name that a line declares: of an action, a state, a table or a control.
fn named(line: &str) -> Option<&str> {
    if line.starts_with("RegisterAction") {
        return line.strip_suffix(" = {")?.rsplit(' ').next();
    }
    let words = ["action ", "state ", "table ", "control ", "apply {"];
    let word = words.iter().find(|word| line.starts_with(**word))?;
    if *word == "apply {" {
        return Some("apply");
    }
    line[word.len()..].split(['(', ' ']).next()
}

/// An entry of a table, or a case of a parser.
fn is_entry(line: &str) -> bool {
    line.ends_with(';') && line.contains(": ") && (line.starts_with('(') || line.starts_with("0x"))
}

fn is_statement(line: &str) -> bool {
    let calls =
        ["apply()", "count(", "execute(", "extract(hdr", "emit(", "setValid()", "setInvalid()", "_sum.add("];
    let declares =
        ["bit<", "const ", "size ", "@", "RegisterAction", "void "].iter().any(|word| line.starts_with(word));
    line.ends_with(';') && !declares && (line.contains(" = ") || calls.iter().any(|call| line.contains(call)))
}

/// The entry without one of its conditions, for each.
fn wider_entries(line: &str) -> Vec<String> {
    let (Some(open), Some(close)) = (line.find('('), line.find("): ")) else { return Vec::new() };
    let cells: Vec<&str> = line[open + 1..close].split(", ").collect();
    let wider = |at: usize| {
        let mut cells = cells.clone();
        cells[at] = "_";
        format!("{}({}{}", &line[..open], cells.join(", "), &line[close..])
    };
    (0..cells.len()).filter(|at| cells[*at] != "_").map(wider).collect()
}

/// The statement with its last number changed in one bit.
fn with_another_number(line: &str) -> Option<String> {
    let body = line.strip_suffix(';')?;
    let start = body.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    let word = &body[start..];
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (prefix, digits) =
        word.split_once('w').map_or(("", word), |(bits, digits)| (&word[..bits.len() + 1], digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(format!("{}{prefix}{};", &body[..start], value ^ 1))
}

/// Whether a changed table has another action for a key that was looked up.
fn is_reached(mutant: &Mutant, known: &[Tofino]) -> bool {
    let Ok(changed) = Tofino::new(&mutant.text) else { return true };
    known.iter().any(|tofino| {
        let mut keys = tofino.lookups().iter();
        keys.any(|(table, key)| changed.action_for(table, key) != tofino.action_for(table, key))
    })
}

/// What became of the mutants of a program.
#[derive(Default)]
struct Found {
    mutants: usize,
    /// Of entries whose change concerns no key that was looked up.
    unreached: usize,
    /// Without an effect.
    equal: usize,
    survivors: Vec<Mutant>,
}

/// Plays mutants of a printed program, each until a sequence notices it: one of so many, or all.
fn play(profile: &Profile, chip: Chip, passes: u32, seeds: impl Iterator<Item = u64>, every: usize) -> Found {
    let text = print_in_passes(&allreduce::program(profile).unwrap(), chip, passes).unwrap();
    let trace = |seed| Trace::in_passes(profile, passes as usize, seed, PACKETS);
    let traces: Vec<Trace> = seeds.map(trace).collect();
    let known: Vec<Tofino> = traces.iter().map(|trace| trace.compare(&text).unwrap()).collect();
    let mut found = Found::default();
    let step = if std::env::var_os("MUTANTS").is_some_and(|which| which == "all") { 1 } else { every };
    for mutant in mutants(&text).into_iter().step_by(step) {
        found.mutants += 1;
        if mutant.is_equal(chip) {
            found.equal += 1;
        } else if mutant.is_of_table() && !is_reached(&mutant, &known) {
            found.unreached += 1;
        } else if traces.iter().all(|trace| trace.compare(&mutant.text).is_ok()) {
            found.survivors.push(mutant);
        }
    }
    found
}

#[test]
fn every_change_of_a_printed_program_is_noticed() {
    let few = Profile { lane_words: 8, slots: 16, jobs: 4, ..Profile::tofino() };
    let tree = Profile { hierarchy: true, ..few.clone() };
    let programs = [
        ("a root on Tofino 1", Chip::Tofino1, few.clone(), 1, 12, 3),
        ("trees on Tofino 1", Chip::Tofino1, tree.clone(), 1, 30, 12),
        ("trees on Tofino 2", Chip::Tofino2, tree, 1, 30, 6),
        ("three passes on Tofino 2", Chip::Tofino2, Profile { lane_words: 24, ..few.clone() }, 3, 12, 3),
        (
            "saturating sums on Tofino 2",
            Chip::Tofino2,
            Profile { numerics: Numerics::Saturating, ..few.clone() },
            1,
            12,
            3,
        ),
        (
            "sum, min and max on Tofino 2",
            Chip::Tofino2,
            Profile { ops: vec![LaneOp::Sum, LaneOp::Min, LaneOp::Max], ..few.clone() },
            1,
            12,
            3,
        ),
        (
            "owners, queues, trimming and forwarding on Tofino 1",
            Chip::Tofino1,
            Profile { owners: true, priorities: 4, trim_depth: 24, transit: 4, ..few },
            1,
            24,
            9,
        ),
    ];
    for (name, chip, profile, passes, sequences, every) in programs {
        let seeds = (FIRST_SEED..FIRST_SEED + sequences).chain(profile.owners.then_some(TRIMMED_OPTIONS));
        let Found { mutants, unreached, equal, survivors } = play(&profile, chip, passes, seeds, every);
        let noticed = mutants - unreached - equal - survivors.len();
        println!(
            "{name}: {mutants} mutants, {noticed} noticed, {equal} without effect, {unreached} reach no packet"
        );
        let list: Vec<_> =
            survivors.iter().map(|m| format!("{name}, line {}, {}: {}", m.line, m.place, m.change)).collect();
        assert!(list.is_empty(), "not noticed:\n{}", list.join("\n"));
        assert!(noticed * 2 > mutants, "{name}: most changes have an effect");
    }
}
