//! Periodic jobs on one link under strict priorities.

/// One iteration of a job, alone on the link. Times in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// Computing.
    pub compute_us: u64,
    /// Sending at the link's full rate.
    pub send_us: u64,
    /// Into the computing, when there is something to send: `compute_us` where nothing overlaps.
    pub send_after_us: u64,
}

/// What a job did up to the horizon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Time spent computing.
    pub compute_us: u64,
    /// Time that it had the link.
    pub send_us: u64,
    /// Iterations that were finished.
    pub iterations: u64,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    rhythm: Rhythm,
    /// Left of this iteration's computing.
    compute: u64,
    /// Left of this iteration's sending.
    send: u64,
    used: Use,
}

impl Job {
    /// Time to the moment at which there is something to send; 0 when it is due, `None` when all is sent.
    fn send_in(&self) -> Option<u64> {
        let done = self.rhythm.compute_us - self.compute;
        (self.send > 0).then(|| self.rhythm.send_after_us.saturating_sub(done))
    }

    /// Time to its next change, if it has the link or has not.
    fn next(&self, has_link: bool) -> Option<u64> {
        let computes = (self.compute > 0).then_some(self.compute);
        let sends = match self.send_in() {
            Some(0) => has_link.then_some(self.send),
            other => other,
        };
        computes.into_iter().chain(sends).min()
    }

    fn pass(&mut self, time_us: u64, has_link: bool) {
        let computed = time_us.min(self.compute);
        self.compute -= computed;
        self.used.compute_us += computed;
        if has_link {
            self.send -= time_us;
            self.used.send_us += time_us;
        }
        if self.compute == 0 && self.send == 0 {
            self.used.iterations += 1;
            (self.compute, self.send) = (self.rhythm.compute_us, self.rhythm.send_us);
        }
    }
}

/// What each job gets of a link that is the first's whenever it has something to send, else the second's, and so on.
///
/// An iteration ends when all is computed and sent, and the next begins. At time 0 all have just come to where they have something
/// to send, which is how the examples of the Crux paper begin. Jobs whose iterations take no time do nothing; sending that would begin
/// after the computing begins at its end.
pub fn strict(jobs: &[Rhythm], horizon_us: u64) -> Vec<Use> {
    let mut all: Vec<Job> = jobs
        .iter()
        .map(|rhythm| {
            let send_after_us = rhythm.send_after_us.min(rhythm.compute_us);
            let rhythm = Rhythm { send_after_us, ..*rhythm };
            Job {
                rhythm,
                compute: rhythm.compute_us - send_after_us,
                send: rhythm.send_us,
                used: Use::default(),
            }
        })
        .collect();
    let mut now = 0;
    while now < horizon_us {
        let first = all.iter().position(|job| job.send_in() == Some(0));
        let has_link = |index: usize| first == Some(index);
        let next = all.iter().enumerate().filter_map(|(index, job)| job.next(has_link(index))).min();
        let Some(step) = next.map(|next| next.min(horizon_us - now)) else { break };
        for (index, job) in all.iter_mut().enumerate() {
            if job.rhythm.compute_us + job.rhythm.send_us > 0 {
                job.pass(step, has_link(index));
            }
        }
        now += step;
    }
    all.into_iter().map(|job| job.used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rhythm(compute_us: u64, send_us: u64, send_after_us: u64) -> Rhythm {
        Rhythm { compute_us, send_us, send_after_us }
    }

    #[test]
    fn alone_a_job_has_its_own_rhythm() {
        let used = strict(&[rhythm(30, 20, 30)], 1000);
        // Sending 0-20, computing 20-50, and so on.
        assert_eq!(used, [Use { compute_us: 600, send_us: 400, iterations: 20 }]);
        // Half of the computing hides half of the sending: an iteration takes 40.
        let used = strict(&[rhythm(30, 20, 20)], 1010);
        assert_eq!(used[0].iterations, 25);
        assert_eq!(strict(&[rhythm(0, 0, 0), rhythm(1, 0, 5)], 10)[0], Use::default());
    }

    #[test]
    fn the_first_is_never_delayed_and_the_link_is_one() {
        let jobs = [rhythm(7, 13, 3), rhythm(50, 11, 50), rhythm(5, 5, 0)];
        let used = strict(&jobs, 10_000);
        assert_eq!(used[0], strict(&jobs[..1], 10_000)[0]);
        assert!(used.iter().map(|used| used.send_us).sum::<u64>() <= 10_000);
        assert!(used[2].iterations < strict(&jobs[2..], 10_000)[0].iterations);
    }
}
