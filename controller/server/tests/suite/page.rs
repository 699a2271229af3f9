//! The page in a headless browser: what it draws, live. The browser is controlled by its debugging protocol over a pipe, since a
//! page with an endless event stream never finishes loading.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::TIMEOUT;
use crate::plane::{Plane, Served};

/// If set, docs/controller.png is drawn again.
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

/// A browser with one open page; ended, and its files removed, when dropped.
struct Browser {
    child: Child,
    calls: ChildStdin,
    answers: Receiver<Value>,
    called: u64,
    /// The page's debugging session.
    session: Option<String>,
    profile: PathBuf,
}

impl Browser {
    fn open(program: &Path, name: &str, url: &str) -> Self {
        let profile = std::env::temp_dir().join(format!("netfold-page-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        // The protocol is on the descriptors 3 and 4.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--disable-dev-shm-usage", "--window-size=1360,1180"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let calls = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|len| len > 0) {
                message.pop();
                if sender.send(serde_json::from_slice(&message).unwrap_or_default()).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self { child, calls, answers, called: 0, session: None, profile };
        let target = browser.call("Target.createTarget", json!({ "url": url }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.called += 1;
        let mut call = json!({ "id": self.called, "method": method, "params": params });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.calls.write_all(&[call.to_string().as_bytes(), &[0]].concat()).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.called {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        self.call("Runtime.evaluate", params)["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.evaluate(expression) != true {
            assert!(Instant::now() < deadline, "never: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// True once a snapshot and the earlier events are drawn.
const DRAWN: &str =
    "document.body.dataset.drawn === '1750000000000' && document.querySelectorAll('#events li').length === 2";

/// A frontend with two earlier events.
fn populated() -> Served {
    let served = Served::open(Plane::populated());
    let control = served.control.clone();
    crate::run(async {
        use netfold_controller::command::Command;
        let switch = "leaf2".to_owned();
        control.execute(Command::Drain { switch, drained: true, evict: false }).await.unwrap();
        control.execute(Command::ForgetJob(crate::plane::name("red", "old"))).await.unwrap();
    });
    served
}

#[test]
fn the_page_draws_switches_slots_jobs_and_events() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = populated();
    let mut page = Browser::open(&browser, "drawn", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for(DRAWN);
    let page = page.evaluate("document.documentElement.outerHTML").as_str().unwrap().to_owned();
    assert!(page.contains("4 of 5 switches up, 2 jobs forming or running, 8 workers' sessions"), "{page}");
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
    assert!(page.contains("id=\"state\" class=\"connected\""), "not live:\n{page}");
}

/// Measures of the page as it is laid out: whether anything is wider than the window, the number of columns, and the contrast of texts
/// with their background by the formula of WCAG 2.1.
const MEASURES: &str = r##"(() => {
  const luminance = (colour) => {
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = luminance(getComputedStyle(document.querySelector("section")).backgroundColor);
  const contrast = (selector) => {
    const text = luminance(getComputedStyle(document.querySelector(selector)).color);
    return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
  };
  const texts = ["h2", ".note", "#jobs td", "#jobs td.running", "#links td.down", "#jobs th", "#events .kind"];
  return {
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    columns: getComputedStyle(document.querySelector("main")).gridTemplateColumns.split(" ").length,
    dark: ground < 0.2,
    contrast: Math.min(...texts.map(contrast)),
    clipped: [...document.querySelectorAll("h1, h2, #summary, #state")].filter((part) => part.scrollWidth > part.clientWidth).length,
  };
})()"##;

#[test]
fn the_page_fits_narrow_and_wide_windows_in_light_and_dark() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = populated();
    let mut page = Browser::open(&browser, "fits", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for(DRAWN);
    for (width, one_column) in [(390, true), (1360, false)] {
        for scheme in ["light", "dark"] {
            let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
            page.call("Emulation.setDeviceMetricsOverride", size);
            let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
            page.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
            page.wait_for(&format!("window.innerWidth === {width}"));
            let measured = page.evaluate(MEASURES);
            let what = format!("{width} pixels, {scheme}: {measured}");
            assert_eq!(measured["overflow"], 0, "{what}");
            assert_eq!(measured["columns"] == 1, one_column, "{what}");
            assert_eq!(measured["dark"], scheme == "dark", "{what}");
            assert_eq!(measured["clipped"], 0, "{what}");
            // The least for normal text, level AA.
            assert!(measured["contrast"].as_f64().unwrap() >= 4.5, "{what}");
        }
    }
}

#[test]
fn a_screenshot_shows_the_page() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = populated();
    let mut page = Browser::open(&browser, "shot", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for(DRAWN);
    let height = page.evaluate("document.documentElement.scrollHeight");
    let size = json!({ "width": 1360, "height": height, "deviceScaleFactor": 1, "mobile": false });
    page.call("Emulation.setDeviceMetricsOverride", size);
    let shot = page.call("Page.captureScreenshot", json!({ "format": "png" }));
    let image = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
    assert!(image.starts_with(b"\x89PNG") && image.len() > 20_000, "{} bytes", image.len());
    if std::env::var_os(SCREENSHOT).is_some() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controller.png");
        std::fs::write(docs, &image).unwrap();
        println!("drawn: {docs}");
    }
}
