//! Every type in a signature or a field of the public interface can be named by a crate that depends on `netfold` alone.

use netfold::confidential::{CodedChunk, Masks, OpId};
use netfold::{
    AbortReason, Admission, Builder, Communicator, CoreError, Cores, CudaCurrent, CudaDevice, CudaError,
    DType, DeviceBlocks, DeviceQuantizer, Error, GroupKey, GroupKeyError, IoCounters, IoError, IoSpec, Lanes,
    MeshError, OpSpecError, OpenOptions, PacketIo, PortProtocol, Refusal, SharedError, Stats,
    WorkerConfigError, WorkerStats,
};

#[test]
fn the_types_of_options_errors_and_reports_have_names() {
    let _: fn(Builder, IoSpec) -> Builder = Builder::io;
    let _: fn(Builder, Cores) -> Builder = Builder::cores;
    let _: fn(Builder, GroupKey) -> Builder = Builder::confidential;
    let _: fn(&mut Masks, CodedChunk, &mut [u8]) = Masks::add;
    let _: fn(u64) -> OpId = OpId;
    let _: fn(Builder, Box<dyn PacketIo>, Admission) -> Builder = Builder::transport;
    let open = |_: &OpenOptions| -> Result<Box<dyn PacketIo>, IoError> { Err(IoError::PeerClosed) };
    let _: Builder = Communicator::builder().io_by(open);
    let _: fn(Lanes, u16) -> netfold::quantize::Quantizer = netfold::quantize::Quantizer::new;
    let _: fn(&CudaDevice) -> Result<CudaCurrent<'_>, CudaError> = CudaDevice::enter;
    let _: fn(&DeviceQuantizer) -> usize = DeviceQuantizer::block;
    let _: fn(DeviceBlocks) -> DType = |blocks| blocks.dtype;
    let _: fn(&Stats) -> (&WorkerStats, &IoCounters) = |stats| (&stats.worker, &stats.io);
    assert!(cause(&Error::from(IoError::PeerClosed)).is_none());
}

/// The cause in an error that carries one of another crate's types.
fn cause(error: &Error) -> Option<&dyn std::any::Any> {
    Some(match error {
        Error::Config(cause) => cause as &WorkerConfigError,
        Error::Core(cause) => &**cause as &CoreError,
        Error::GroupKey(cause) => cause as &GroupKeyError,
        Error::Refused { reason, .. } => reason as &Refusal,
        Error::WrongPort { found, .. } => found as &PortProtocol,
        Error::Mesh(cause) => &**cause as &MeshError,
        Error::Shared(cause) => &**cause as &SharedError,
        Error::Length(cause) => cause as &OpSpecError,
        Error::Aborted(reason) => reason as &AbortReason,
        _ => return None,
    })
}
