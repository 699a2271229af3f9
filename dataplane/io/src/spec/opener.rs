//! What the packet threads of a switch open, one after the other.

use std::collections::VecDeque;

use super::{IoSpec, OpenOptions};
use crate::{Cores, IoError, PacketIo};

/// Opens a spec for several threads: [`open_threads`](super::open_threads), or another package's that knows more of them.
pub type OpenThreads = fn(&IoSpec, &[OpenOptions], &Cores) -> Result<Vec<Box<dyn PacketIo>>, IoError>;

/// Opens each packet thread's I/O, on that thread. Specs are assigned round-robin, and threads with the same spec [share](IoSpec::is_shared)
/// its device where it must be opened once for all; the first of them replies to ARP and pings.
pub struct ThreadOpener {
    specs: Vec<IoSpec>,
    open: OpenThreads,
    /// Of each spec the I/O that is open and not handed out yet.
    opened: Vec<VecDeque<Box<dyn PacketIo>>>,
}

impl ThreadOpener {
    /// For these specs; UDP sockets where there are none.
    #[must_use]
    pub fn new(mut specs: Vec<IoSpec>, open: OpenThreads) -> Self {
        if specs.is_empty() {
            specs.push(IoSpec::default());
        }
        let opened = specs.iter().map(|_| VecDeque::new()).collect();
        Self { specs, open, opened }
    }

    /// The I/O of thread `index`, of all those that `threads` describes, which are pinned to `cores` in turn. Called once by each thread, in order.
    ///
    /// # Errors
    ///
    /// Those of opening it; [`IoError::Unsupported`] for a thread that is not described.
    pub fn open(
        &mut self,
        index: usize,
        threads: &[OpenOptions],
        cores: &Cores,
    ) -> Result<Box<dyn PacketIo>, IoError> {
        let absent = || IoError::Unsupported("a thread without options");
        let turns = self.specs.len();
        let (turn, place) = (index % turns, index / turns);
        if let Some(io) = self.opened[turn].pop_front() {
            return Ok(io);
        }
        let with = |number: usize, options: &OpenOptions| OpenOptions { answers: number == 0, ..*options };
        let sharing = threads.iter().skip(turn).step_by(turns).enumerate();
        let sharing: Vec<OpenOptions> = sharing.map(|(number, options)| with(number, options)).collect();
        let spec = &self.specs[turn];
        if sharing.len() > 1 && spec.is_shared() {
            let cores = (turn..threads.len()).step_by(turns).filter_map(|thread| cores.of(thread));
            self.opened[turn] = (self.open)(spec, &sharing, &cores.collect())?.into();
        } else {
            let own = sharing.get(place).ok_or_else(absent)?;
            self.opened[turn] = (self.open)(spec, std::slice::from_ref(own), &Cores::default())?.into();
        }
        self.opened[turn].pop_front().ok_or_else(absent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::Null;

    /// What was opened, for which threads (the port, and whether it replies to ARP), and on which cores.
    type Opened = (String, Vec<(u16, bool)>, String);

    static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

    fn note(
        spec: &IoSpec,
        threads: &[OpenOptions],
        cores: &Cores,
    ) -> Result<Vec<Box<dyn PacketIo>>, IoError> {
        let of = threads.iter().map(|options| (options.local.port(), options.answers)).collect();
        OPENED.lock().unwrap().push((spec.to_string(), of, cores.to_string()));
        Ok(threads.iter().map(|_| Box::new(Null::new(1)) as Box<dyn PacketIo>).collect())
    }

    #[test]
    fn threads_share_shared_devices_and_one_replies_to_arp() {
        let threads: Vec<_> =
            (0..4).map(|thread| OpenOptions::at(([10, 0, 0, 1], 7 + thread).into())).collect();
        let all = |words: &[&str]| {
            let specs = words.iter().map(|words| words.parse().unwrap()).collect();
            let cores = "4,2,1,3".parse().unwrap();
            let mut opener = ThreadOpener::new(specs, note);
            (0..4).for_each(|thread| drop(opener.open(thread, &threads, &cores).unwrap()));
            std::mem::take(&mut *OPENED.lock().unwrap())
        };
        let four = vec![(7, true), (8, false), (9, false), (10, false)];
        assert_eq!(all(&["af-xdp:a"]), [("af-xdp:a".to_owned(), four, "4,2,1,3".to_owned())]);
        let two = [
            ("af-xdp:a".to_owned(), vec![(7, true), (9, false)], "4,1".to_owned()),
            ("af-xdp:b".to_owned(), vec![(8, true), (10, false)], "2-3".to_owned()),
        ];
        assert_eq!(all(&["af-xdp:a", "af-xdp:b"]), two);
        let each = |port, answers| ("af-packet:a".to_owned(), vec![(port, answers)], "no core".to_owned());
        assert_eq!(all(&["af-packet:a"]), [each(7, true), each(8, false), each(9, false), each(10, false)]);
        let unreachable = ThreadOpener::new(Vec::new(), note).open(0, &[], &Cores::default());
        assert!(matches!(unreachable.map(drop), Err(IoError::Unsupported(_))));
    }
}
