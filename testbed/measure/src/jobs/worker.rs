//! A worker of one of the jobs: a process that does what the benchmark tells it to, line by line.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver};

use netfold::{Error, Mode, ReduceOp};

use crate::all_reduce::{Controlled, Number, Pattern, Reduction};

/// What a worker is.
#[derive(Debug, Clone)]
pub struct JobWorker {
    /// Where it joins which job.
    pub controlled: Controlled,
    /// Where the ranks of the job are linked with each other; without, they have the switch alone.
    pub meeting: Option<String>,
    /// Its rank.
    pub rank: u16,
    /// Workers of the job.
    pub workers: u16,
    /// Tensor bytes.
    pub bytes: u64,
    /// How tensors travel.
    pub mode: Mode,
    /// Slots that the job asks for.
    pub slots: u32,
}

/// Joins, prints `joined SLOTS` (0 if the job has no place at a switch) or `refused REASON MESSAGE`, and then obeys the lines of standard input:
/// `run N` does so many all-reduces and prints `done WRONG`, with the number of wrong elements; `leave` leaves. The process ends at the end of
/// standard input, whatever it is doing, as when the benchmark was killed.
///
/// # Errors
///
/// When the job fails, or nothing can be printed any more ([`Error::Ended`](netfold::Error)).
pub fn take_part(worker: &JobWorker) -> Result<(), Error> {
    let orders = orders();
    let JobWorker { controlled, rank, workers, mode, .. } = worker;
    let mut builder = controlled.builder((*rank, *workers), *mode, worker.slots)?;
    if let Some(meeting) = &worker.meeting {
        builder = builder.rendezvous(meeting.as_str())?;
    }
    let comm = match builder.connect() {
        Ok(comm) => comm,
        Err(Error::Refused { reason, message, .. }) => {
            say(&format!("refused {} {}", reason.name(), message.replace('\n', " ")));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let places = comm.attachments();
    say(&format!("joined {}", places.iter().map(|place| place.slots).min().unwrap_or(0)));
    let payload_bytes = places.first().map_or(1408, |place| place.payload_bytes);
    let by_hosts = worker.meeting.is_some();
    let reduction = Reduction { workers: *workers, mode: *mode, op: ReduceOp::Sum, payload_bytes, by_hosts };
    let pattern = Pattern::new(1, *workers);
    let mut tensor = vec![0.0_f32; usize::try_from(worker.bytes / 4).unwrap_or(0)];
    for order in orders {
        match order.strip_prefix("run ").map(str::parse::<u32>) {
            Some(Ok(operations)) => {
                let mut wrong = 0;
                for _ in 0..operations {
                    f32::fill(&pattern, *rank, &mut tensor);
                    comm.all_reduce(&mut tensor, ReduceOp::Sum)?;
                    wrong += f32::wrong(&pattern, &reduction, &tensor);
                }
                say(&format!("done {wrong}"));
            }
            _ => return comm.leave(),
        }
    }
    Ok(())
}

/// Prints a line. If its reader has ended, so has standard input.
fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// The lines of standard input, after whose end the process exits.
fn orders() -> Receiver<String> {
    let (sender, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            // The worker that leaves reads no more; the process still ends with it.
            let _ = sender.send(line);
        }
        std::process::exit(130);
    });
    orders
}
