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

    /// Presses a key.
    fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => (key, 9, None),
            "Enter" => (key, 13, Some("\r")),
            " " => ("Space", 32, Some(" ")),
            "End" => (key, 35, None),
            "Home" => (key, 36, None),
            "ArrowUp" => (key, 38, None),
            "ArrowDown" => (key, 40, None),
            _ => panic!("no such key: {key}"),
        };
        let mut event =
            json!({ "type": "keyDown", "key": key, "code": code, "windowsVirtualKeyCode": number });
        if let Some(text) = text {
            event["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Lays the page out for a window of that width, in light or dark.
    fn show_as(&mut self, width: u32, scheme: &str) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        self.wait_for(&format!("window.innerWidth === {width}"));
    }

    /// Evaluates an expression that uses `luminance`.
    fn measure(&mut self, expression: &str) -> Value {
        self.evaluate(LUMINANCE);
        self.evaluate(expression)
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
    "document.body.dataset.drawn === '1750000000000' && document.querySelectorAll('#events li').length === 3";

/// A frontend with three earlier events.
fn populated() -> Served {
    let served = Served::open(Plane::populated());
    let control = served.control.clone();
    crate::run(async {
        use netfold_controller::command::Command;
        let (a, b) = ("leaf2".to_owned(), "spine1".to_owned());
        control.execute(Command::DrainLink { a, b, drained: true, evict: false }).await.unwrap();
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
        ("class=\"link up\"", 3),
        ("class=\"link drained\"", 1),
        ("class=\"link down\"", 2),
        ("class=\"switch up\"", 3),
        ("class=\"switch drained\"", 1),
        ("class=\"switch down\"", 1),
        ("class=\"strip\"", 5),
        // The jobs are on three switches each.
        ("class=\"range\"", 6),
        ("class=\"kind\"", 3),
        // Three switches and four workers of the job that is shown, one of which slows it down.
        ("<g class=\"switch\"", 3),
        ("class=\"worker here\"", 3),
        ("class=\"worker here slow\"", 1),
        ("aria-pressed=\"true\"", 1),
    ] {
        assert_eq!(page.matches(what).count(), times, "{what} in\n{page}");
    }
    let texts = [
        "red/train",
        "Job blue/tune",
        "takes no more jobs",
        "duplicate",
        "begins operations",
        "tree 0 shares slots of 'leaf1' below aggregator 'spine'; 12 contributions found no slot and went to the aggregator",
        "Each worker has 16 paths (weighted). Paths avoided: rank 2 avoids 5 (0.10 % of its packets, 40.0 ms).",
        "100 Gbit/s",
        // Of the links between switches, and of those to hosts.
        "625 MB/s",
        "5.00 %",
        "hosts1 \u{2013} leaf1",
        "2.50 GB/s",
        "1.25 GB/s",
        "0.03 %",
    ];
    for text in texts {
        assert!(page.contains(text), "no {text} in\n{page}");
    }
    assert!(page.contains("id=\"state\" class=\"connected\""), "not live:\n{page}");
}

/// Defines the relative luminance of a colour, by the formula of WCAG 2.1.
const LUMINANCE: &str = r##"window.luminance = (colour) => {
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
  const linear = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}"##;

/// Measures of the page as it is laid out: whether anything is wider than the window, the number of columns, and the contrast of texts
/// with their background.
const MEASURES: &str = r##"(() => {
  const ground = luminance(getComputedStyle(document.querySelector("section")).backgroundColor);
  const contrast = (selector) => {
    const text = luminance(getComputedStyle(document.querySelector(selector)).color);
    return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
  };
  const texts = ["h2", ".note", "#jobs td", "#jobs td.slowed", "#links td.down", "#jobs th", "#events .kind"];
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
            page.show_as(width, scheme);
            let measured = page.measure(MEASURES);
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

/// Three minutes of snapshots, a second apart, in which each job's goodput rises and falls; the page's own stream is closed.
const THREE_MINUTES: &str = r#"(() => {
  stream.close();
  connected(true);
  const last = latest;
  for (let second = 0; second <= 200; second++) {
    const jobs = last.jobs.map((job, index) => {
      const phase = (second % (24 + 16 * index)) / (24 + 16 * index);
      const fraction = phase < 0.2 ? 0.25 : 0.85 + 0.15 * Math.sin(second / 3 + index);
      return { ...job, traffic: { ...job.traffic, goodput: Math.round(job.traffic.goodput * (second === 200 ? 1 : fraction)) } };
    });
    draw({ ...last, taken_ms: last.taken_ms + 1000 * (second + 1), jobs });
  }
})()"#;

