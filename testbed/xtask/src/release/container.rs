//! The container's file, followed step by step without an engine: from what it copies it must build, without a network, and what it puts
//! into the image must run there.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::root::Root;
use super::source::Offline;
use crate::packages;
use crate::process::run;

/// The file, in the tree.
pub(super) const FILE: &str = "controller/cli/packaging/container/Containerfile";

/// Where it says that the build is.
const BUILT: &str = "/source/target/";

/// What the file says, in the order of its two stages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    /// Paths of the tree, each with where it is copied to.
    copied: Vec<(String, String)>,
    /// Command lines that build.
    build: Vec<String>,
    /// Files of the build, each with its path in the image.
    taken: Vec<(String, String)>,
    /// Command lines that prepare the image.
    prepare: Vec<String>,
    user: String,
    program: String,
}

impl Recipe {
    pub(super) fn read(tree: &Path) -> Result<Self> {
        let text = fs::read_to_string(tree.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        parse(&text).with_context(|| FILE.to_owned())
    }

    /// Copies what the file copies to a folder, and builds there.
    pub(super) fn build(&self, tree: &Path, folder: &Path, offline: &Offline) -> Result<()> {
        fs::create_dir_all(folder)?;
        for (from, to) in &self.copied {
            let (from, to) = (tree.join(from), folder.join(to));
            let mut copy = Command::new("cp");
            // As `COPY` does: the content of a folder, or a file.
            if from.is_dir() {
                copy.arg("--recursive").arg(from.join(".")).arg(&to);
                fs::create_dir_all(&to)?;
            } else {
                copy.arg(&from).arg(&to);
            }
            run(&mut copy)?;
        }
        self.build.iter().try_for_each(|line| offline.run(folder, line))
    }

    /// Fills an image with what the file takes from the build, and runs the program in it as the file's user.
    pub(super) fn try_image(&self, folder: &Path, built: &Path) -> Result<&'static str> {
        let image = Root::new(folder)?;
        for (from, to) in &self.taken {
            let file = from.strip_prefix(BUILT).with_context(|| format!("{from} is not below {BUILT}"))?;
            let installed = folder.join(to.trim_start_matches('/'));
            fs::create_dir_all(installed.parent().context("a file lies in a folder")?)?;
            fs::copy(built.join(file), &installed).with_context(|| format!("cannot take {from}"))?;
            image.lend_libraries(&installed)?;
        }
        if packages::is_root() {
            // What the base image has.
            ["/bin/sh", "/usr/bin/install"].iter().try_for_each(|program| image.lend(program))?;
            for line in &self.prepare {
                image.run("0:0", "/bin/sh", &["-e", "-c", line])?;
            }
        }
        image.run(&self.user, &self.program, &["version"])?;
        image.run(&self.user, &self.program, &["demo", "--workers", "2", "--epochs", "2"])?;
        Ok(Root::how())
    }
}

/// Reads the file; an error names what is not understood.
fn parse(text: &str) -> Result<Recipe> {
    let mut recipe = Recipe::default();
    let mut stage = 0;
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (keyword, rest) = line.split_once(' ').with_context(|| format!("no instruction: {line}"))?;
        match (keyword, stage) {
            ("FROM", _) => stage += 1,
            ("WORKDIR", 1) if BUILT.starts_with(&format!("{rest}/")) => {}
            ("COPY", 1) => recipe.copied.extend(copies(rest)?),
            ("COPY", 2) => {
                let rest = rest.strip_prefix("--from=build ").with_context(|| format!("no stage: {line}"))?;
                recipe.taken.extend(copies(rest)?);
            }
            ("RUN", 1) => recipe.build.push(rest.to_owned()),
            ("RUN", 2) => recipe.prepare.push(rest.to_owned()),
            ("USER", 2) => recipe.user = rest.to_owned(),
            ("ENTRYPOINT", 2) => {
                let words: Vec<String> = serde_json::from_str(rest).with_context(|| line.to_owned())?;
                recipe.program = words.into_iter().next().with_context(|| format!("no program: {line}"))?;
            }
            ("VOLUME" | "EXPOSE", 2) => {}
            _ => bail!("an instruction that is not tried: {line}"),
        }
    }
    if stage != 2 || recipe.copied.is_empty() || recipe.taken.is_empty() || recipe.program.is_empty() {
        bail!("it does not build in one stage and copy a program in a second");
    }
    Ok(recipe)
}

/// The sources of a `COPY`, each with its destination; a destination that ends with a slash is a folder.
fn copies(words: &str) -> Result<Vec<(String, String)>> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let Some((to, from)) = words.split_last().filter(|(_, from)| !from.is_empty()) else {
        bail!("COPY needs a source and a destination: {}", words.join(" "));
    };
    Ok(from.iter().map(|from| ((*from).to_owned(), (*to).to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn every_path_of_the_container_is_in_the_tree() {
        let recipe = Recipe::read(tree::root()).unwrap();
        for (from, _) in &recipe.copied {
            assert!(tree::root().join(from).exists(), "{from}");
        }
        assert!(recipe.copied.iter().any(|(from, _)| from == ".cargo"), "vendored crates are below .cargo");
        assert!(recipe.build[0].contains("--locked"), "{recipe:?}");
        assert_eq!(recipe.taken.len(), 1);
        assert!(recipe.user.split(':').all(|id| id.parse::<u32>().is_ok()), "{recipe:?}");
    }

    #[test]
    fn instructions_that_are_not_tried_are_refused() {
        let parse = |middle: &str| {
            parse(&format!(
                "FROM rust AS build\nCOPY a b ./\nRUN make \\\n  all\nFROM debian\nCOPY --from=build /source/target/x /x\n{middle}\nENTRYPOINT [\"/x\"]\n"
            ))
        };
        let recipe = parse("USER 1:1").unwrap();
        assert_eq!(recipe.copied, [("a", "./"), ("b", "./")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!((recipe.build[0].as_str(), recipe.user.as_str()), ("make    all", "1:1"));
        assert!(parse("ADD x y").unwrap_err().to_string().contains("ADD x y"));
        assert!(parse("COPY x /y").is_err());
        assert!(super::parse("FROM debian\n").is_err());
    }
}
