//! Instructions and labels, as text for the software pipeline.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Surroundings;

/// The target of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label(u32);

pub(super) enum Line {
    /// What was removed.
    Nothing,
    Label(Label),
    /// An instruction, and where it jumps to.
    Do {
        mnemonic: String,
        target: Option<Label>,
        operands: Vec<String>,
    },
}

/// A list of instructions. Jumps go forward only.
#[derive(Default)]
pub(super) struct Code {
    pub(super) lines: Vec<Line>,
    labels: u32,
}

impl Code {
    /// A label that is nowhere yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Puts the label here.
    pub(super) fn put(&mut self, label: Label) {
        self.lines.push(Line::Label(label));
    }

    /// Appends an instruction that is no jump.
    pub(super) fn run(&mut self, text: impl AsRef<str>) {
        let mut words = text.as_ref().split_whitespace().map(str::to_owned);
        let mnemonic = words.next().unwrap_or_default();
        self.lines.push(Line::Do { mnemonic, target: None, operands: words.collect() });
    }

    /// Appends a jump: its mnemonic, and the operands behind the target.
    pub(super) fn jump(&mut self, mnemonic: &str, target: Label, operands: &str) {
        self.lines.push(Line::Do {
            mnemonic: mnemonic.to_owned(),
            target: Some(target),
            operands: operands.split_whitespace().map(str::to_owned).collect(),
        });
    }

    /// Puts instructions that are no jumps in front.
    pub(super) fn prepend(&mut self, texts: impl Iterator<Item = String>) {
        let mut first = Self { labels: self.labels, ..Self::default() };
        texts.for_each(|text| first.run(text));
        first.lines.append(&mut self.lines);
        *self = first;
    }

    /// The places that instructions write, of those that compute.
    pub(super) fn written_places(&self) -> BTreeSet<String> {
        self.operands(0..1)
    }

    /// The variables that instructions read.
    pub(super) fn read_places(&self) -> BTreeSet<String> {
        let mut read = self.operands(1..usize::MAX);
        for line in &self.lines {
            if let Line::Do { mnemonic, operands, .. } = line
                && mnemonic != "mov"
            {
                read.extend(operands.first().cloned());
            }
        }
        read.retain(|word| word.starts_with("m."));
        read
    }

    fn operands(&self, range: std::ops::Range<usize>) -> BTreeSet<String> {
        let of = |line: &Line| match line {
            Line::Do { operands, .. } => operands.clone(),
            Line::Label(_) | Line::Nothing => Vec::new(),
        };
        let chosen = self
            .lines
            .iter()
            .map(of)
            .flat_map(|operands| operands.into_iter().skip(range.start).take(range.end - range.start));
        chosen.collect()
    }

    /// Leaves out what need not be executed: values that are not used, and where `decides`, those that are known, and jumps whose outcome is.
    pub(super) fn improve(&mut self, around: &Surroundings, decides: bool) {
        // Each round leaves fewer instructions.
        let mut before = usize::MAX;
        while self.lines.len() < before {
            before = self.lines.len();
            if decides {
                self.decide(around);
            }
            self.remove_dead(around);
            self.thread();
            while self.shorten() {}
        }
    }

