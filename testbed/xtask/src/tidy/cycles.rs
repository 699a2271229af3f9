//! Cycles between the modules of a package.
//!
//! Modules are those directly below a package's root, with everything in them. Left out are tests, the edges of modules named `error`,
//! whose types name what they are about, and edges that are constants alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::source::{self, Source};

/// The modules that each module of a package uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Modules that use each other.
pub(super) fn check() -> Result<Vec<String>> {
    let mut packages: BTreeMap<String, Graph> = BTreeMap::new();
    for source in source::all()? {
        let Some((package, module)) = place(&source.path) else { continue };
        let mut uses = uses(&source);
        uses.remove(&module);
        packages.entry(package).or_default().entry(module).or_default().extend(uses);
    }
    let mut problems = Vec::new();
    for (package, mut graph) in packages {
        let modules: BTreeSet<String> = graph.keys().cloned().collect();
        graph.values_mut().for_each(|used| used.retain(|module| modules.contains(module)));
        problems.extend(cycle(graph).map(|modules| {
            format!(
                "{package}: modules use each other: {}; move what both use to a third",
                modules.join(", ")
            )
        }));
    }
    Ok(problems)
}

/// The folder of a source's package, and its module below the root; `None` for roots, tests and errors.
fn place(path: &Path) -> Option<(String, String)> {
    let path = path.to_str()?;
    let (package, inner) = path.split_once("/src/")?;
    let inner = inner.strip_suffix(".rs")?;
    let is_test = inner.split('/').any(|part| part == "tests" || part.ends_with("_tests"));
    let module = inner.split('/').next()?;
    (!is_test && !["lib", "main", "error"].contains(&module)).then(|| (package.to_owned(), module.to_owned()))
}

/// The modules, or names at the root, that the code of a source uses, constants and inline tests left out.
fn uses(source: &Source) -> BTreeSet<String> {
    let code = source.code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut used = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            Some(group) => used.extend(members(group).filter_map(module)),
            None => {
                let end = rest.find(|letter| !is_word(letter) && letter != ':').unwrap_or(rest.len());
                let is_group = rest[end..].starts_with('{');
                let end = if is_group { rest.find(';').unwrap_or(end) } else { end };
                used.extend(module(&rest[..end]));
            }
        }
    }
    used
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The paths of a group, up to its closing brace.
fn members(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut found = Vec::new();
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            ',' if depth == 0 => {
                found.push(&group[start..at]);
                start = at + 1;
            }
            '}' if depth == 0 => {
                found.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found.into_iter()
}

/// The module of a path, unless the path leads to constants alone.
fn module(path: &str) -> Option<String> {
    let (module, rest) = path.trim().split_once("::").unwrap_or((path.trim(), ""));
    let module: String = module.chars().take_while(|letter| is_word(*letter)).collect();
    let mut names = rest.split(|letter| !is_word(letter)).filter(|name| !name.is_empty()).peekable();
    let is_constant = |name: &str| !name.contains(|letter: char| letter.is_lowercase());
    let only_constants = names.peek().is_some() && names.all(is_constant);
    (!module.is_empty() && !only_constants).then_some(module)
}

/// The modules that remain when those that use none, or that none uses, are removed until there are no more.
fn cycle(mut graph: Graph) -> Option<Vec<String>> {
    loop {
        let used: BTreeSet<String> = graph.values().flatten().cloned().collect();
        let before = graph.len();
        graph.retain(|module, uses| used.contains(module) && !uses.is_empty());
        let left: BTreeSet<String> = graph.keys().cloned().collect();
        graph.values_mut().for_each(|uses| uses.retain(|module| left.contains(module)));
        if graph.len() == before {
            return (!graph.is_empty()).then(|| left.into_iter().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used_by(code: &str) -> Vec<String> {
        let source = Source { path: "a/src/b.rs".into(), text: code.into(), code: code.into() };
        uses(&source).into_iter().collect()
    }

    #[test]
    fn modules_are_found_in_paths_and_groups() {
        let code = "use crate::one::{First, Second};\nuse crate::{two::Third, three};\nfn f(x: crate::four::Fourth) { crate::five::g() }\n";
        assert_eq!(used_by(code), ["five", "four", "one", "three", "two"]);
    }

    #[test]
    fn constants_and_tests_are_no_edges() {
        let code = "use crate::one::A_MAX;\nuse crate::two::{Other, c};\n#[cfg(test)]\nmod tests { use crate::three; }\n";
        assert_eq!(used_by(code), ["two"]);
    }

    #[test]
    fn only_cycles_remain() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
                graph.entry((*to).to_owned()).or_default();
            }
            graph
        };
        assert_eq!(cycle(graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
        assert_eq!(cycle(graph(&[("a", "b"), ("b", "c"), ("c", "b")])), Some(vec!["b".into(), "c".into()]));
    }
}
