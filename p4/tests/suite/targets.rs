//! Programs printed for Tofino and for NICs: accepted by the real compilers, and refused where they cannot fit.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use netfold_p4::estimate::estimate;
use netfold_p4::ir::{Expr, HeaderId, LValue, Program, Stmt};
use netfold_p4::profile::{self, Encapsulation, Numerics, Profile};
use netfold_p4::refusal::{PrintError, Refusal};
use netfold_p4::tna::{self, Chip};
use netfold_p4::{allreduce, pna, swx, xdp};
use netfold_wire::{LaneOp, LaneOps};
use serde_json::{Map, Value, json};

/// The program for a NIC; `None` if PNA refuses it.
pub(crate) fn print_pna(program: &Program) -> Option<String> {
    pna::print(program).ok()
}

/// The program for each chip that does not refuse it, by target.
pub(crate) fn print_tna(program: &Program) -> Vec<(&'static str, String)> {
    let chips = [Chip::Tofino1, Chip::Tofino2].into_iter();
    chips.filter_map(|chip| Some((target(chip), tna::print(program, chip).ok()?))).collect()
}

fn target(chip: Chip) -> &'static str {
    match chip {
        Chip::Tofino1 => "tna",
        Chip::Tofino2 => "t2na",
    }
}

fn programs() -> Vec<(&'static str, Program)> {
    let named = profile::named().into_iter();
    named.map(|named| (named.name, allreduce::program(&named.profile).unwrap())).collect()
}

/// The programs for NICs, by profile.
fn nics() -> Vec<(&'static str, String)> {
    let all = programs().into_iter();
    all.filter_map(|(name, program)| Some((name, print_pna(&program)?))).collect()
}

/// The programs for Tofino, by profile and target.
fn tofinos() -> Vec<(&'static str, &'static str, String)> {
    let by_target = |(name, program): (_, Program)| {
        print_tna(&program).into_iter().map(move |(target, text)| (name, target, text))
    };
    programs().into_iter().flat_map(by_target).collect()
}

/// Why PNA refuses a profile.
fn pna_refusal(profile: &Profile) -> Refusal {
    match pna::print(&allreduce::program(profile).unwrap()) {
        Err(PrintError::Refused(refusal)) => refusal,
        other => panic!("printed or invalid: {:?}", other.map(|text| text.len())),
    }
}

/// Runs a compiler on `text`; `None` when it is absent. It must succeed without output.
fn compile(tool: &str, args: &[&str], name: &str, text: &str) -> Option<PathBuf> {
    if Command::new(tool).arg("--version").output().is_err() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return None;
    }
    let dir = env::temp_dir().join(format!("netfold-targets-{}-{tool}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let source = dir.join(format!("{name}.p4"));
    let out = dir.join(format!("{name}.out"));
    fs::write(&source, text).unwrap();
    let output = Command::new(tool).args(args).arg(&source).arg("-o").arg(&out).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.is_empty(), "{tool} {name}: {stderr}");
    fs::remove_file(&source).unwrap();
    Some(out)
}

#[test]
fn the_nic_compilers_accept_every_nic_program() {
    for (name, text) in nics() {
        let Some(spec) = compile("p4c-dpdk", &["--arch", "pna"], name, &text) else { return };
        expect_within_dpdk_limits(name, &fs::read_to_string(spec).unwrap());
    }
}

/// Checks the limits that DPDK's pipeline has for the specification that the compiler wrote.
fn expect_within_dpdk_limits(name: &str, spec: &str) {
    let arrays = spec.lines().filter(|line| line.starts_with("regarray ")).count();
    assert!(arrays <= pna::REGISTER_ARRAYS_MAX, "{name}: {arrays} register arrays");
    let mut structure = String::new();
    let mut bits = 0;
    for line in spec.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("struct ") {
            structure = rest.to_string();
            bits = 0;
        } else if let Some(width) = line.strip_prefix("bit<").and_then(|rest| rest.split('>').next()) {
            bits += width.parse::<u32>().unwrap();
            assert!(
                bits <= 8 * 256,
                "{name}: {structure} is larger than the 256 bytes that an instruction reaches"
            );
        }
    }
}

