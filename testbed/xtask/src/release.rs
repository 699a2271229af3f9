//! A release: every artifact, built from a clean tree, installed in an empty place, and tried there.

mod components;
mod container;
mod crates;
mod emulated;
mod report;
mod root;
mod source;
mod tools;
mod trial;
pub(crate) mod versions;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::container::Recipe;
use self::report::Report;
use self::root::Root;
use self::source::Offline;
use crate::metadata;
use crate::package::{deb, wheel};
use crate::packages::{self, AARCH64};
use crate::process::heading;

/// Build every artifact of a release from a clean tree, install each in an empty place, and try it
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Publish nothing; required
    #[arg(long)]
    dry_run: bool,
    /// Only what takes seconds: versions, contents of crates, and the list of components
    #[arg(long, conflicts_with_all = ["dry_run", "install_tools"])]
    check: bool,
    /// Only install the tools that are missing, in cargo's target folder
    #[arg(long, conflicts_with = "dry_run")]
    install_tools: bool,
    /// Leave out artifacts whose tools are missing, rather than fail
    #[arg(long)]
    skip_missing: bool,
    /// Rehearse with files that are not committed
    #[arg(long)]
    allow_dirty: bool,
    /// Folder for the artifacts; target/release-artifacts if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What no command does yet.
const NOT_DONE: &str = "only rehearsals are implemented: add --dry-run. A release is published by hand: date the newest section of \
    CHANGELOG.md, name the repository in [workspace.package], tag the commit, sign SHA256SUMS, upload crates (`cargo publish \
    --workspace`), the wheel and the packages";

/// The folders of a run.
struct Folders {
    /// Artifacts.
    out: PathBuf,
    /// What cargo builds; kept for the next run, which builds what has changed.
    build: PathBuf,
    /// Where artifacts are installed, emptied by each run.
    trial: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check {
        return check();
    }
    if arguments.install_tools {
        return tools::install();
    }
    if !arguments.dry_run {
        bail!(NOT_DONE);
    }
    heading("versions");
    versions::agree()?;
    tools::debian()?;
    if !arguments.allow_dirty {
        source::require_clean()?;
    }
    let folders = Folders::make(arguments.out.as_deref())?;
    let mut report = Report::new(folders.out.clone());
    let staged = sources(&folders, arguments, &mut report)?;
    let tree = command(&folders, &staged, &mut report)?;
    wheels(&folders, &tree, &staged, arguments, &mut report)?;
    heading("crates");
    if crates::registry_answers() {
        crates::rehearse(&folders.trial, &mut report)?;
    } else if arguments.skip_missing {
        report.skip("crates: the registry does not answer".to_owned());
    } else {
        bail!(
            "the registry does not answer, and cargo asks it for each crate: connect, or add --skip-missing"
        );
    }
    heading("checksums");
    source::write_checksums(&folders.out, &report.files(), "SHA256SUMS")?;
    report.enter("SHA256SUMS", "-", "sha256sum --check")?;
    heading("artifacts");
    println!("in {}\n\n{}", folders.out.display(), report.table());
    Ok(())
}

/// What CI runs: it needs neither the network nor tools, and leaves out what needs tools that are absent.
pub(crate) fn check() -> Result<()> {
    heading("release: versions");
    versions::agree()?;
    heading("release: crates");
    let problems = crates::check()?;
    problems.iter().for_each(|problem| println!("{problem}"));
    if !problems.is_empty() {
        bail!("{} problems of crates", problems.len());
    }
    println!("every crate has its licence and readme, and depends on versions of crates that are published");
    heading("release: components");
    if tools::find(tools::CYCLONEDX)?.is_none() {
        println!("skipped the lists of components: there is no {} (`{}`)", tools::CYCLONEDX, tools::INSTALL);
        return Ok(());
    }
    let folder = metadata::target_folder()?.join("release-check");
    renew(&folder)?;
    source::stage(&folder.join("tree"))?;
    components::write_lists(&folder.join("tree"), &[&components::COMMAND, &components::WHEEL], &folder)?;
    println!("lists of components are complete");
    fs::remove_dir_all(folder.join("tree")).context("cannot remove the copy of the tree")
}

