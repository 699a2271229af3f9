//! What is known where: values that are there already are not computed again, and jumps whose outcome is known are decided.
//!
//! Every jump goes forward, so one pass over the instructions meets each behind all that lead to it. A value is written as the expression it was computed
//! by, over places that have not changed since.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{Code, Label, Line};
use super::expr::mask;
use super::liveness::VIRTUAL;

/// Intermediate results that are known at a time, at most.
const RESULTS_KEPT: u32 = 256;

/// What the instruction `table` does to variables: the actions of each table.
#[derive(Debug, Default, Clone)]
pub(super) struct Effect {
    /// Variables that it reads: keys, and operands of actions.
    pub(super) reads: BTreeSet<String>,
    /// Variables and fields that an action may write, and those that every action writes.
    pub(super) may_write: BTreeSet<String>,
    pub(super) writes: BTreeSet<String>,
}

/// What the passes know of a program.
#[derive(Debug, Default, Clone)]
pub(super) struct Surroundings {
    pub(super) tables: BTreeMap<String, Effect>,
    /// Widths of metadata.
    pub(super) widths: BTreeMap<String, u32>,
}

impl Surroundings {
    /// Width of a place in bits: of a field of a header 64, the most that it can be.
    pub(super) fn bits(&self, place: &str) -> u32 {
        match self.widths.get(place) {
            Some(bits) => *bits,
            None if place.starts_with("m.x_v32_") || place.starts_with("e.") => 32,
            None => 64,
        }
    }
}

/// An expression over places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    text: String,
    /// The places in it.
    of: BTreeSet<String>,
    constant: Option<u64>,
}

/// What holds before an instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// Values of places.
    values: BTreeMap<String, Known>,
    /// The place that had a value first, and has it still.
    holders: BTreeMap<String, String>,
    /// Outcomes of comparisons, and whether headers are valid; with the places in them.
    outcomes: BTreeMap<String, (bool, BTreeSet<String>)>,
}

pub(super) fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// The header of a field `h.HEADER.FIELD`.
fn header_of(place: &str) -> Option<&str> {
    place.strip_prefix("h.")?;
    place.rsplit_once('.').map(|(header, _)| header).filter(|header| header.len() > 2)
}

/// The intermediate result that is forgotten when this one is computed, so that the passes take time in proportion to the program.
fn superseded(place: &str) -> Option<String> {
    let (width, number) = place.strip_prefix(VIRTUAL)?.split_once('_')?;
    let old = number.parse::<u32>().ok()?.checked_sub(RESULTS_KEPT)?;
    Some(format!("{VIRTUAL}{width}_{old}"))
}

impl State {
    fn known(&self, word: &str) -> Known {
        if let Some(value) = number(word) {
            return Known { text: format!("{value:#x}"), of: BTreeSet::new(), constant: Some(value) };
        }
        let itself = || Known { text: word.into(), of: [word.to_owned()].into(), constant: None };
        self.values.get(word).cloned().unwrap_or_else(itself)
    }

    /// Forgets what depends on a place.
    fn forget(&mut self, place: &str) {
        self.values.remove(place);
        self.values.retain(|_, known| !known.of.contains(place));
        self.holders.retain(|_, holder| holder != place);
        let values = &self.values;
        self.holders.retain(|_, holder| values.contains_key(holder));
        self.outcomes.retain(|_, (_, of)| !of.contains(place));
    }

    fn forget_all(&mut self, is_lost: impl Fn(&str) -> bool) {
        let places: BTreeSet<String> = self
            .values
            .iter()
            .flat_map(|(place, known)| known.of.iter().chain([place]))
            .chain(self.outcomes.values().flat_map(|(_, of)| of))
            .filter(|place| is_lost(place))
            .cloned()
            .collect();
        places.iter().for_each(|place| self.forget(place));
    }

    fn set(&mut self, place: &str, value: Known) {
        self.forget(place);
        if value.of.contains(place) || place.starts_with("h.") && value.constant.is_none() {
            return;
        }
        self.holders.entry(value.text.clone()).or_insert_with(|| place.to_owned());
        self.values.insert(place.to_owned(), value);
        if let Some(old) = superseded(place) {
            self.forget(&old);
        }
    }

    /// The place to read in place of `word`: the first that has its value.
    fn reading(&self, word: &str) -> Option<String> {
        let value = self.values.get(word).filter(|value| value.constant.is_none())?;
        // A field that was copied is read itself.
        let itself = (value.of.len() == 1 && value.of.contains(&value.text)).then(|| value.text.clone());
        itself.or_else(|| self.holders.get(&value.text).cloned()).filter(|place| place != word)
    }

