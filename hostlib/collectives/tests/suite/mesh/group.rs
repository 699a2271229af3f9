//! Ranks as threads, with an exchange in memory.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Exchange, FnExchange, Mesh, MeshConfig};

/// Longer than any test takes; a hang fails instead of lasting.
pub(crate) const HANG: Duration = Duration::from_secs(90);

#[derive(Default)]
struct Rounds {
    all: Vec<Vec<Option<Vec<u8>>>>,
}

/// Where ranks leave their strings.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<(Mutex<Rounds>, Condvar)>);

impl Memory {
    pub(crate) fn exchange(&self, rank: u16, world: u16) -> impl Exchange + use<> {
        let shared = self.0.clone();
        let mut round = 0;
        FnExchange::new(rank, world, move |mine: &[u8]| {
            let (rounds, changed) = &*shared;
            let mut rounds = rounds.lock().unwrap();
            if rounds.all.len() <= round {
                rounds.all.push(vec![None; usize::from(world)]);
            }
            rounds.all[round][usize::from(rank)] = Some(mine.to_vec());
            changed.notify_all();
            let until = Instant::now() + HANG;
            while rounds.all[round].iter().any(Option::is_none) {
                let left = until.checked_duration_since(Instant::now()).ok_or("a rank is missing")?;
                rounds = changed.wait_timeout(rounds, left).unwrap().0;
            }
            let all = rounds.all[round].iter().flatten().cloned().collect();
            round += 1;
            Ok(all)
        })
        .unwrap()
    }
}

/// Runs `rank` on a thread for each of `world` ranks; panics when one panics or hangs.
pub(crate) fn ranks<T: Send + 'static>(
    world: u16,
    rank: impl Fn(u16) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let rank = Arc::new(rank);
    let (done, results) = mpsc::channel();
    for number in 0..world {
        let (rank, done) = (rank.clone(), done.clone());
        thread::spawn(move || {
            let result = rank(number);
            done.send((number, result)).unwrap();
        });
    }
    drop(done);
    let until = Instant::now() + HANG;
    let mut all: Vec<Option<T>> = (0..world).map(|_| None).collect();
    for _ in 0..world {
        let left = until.saturating_duration_since(Instant::now());
        let (number, result) = results.recv_timeout(left).expect("a rank panicked or hangs");
        all[usize::from(number)] = Some(result);
    }
    all.into_iter().flatten().collect()
}

/// Runs `rank` with a mesh of `world` ranks.
pub(crate) fn meshes<T: Send + 'static>(
    world: u16,
    config: MeshConfig,
    rank: impl Fn(Mesh) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let memory = Memory::default();
    ranks(world, move |number| {
        let mut exchange = memory.exchange(number, world);
        rank(Mesh::connect(&mut exchange, config.clone()).unwrap())
    })
}