#[test]
fn the_page_keeps_three_minutes_of_goodput_of_each_job() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = populated();
    let mut page = Browser::open(&browser, "goodput", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for(DRAWN);
    assert_eq!(page.evaluate("document.querySelectorAll('polyline').length"), 0, "one point is no line");
    page.evaluate(THREE_MINUTES);
    // In the table two, and one of the job that is shown.
    assert_eq!(page.evaluate("document.querySelectorAll('polyline.course').length"), 3);
    let kept = "[...courses.values()].map((course) => course.length).join()";
    assert_eq!(page.evaluate(kept), "180,180", "bounded");
    let label = page.evaluate("document.querySelector('#goodput').getAttribute('aria-label')");
    assert!(label.as_str().unwrap().starts_with("goodput of blue/tune: 1.00 GB/s"), "{label}");
    // A job that has ended is forgotten, and so is an older snapshot.
    page.evaluate("draw({ ...latest, taken_ms: 1, jobs: latest.jobs.slice(1) })");
    assert_eq!(page.evaluate(kept), "180");
    assert_eq!(page.evaluate("document.querySelector('#job-title').textContent"), "Job red/train");
    page.evaluate("draw({ ...latest, jobs: [] })");
    assert_eq!(page.evaluate("document.querySelector('#job-part').hidden && courses.size === 0"), true);
}

/// The outline of the focused element: whether it is drawn, and its contrast with the ground behind it.
const FOCUS: &str = r##"(() => {
  const style = getComputedStyle(document.activeElement);
  const line = luminance(style.outlineColor);
  const ground = luminance(getComputedStyle(document.querySelector("section")).backgroundColor);
  const contrast = (Math.max(line, ground) + 0.05) / (Math.min(line, ground) + 0.05);
  return { drawn: style.outlineStyle === "solid" && style.outlineWidth === "2px", contrast };
})()"##;

#[test]
fn jobs_are_chosen_by_keyboard() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let served = populated();
    let mut page = Browser::open(&browser, "keys", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for(DRAWN);
    const FOCUSED: &str = "document.activeElement.textContent";
    const SHOWN: &str = "document.querySelector('#job-title').textContent";
    for (width, scheme) in [(390, "light"), (390, "dark"), (1360, "light"), (1360, "dark")] {
        page.show_as(width, scheme);
        page.evaluate("document.activeElement.blur(); shownJob = 'blue/tune'; draw(latest)");
        let mut tabs = 0;
        while page.evaluate("document.activeElement.matches('#jobs button')") != true {
            tabs += 1;
            assert!(tabs < 20, "{width} pixels: no way to the jobs");
            page.press("Tab");
        }
        assert_eq!(page.evaluate(FOCUSED), "blue/tune");
        let outline = page.measure(FOCUS);
        // The least for parts of a user interface, WCAG 2.1, 1.4.11.
        assert!(
            outline["drawn"] == true && outline["contrast"].as_f64().unwrap() >= 3.0,
            "{scheme}: {outline}"
        );
        for (key, focused, shown) in [
            ("ArrowDown", "red/train", "Job blue/tune"),
            ("ArrowDown", "red/train", "Job blue/tune"),
            ("Enter", "red/train", "Job red/train"),
            ("Home", "blue/tune", "Job red/train"),
            (" ", "blue/tune", "Job blue/tune"),
            ("End", "red/train", "Job blue/tune"),
            ("ArrowUp", "blue/tune", "Job blue/tune"),
        ] {
            page.press(key);
            let state = [page.evaluate(FOCUSED), page.evaluate(SHOWN)];
            assert_eq!(state, [json!(focused), json!(shown)], "after {key}");
        }
        // One stop for the table, whatever the number of jobs; the focus stays when the page is drawn again.
        assert_eq!(page.evaluate("document.querySelectorAll('#jobs button[tabindex=\"0\"]').length"), 1);
        page.evaluate("draw({ ...latest })");
        assert_eq!(page.evaluate(FOCUSED), "blue/tune");
        page.evaluate("{ const all = latest; draw({ ...all, jobs: all.jobs.slice(1) }); draw(all); }");
        assert_eq!(page.evaluate(FOCUSED), "red/train", "the job with the focus had ended");
        // What can be scrolled can be reached.
        let unreachable = "[...document.querySelectorAll('section, #events')].filter((part) => \
             part.scrollWidth > part.clientWidth && part.tabIndex !== 0).length";
        assert_eq!(page.evaluate(unreachable), 0, "{width} pixels");
    }
}

