//! Liveness and readiness, as Kubernetes and load balancers probe them.
//!
//! A controller is *live* unless a restart could help: its control plane answers, or it waits for its database, which a restart would not
//! change. It is *ready* when it can admit jobs: the control plane answers, its records are stored, and at least one switch is reachable. A
//! standby is ready when etcd responds, since it then knows whether there is a leader. docs/controller.md describes the probes.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Response, StatusCode};
use netfold_controller::server::Control;
use netfold_controller::view::{Snapshot, SnapshotScope};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::etcd::CandidateStatus;
use crate::response::{Body, content, with_status};

/// Path of the liveness probe.
pub(crate) const HEALTHZ: &str = "/healthz";

/// Path of the readiness probe.
pub(crate) const READYZ: &str = "/readyz";

/// Timeout of the control plane's answer: below the timeout of a Kubernetes probe, which is one second by default.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// How long an answer is reused: probes need no token, and must not keep the control plane busy.
const FRESH: Duration = Duration::from_millis(250);

/// Most unreachable switches that are named.
const NAMED_MAX: usize = 8;

/// Names of the checks.
const CONTROL_PLANE: &str = "control_plane";
const DATABASE: &str = "database";
const SWITCHES: &str = "switches";

/// What a controller is in its cluster. One without a cluster is the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Leader,
    Standby,
}

/// The result of a probe.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    ok: bool,
    role: Role,
    checks: Vec<Check>,
}

/// One thing that was checked.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    ok: bool,
    message: String,
}

impl Health {
    fn of(role: Role, checks: Vec<Check>) -> Self {
        Self { ok: checks.iter().all(|check| check.ok), role, checks }
    }

    /// 200 or 503, with the checks as JSON.
    pub(crate) fn response(&self) -> Response<Body> {
        let status = if self.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut body = serde_json::to_string(self).unwrap_or_default();
        body.push('\n');
        with_status(status, content("application/json", body))
    }
}

fn passed(check: &'static str, message: impl Into<String>) -> Check {
    Check { check, ok: true, message: message.into() }
}

fn failed(check: &'static str, message: impl Into<String>) -> Check {
    Check { check, ok: false, message: message.into() }
}

/// How the control plane answered.
#[derive(Clone)]
enum Answer {
    Snapshot(Arc<Snapshot>),
    /// It waits for its database.
    Storing,
    Timeout,
    Ended,
}

/// Probes of a leader; clones are the same.
#[derive(Clone)]
pub(crate) struct LeaderProbes {
    control: Control,
    last: Arc<Mutex<Option<(Instant, Answer)>>>,
}

impl LeaderProbes {
    pub(crate) fn new(control: Control) -> Self {
        Self { control, last: Arc::default() }
    }

    /// The control plane's answer; probes that arrive meanwhile wait for the same one.
    async fn ask(&self) -> Answer {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = match timeout(ANSWER_TIMEOUT, self.control.snapshot(SnapshotScope::Live)).await {
            Ok(Ok(snapshot)) => Answer::Snapshot(Arc::new(snapshot)),
            Ok(Err(_)) => Answer::Ended,
            Err(_) if self.control.is_storing() => Answer::Storing,
            Err(_) => Answer::Timeout,
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Whether the process is to continue.
    pub(crate) async fn liveness(&self) -> Health {
        let check = match self.ask().await {
            Answer::Snapshot(_) => passed(CONTROL_PLANE, "answers"),
            Answer::Storing => passed(CONTROL_PLANE, "waits for its database"),
            Answer::Timeout => failed(CONTROL_PLANE, no_answer()),
            Answer::Ended => failed(CONTROL_PLANE, "has ended"),
        };
        Health::of(Role::Leader, vec![check])
    }

    /// Whether jobs can be admitted. Unreachable switches are named only if `with_names`.
    pub(crate) async fn readiness(&self, with_names: bool) -> Health {
        let checks = match self.ask().await {
            Answer::Snapshot(snapshot) => vec![
                passed(CONTROL_PLANE, "answers"),
                passed(DATABASE, "all changes are stored"),
                switches(&snapshot, with_names),
            ],
            Answer::Storing => {
                vec![passed(CONTROL_PLANE, "waits for its database"), failed(DATABASE, no_answer())]
            }
            Answer::Timeout => vec![failed(CONTROL_PLANE, no_answer())],
            Answer::Ended => vec![failed(CONTROL_PLANE, "has ended")],
        };
        Health::of(Role::Leader, checks)
    }
}

fn no_answer() -> String {
    format!("has not answered within {} ms", ANSWER_TIMEOUT.as_millis())
}

/// At least one switch must be reachable.
fn switches(snapshot: &Snapshot, with_names: bool) -> Check {
    let down: Vec<_> = snapshot.switches.iter().filter(|switch| !switch.up).collect();
    let (all, up) = (snapshot.switches.len(), snapshot.switches.len() - down.len());
    let mut message = format!("{up} of {all} reachable");
    if with_names {
        for (index, switch) in down.iter().take(NAMED_MAX).enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            let reason = switch.down_reason.as_deref().unwrap_or("unreachable");
            message += &format!("{separator}{} ({reason})", switch.name);
        }
        if down.len() > NAMED_MAX {
            message += &format!("; and {} more", down.len() - NAMED_MAX);
        }
    }
    Check { check: SWITCHES, ok: up > 0, message }
}

/// A standby that answers is live.
pub(crate) fn standby_liveness() -> Health {
    Health::of(Role::Standby, vec![passed(CONTROL_PLANE, "waits to become the leader")])
}

/// Whether a standby can take over. `None`: etcd was not asked yet. The leader is named only if `with_names`.
pub(crate) fn standby_readiness(status: Option<&CandidateStatus>, with_names: bool) -> Health {
    let check = match status {
        None => failed(DATABASE, "etcd has not answered yet"),
        Some(CandidateStatus::Etcd(problem)) if with_names => failed(DATABASE, problem),
        Some(CandidateStatus::Etcd(_)) => failed(DATABASE, "etcd does not respond"),
        Some(CandidateStatus::Leader(name)) if with_names && !name.is_empty() => {
            passed(DATABASE, format!("controller {name} is the leader"))
        }
        Some(CandidateStatus::Leader(name)) if name.is_empty() => {
            passed(DATABASE, "a leader is being elected")
        }
        Some(CandidateStatus::Leader(_)) => passed(DATABASE, "another controller is the leader"),
    };
    Health::of(Role::Standby, vec![check])
}
