//! Jobs that compute and send by turns, from event to event.

use netfold_proto::congestion::Aggressiveness;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Demand, HyperFlow, rates};

/// Seconds since the beginning.
pub type Time = f64;

/// Steps of an iteration's progress with which the weight of a job that is favoured for it is renewed.
const FAVOUR_STEPS: f64 = 64.0;
/// Bytes of a transfer that count as none: rounding.
const DONE_BYTES: f64 = 1e-3;
/// Seconds that count as none: rounding.
const SOON_S: f64 = 1e-12;
/// Events after which a run is given up: a job whose iterations take no time.
const EVENTS_MAX: u64 = 50_000_000;

/// A training: it computes, and sends, and begins again.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name in tables.
    pub name: String,
    /// When its first iteration begins.
    pub begins_s: Time,
    /// When it goes: the iteration that is under way then is not finished.
    pub ends_s: Time,
    /// Computing of an iteration.
    pub compute_s: Time,
    /// Into the computing, when there is something to send; at its end where nothing overlaps.
    pub send_after_s: Time,
    /// What it sends in each iteration, all at once.
    pub flows: Vec<HyperFlow>,
    /// Links give classes of lower numbers all that these want first.
    pub class: u8,
    /// The weight of its transfers by the progress of the iteration, as MLTCP has it; 1 without.
    pub favour: Option<Aggressiveness>,
    /// By what part the computing of an iteration is shorter or longer at most, at random.
    pub jitter: f64,
    /// When iterations may begin.
    pub pace: Option<Pace>,
}

/// Iterations that begin at fixed moments, as CASSINI's agents have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Between two of these moments.
    pub period_s: Time,
    /// The first.
    pub shift_s: Time,
    /// Part of the period by which an iteration may be delayed without having to wait for the next period.
    pub tolerance: f64,
}

impl Job {
    /// A job that runs from the beginning to the end, and sends when all is computed.
    pub fn new(name: impl Into<String>, compute_s: Time, flows: Vec<HyperFlow>) -> Self {
        Self {
            name: name.into(),
            begins_s: 0.0,
            ends_s: f64::INFINITY,
            compute_s,
            send_after_s: compute_s,
            flows,
            class: 0,
            favour: None,
            jitter: 0.0,
            pace: None,
        }
    }
}

/// An iteration that was finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Iteration {
    /// When it began; the one before may have ended earlier, where the job has to keep a pace.
    pub begins_s: Time,
    /// When all was computed and sent.
    pub ends_s: Time,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowOutcome {
    /// Of each job, the iterations that it finished.
    pub iterations: Vec<Vec<Iteration>>,
    /// Bytes that each link has borne.
    pub link_bytes: Vec<f64>,
}

impl FlowOutcome {
    /// Mean time from the end of an iteration to the end of the next, of those of a job that end in `from_s..to_s`; `None` when
    /// fewer than two do. What a job waits for its pace counts.
    pub fn iteration_s(&self, job: usize, from_s: Time, to_s: Time) -> Option<Time> {
        let ends = self.iterations[job].iter().map(|iteration| iteration.ends_s);
        let ends: Vec<Time> = ends.filter(|end| (from_s..to_s).contains(end)).collect();
        let (first, last) = (ends.first()?, ends.last()?);
        (ends.len() > 1).then(|| (last - first) / (ends.len() - 1) as f64)
    }
}

/// Jain's index of fairness of some values: 1 where all are equal, `1 / n` where one has all.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

#[derive(Debug)]
struct FlowState<'a> {
    job: &'a Job,
    rng: Xoshiro256PlusPlus,
    /// When this iteration begins or began.
    begins_s: Time,
    /// When all of it is computed.
    computed_s: Time,
    /// When it begins to send.
    sends_s: Time,
    /// Bytes left of each transfer.
    left: Vec<f64>,
    total: f64,
    gone: bool,
}