    fn merge(&mut self, other: &Self) {
        self.values.retain(|place, value| other.values.get(place) == Some(value));
        let values = &self.values;
        self.holders
            .retain(|value, holder| other.holders.get(value) == Some(holder) && values.contains_key(holder));
        self.outcomes.retain(|name, outcome| other.outcomes.get(name) == Some(outcome));
        // What has a value may hold it from here on.
        for (place, value) in &self.values {
            self.holders.entry(value.text.clone()).or_insert_with(|| place.clone());
        }
    }

    /// The comparison that a jump makes, whether it jumps where that holds, and its places.
    fn comparison(&self, mnemonic: &str, operands: &[String]) -> Option<(String, bool, BTreeSet<String>)> {
        if let [header] = operands {
            let sense = match mnemonic {
                "jmpv" => true,
                "jmpnv" => false,
                _ => return None,
            };
            return Some((format!("valid {header}"), sense, [format!("{header}.")].into()));
        }
        let [left, right] = operands else { return None };
        let (left, right) = (self.known(left), self.known(right));
        let of = left.of.union(&right.of).cloned().collect();
        let (name, sense) = match mnemonic {
            "jmpeq" => (format!("{} == {}", left.text, right.text), true),
            "jmpneq" => (format!("{} == {}", left.text, right.text), false),
            "jmplt" => (format!("{} > {}", right.text, left.text), true),
            "jmpgt" => (format!("{} > {}", left.text, right.text), true),
            _ => return None,
        };
        Some((name, sense, of))
    }

    /// Whether a jump is taken, if that is known.
    fn outcome(&self, mnemonic: &str, operands: &[String]) -> Option<bool> {
        let (name, sense, _) = self.comparison(mnemonic, operands)?;
        if let Some((holds, _)) = self.outcomes.get(&name) {
            return Some(*holds == sense);
        }
        let [left, right] = operands else { return None };
        let (left, right) = (self.known(left).constant?, self.known(right).constant?);
        Some(match mnemonic {
            "jmpeq" => left == right,
            "jmpneq" => left != right,
            "jmplt" => left < right,
            "jmpgt" => left > right,
            _ => return None,
        })
    }

    fn learn(&mut self, mnemonic: &str, operands: &[String], taken: bool) {
        let Some((name, sense, of)) = self.comparison(mnemonic, operands) else { return };
        self.outcomes.insert(name, (sense == taken, of));
        // Where a place equals a constant, it has that value.
        if let ("jmpeq", true, [place, constant]) | ("jmpneq", false, [place, constant]) =
            (mnemonic, taken, operands)
            && place.starts_with("m.")
            && let Some(value) = number(constant)
            && !self.values.contains_key(place)
        {
            let text = format!("{value:#x}");
            let known = Known { text, of: BTreeSet::new(), constant: Some(value) };
            self.values.insert(place.clone(), known);
        }
    }

    /// The effect of an instruction that is no jump.
    fn after(&mut self, mnemonic: &str, operands: &[String], around: &Surroundings) {
        match (mnemonic, operands) {
            ("mov", [to, from]) => {
                let value = self.known(from);
                let narrow = value.constant.is_none_or(|value| value & !mask(around.bits(to)) != 0);
                if narrow && around.bits(to) < around.bits(from) {
                    // The bits above are lost, if there were any.
                    self.forget(to);
                } else {
                    self.set(to, value);
                }
            }
            ("add" | "sub" | "and" | "or" | "xor" | "shl" | "shr", [to, by]) => {
                let (old, by) = (self.known(to), self.known(by));
                let text = format!("({} {mnemonic}{} {})", old.text, around.bits(to), by.text);
                let of = old.of.union(&by.of).cloned().collect();
                self.set(to, Known { text, of, constant: None });
            }
            ("regrd" | "ckadd" | "rx", [to, ..]) => self.forget(to),
            ("extract" | "validate" | "invalidate", [header]) => {
                let inside = |place: &str| header_of(place) == Some(header) || place == format!("{header}.");
                self.forget_all(inside);
                let valid = mnemonic != "invalidate";
                self.outcomes.insert(format!("valid {header}"), (valid, [format!("{header}.")].into()));
            }
            ("table", [table]) => {
                let effect = around.tables.get(table).cloned().unwrap_or_default();
                effect.may_write.iter().for_each(|place| self.forget(place));
            }
            ("extern", [function]) => {
                let object = function.strip_suffix("run").unwrap_or(function).to_owned();
                self.forget_all(|place| place.starts_with(&object));
            }
            _ => {}
        }
    }
}

