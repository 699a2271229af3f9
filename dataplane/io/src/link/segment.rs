//! An Ethernet segment in memory, for tests: all other stations may receive what one sends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::{Link, LinkProperties};
use crate::waker::ThreadWaker;
use crate::{IoCounters, IoError, PortId, RxBatch};

/// `stations` links on one segment. Each receives frames to its own Ethernet address (02:00:00:00:00:01 and so on), to groups, and to all;
/// takes up to `frames` of them, each of up to `frame_len_max` bytes, before senders feel back-pressure; and queues as many to send.
///
/// A unicast frame to a station that is full stays with its sender, and holds up the frames behind it; a frame to all passes by
/// those that are full. Every frame costs a lock and a copy: nothing to measure with.
#[must_use]
pub fn segment(stations: usize, frames: usize, frame_len_max: usize) -> Vec<Station> {
    let places = (0..stations).map(|index| Place {
        mac: mac(index),
        queue: Mutex::new(Queue::new(frames, frame_len_max)),
        waker: Arc::default(),
    });
    let places: Arc<[Place]> = places.collect();
    let station = |index| Station {
        index,
        places: Arc::clone(&places),
        sending: Queue::new(frames, frame_len_max),
        lent: None,
        frame_len_max,
        counters: IoCounters::default(),
    };
    (0..stations).map(station).collect()
}

fn mac(index: usize) -> [u8; 6] {
    let [a, b] = (index as u16 + 1).to_be_bytes();
    [2, 0, 0, 0, a, b]
}

/// A bounded queue of frames in memory that is allocated once.
#[derive(Debug)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    free: Vec<Vec<u8>>,
}

impl Queue {
    fn new(frames: usize, frame_len_max: usize) -> Self {
        let free = (0..frames).map(|_| Vec::with_capacity(frame_len_max)).collect();
        Self { frames: VecDeque::with_capacity(frames), free }
    }

    /// Appends a copy of a frame; `false` when it is full.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let Some(mut frame) = self.free.pop() else { return false };
        frame.clear();
        frame.extend_from_slice(bytes);
        self.frames.push_back(frame);
        true
    }

    fn pop(&mut self) {
        self.free.extend(self.frames.pop_front());
    }
}

#[derive(Debug)]
struct Place {
    mac: [u8; 6],
    queue: Mutex<Queue>,
    waker: Arc<ThreadWaker>,
}

impl Place {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One station of a [`segment`].
#[derive(Debug)]
pub struct Station {
    index: usize,
    places: Arc<[Place]>,
    sending: Queue,
    lent: Option<Vec<u8>>,
    frame_len_max: usize,
    counters: IoCounters,
}

impl Station {
    /// Sends the oldest frame; `false` when its receiver is full.
    fn send(&self, frame: &[u8]) -> bool {
        let (to, group) = (frame.get(..6), frame.first().is_some_and(|byte| byte & 1 == 1));
        let others = self.places.iter().enumerate().filter(|(index, _)| *index != self.index);
        for (_, place) in others.filter(|(_, place)| group || to == Some(&place.mac[..])) {
            let taken = place.queue().push(frame);
            if taken {
                place.waker.notify_if_sleeping();
            } else if !group {
                return false;
            }
        }
        true
    }
}

impl Link for Station {
    fn properties(&self) -> LinkProperties {
        LinkProperties {
            name: "segment",
            mac: mac(self.index),
            frame_len_max: self.frame_len_max,
            bits_per_second: None,
            burst_max: 64,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let mut queue = self.places[self.index].queue();
        let mut freed = false;
        while let Some(frame) = queue.frames.front() {
            if frame.len() > self.frame_len_max || frame.len() > batch.memory().len() {
                self.counters.truncated += 1;
            } else if !batch.push(PortId(0), frame, 0) {
                break;
            }
            queue.pop();
            freed = true;
        }
        drop(queue);
        if freed {
            // A station that waits for room here checks again.
            self.places.iter().for_each(|place| place.waker.notify_if_sleeping());
        }
        Ok(batch.len())
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.frame_len_max {
            return None;
        }
        let mut frame = self.lent.take().or_else(|| self.sending.free.pop())?;
        frame.resize(len, 0xa5);
        Some(self.lent.insert(frame))
    }

    fn push(&mut self) {
        let frame = self.lent.take().expect("frame() lends what push() queues");
        self.sending.frames.push_back(frame);
    }

    fn flush(&mut self) -> Result<(), IoError> {
        while let Some(frame) = self.sending.frames.pop_front() {
            if !self.send(&frame) {
                self.sending.frames.push_front(frame);
                break;
            }
            self.sending.free.push(frame);
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.flush()?;
        let (own, before) = (&self.places[self.index], self.sending.frames.len());
        let first = self.sending.frames.front();
        let room = || {
            let to = first
                .and_then(|frame| self.places.iter().find(|place| frame.get(..6) == Some(&place.mac[..])));
            before > 0 && to.is_none_or(|place| !place.queue().free.is_empty())
        };
        let ready = || !own.queue().frames.is_empty() || room();
        let woken = own.waker.wait(timeout, &mut self.counters.sleeps, ready);
        self.flush()?;
        Ok(woken)
    }

    fn waker(&self) -> Waker {
        self.places[self.index].waker.waker()
    }

    fn counters(&self) -> IoCounters {
        self.counters
    }
}