impl Folders {
    fn make(out: Option<&Path>) -> Result<Self> {
        let target = metadata::target_folder()?;
        let out = match out {
            Some(out) => std::path::absolute(out)?,
            None => target.join("release-artifacts"),
        };
        // A folder with other files would be taken for that of artifacts.
        if out.exists() && !out.join(MARK).exists() && fs::read_dir(&out)?.next().is_some() {
            bail!(
                "{} has files that are not of a release: remove them, or name another folder",
                out.display()
            );
        }
        renew(&out)?;
        fs::write(out.join(MARK), "Made by cargo xtask release, which removes everything here.\n")?;
        let trial = target.join("release-trial");
        renew(&trial)?;
        Ok(Self { out, build: target.join("release-build"), trial })
    }
}

/// The file that shows that a folder is of a release.
const MARK: &str = ".release";

/// Makes a folder, or empties it.
fn renew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// What was staged beside the source archive.
struct Staged {
    /// Licences of the crates in the command and the libraries, and in the wheel.
    licences: Option<PathBuf>,
    wheel_licences: Option<PathBuf>,
    /// The wheel's components.
    wheel_list: Option<PathBuf>,
}

/// Makes the source archive, the lists of components and the licences.
fn sources(folders: &Folders, arguments: &Arguments, report: &mut Report) -> Result<Staged> {
    heading("sources");
    let parent = folders.trial.join("staging");
    let tree = parent.join(source::name());
    source::stage(&tree)?;
    let mut staged = Staged { licences: None, wheel_licences: None, wheel_list: None };
    let listed = tools::find(tools::CYCLONEDX)?.is_some();
    let licensed = tools::find(tools::ABOUT)?.is_some();
    for (there, tool, what) in
        [(listed, tools::CYCLONEDX, "lists of components"), (licensed, tools::ABOUT, "licences of crates")]
    {
        if !there && arguments.skip_missing {
            report.skip(format!("{what}: there is no {tool} (`{}`)", tools::INSTALL));
        } else if !there {
            bail!("{tool} is not installed, for {what}: run `{}`, or add --skip-missing", tools::INSTALL);
        }
    }
    if listed {
        // It writes beside every manifest: not in what is archived.
        let copy = folders.trial.join("components");
        source::stage(&copy)?;
        let subjects = [&components::COMMAND, &components::WHEEL];
        let lists = components::write_lists(&copy, &subjects, &folders.out)?;
        staged.wheel_list = lists.into_iter().nth(1);
        for subject in subjects {
            report.enter(subject.file, "-", "read: every component has a version, a licence and a purl")?;
        }
        fs::remove_dir_all(copy)?;
    }
    if licensed {
        let command = folders.out.join(components::LICENCES);
        components::write_licences(&tree, components::COMMAND.manifest, &command)?;
        report.enter(components::LICENCES, "packages", "complete: cargo-about --fail")?;
        let wheel = folders.trial.join(components::LICENCES);
        components::write_licences(&tree, components::WHEEL.manifest, &wheel)?;
        (staged.licences, staged.wheel_licences) = (Some(command), Some(wheel));
    }
    source::vendor(&tree)?;
    let archive = folders.out.join(format!("{}.tar.xz", source::name()));
    source::pack(&parent, &source::name(), &archive)?;
    fs::remove_dir_all(parent)?;
    Ok(staged)
}

