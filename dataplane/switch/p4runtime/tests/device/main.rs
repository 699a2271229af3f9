//! Every door of the P4Runtime server, over real sockets.

mod arbitration;
mod entities;
mod pipeline;
mod rig;
mod stream;
