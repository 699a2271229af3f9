//! Frames that wait to be handed to a socket.

/// A ring of places for frames, each as long as the longest. Allocated once.
#[derive(Debug)]
pub(super) struct Staging {
    memory: Vec<u8>,
    lens: Vec<usize>,
    frame_len_max: usize,
    first: usize,
    count: usize,
}

impl Staging {
    pub(super) fn new(frames: usize, frame_len_max: usize) -> Self {
        Self {
            memory: vec![0; frames * frame_len_max],
            lens: vec![0; frames],
            frame_len_max,
            first: 0,
            count: 0,
        }
    }

    fn place(&self, index: usize) -> usize {
        (self.first + index) % self.lens.len()
    }

    /// The next place, `len` bytes of it; `None` when all are taken or are shorter.
    pub(super) fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.count == self.lens.len() || len > self.frame_len_max {
            return None;
        }
        let place = self.place(self.count);
        self.lens[place] = len;
        Some(&mut self.memory[place * self.frame_len_max..][..len])
    }

    /// Queues what was lent last.
    pub(super) fn push(&mut self) {
        assert!(self.count < self.lens.len(), "lend() says where the frame is that push() queues");
        self.count += 1;
    }

    /// The frames, oldest first.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).map(|index| {
            let place = self.place(index);
            &self.memory[place * self.frame_len_max..][..self.lens[place]]
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets the oldest `count` frames.
    pub(super) fn pop(&mut self, count: usize) {
        let count = count.min(self.count);
        self.first = self.place(count);
        self.count -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_around_the_end() {
        let mut staging = Staging::new(3, 4);
        let mut next = 0_u8;
        for round in 0..5 {
            while let Some(place) = staging.lend(1 + usize::from(next % 4)) {
                place.fill(next);
                staging.push();
                next += 1;
            }
            let frames: Vec<&[u8]> = staging.frames().collect();
            assert!(
                frames.len() == 3 && frames.iter().all(|frame| frame.len() == 1 + usize::from(frame[0] % 4))
            );
            assert!(frames.is_sorted(), "round {round}");
            staging.pop(2);
        }
        assert!(staging.lend(5).is_none());
    }
}
