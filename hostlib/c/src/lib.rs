//! Netfold's host library for C: `netfold.h`, `libnetfold.so` and `libnetfold.a`.
//!
//! Conventions, those of rustls-ffi: every function returns a [`netfold_result`] and writes outputs through pointers, on success
//! only; objects are opaque, made by `_new` and `_connect` and freed by `_free`, which takes null; null where memory is needed is an
//! error; a panic is caught and becomes [`netfold_result::Panic`]. The message of a thread's last failed call is kept for
//! [`netfold_last_error`].
//!
//! The header is generated from this crate and committed; a test compares the two.
#![expect(non_camel_case_types, reason = "C's names of types")]
#![expect(
    unsafe_code,
    reason = "works on pointers of C callers, by the contract in each function's documentation"
)]

mod builder;
mod communicator;
mod exchange;
mod guard;
mod logging;
mod resize;
mod result;
mod tolerance;
mod work;

pub use builder::{
    netfold_all_gather_fn, netfold_builder, netfold_builder_connect, netfold_builder_free,
    netfold_builder_new, netfold_builder_set_authenticated, netfold_builder_set_busy_poll,
    netfold_builder_set_classes, netfold_builder_set_confidential, netfold_builder_set_controller,
    netfold_builder_set_controller_ca, netfold_builder_set_device_quantization, netfold_builder_set_exchange,
    netfold_builder_set_fall_back, netfold_builder_set_group, netfold_builder_set_host,
    netfold_builder_set_idle_timeout, netfold_builder_set_importance, netfold_builder_set_job,
    netfold_builder_set_join_timeout, netfold_builder_set_local_ip, netfold_builder_set_mode,
    netfold_builder_set_rank, netfold_builder_set_rendezvous, netfold_builder_set_rounding,
    netfold_builder_set_shared_memory, netfold_builder_set_slots, netfold_builder_set_stall_timeout,
    netfold_builder_set_switch, netfold_builder_set_tenant, netfold_builder_set_tolerance,
    netfold_builder_set_trees, netfold_builder_set_world_size, netfold_mode, netfold_mode_from_name,
    netfold_rounding,
};
pub use communicator::{
    netfold_collective, netfold_comm, netfold_comm_abort, netfold_comm_all_reduce,
    netfold_comm_all_reduce_with_feedback, netfold_comm_barrier, netfold_comm_failure, netfold_comm_free,
    netfold_comm_leave, netfold_comm_network, netfold_comm_path, netfold_comm_rank, netfold_comm_run,
    netfold_comm_split, netfold_comm_start, netfold_comm_start_cuda, netfold_comm_start_cuda_with_feedback,
    netfold_comm_start_in_class, netfold_comm_start_tolerating, netfold_comm_start_with_feedback,
    netfold_comm_tree_shares, netfold_comm_world_size, netfold_dtype, netfold_network, netfold_op,
};
pub use logging::{netfold_log_fn, netfold_log_level, netfold_set_log};
pub use resize::{
    netfold_builder_join_running, netfold_builder_set_resizable, netfold_comm_generation, netfold_comm_grow,
    netfold_comm_lost, netfold_comm_membership_address, netfold_comm_shrink, netfold_comm_survivors,
};
pub use result::{
    netfold_advice, netfold_last_error, netfold_last_error_advice, netfold_last_error_peer, netfold_result,
    netfold_result_name,
};
pub use work::{
    netfold_work, netfold_work_free, netfold_work_left_out, netfold_work_test, netfold_work_wait,
    netfold_work_wait_on_stream,
};

use core::ffi::c_char;

/// Version of this interface: raised when a program compiled against an older header would break.
pub const NETFOLD_ABI_VERSION: u32 = 1;

/// The library's version, for example "0.1.0": static, never null.
#[unsafe(no_mangle)]
pub extern "C" fn netfold_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The interface version of the library that is loaded; compare it with NETFOLD_ABI_VERSION of the header.
#[unsafe(no_mangle)]
pub extern "C" fn netfold_abi_version() -> u32 {
    NETFOLD_ABI_VERSION
}