impl<'a> FlowState<'a> {
    fn new(job: &'a Job, seed: u64) -> Self {
        let mut state = Self {
            job,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            begins_s: 0.0,
            computed_s: 0.0,
            sends_s: 0.0,
            left: Vec::new(),
            total: job.flows.iter().map(|flow| flow.bytes).sum(),
            gone: false,
        };
        state.begin(job.begins_s);
        state
    }

    fn begin(&mut self, now: Time) {
        let job = self.job;
        self.begins_s = job.pace.map_or(now, |pace| pace.next(now));
        let jitter = if job.jitter > 0.0 { self.rng.random_range(-job.jitter..job.jitter) } else { 0.0 };
        let compute_s = job.compute_s * (1.0 + jitter);
        self.computed_s = self.begins_s + compute_s;
        self.sends_s = self.begins_s + job.send_after_s.min(job.compute_s) * (1.0 + jitter);
        self.left = job.flows.iter().map(|flow| flow.bytes).collect();
    }

    fn is_sending(&self, now: Time) -> bool {
        !self.gone && now + SOON_S >= self.sends_s
    }

    fn progress(&self) -> f64 {
        if self.total > 0.0 { 1.0 - self.left.iter().sum::<f64>() / self.total } else { 1.0 }
    }

    fn weight(&self) -> f64 {
        // Renewed at each step, and the same within it.
        let step = (self.progress() * FAVOUR_STEPS + 1e-6).floor() / FAVOUR_STEPS;
        self.job.favour.map_or(1.0, |favour| favour.factor(step))
    }

    fn is_over(&self, now: Time) -> bool {
        now + SOON_S >= self.computed_s && self.left.iter().all(|left| *left <= DONE_BYTES)
    }

    /// Until its next event with these rates of its transfers.
    fn next(&self, now: Time, rates: &[f64]) -> Time {
        let mut next = f64::INFINITY;
        for at in [self.sends_s, self.computed_s, self.job.ends_s] {
            if at > now + SOON_S {
                next = next.min(at - now);
            }
        }
        for (left, rate) in self.left.iter().zip(rates).filter(|(left, _)| **left > DONE_BYTES) {
            next = next.min(left / rate);
        }
        let sum: f64 = rates.iter().sum();
        if self.job.favour.is_some() && sum > 0.0 && self.progress() < 1.0 {
            let step = (self.progress() * FAVOUR_STEPS + 1e-6).floor() + 1.0;
            next = next.min((step / FAVOUR_STEPS - self.progress()).max(0.0) * self.total / sum);
        }
        next
    }
}

impl Pace {
    /// The first moment from `now` on at which an iteration may begin: now, if its delay is small.
    fn next(&self, now: Time) -> Time {
        let delay = (now - self.shift_s).rem_euclid(self.period_s);
        let is_delayed = delay <= self.tolerance * self.period_s || self.period_s - delay <= SOON_S;
        if now < self.shift_s {
            self.shift_s
        } else if is_delayed {
            now
        } else {
            now + self.period_s - delay
        }
    }
}

/// Runs jobs over links of so many bytes a second, up to the horizon. The same arguments give the same outcome.
///
/// # Panics
///
/// When a transfer uses a link that there is not, or iterations take no time at all.
pub fn run(links: &[f64], jobs: &[Job], horizon_s: Time, seed: u64) -> FlowOutcome {
    let seed_of = |index: usize| seed.wrapping_mul(1 << 20).wrapping_add(index as u64);
    let mut states: Vec<FlowState<'_>> =
        jobs.iter().enumerate().map(|(index, job)| FlowState::new(job, seed_of(index))).collect();
    let mut outcome =
        FlowOutcome { iterations: vec![Vec::new(); jobs.len()], link_bytes: vec![0.0; links.len()] };
    let mut now = 0.0;
    for _ in 0..EVENTS_MAX {
        for (index, state) in states.iter_mut().enumerate() {
            state.gone |= now + SOON_S >= state.job.ends_s;
            if !state.gone && state.is_over(now) {
                outcome.iterations[index].push(Iteration { begins_s: state.begins_s, ends_s: now });
                state.begin(now);
            }
        }
        let granted = granted(links, &states, now);
        let next = states.iter().zip(&granted).filter(|(state, _)| !state.gone);
        let step = next.map(|(state, rates)| state.next(now, rates)).fold(horizon_s - now, f64::min);
        for (state, rates) in states.iter_mut().zip(&granted) {
            for ((left, rate), flow) in state.left.iter_mut().zip(rates).zip(&state.job.flows) {
                let sent = if rate.is_infinite() { *left } else { (rate * step).min(*left) };
                *left -= sent;
                flow.links.iter().for_each(|(link, part)| outcome.link_bytes[*link] += part * sent);
            }
        }
        now += step;
        if now >= horizon_s {
            return outcome;
        }
    }
    panic!("more than {EVENTS_MAX} events: iterations take no time");
}

