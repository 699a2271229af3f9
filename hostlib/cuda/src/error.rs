//! What can go wrong, and what to do about it.

/// Why a call of the driver, or the use of it, failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library cannot be loaded.
    #[error(
        "CUDA's driver cannot be loaded ({reason}): install NVIDIA's driver, have NETFOLD_CUDA_LIBRARY name its library, or pass tensors in host memory"
    )]
    NoDriver {
        /// The loader's message.
        reason: String,
    },
    /// The driver's library lacks a function.
    #[error("CUDA's driver has no function {function}: update it to version {}.{} or later", needed.0, needed.1)]
    OldDriver {
        /// The function.
        function: &'static str,
        /// The first version that has all functions, major and minor.
        needed: (u32, u32),
    },
    /// A function returned an error.
    #[error("{function} failed with {name} ({code}){}", advice(*code))]
    Call {
        /// The driver's function.
        function: &'static str,
        /// The driver's number, `CUresult`.
        code: i32,
        /// The driver's name for it.
        name: String,
    },
    /// The address is not in a device's memory.
    #[error(
        "address {address:#x} is not in the memory of a CUDA device: the tensor was freed, or is in host memory"
    )]
    NotDeviceMemory {
        /// The address.
        address: u64,
    },
    /// The address is not a multiple of an element's size, which kernels need.
    #[error(
        "address {address:#x} is not a multiple of the {bytes} bytes of an element: pass an aligned tensor"
    )]
    Misaligned {
        /// The address.
        address: u64,
        /// Of an element.
        bytes: usize,
    },
    /// Memory of a call is on several devices.
    #[error("the memory of one call is on CUDA devices {first} and {second}: pass tensors of one device")]
    TwoDevices {
        /// The device of one tensor.
        first: i32,
        /// The device of the other.
        second: i32,
    },
    /// A communicator that has staged memory of another device.
    #[error(
        "this communicator serves CUDA device {used}, not {given}: make one communicator for each device"
    )]
    OtherDevice {
        /// The device of earlier calls.
        used: i32,
        /// The device of this call.
        given: i32,
    },
    /// The stream of a call is being captured into a graph.
    #[error(
        "the stream is being captured into a CUDA graph: a graph cannot wait for the network; end the capture before the call"
    )]
    Capturing,
    /// The device is too old for the kernels.
    #[error(
        "CUDA device {ordinal} has compute capability {}.{}, and the kernels that quantise need {}.{} or later: have the host quantise, on all ranks",
        capability.0, capability.1, needed.0, needed.1
    )]
    OldDevice {
        /// The device.
        ordinal: i32,
        /// Its compute capability, major and minor.
        capability: (i32, i32),
        /// The first one that will do.
        needed: (i32, i32),
    },
    /// The driver cannot compile or load the kernels.
    #[error(
        "the driver cannot load the kernels that quantise ({name}, {code}): check that libnvidia-ptxjitcompiler.so.1 of the driver's version is installed, or have the host quantise, on all ranks"
    )]
    Kernels {
        /// The driver's number, `CUresult`.
        code: i32,
        /// The driver's name for it.
        name: String,
    },
    /// There is not enough memory that can be pinned.
    #[error("{bytes} bytes of pinned host memory cannot be allocated ({name}): free memory of this host")]
    Pinned {
        /// The bytes needed.
        bytes: usize,
        /// The driver's name for the error.
        name: String,
    },
}

/// What to do about the driver's most frequent errors.
fn advice(code: i32) -> &'static str {
    match code {
        2 => ": free memory of the device",
        3 => ": CUDA was used before the process was forked; start processes with spawn",
        100 | 101 => ": check nvidia-smi and CUDA_VISIBLE_DEVICES",
        400 => ": the stream or event belongs to another device or was destroyed",
        700..=719 => ": a kernel or copy has failed before; the process must be restarted",
        801 => ": this device or driver cannot make a stream wait for memory",
        803 | 804 => ": the driver does not fit the device or its kernel module; update it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let fault = CudaError::Call { function: "cuEventQuery", code: 700, name: "ILLEGAL_ADDRESS".into() };
        let text = fault.to_string();
        assert!(text.starts_with("cuEventQuery failed with ILLEGAL_ADDRESS (700)"), "{text}");
        assert!(text.ends_with("the process must be restarted"), "{text}");
        let old = CudaError::OldDriver { function: "cuLaunchHostFunc", needed: (12, 0) };
        assert_eq!(
            old.to_string(),
            "CUDA's driver has no function cuLaunchHostFunc: update it to version 12.0 or later"
        );
    }
}
