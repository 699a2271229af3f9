//! The page in a headless browser: what is drawn, live.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::plane::{Plane, Served};

/// Says that docs/controller.png is to be drawn anew.
const SCREENSHOT: &str = "NETFOLD_SCREENSHOT";

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let candidates: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| candidates.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// A folder for a browser's own files, removed in the end.
struct Profile(PathBuf);

impl Profile {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netfold-page-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn headless(browser: &PathBuf, profile: &Profile) -> Command {
    let mut command = Command::new(browser);
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1360,1180",
            "--timeout=8000",
        ])
        .arg(format!("--user-data-dir={}", profile.0.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits for a browser's end, which must come in time.
fn finished(mut child: Child) -> bool {
    let deadline = Instant::now() + 2 * PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[test]
fn the_page_draws_switches_slots_jobs_and_events() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = Served::open(Plane::populated());
    let control = served.control.clone();
    crate::run(async {
        use netfold_controller::command::Command;
        let switch = "leaf2".to_owned();
        control.execute(Command::Drain { switch, drained: true, evict: false }).await.unwrap();
        control.execute(Command::ForgetJob(crate::plane::name("red", "old"))).await.unwrap();
    });
    let profile = Profile::new("drawn");
    let url = format!("http://{}/", served.front.http().unwrap());
    let drawn = profile.0.join("drawn.html");
    let file = std::fs::File::create(&drawn).unwrap();
    let child = headless(&browser, &profile).args(["--dump-dom", &url]).stdout(file).spawn().unwrap();
    assert!(finished(child), "the browser failed or did not end");
    let page = std::fs::read_to_string(&drawn).unwrap();
    assert!(page.contains("data-drawn=\"1750000000000\""), "nothing was drawn:\n{page}");
    assert!(page.contains("4 of 5 switches up, 2 jobs form or run, 8 workers' sessions"), "{page}");
    for (what, times) in [
        ("<line ", 6),
        ("class=\"link down\"", 2),
        ("class=\"switch up\"", 3),
        ("class=\"switch drained\"", 1),
        ("class=\"switch down\"", 1),
        ("class=\"strip\"", 5),
        // The jobs are on three switches each.
        ("class=\"range\"", 6),
        ("class=\"kind\"", 2),
    ] {
        assert_eq!(page.matches(what).count(), times, "{what} in\n{page}");
    }
    for text in ["red/train", "blue/tune", "takes no more jobs", "duplicate", "100 Gbit/s"] {
        assert!(page.contains(text), "no {text} in\n{page}");
    }
    assert!(page.contains("id=\"state\" class=\"here\""), "not live:\n{page}");
}

#[test]
fn a_screenshot_shows_the_page() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = Served::open(Plane::populated());
    let profile = Profile::new("shot");
    let url = format!("http://{}/", served.front.http().unwrap());
    let shot = profile.0.join("controller.png");
    let argument = format!("--screenshot={}", shot.display());
    let child = headless(&browser, &profile).args([&argument, &url]).stdout(Stdio::null()).spawn().unwrap();
    assert!(finished(child), "the browser failed or did not end");
    let image = std::fs::read(&shot).unwrap();
    assert!(image.starts_with(b"\x89PNG") && image.len() > 20_000, "{} bytes", image.len());
    if std::env::var_os(SCREENSHOT).is_some() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controller.png");
        std::fs::copy(&shot, docs).unwrap();
        println!("drawn: {docs}");
    }
}