/// The rate of each transfer of each job right now.
fn granted(links: &[f64], states: &[FlowState<'_>], now: Time) -> Vec<Vec<f64>> {
    let mut granted: Vec<Vec<f64>> = states.iter().map(|state| vec![0.0; state.left.len()]).collect();
    let (mut demands, mut places) = (Vec::new(), Vec::new());
    for (index, state) in states.iter().enumerate().filter(|(_, state)| state.is_sending(now)) {
        let weight = state.weight();
        for (place, flow) in
            state.job.flows.iter().enumerate().filter(|(place, _)| state.left[*place] > DONE_BYTES)
        {
            demands.push(Demand { links: &flow.links, class: state.job.class, weight, limit: flow.limit });
            places.push((index, place));
        }
    }
    for (rate, (index, place)) in rates(links, &demands).into_iter().zip(places) {
        granted[index][place] = rate;
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_link(compute_s: Time, bytes: f64) -> Job {
        Job::new("job", compute_s, vec![HyperFlow::path(bytes, &[0])])
    }

    fn mean(outcome: &FlowOutcome, job: usize) -> Time {
        outcome.iteration_s(job, 0.0, f64::INFINITY).unwrap()
    }

    #[test]
    fn alone_an_iteration_is_computing_and_sending() {
        let outcome = run(&[10.0], &[on_link(3.0, 20.0)], 100.1, 1);
        assert_eq!(outcome.iterations[0].len(), 20);
        assert!((mean(&outcome, 0) - 5.0).abs() < 1e-9);
        assert!((outcome.link_bytes[0] - 400.0).abs() < 0.1);
        // Half of the computing is hidden.
        let overlapping = Job { send_after_s: 1.5, ..on_link(3.0, 20.0) };
        assert!((mean(&run(&[10.0], &[overlapping], 100.0, 1), 0) - 3.5).abs() < 1e-9);
    }

    #[test]
    fn who_sends_at_the_same_time_shares() {
        // Both send together for ever: 1 s of computing, 2 s of sending.
        let outcome = run(&[10.0], &[on_link(1.0, 10.0), on_link(1.0, 10.0)], 60.0, 1);
        assert!((mean(&outcome, 0) - 3.0).abs() < 1e-9 && (mean(&outcome, 1) - 3.0).abs() < 1e-9);
        // Strict classes: the first is not delayed, and the second has what is left.
        let second = Job { class: 1, ..on_link(1.0, 10.0) };
        let outcome = run(&[10.0], &[on_link(1.0, 10.0), second], 60.0, 1);
        assert!((mean(&outcome, 0) - 2.0).abs() < 1e-9 && (mean(&outcome, 1) - 2.0).abs() < 1e-9);
        // Once it has been pushed aside by 1 s, the two send in turns.
        assert!((outcome.iterations[1][0].ends_s - 3.0).abs() < 1e-9);
    }

    /// The examples of the Crux paper, as [`netfold_controller::schedule::link`] has them in its own simulation.
    #[test]
    fn strict_priorities_agree_with_the_scheduler() {
        use netfold_controller::schedule::link::{Rhythm, strict};
        for seed in 0..50 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let rhythms: Vec<Rhythm> = (0..3)
                .map(|_| {
                    let compute_us = rng.random_range(1..40) * 100_000;
                    let (send_us, send_after_us) =
                        (rng.random_range(1..40) * 100_000, rng.random_range(0..=compute_us));
                    Rhythm { compute_us, send_us, send_after_us }
                })
                .collect();
            let jobs: Vec<Job> = rhythms
                .iter()
                .enumerate()
                .map(|(class, rhythm)| Job {
                    // There the first sending is at time 0.
                    begins_s: 10.0 - rhythm.send_after_us as f64 / 1e6,
                    send_after_s: rhythm.send_after_us as f64 / 1e6,
                    class: class as u8,
                    ..on_link(rhythm.compute_us as f64 / 1e6, rhythm.send_us as f64 * 10.0)
                })
                .collect();
            let outcome = run(&[1e7], &jobs, 110.05, seed);
            for (job, used) in strict(&rhythms, 100_050_000).iter().enumerate() {
                assert_eq!(outcome.iterations[job].len() as u64, used.iterations, "seed {seed}, job {job}");
            }
        }
    }

    #[test]
    fn favour_moves_jobs_apart_as_published() {
        let favour = Aggressiveness::DEFAULT;
        let job = |begins_s: Time| Job { favour: Some(favour), begins_s, ..on_link(3.0, 10.0) };
        let outcome = run(&[10.0], &[job(0.0), job(0.05)], 200.0, 1);
        let gaps: Vec<Time> = outcome.iterations[0]
            .iter()
            .zip(&outcome.iterations[1])
            .map(|(one, other)| other.ends_s - one.ends_s)
            .collect();
        let mut published = 0.05;
        for gap in &gaps[..3] {
            published += favour.shift(published, 1.0);
            // As progress is followed while both send, the gap grows faster than by the equation.
            assert!(*gap >= published - 0.02, "{gap} for {published}");
        }
        assert!((gaps[gaps.len() - 1] - 1.0).abs() < 0.02, "they send in turns: {gaps:?}");
        let last = outcome.iteration_s(0, 100.0, 200.0).unwrap();
        assert!((last - 4.0).abs() < 0.02, "{last}");
    }

    #[test]
    fn a_pace_keeps_iterations_where_they_were_put() {
        let pace = Pace { period_s: 4.2, shift_s: 1.5, tolerance: 0.05 };
        let job = Job { pace: Some(pace), jitter: 0.02, ..on_link(3.0, 10.0) };
        let outcome = run(&[10.0], std::slice::from_ref(&job), 500.0, 7);
        assert!(outcome.iterations[0].len() > 115);
        for iteration in &outcome.iterations[0] {
            let delay = (iteration.begins_s - 1.5 + 1e-9).rem_euclid(4.2);
            assert!(delay <= 0.05 * 4.2 + 1e-6, "{iteration:?}: {delay}");
        }
        assert_eq!(outcome, run(&[10.0], std::slice::from_ref(&job), 500.0, 7), "the same again");
        assert_ne!(outcome, run(&[10.0], &[job], 500.0, 8));
    }

    #[test]
    fn jobs_come_and_go() {
        let leaves = Job { ends_s: 20.5, ..on_link(1.0, 10.0) };
        let comes = Job { begins_s: 10.0, ..on_link(1.0, 10.0) };
        let outcome = run(&[10.0], &[leaves, comes], 40.0, 1);
        assert_eq!(outcome.iteration_s(0, 0.0, 10.1), Some(2.0));
        assert_eq!(outcome.iteration_s(0, 13.5, 20.1), Some(3.0));
        assert!(outcome.iterations[0].iter().all(|iteration| iteration.ends_s <= 20.5));
        assert_eq!(outcome.iteration_s(1, 30.0, 40.0), Some(2.0));
        assert_eq!((jain(&[1.0, 1.0]), jain(&[1.0, 0.0]), jain(&[])), (1.0, 0.5, 1.0));
    }
}
