//! The generated fast paths.

use netfold_p4::profile::Numerics;

use crate::runtime::Pipeline;

macro_rules! generated {
    ($($module:ident),+ $(,)?) => {
        $(
            #[expect(unsafe_code, reason = "generated: calls of the SIMD builds, after detection")]
            #[allow(missing_docs, clippy::all, reason = "generated text")]
            mod $module {
                use crate::runtime as rt;
                include!(concat!(env!("OUT_DIR"), "/", stringify!($module), ".rs"));
            }
        )+
    };
}

/// Every fast path, empty and zeroed.
const GENERATED: [fn() -> Box<dyn Pipeline>; 10] = [
    || Box::new(datagram_64::Program::new()),
    || Box::new(datagram_352::Program::new()),
    || Box::new(datagram_2048::Program::new()),
    || Box::new(ethernet_64::Program::new()),
    || Box::new(ethernet_352::Program::new()),
    || Box::new(ethernet_2048::Program::new()),
    || Box::new(saturating_352::Program::new()),
    || Box::new(wide_352::Program::new()),
    || Box::new(half_352::Program::new()),
    || Box::new(float_352::Program::new()),
];

/// The fast path that was generated from the program with this fingerprint.
pub(crate) fn generated(fingerprint: u64) -> Option<Box<dyn Pipeline>> {
    let mut made = GENERATED.iter().map(|make| make());
    made.find(|pipeline| pipeline.info().fingerprint == fingerprint)
}

generated!(datagram_64, datagram_352, datagram_2048, ethernet_64, ethernet_352, ethernet_2048);
generated!(saturating_352, wide_352, half_352, float_352);

/// Payload sizes in bytes for which a fast path exists; the middle one suits an MTU of 1500.
pub const PAYLOADS: [u32; 3] = [256, 1408, 8192];

/// The fast path for datagrams (transports that own the outer headers) with this payload, empty and zeroed.
pub fn datagram_pipeline(payload_bytes: u32) -> Option<Box<dyn Pipeline>> {
    Some(match payload_bytes {
        256 => Box::new(datagram_64::Program::new()),
        1408 => Box::new(datagram_352::Program::new()),
        8192 => Box::new(datagram_2048::Program::new()),
        _ => return None,
    })
}

/// The fast path for Ethernet frames with this payload, empty and zeroed.
pub fn ethernet_pipeline(payload_bytes: u32) -> Option<Box<dyn Pipeline>> {
    Some(match payload_bytes {
        256 => Box::new(ethernet_64::Program::new()),
        1408 => Box::new(ethernet_352::Program::new()),
        8192 => Box::new(ethernet_2048::Program::new()),
        _ => return None,
    })
}

/// The fast path for datagrams with this payload and these numerics, empty and zeroed. Words have one for each of
/// [`PAYLOADS`], the others for 1408 bytes.
pub fn numeric_pipeline(payload_bytes: u32, numerics: Numerics) -> Option<Box<dyn Pipeline>> {
    if numerics == Numerics::Word {
        return datagram_pipeline(payload_bytes);
    }
    (payload_bytes == 1408).then(|| -> Box<dyn Pipeline> {
        match numerics {
            Numerics::Word | Numerics::Saturating => Box::new(saturating_352::Program::new()),
            Numerics::Wide => Box::new(wide_352::Program::new()),
            Numerics::Half => Box::new(half_352::Program::new()),
            Numerics::Float => Box::new(float_352::Program::new()),
        }
    })
}
