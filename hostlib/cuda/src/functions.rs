//! The driver's functions.
#![expect(unsafe_code, reason = "declares the functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::error::CudaError;

/// The version of the driver that has all functions, major and minor.
const NEEDED: (u32, u32) = (12, 0);

/// Declares the table of functions: field, symbol, parameters. All return a `CUresult`.
macro_rules! functions {
    ($($field:ident = $symbol:ident($($parameter:ty),*);)*) => {
        /// Functions of the driver, by their C types. Handles (`CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`) are pointers that only the driver reads, as `usize`.
        #[derive(Clone, Copy)]
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl Functions {
            /// Takes each function from `resolve`.
            ///
            /// # Safety
            ///
            /// What `resolve` returns for a name is the driver's function of that name, or one that does the same.
            pub(crate) unsafe fn load(
                resolve: &dyn Fn(&CStr) -> Option<*const c_void>,
            ) -> Result<Self, CudaError> {
                Ok(Self {
                    $($field: {
                        let function = stringify!($symbol);
                        let symbol = concat!(stringify!($symbol), "\0");
                        let address = CStr::from_bytes_with_nul(symbol.as_bytes()).ok().and_then(resolve);
                        let address = address.filter(|address| !address.is_null());
                        let address = address.ok_or(CudaError::OldDriver { function, needed: NEEDED })?;
                        // SAFETY: the address is that of a function with these C types, by this function's contract.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($parameter),*) -> c_int,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

/// `CUhostFn`: called by the driver's thread, and must not call the driver.
pub(crate) type HostFn = unsafe extern "C" fn(*mut c_void);

functions! {
    init = cuInit(c_uint);
    error_name = cuGetErrorName(c_int, *mut *const c_char);
    device_get = cuDeviceGet(*mut c_int, c_int);
    device_count = cuDeviceGetCount(*mut c_int);
    device_attribute = cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    context_retain = cuDevicePrimaryCtxRetain(*mut usize, c_int);
    context_release = cuDevicePrimaryCtxRelease_v2(c_int);
    context_push = cuCtxPushCurrent_v2(usize);
    context_pop = cuCtxPopCurrent_v2(*mut usize);
    stream_create = cuStreamCreate(*mut usize, c_uint);
    stream_destroy = cuStreamDestroy_v2(usize);
    stream_query = cuStreamQuery(usize);
    stream_synchronize = cuStreamSynchronize(usize);
    stream_is_capturing = cuStreamIsCapturing(usize, *mut c_int);
    stream_wait_event = cuStreamWaitEvent(usize, usize, c_uint);
    stream_wait_value = cuStreamWaitValue32_v2(usize, u64, u32, c_uint);
    stream_write_value = cuStreamWriteValue32_v2(usize, u64, u32, c_uint);
    launch_host_function = cuLaunchHostFunc(usize, HostFn, *mut c_void);
    event_create = cuEventCreate(*mut usize, c_uint);
    event_record = cuEventRecord(usize, usize);
    event_query = cuEventQuery(usize);
    event_destroy = cuEventDestroy_v2(usize);
    host_alloc = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    host_free = cuMemFreeHost(*mut c_void);
    host_device_pointer = cuMemHostGetDevicePointer_v2(*mut u64, *mut c_void, c_uint);
    device_alloc = cuMemAlloc_v2(*mut u64, usize);
    device_free = cuMemFree_v2(u64);
    copy_to_host = cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, usize);
    copy_to_device = cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, usize);
    pointer_attribute = cuPointerGetAttribute(*mut c_void, c_uint, u64);
    module_load = cuModuleLoadData(*mut usize, *const c_void);
    module_unload = cuModuleUnload(usize);
    module_function = cuModuleGetFunction(*mut usize, usize, *const c_char);
    launch_kernel = cuLaunchKernel(usize, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, usize, *mut *mut c_void, *mut *mut c_void);
}