#[test]
fn names_from_tenants_are_texts() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let hostile = "<img src=x onerror=alert(1)>\"'&amp;</text><script>alert(1)</script>";
    let served = Served::open(Plane::named(hostile));
    let mut page = Browser::open(&browser, "texts", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for("document.body.dataset.drawn === '1750000000000'");
    page.evaluate(THREE_MINUTES);
    let named = format!("red/{hostile}");
    for part in ["#jobs button", "#job-title"] {
        let text = page.evaluate(&format!("document.querySelector('{part}').textContent"));
        assert!(text.as_str().unwrap().ends_with(&named), "{part}: {text}");
    }
    assert_eq!(page.evaluate("document.querySelectorAll('img, body script').length"), 0);
}

#[test]
fn a_stall_is_explained_at_its_job_and_the_cause_is_a_text() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let cause = "rank 1 has not contributed: <img src=x onerror=alert(1)></li><script>alert(1)</script>";
    let served = Served::open(Plane::stalled(cause));
    let mut page = Browser::open(&browser, "stalls", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for("document.body.dataset.drawn === '1750000000000'");
    let state = "document.querySelector('#jobs tbody tr').cells[2].textContent";
    assert_eq!(page.evaluate(state), "stalled");
    let texts = "[...document.querySelectorAll('#stalls li')].map((line) => line.className + ': ' + line.textContent)";
    let lasts = format!("lasts: tree 1 stalled since 00:01:01 UTC, for 2.3 s. Cause: {cause}");
    let over = format!(
        "over: group pipeline, tree 1 stalled from 01:00:05 UTC on, for 2.3 s; over: the job has results again. Cause: {cause}"
    );
    assert_eq!(page.evaluate(texts), json!([lasts, over]));
    assert_eq!(page.evaluate("document.querySelectorAll('img, body script').length"), 0);
    let command = page.evaluate("document.querySelector('#explain').innerText");
    assert!(command.as_str().unwrap().ends_with("netfold job explain red/train"), "{command}");
    // Only the lasting one makes the job stall; without any, nothing of it is shown.
    page.evaluate(
        "draw({ ...latest, jobs: latest.jobs.map((job) => ({ ...job, stalls: job.stalls.slice(1) })) })",
    );
    assert_eq!(page.evaluate(state), "slowed");
    page.evaluate("draw({ ...latest, jobs: latest.jobs.map((job) => ({ ...job, stalls: [] })) })");
    let hidden =
        "document.querySelector('#explain').hidden && document.querySelectorAll('#stalls li').length === 0";
    assert_eq!(page.evaluate(hidden), true);
}

#[test]
fn a_job_shows_whether_it_shares_slots_and_why() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium");
        return;
    };
    let shares = "shares slots of 'leaf1' below aggregator '<img src=x onerror=alert(1)>': too few are free";
    let own = "has slots of its own at 'leaf1': as many as it asks for are free";
    let served = Served::open(Plane::sharing(shares, own));
    let mut page = Browser::open(&browser, "sharing", &format!("http://{}/", served.front.http().unwrap()));
    page.wait_for("document.body.dataset.drawn === '1750000000000'");
    let texts = "[...document.querySelectorAll('#sharing li')].map((line) => line.textContent)";
    let job = format!("tree 0 {shares}; 12 contributions found no slot and went to the aggregator");
    let group = format!("group pipeline, tree 2 {own}");
    assert_eq!(page.evaluate(texts), json!([job, group]));
    assert_eq!(page.evaluate("document.querySelectorAll('img').length"), 0);
    let slots = "document.querySelector('#jobs tbody tr').cells[9].textContent";
    assert_eq!(page.evaluate(slots), "384, shared");
    // A controller that does not decide says nothing.
    page.evaluate(
        "draw({ ...latest, jobs: latest.jobs.map((job) => ({ ...job, groups: [], trees: job.trees.map((tree) => ({ ...tree, sharing: null, places: [] })) })) })",
    );
    assert_eq!(page.evaluate("document.querySelectorAll('#sharing li').length"), 0);
    assert_eq!(page.evaluate(slots), "0");
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
    page.evaluate(THREE_MINUTES);
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