/// Unpacks the source archive, follows the container's file with it, and packages what that has built. Returns the unpacked tree.
fn command(folders: &Folders, staged: &Staged, report: &mut Report) -> Result<PathBuf> {
    heading("the command, from the source archive");
    let archive = format!("{}.tar.xz", source::name());
    let unpacked = folders.trial.join("source");
    source::unpack(&folders.out.join(&archive), &unpacked)?;
    let tree = unpacked.join(source::name());
    let offline = Offline::new(&folders.trial.join("cargo"), &folders.build)?;
    let recipe = Recipe::read(&tree)?;
    let context = folders.trial.join("container");
    recipe.build(&tree, &context, &offline)?;
    offline.run(&context, "cargo build --release --locked --offline --package netfold-c")?;
    let built = format!("command and library built {}", offline.how());
    report.enter(&archive, "an empty folder", &built)?;
    let place = recipe.try_image(&folders.trial.join("image"), &folders.build)?;
    fs::copy(tree.join(container::FILE), folders.out.join("Containerfile"))?;
    report.enter("Containerfile", place, "its steps followed; demo as its user")?;
    heading("Debian packages");
    if !trial::has_maintainer() {
        report.skip("the maintainer of Debian packages: DEBFULLNAME and DEBEMAIL are not set".to_owned());
    }
    let release = folders.build.join("release");
    let package = deb::build(&deb::Arguments {
        out: Some(folders.out.clone()),
        binary: Some(release.join("netfold")),
        compression: "xz".to_owned(),
        licences: staged.licences.clone(),
    })?;
    let tried = trial::command(&package, &folders.trial.join("root"))?;
    report.enter(&file_name(&package), Root::how(), &tried)?;
    let packages = deb::build_library(&deb::LibraryArguments {
        out: Some(folders.out.clone()),
        archive: Some(release.join("libnetfold_c.a")),
        compression: "xz".to_owned(),
        licences: staged.licences.clone(),
    })?;
    let tried = trial::library(&packages, &release.join("netfold"), &folders.trial.join("library-root"))?;
    for package in &packages {
        report.enter(&file_name(package), "an empty root directory", &tried)?;
    }
    Ok(tree)
}

/// Builds the wheel in the unpacked tree, and installs it.
fn wheels(
    folders: &Folders,
    tree: &Path,
    staged: &Staged,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<()> {
    heading("wheels");
    let zig = wheel::has_zig()?;
    if !zig && arguments.skip_missing {
        report.skip(format!(
            "glibc 2.28 for the wheel, which needs this machine's: there is no zig (`{}`)",
            tools::INSTALL
        ));
    } else if !zig {
        bail!("maturin and zig are not installed: run `{}`, or add --skip-missing", tools::INSTALL);
    }
    if let Some(licences) = &staged.wheel_licences {
        fs::copy(licences, tree.join("hostlib/python").join(components::LICENCES))?;
    }
    let build = |platform: Option<&str>| {
        wheel::build(&wheel::Arguments {
            out: Some(folders.out.clone()),
            zig,
            source: Some(tree.to_owned()),
            sbom: staged.wheel_list.clone(),
            target: Some(folders.build.clone()),
            platform: platform.map(str::to_owned),
            ..wheel::Arguments::default()
        })
    };
    let built = build(None)?;
    let complete = staged.wheel_licences.is_some() && staged.wheel_list.is_some();
    let tried = trial::python(&built, &folders.trial.join("venv"), complete)?;
    report.enter(&file_name(&built), "a fresh virtual environment", &tried)?;
    if !packages::has_target(AARCH64)? {
        report.skip(format!(
            "the wheel for {AARCH64}: no standard library for it (`rustup target add {AARCH64}`)"
        ));
    } else if zig {
        let built = build(Some(AARCH64))?;
        if let Some(missing) = emulated::missing() {
            report.enter(&file_name(&built), "-", &format!("not run: {missing}"))?;
        } else {
            let pip = folders.trial.join("venv/bin/python");
            let tried = emulated::python(&built, &pip, &folders.trial.join("aarch64"))?;
            report.enter(&file_name(&built), "beside Debian's Python for arm64", &tried)?;
        }
    } else {
        report.skip(format!("the wheel for {AARCH64}: no zig to link it (`{}`)", tools::INSTALL));
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
