//! NVIDIA's compiler of CUDA C++ as a library. Declarations: NVIDIA's "NVRTC" reference, version 12.
#![expect(unsafe_code, reason = "calls a C library")]

use std::ffi::{CString, OsString, c_char, c_int};
use std::path::PathBuf;

use libloading::{Library, Symbol};

/// The environment variable with the library's path.
const VARIABLE: &str = "NETFOLD_NVRTC_LIBRARY";

type Program = usize;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

pub(crate) struct Nvrtc(Library);

impl Nvrtc {
    /// The library that the variable names, that the system has, or that is in `python3`'s package nvidia-cuda-nvrtc-cu12.
    pub(crate) fn find() -> Option<Self> {
        let named = std::env::var_os(VARIABLE);
        let names = match named {
            Some(name) => vec![name],
            None => {
                let system = ["libnvrtc.so.12", "libnvrtc.so.13"].map(OsString::from);
                system.into_iter().chain(of_python().map(PathBuf::into_os_string)).collect()
            }
        };
        // SAFETY: NVRTC's initialisers have no preconditions.
        names.iter().find_map(|name| unsafe { Library::new(name) }.ok()).map(Self)
    }

    /// Version, major and minor.
    pub(crate) fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function has these parameters, both valid for writes.
        let code = unsafe {
            let version: Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
                self.0.get(b"nvrtcVersion\0").unwrap();
            version(&raw mut major, &raw mut minor)
        };
        assert_eq!(code, 0);
        (major, minor)
    }

    /// Compiles to PTX. The error is the compiler's log.
    pub(crate) fn compile(&self, source: &str, options: &[&str]) -> Result<String, String> {
        let source = CString::new(source).unwrap();
        let options: Vec<CString> = options.iter().map(|option| CString::new(*option).unwrap()).collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = 0;
        // SAFETY: the functions have these parameters; texts end with zeros and live throughout; the program is destroyed with the process.
        unsafe {
            let create: Symbol<'_, Create> = self.0.get(b"nvrtcCreateProgram\0").unwrap();
            let compile: Symbol<'_, Compile> = self.0.get(b"nvrtcCompileProgram\0").unwrap();
            let none = std::ptr::null();
            let name = c"kernels.cu".as_ptr();
            assert_eq!(create(&raw mut program, source.as_ptr(), name, 0, none, none), 0);
            match compile(program, pointers.len() as c_int, pointers.as_ptr()) {
                0 => Ok(self.text(program, b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0")),
                _ => Err(self.text(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0")),
            }
        }
    }

    /// # Safety
    ///
    /// The program exists; the functions are those that return the size of a text of it, and the text.
    unsafe fn text(&self, program: Program, size: &[u8], text: &[u8]) -> String {
        let mut bytes = 0;
        // SAFETY: by this function's contract; the buffer has as many bytes as the library says.
        let mut buffer = unsafe {
            let size: Symbol<'_, Size> = self.0.get(size).unwrap();
            let text: Symbol<'_, Text> = self.0.get(text).unwrap();
            assert_eq!(size(program, &raw mut bytes), 0);
            let mut buffer = vec![0u8; bytes];
            assert_eq!(text(program, buffer.as_mut_ptr().cast()), 0);
            buffer
        };
        buffer.truncate(bytes.saturating_sub(1));
        String::from_utf8(buffer).unwrap()
    }
}

/// The library in the wheel of the `python3` on the path.
fn of_python() -> Option<PathBuf> {
    let script = "import nvidia.cuda_nvrtc as found; print(list(found.__path__)[0])";
    let output = std::process::Command::new("python3").args(["-c", script]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    Some(folder.join("lib/libnvrtc.so.12")).filter(|_| output.status.success())
}