#[test]
fn nics_refuse_unsupported_features() {
    let nic = profile::by_name("nic").unwrap();
    let program = |ecn_depth| allreduce::program(&Profile { ecn_depth, ..nic.clone() }).unwrap();
    assert_eq!(pna::print(&program(16)).unwrap(), pna::print(&program(0)).unwrap(), "it never marks");
    let trims = allreduce::program(&Profile { trim_depth: 16, ..nic.clone() }).unwrap();
    assert_eq!(pna::print(&trims).unwrap(), pna::print(&program(0)).unwrap(), "it never trims");
    let refused = pna_refusal(&Profile { encapsulation: Encapsulation::Datagram, ..nic.clone() });
    assert!(refused.construct.contains("datagrams"), "{refused}");
    let refused = pna_refusal(&Profile { lane_words: 352, ..nic.clone() });
    assert!(refused.construct.contains("352 lanes") && refused.limit.contains("256"), "{refused}");
    let with = |op| Profile { ops: vec![LaneOp::Sum, op], ..nic.clone() };
    let bits = pna::print(&allreduce::program(&with(LaneOp::And)).unwrap()).unwrap();
    assert!(bits.contains("meta.x_old0 = meta.x_old0 & hdr."));
    for packed in [LaneOp::Sum16, LaneOp::Max8] {
        let refused = pna_refusal(&with(packed));
        assert!(refused.construct.contains(packed.name()) && refused.limit.contains("words"), "{refused}");
    }
    // The profiles that fit, whatever their lanes are. The compiler's own figure for `hardware` is 406 bytes.
    let fits = |name: &str| {
        profile::by_name(name)
            .is_some_and(|profile| pna::print(&allreduce::program(&profile).unwrap()).is_ok())
    };
    assert!(fits("nic") && fits("tofino"));
    let refused = pna_refusal(&Profile::hardware());
    assert!(refused.construct.contains("bytes of metadata") && refused.limit.contains("256"), "{refused}");
    // One register array for each lane, and seven more for the other registers and counters.
    let printed =
        |lane_words| pna::print(&allreduce::program(&Profile { lane_words, ..nic.clone() }).unwrap());
    assert!(printed(249).is_ok());
    assert!(printed(250).is_err());
}

/// The chips' architecture, where a source tree of p4c holds it.
fn tofino_includes() -> Option<PathBuf> {
    env::var_os("P4C_TOFINO_INCLUDE").map(PathBuf::from).filter(|dir| dir.join("tna.p4").exists())
}