    /// The instructions, one a line: without those that are never reached, labels that are not used, and jumps to the next instruction. At most
    /// one label stands before an instruction.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.thread();
        while self.shorten() {}
        let same = self.merged();
        let mut used: Vec<Label> =
            self.lines.iter().filter_map(Line::target).map(|label| same[&label]).collect();
        used.sort();
        used.dedup();
        let (mut text, mut pending) = (Vec::new(), None);
        for line in &self.lines {
            match line {
                Line::Nothing => {}
                Line::Label(label) => pending = pending.or(Some(same[label])),
                Line::Do { mnemonic, target, operands } => {
                    let prefix = match pending.take().filter(|label| used.binary_search(label).is_ok()) {
                        Some(label) => format!("L{} : ", label.0),
                        None => String::new(),
                    };
                    let target = target.map_or(String::new(), |target| format!(" L{}", same[&target].0));
                    let operands: String = operands.iter().map(|word| format!(" {word}")).collect();
                    text.push(format!("{prefix}{mnemonic}{target}{operands}"));
                }
            }
        }
        text
    }

    /// Directs jumps to an unconditional jump to where that goes.
    fn thread(&mut self) {
        // From the end: what a label leads to is further down, and known.
        let mut leads: BTreeMap<Label, Label> = BTreeMap::new();
        let mut next = None;
        for line in self.lines.iter_mut().rev() {
            match line {
                Line::Nothing => {}
                Line::Label(label) => {
                    if let Some(to) = next {
                        leads.insert(*label, to);
                    }
                }
                Line::Do { mnemonic, target, .. } => {
                    if let Some(target) = target
                        && let Some(to) = leads.get(target)
                    {
                        *target = *to;
                    }
                    next = target.filter(|_| mnemonic == "jmp");
                }
            }
        }
    }

    /// The first label of each run of labels, by every label of it.
    fn merged(&self) -> BTreeMap<Label, Label> {
        let (mut same, mut first) = (BTreeMap::new(), None);
        for line in &self.lines {
            match line {
                Line::Label(label) => {
                    same.insert(*label, *first.get_or_insert(*label));
                }
                Line::Do { .. } => first = None,
                Line::Nothing => {}
            }
        }
        same
    }

    /// Removes jumps to the next instruction, labels without a jump, and what follows an unconditional end up to the next label; whether anything was.
    fn shorten(&mut self) -> bool {
        let before = self.lines.len();
        let targets: std::collections::BTreeSet<Label> = self.lines.iter().filter_map(Line::target).collect();
        let mut kept: Vec<Line> = Vec::with_capacity(before);
        let next = self.next_labels();
        let mut reached = true;
        for (line, next) in std::mem::take(&mut self.lines).into_iter().zip(next) {
            match &line {
                Line::Nothing => continue,
                Line::Label(label) if !targets.contains(label) => continue,
                Line::Label(_) => reached = true,
                Line::Do { .. } if !reached => continue,
                Line::Do { target: Some(target), .. } if next.contains(target) => continue,
                Line::Do { .. } => reached = !line.ends(),
            }
            kept.push(line);
        }
        self.lines = kept;
        self.lines.len() < before
    }
}

impl Code {
    /// The labels between each line and the next instruction.
    fn next_labels(&self) -> Vec<Vec<Label>> {
        let mut next = vec![Vec::new(); self.lines.len()];
        for index in (1..self.lines.len()).rev() {
            if let Line::Label(label) = &self.lines[index] {
                next[index - 1] = next[index].clone();
                next[index - 1].push(*label);
            }
        }
        next
    }
}

impl Line {
    /// Whether the instruction behind it is executed only where another jumps to it.
    pub(super) fn ends(&self) -> bool {
        matches!(self, Self::Do { mnemonic, .. } if matches!(&**mnemonic, "jmp" | "drop" | "tx" | "return"))
    }

    fn target(&self) -> Option<Label> {
        match self {
            Self::Do { target, .. } => *target,
            Self::Label(_) | Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn labels_are_merged_and_dead_code_removed() {
        let mut code = Code::default();
        let (a, b, unused) = (code.label(), code.label(), code.label());
        code.run("rx m.port");
        code.jump("jmpeq", a, "m.port 0x1");
        code.jump("jmp", b, "");
        code.run("mov m.port 0x2");
        code.put(unused);
        code.put(a);
        code.put(b);
        code.run("tx 0x0");
        assert_eq!(code.finish(), ["rx m.port", "tx 0x0"]);

        let mut code = Code::default();
        let (a, b) = (code.label(), code.label());
        code.jump("jmpeq", a, "m.port 0x1");
        code.jump("jmpv", b, "h.udp");
        code.run("tx 0x1");
        code.put(a);
        code.put(b);
        code.run("drop");
        assert_eq!(code.finish(), ["jmpeq L1 m.port 0x1", "jmpv L1 h.udp", "tx 0x1", "L1 : drop"]);
    }
}
