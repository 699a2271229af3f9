//! An operation, from its submission to its report.

use std::time::Instant;

use crate::buffer::OpBuffer;
use crate::error::Error;
use crate::mailbox::QueueItem;
use crate::report::OpReport;

/// An operation on its way through the library's threads: `request` is what is to be done, for a switch or for hosts.
#[derive(Debug)]
pub(crate) struct Operation<R> {
    pub(crate) request: R,
    pub(crate) buffer: OpBuffer,
    pub(crate) submitted: Instant,
}

impl<R> Operation<R> {
    /// An operation that is submitted now.
    pub(crate) fn new(request: R, buffer: OpBuffer) -> Self {
        Self { request, buffer, submitted: Instant::now() }
    }

    /// Settles the operation with its report, to which the elapsed time is added.
    pub(crate) fn finish(self, report: OpReport) {
        let elapsed = self.submitted.elapsed();
        self.buffer.finish(Ok(OpReport { elapsed, ..report }));
    }

    /// Settles the operation with an error.
    pub(crate) fn fail(self, error: Error) {
        self.buffer.finish(Err(error));
    }
}

impl<R> QueueItem for Operation<R> {
    fn reject(self, error: Error) {
        self.fail(error);
    }
}