/// p4c's front end knows the chips' architecture: it finds wrong names and types, but does not check resources.
#[test]
fn the_tofino_front_end_accepts_every_tofino_program() {
    let Some(includes) = tofino_includes() else {
        println!("skipped: P4C_TOFINO_INCLUDE does not name a directory with tna.p4 (see p4.org)");
        return;
    };
    if Command::new("p4test").arg("--version").output().is_err() {
        println!("skipped: p4test is not on PATH (see p4.org)");
        return;
    }
    let dir = env::temp_dir().join(format!("netfold-targets-{}-p4test", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    for (name, target, text) in tofinos() {
        let source = dir.join(format!("{name}.{target}.p4"));
        fs::write(&source, text).unwrap();
        let chip = if target == "tna" { 1 } else { 2 };
        let output = Command::new("p4test")
            .arg(format!("-D__TARGET_TOFINO__={chip}"))
            .arg("-I")
            .arg(&includes)
            .arg(&source)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{}: {stderr}", source.display());
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// A program for Tofino whose features the compiler and the assembler must accept; `bfrt`: the committed description of its tables, if they are compared.
struct Compiled {
    name: &'static str,
    chip: Chip,
    profile: Profile,
    bfrt: Option<&'static str>,
}

/// The named profiles that print for Tofino, and programs with every feature at the most words.
fn compiled() -> Vec<Compiled> {
    let base = Profile::tofino();
    let words = |lane_words| Profile { lane_words, ..base.clone() };
    let featured =
        |profile| Profile { owners: true, trim_depth: 16, transit: 1024, priorities: 4, ..profile };
    let tree = |lane_words| Profile { hierarchy: true, ..words(lane_words) };
    let saturating = |profile| Profile { numerics: Numerics::Saturating, ..profile };
    let several = |lane_words| Profile { slots: 1024, ..words(lane_words) };
    let ops = |ops: &[LaneOp], lane_words| Profile { ops: ops.to_vec(), ..words(lane_words) };
    let three = &[LaneOp::Sum, LaneOp::Min, LaneOp::Max];
    let (one, two) = (Chip::Tofino1, Chip::Tofino2);
    let list = [
        ("tofino", one, base.clone(), Some("tofino.json")),
        ("tofino", two, base.clone(), Some("tofino.json")),
        ("queues", one, Profile { priorities: 4, ..words(70) }, None),
        ("features", one, featured(words(14)), Some("features.json")),
        ("sum_max", one, ops(&[LaneOp::Sum, LaneOp::Max], 62), None),
        ("tree", one, tree(52), None),
        ("features_tree", one, featured(tree(14)), None),
        ("nic", two, profile::by_name("nic").unwrap(), None),
        ("queues", two, Profile { priorities: 4, ..words(84) }, None),
        ("features", two, featured(words(70)), Some("features.json")),
        ("features_tree", two, featured(tree(70)), None),
        ("three_tree", two, Profile { hierarchy: true, ..ops(three, 64) }, None),
        ("passes", two, several(256), None),
        ("passes_tree", two, Profile { hierarchy: true, ..several(256) }, None),
        ("saturating", two, saturating(words(56)), None),
        ("saturating_tree", two, saturating(tree(48)), None),
    ];
    let case = |(name, chip, profile, bfrt)| Compiled { name, chip, profile, bfrt };
    list.into_iter().map(case).collect()
}

/// Stages that an assembly uses.
fn stages(assembly: &str) -> u32 {
    let lines = assembly.lines().filter_map(|line| line.strip_prefix("stage "));
    let numbers = lines.filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    numbers.max().map_or(0, |last| last + 1)
}

/// The whole compiler and the assembler, where they are installed. The compiler accepts programs with more stages than the chip has; the
/// assembler refuses them. `TOFINO_PROGRAM=name` compiles the programs of this name alone.
#[test]
fn the_tofino_compiler_accepts_every_tofino_program() {
    for tool in ["p4c-barefoot", "bfas"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("skipped: {tool} is not on PATH (see p4.org)");
            return;
        }
    }
    let dir = env::temp_dir().join(format!("netfold-targets-{}-tofino", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let only = env::var("TOFINO_PROGRAM").ok();
    for Compiled { name, chip, profile, bfrt } in compiled() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let (arch, start) = (target(chip), Instant::now());
        let text = tna::print(&allreduce::program(&profile).unwrap(), chip).unwrap();
        let target = if arch == "tna" { "tofino" } else { "tofino2" };
        let source = dir.join(format!("{name}.p4"));
        let out = dir.join(format!("{name}.{arch}"));
        fs::write(&source, text).unwrap();
        let run = |command: &mut Command| {
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name} for {target}: {text}");
        };
        let schema = out.with_extension("schema.json");
        let mut compiler = Command::new("p4c-barefoot");
        compiler.args(["--target", target, "--arch", arch, "-o"]).arg(&out);
        run(compiler.arg("--bf-rt-schema").arg(&schema).arg(&source));
        if let Some(committed) = bfrt {
            compare_bfrt(&fs::read(&schema).unwrap(), committed);
        }
        let assembly = out.join("pipe").join(format!("{name}.bfa"));
        run(Command::new("bfas").args(["--target", target, "-o"]).arg(out.join("pipe")).arg(&assembly));
        let used = stages(&fs::read_to_string(&assembly).unwrap());
        let estimated = estimate(&profile, chip).unwrap();
        println!(
            "{name} for {target}: {used} stages, estimated {} of {}; {:.0} s",
            estimated.stages,
            estimated.stages_of,
            start.elapsed().as_secs_f64()
        );
        assert!(used > 0 && used <= estimated.stages_of, "{name} for {target}: {used} stages");
        assert!(used.abs_diff(estimated.stages) <= 1, "{name} for {target}: {used} stages");
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// Compares the compiler's description of the tables that control planes fill, the same for both chips, with the committed one of this name, which the BF Runtime
/// driver is tested against; writes that one where `UPDATE_SNAPSHOTS` is set.
fn compare_bfrt(schema: &[u8], committed: &str) {
    let pick = |value: &Value, names: &[&str]| -> Value {
        let fields = names.iter().filter(|name| !value[**name].is_null());
        fields.map(|name| ((*name).to_owned(), value[*name].clone())).collect::<Map<_, _>>().into()
    };
    let list = |value: &Value, pick: &dyn Fn(&Value) -> Value| -> Value {
        value.as_array().into_iter().flatten().map(pick).collect()
    };
    let field = |field: &Value| pick(field, &["id", "name", "match_type", "type"]);
    let action = |action: &Value| {
        let mut picked = pick(action, &["id", "name"]);
        picked["data"] = list(&action["data"], &field);
        picked
    };
    let all: Value = serde_json::from_slice(schema).unwrap();
    let tables = all["tables"].as_array().unwrap().iter();
    let filled = tables.filter(|table| table["table_type"] == "MatchAction_Direct").map(|table| {
        let mut picked = pick(table, &["id", "name"]);
        picked["key"] = list(&table["key"], &field);
        picked["action_specs"] = list(&table["action_specs"], &action);
        picked
    });
    let reduced = json!({ "schema_version": all["schema_version"], "tables": filled.collect::<Vec<_>>() });
    let text = serde_json::to_string_pretty(&reduced).unwrap() + "\n";
    let committed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bfrt").join(committed);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&committed, &text).unwrap();
    }
    let known = fs::read_to_string(&committed).unwrap();
    assert!(known == text, "{} is not what the compiler says: set UPDATE_SNAPSHOTS=1", committed.display());
}

#[test]
fn tofinos_refuse_programs_that_do_not_fit() {
    let tofino = profile::by_name("tofino").unwrap();
    let refused = |profile: &Profile, chip| match tna::print(&allreduce::program(profile).unwrap(), chip) {
        Err(PrintError::Refused(refusal)) => refusal,
        other => panic!("printed or invalid: {:?}", other.map(|text| text.len())),
    };
    let wide = refused(&Profile { lane_words: 352, ..tofino.clone() }, Chip::Tofino1);
    assert!(wide.construct.contains("352 lanes") && wide.limit.contains("70"), "{wide}");
    let tree = refused(&Profile { hierarchy: true, lane_words: 82, ..tofino.clone() }, Chip::Tofino2);
    assert!(tree.limit.contains("80"), "{tree}");
    let tree = refused(&Profile { hierarchy: true, ..tofino.clone() }, Chip::Tofino1);
    assert!(tree.construct.contains("64 lanes") && tree.limit.contains("52"), "{tree}");
    let sockets = Profile { encapsulation: Encapsulation::Datagram, ecn_depth: 0, ..tofino.clone() };
    assert!(refused(&sockets, Chip::Tofino2).construct.contains("datagrams"));
    let whole = [
        Profile { trim_depth: 16, ..tofino.clone() },
        Profile { owners: true, ..tofino.clone() },
        Profile { transit: 16, ..tofino.clone() },
    ];
    for profile in whole {
        let refusal = refused(&profile, Chip::Tofino1);
        assert!(refusal.construct.contains("330 bytes") && refusal.limit.contains("14 words"), "{refusal}");
        let few = allreduce::program(&Profile { lane_words: 14, ..profile.clone() }).unwrap();
        assert!(tna::print(&few, Chip::Tofino1).is_ok());
        let more = refused(&Profile { lane_words: 16, ..profile.clone() }, Chip::Tofino1);
        assert!(more.construct.contains("138 bytes"), "{more}");
        let more = refused(&Profile { lane_words: 72, ..profile }, Chip::Tofino2);
        assert!(more.construct.contains("362 bytes") && more.limit.contains("70 words"), "{more}");
    }
    let words = refused(&Profile { ops: LaneOps::WORDS.iter().collect(), ..tofino }, Chip::Tofino1);
    assert!(words.construct.contains("register actions of 'sum'"), "{words}");
    let saturating = |lane_words| Profile { numerics: Numerics::Saturating, lane_words, ..tofino.clone() };
    let comparisons = refused(&saturating(32), Chip::Tofino1);
    assert!(
        comparisons.construct.contains("saturating") && comparisons.limit.contains("four"),
        "{comparisons}"
    );
    let lanes = refused(&saturating(64), Chip::Tofino2);
    assert!(lanes.construct.contains("64 lanes") && lanes.limit.contains("56"), "{lanes}");
    let tree = refused(&Profile { hierarchy: true, ..saturating(56) }, Chip::Tofino2);
    assert!(tree.limit.contains("48"), "{tree}");
    let packed = refused(&Profile { ops: vec![LaneOp::Sum, LaneOp::Sum16], ..tofino }, Chip::Tofino2);
    assert!(packed.construct.contains("sum.sum16") && packed.limit.contains("whole words"), "{packed}");
    let bits = allreduce::program(&Profile { ops: vec![LaneOp::Xor], ..tofino }).unwrap();
    assert!(tna::print(&bits, Chip::Tofino1).unwrap().contains("cells.first = cells.first ^ "));
}

#[test]
fn tofino_2_takes_packets_of_up_to_512_words_in_several_passes() {
    let tofino = Profile { slots: 1024, ..Profile::tofino() };
    let printed = |profile: &Profile| tna::print(&allreduce::program(profile).unwrap(), Chip::Tofino2);
    let words = |lane_words| Profile { lane_words, ..tofino.clone() };
    let registers = |text: &str| text.matches("Register<sum_pair_t, bit<16>>(").count();
    let text = printed(&words(256)).unwrap();
    assert_eq!(registers(&text), 32, "64 words in each pass");
    assert!(
        text.contains("Register<sum_pair_t, bit<16>>(8192) sum_00;"),
        "four parts of 1024 slots and two sets"
    );
    assert!(
        text.contains("hdr.ipv4.total_len: ternary") && text.contains("0x43c, 0x428"),
        "the whole length"
    );
    assert_eq!(registers(&printed(&words(84)).unwrap()), 42, "one pass");
    for (profile, construct, limit) in [
        (words(514), "514 lanes", "512 words"),
        (words(86), "86 lanes", "2 to 8 passes"),
        (Profile { slots: 16384, ..words(256) }, "16384 slots in each of 4 passes", "8192 slots"),
        (Profile { owners: true, ..words(256) }, "owners", "one pass"),
        (Profile { transit: 16, ..words(256) }, "forwarding", "one pass"),
        (Profile { trim_depth: 16, ..words(256) }, "trimming", "one pass"),
        (Profile { numerics: Numerics::Saturating, ..words(256) }, "saturating", "one pass"),
    ] {
        match printed(&profile) {
            Err(PrintError::Refused(refusal)) => {
                assert!(refusal.construct.contains(construct) && refusal.limit.contains(limit), "{refusal}")
            }
            other => panic!("{construct}: printed or invalid: {:?}", other.map(|text| text.len())),
        }
    }
    let two = allreduce::program(&words(16)).unwrap();
    assert!(tna::print_in_passes(&two, Chip::Tofino2, 2).is_ok());
    assert!(tna::print_in_passes(&two, Chip::Tofino2, 3).is_err(), "16 words in three parts");
    assert!(tna::print_in_passes(&two, Chip::Tofino1, 2).is_err(), "a chip without several passes");
}

#[test]
fn tofinos_refuse_headers_written_by_the_table_that_admits() {
    let mut program = allreduce::program(&profile::by_name("tofino").unwrap()).unwrap();
    let header =
        program.headers.iter().position(|header| header.fields.iter().any(|field| field.name == "chunk"));
    let header = HeaderId(header.unwrap() as u16);
    let field = program.header(header).fields.iter().position(|field| field.name == "chunk").unwrap() as u16;
    let action = program.actions.iter_mut().find(|action| action.name == "challenge").unwrap();
    action.body.push(Stmt::Assign(LValue::Field(header, field), Expr::Const(1, 32)));
    match tna::print(&program, Chip::Tofino1) {
        Err(PrintError::Refused(refusal)) => assert!(refusal.construct.contains("'challenge'"), "{refusal}"),
        other => panic!("printed or invalid: {:?}", other.map(|text| text.len())),
    }
}

#[test]
fn the_tofino_profile_prints() {
    let program = allreduce::program(&profile::by_name("tofino").unwrap()).unwrap();
    for chip in [Chip::Tofino1, Chip::Tofino2] {
        if let Err(error) = tna::print(&program, chip) {
            panic!("{}: {error}", chip.name());
        }
    }
}

#[test]
fn the_software_pipeline_refuses_what_it_cannot_express_by_name() {
    let refused = |profile: &Profile| match swx::print(&allreduce::program(profile).unwrap()) {
        Err(PrintError::Refused(refusal)) => refusal,
        other => panic!("printed or invalid: {:?}", other.map(|text| text.len())),
    };
    for (name, construct) in [
        ("saturating", "operator + (saturating)"),
        ("wide", "lanes of 16 bits"),
        ("half", "lanes of 16 bits"),
        ("float", "variables of every lane"),
    ] {
        let refused = refused(&profile::by_name(name).unwrap());
        assert!(refused.target == "swx" && refused.construct.contains(construct), "{name}: {refused}");
    }
    let jumbo = refused(&Profile::software(352));
    assert!(jumbo.construct.contains("352 lanes") && jumbo.limit.contains("256"), "{jumbo}");
    for name in ["hardware", "tofino", "nic", "datagram", "queues", "best-effort", "small"] {
        let text = swx::print(&allreduce::program(&profile::by_name(name).unwrap()).unwrap()).unwrap();
        expect_within_dpdk_limits(name, &text);
        // The library ignores the array's name where index and value are numbers.
        let numbers = |line: &&str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.windows(4).any(|w| {
                matches!(w[0], "regadd" | "regwr") && w[2].starts_with("0x") && w[3].starts_with("0x")
            })
        };
        assert_eq!(text.lines().find(numbers), None, "{name}");
    }
}

/// The words of the instructions of a specification's `apply` block, without their labels.
fn instructions(text: &str) -> Vec<Vec<&str>> {
    let apply = text.split_once("apply {").expect("it has instructions").1;
    apply.lines().map(unlabelled).filter(|words| words.len() > 1 || *words == ["drop"]).collect()
}

fn unlabelled(line: &str) -> Vec<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.get(1) == Some(&":") { words[2..].to_vec() } else { words }
}

#[test]
fn registers_as_external_objects_have_more_lanes_and_short_operands() {
    let print = |profile: &Profile| swx::print_with_objects(&allreduce::program(profile).unwrap());
    for words in [64, 352, 2048] {
        let printed = print(&Profile::software(words)).unwrap();
        assert_eq!(printed.lanes_at, swx::INTRINSIC_LEN + 32, "{words}");
        let long = instructions(&printed.text).into_iter().flatten().find(|word| word.len() > 63);
        assert_eq!(long, None, "{words}: DPDK refuses operands of more bytes");
        assert!(!printed.text.contains("regarray sum"), "{words}");
        let used = |name: &str| printed.text.contains(&format!("extern e.{name}.run"));
        assert!(printed.objects.iter().all(|object| used(&object.name)), "{words}");
    }
    match print(&Profile::software(4096)) {
        Err(PrintError::Refused(refusal)) => {
            assert!(refusal.construct.ends_with(" headers") && refusal.limit.contains("64"), "{refusal}");
        }
        other => panic!("{:?}", other.map(|printed| printed.text.len())),
    }
    // As many instructions, or fewer, than those whose registers are the pipeline's.
    let program = allreduce::program(&Profile::software(8)).unwrap();
    let (with, without) = (swx::print_with_objects(&program).unwrap().text, swx::print(&program).unwrap());
    assert!(2 * instructions(&with).len() < instructions(&without).len());
}

#[test]
fn instructions_of_the_software_pipeline_compute_nothing_that_is_there() {
    for name in ["hardware", "queues", "small"] {
        let program = allreduce::program(&profile::by_name(name).unwrap()).unwrap();
        let text = swx::print_with_objects(&program).unwrap().text;
        let all = instructions(&text);
        // The kind of a packet is taken out of its byte where a packet arrives, and for copies: not for each comparison.
        let kinds = all.windows(2).filter(|pair| {
            pair[0][0] == "mov" && pair[0][2] == "h.netfold.version_kind" && pair[1].last() == Some(&"0xf")
        });
        assert!(kinds.count() <= 4, "{name}");
        // An index is compared with the size of the registers once on each way.
        let program_text = all.iter().filter(|words| words[0] == "jmpgt" && words[2] == "m.index").count();
        assert!(program_text <= 4, "{name}: {program_text}");
    }
}

#[test]
fn the_kernel_is_refused_what_it_cannot_express_by_name() {
    let lowered = |profile: &Profile| xdp::lower(&allreduce::program(profile).unwrap());
    let refused = |profile: &Profile| match lowered(profile) {
        Err(PrintError::Refused(refusal)) => refusal,
        other => panic!("lowered or invalid: {:?}", other.map(|xdp| xdp.maps)),
    };
    for (name, construct) in [
        ("datagram", "packets without Ethernet"),
        ("small", "packets without Ethernet"),
        ("wide", "lanes of 16 bits"),
        ("half", "lanes of 16 bits"),
        ("float", "variables of every lane"),
    ] {
        let refused = refused(&profile::by_name(name).unwrap());
        assert!(refused.target == "xdp" && refused.construct.contains(construct), "{name}: {refused}");
    }
    let jumbo = refused(&Profile { lane_words: 2048, ..Profile::hardware() });
    assert!(jumbo.construct.contains("2048 lanes") && jumbo.limit.contains("page"), "{jumbo}");

    // Added lanes behind an access to a register, and registers of several sizes.
    let mut program = allreduce::program(&Profile::hardware()).unwrap();
    program.ingress.push(Stmt::AddLanes);
    let PrintError::Refused(late) = xdp::lower(&program).unwrap_err() else { panic!("it is valid") };
    assert!(late.construct.contains("lanes that are added") && late.limit.contains("lock"), "{late}");
    let mut program = allreduce::program(&Profile::hardware()).unwrap();
    program.registers[1].size = 4;
    let PrintError::Refused(sizes) = xdp::lower(&program).unwrap_err() else { panic!("it is valid") };
    assert!(sizes.construct.contains("register 'version' of 4 entries"), "{sizes}");

    for name in ["hardware", "tofino", "nic", "saturating", "queues", "best-effort"] {
        let xdp = lowered(&profile::by_name(name).unwrap()).unwrap();
        for block in [Some(&xdp.ingress), xdp.egress.as_ref()].into_iter().flatten() {
            let count = block.instructions.len() as i64;
            let jumps = block.instructions.iter().enumerate().filter(|(_, instruction)| instruction.jumps());
            for (at, instruction) in jumps {
                let to = at as i64 + 1 + i64::from(instruction.offset);
                assert!((0..count).contains(&to), "{name}: {at} goes to {to} of {count}");
            }
            assert!(block.origins.iter().all(|origin| origin.first < block.instructions.len()), "{name}");
        }
    }
}