/// How many operands of an instruction, from the first on, are not only read.
fn written(mnemonic: &str) -> usize {
    match mnemonic {
        "mov" | "add" | "sub" | "and" | "or" | "xor" | "shl" | "shr" | "regrd" | "regwr" | "regadd" => 1,
        mnemonic if mnemonic.starts_with("jmp") => 0,
        _ => usize::MAX,
    }
}

impl Code {
    /// Reads values where they are already, and decides the jumps whose outcome is known.
    pub(super) fn decide(&mut self, around: &Surroundings) {
        self.label_branches();
        let at = self.positions();
        let mut arriving: BTreeMap<Label, State> = BTreeMap::new();
        // `None` where nothing gets to.
        let mut state = Some(State::default());
        for number in 0..self.lines.len() {
            let mut line = std::mem::replace(&mut self.lines[number], Line::Nothing);
            match &mut line {
                Line::Nothing => {}
                Line::Label(label) => {
                    let before = arriving.remove(label);
                    state = match (state, before) {
                        (Some(mut state), Some(before)) => {
                            state.merge(&before);
                            Some(state)
                        }
                        (state, before) => state.or(before),
                    };
                }
                Line::Do { .. } => match &mut state {
                    None => continue,
                    Some(now) => {
                        let jump = self.decided(&mut line, now, &at, around);
                        if let Some((to, there)) = jump {
                            match arriving.get_mut(&to) {
                                Some(before) => before.merge(&there),
                                None => {
                                    arriving.insert(to, there);
                                }
                            }
                        }
                        if line.ends() {
                            state = None;
                        }
                    }
                },
            }
            self.lines[number] = line;
        }
        self.lines.retain(|line| !matches!(line, Line::Nothing));
    }

    /// An instruction as it need be executed where this holds; changes what holds to what does behind it. Returns where it jumps to, if it does, and what
    /// holds there.
    fn decided(
        &self,
        line: &mut Line,
        now: &mut State,
        at: &BTreeMap<Label, usize>,
        around: &Surroundings,
    ) -> Option<(Label, State)> {
        let Line::Do { mnemonic, target, operands } = line else { return None };
        for operand in operands.iter_mut().skip(written(mnemonic)) {
            if let Some(other) = now.reading(operand) {
                *operand = other;
            }
        }
        let Some(target) = target else {
            now.after(mnemonic, operands, around);
            return None;
        };
        let mut there = now.clone();
        if mnemonic != "jmp" {
            match now.outcome(mnemonic, operands) {
                Some(false) => {
                    *line = Line::Nothing;
                    return None;
                }
                Some(true) => {
                    *mnemonic = "jmp".into();
                    operands.clear();
                }
                None => {
                    there.learn(mnemonic, operands, true);
                    now.learn(mnemonic, operands, false);
                }
            }
        }
        *target = self.led_to(*target, &there, at);
        Some((*target, there))
    }

    /// Where a jump to a label leads, past the jumps there whose outcome is known.
    fn led_to(&self, mut label: Label, there: &State, at: &BTreeMap<Label, usize>) -> Label {
        while let Some(from) = at.get(&label) {
            let mut lines = self.lines[*from..].iter().skip_while(|line| matches!(line, Line::Label(_)));
            let (Some(Line::Do { mnemonic, target: Some(target), operands }), next) =
                (lines.next(), lines.next())
            else {
                break;
            };
            let taken = if mnemonic == "jmp" { Some(true) } else { there.outcome(mnemonic, operands) };
            label = match (taken, next) {
                (Some(true), _) => *target,
                (Some(false), Some(Line::Label(next))) => *next,
                _ => break,
            };
        }
        label
    }

    /// Puts a label behind every conditional jump.
    fn label_branches(&mut self) {
        let mut lines = Vec::with_capacity(2 * self.lines.len());
        for line in std::mem::take(&mut self.lines) {
            let branches = matches!(&line, Line::Do { target: Some(_), mnemonic, .. } if mnemonic != "jmp");
            lines.push(line);
            if branches {
                lines.push(Line::Label(self.label()));
            }
        }
        self.lines = lines;
    }

    fn positions(&self) -> BTreeMap<Label, usize> {
        let label = |(at, line): (usize, &Line)| match line {
            Line::Label(label) => Some((*label, at)),
            _ => None,
        };
        self.lines.iter().enumerate().filter_map(label).collect()
    }
}
