//! All-gathers and reduce-scatters in windows, as NCCL's proxy cuts them: one part of memory for each, the window's bytes anywhere in the
//! tensor of all ranks, and of this rank's own part a pointer to what the window has of it.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;

use crate::bootstrap::{RankContext, until};
use crate::groups::TIMEOUT;
use crate::plugin::{CollNet, Window, log_lines};
use crate::tensor::{REDUCTIONS, expected, input, size_of};

type Ptr = *mut c_void;

/// Written behind every output.
const SENTINEL: u8 = 0x5a;

/// A request: its window, what it reads and writes, and the right result.
struct Request {
    what: String,
    input: Vec<u8>,
    output: Vec<u8>,
    right: Vec<u8>,
    window: Window,
    /// Type and operation of a reduce-scatter; `None` for an all-gather.
    reduction: Option<(i32, i32)>,
    request: Ptr,
}

/// What a window has of a rank's part, as a range of the tensor of all ranks.
fn section(rank: usize, window: &Window) -> Range<usize> {
    let first = (rank * window.bytes_per_rank).max(window.offset);
    let last = ((rank + 1) * window.bytes_per_rank).min(window.offset + window.bytes);
    first..last.max(first)
}

fn output(len: usize) -> Vec<u8> {
    let mut output = vec![0; len + 1];
    output[len] = SENTINEL;
    output
}

impl Request {
    /// `parts` has every rank's part.
    fn all_gather(place: &RankContext, parts: &[u8], window: Window) -> Self {
        let own = section(place.rank, &window);
        Self {
            what: format!("all-gather of {window:?}"),
            input: parts[own].to_vec(),
            output: output(window.bytes),
            right: parts[window.offset..][..window.bytes].to_vec(),
            window,
            reduction: None,
            request: null_mut(),
        }
    }

    /// `tensor` is this rank's, `sums` those of all ranks.
    fn reduce_scatter(
        place: &RankContext,
        (tensor, sums): (&[u8], &[u8]),
        reduction: (i32, i32),
        window: Window,
    ) -> Self {
        let own = section(place.rank, &window);
        Self {
            what: format!("reduce-scatter {reduction:?} of {window:?}"),
            input: tensor[window.offset..][..window.bytes].to_vec(),
            output: output(own.len()),
            right: sums[own].to_vec(),
            window,
            reduction: Some(reduction),
            request: null_mut(),
        }
    }

    fn post(&mut self, coll: &CollNet, comm: Ptr) -> bool {
        let (send, recv) = (self.input.as_mut_ptr(), self.output.as_mut_ptr());
        let posted = match self.reduction {
            None => coll.all_gather(comm, send, recv, self.window),
            Some(reduction) => coll.reduce_scatter(comm, send, recv, self.window, reduction),
        };
        self.request =
            posted.unwrap_or_else(|code| panic!("{}: {code}: {:?}", self.what, log_lines().last()));
        !self.request.is_null()
    }

    fn finish(&self, coll: &CollNet) {
        let bytes = until("a request", TIMEOUT, || {
            coll.0.test(self.request).unwrap_or_else(|code| panic!("test: {code}: {:?}", log_lines().last()))
        });
        let (sentinel, got) = self.output.split_last().unwrap();
        assert_eq!(bytes as usize, got.len(), "{}", self.what);
        assert_eq!(*sentinel, SENTINEL, "{}: written beyond the end", self.what);
        let wrong = got.iter().zip(&self.right).position(|(got, right)| got != right);
        assert!(wrong.is_none() && got.len() == self.right.len(), "{}: byte {wrong:?} is wrong", self.what);
    }
}

/// Windows of `bytes` bytes, one behind the other, from an offset on.
fn windows(bytes_per_rank: usize, world: usize, bytes: usize, first: usize) -> Vec<Window> {
    let end = bytes_per_rank * world;
    let from = (first..end).step_by(bytes);
    from.map(|offset| Window { bytes_per_rank, offset, bytes: bytes.min(end - offset) }).collect()
}

/// Requests of both kinds over windows of many sizes, several in flight. Returns how many were done.
pub(crate) fn everything(place: &RankContext, coll: &CollNet, comm: Ptr) -> usize {
    let mut flying: VecDeque<Request> = VecDeque::new();
    let mut done = 0;
    let counts = if place.is_thorough() { &[1, 7, 1003, 30_000][..] } else { &[1, 7, 1003] };
    for (salt, (dtype, op, _)) in REDUCTIONS.iter().enumerate() {
        for count in counts.iter().copied() {
            let size = size_of(*dtype);
            let bytes_per_rank = count * size;
            let parts: Vec<u8> = (0..place.world).flat_map(|rank| input(*dtype, rank, salt, count)).collect();
            let tensor = input(*dtype, place.rank, salt, count * place.world);
            let sums = expected(*dtype, *op, place.world, salt, count * place.world);
            // All parts; parts of one rank each; windows that end within parts.
            let sizes = [
                bytes_per_rank * place.world,
                bytes_per_rank,
                (count * 3 / 5).max(1) * size,
                (count + 1) * size,
            ];
            for window in sizes.into_iter().flat_map(|bytes| windows(bytes_per_rank, place.world, bytes, 0)) {
                for mut request in [
                    Request::all_gather(place, &parts, window),
                    Request::reduce_scatter(place, (&tensor, &sums), (*dtype, *op), window),
                ] {
                    while !request.post(coll, comm) {
                        flying.pop_front().expect("there is room when nothing is in flight").finish(coll);
                        done += 1;
                    }
                    flying.push_back(request);
                }
            }
        }
    }
    for request in flying {
        request.finish(coll);
        done += 1;
    }
    done
}

/// Windows that NCCL never gives are refused, alike on all ranks, and harm nothing.
pub(crate) fn mistakes(coll: &CollNet, comm: Ptr) {
    let (mut send, mut recv) = ([0; 64], [0; 64]);
    let window = |offset, bytes| Window { bytes_per_rank: 16, offset, bytes };
    for window in [window(0, 68), window(64, 4), window(60, 8), window(usize::MAX, 4)] {
        assert!(coll.all_gather(comm, send.as_mut_ptr(), recv.as_mut_ptr(), window).is_err(), "{window:?}");
    }
    let cut = coll.reduce_scatter(comm, send.as_mut_ptr(), recv.as_mut_ptr(), window(2, 8), (7, 0));
    assert!(cut.is_err(), "a window that cuts an element");
    let unsupported = coll.reduce_scatter(comm, send.as_mut_ptr(), recv.as_mut_ptr(), window(0, 16), (7, 1));
    assert!(unsupported.is_err(), "a product");
    assert!(coll.all_gather(comm, send.as_mut_ptr(), null_mut(), window(0, 16)).is_err(), "no memory");
}
