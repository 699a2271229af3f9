//! The handle by which the other ranks find rank 0's segment.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::shared::error::SharedError;
use crate::shared::layout::{Layout, VERSION, WORLD_MAX};

const MAGIC: &[u8; 4] = b"NFSH";
const FIXED: usize = 4 + 4 + 2 + 4 + 16;
const PATH_BYTES_MAX: usize = 512;
pub(crate) const PREFIX: &str = "netfold-";

/// Names a segment: pass its bytes to the other ranks of the host, which use them in [`SharedGroup::join`](crate::shared::SharedGroup::join).
///
/// Bytes, big-endian: `NFSH`, version (4), world (2), segment length (4), token (16), path (the rest, at most 512). A process
/// of the same user that has them may join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedHandle {
    pub(crate) layout: Layout,
    pub(crate) token: [u8; 16],
    pub(crate) path: PathBuf,
}

impl SharedHandle {
    /// The handle as bytes, fit for [`from_bytes`](Self::from_bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + PATH_BYTES_MAX);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.layout.world.to_be_bytes());
        bytes.extend_from_slice(&(self.layout.segment_bytes as u32).to_be_bytes());
        bytes.extend_from_slice(&self.token);
        bytes.extend_from_slice(self.path.as_os_str().as_bytes());
        bytes
    }

    /// Reads a handle. Checks its form alone; [`SharedGroup::join`](crate::shared::SharedGroup::join) checks the segment.
    ///
    /// # Errors
    ///
    /// [`SharedError::Handle`]: the bytes come from another version, or are not a handle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SharedError> {
        let bad = |what| SharedError::Handle { what };
        let (fixed, path) = bytes.split_at_checked(FIXED).ok_or(bad("too short"))?;
        let (magic, fixed) = fixed.split_at(4);
        let (version, fixed) = fixed.split_at(4);
        let (world, fixed) = fixed.split_at(2);
        let (segment_bytes, token) = fixed.split_at(4);
        if magic != MAGIC {
            return Err(bad("wrong magic bytes"));
        }
        if number(version) != u64::from(VERSION) {
            return Err(bad("another version; all ranks need the same Netfold"));
        }
        let world = number(world) as u16;
        let segment_bytes = number(segment_bytes) as usize;
        if world == 0 || world > WORLD_MAX {
            return Err(bad("impossible number of ranks"));
        }
        let layout = Layout::new(world, segment_bytes);
        if layout.segment_bytes != segment_bytes {
            return Err(bad("impossible segment length"));
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(bad("path too long"));
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        if !path.is_absolute() || !is_ours(&path) {
            return Err(bad("not a path of a segment"));
        }
        let token = token.try_into().map_err(|_| bad("too short"))?;
        Ok(Self { layout, token, path })
    }

    /// The name of a new segment in `directory`.
    pub(crate) fn path_in(directory: &Path, token: &[u8; 16]) -> PathBuf {
        // The token proves possession of the handle, so the public name reveals only half of it, mixed.
        let name: String =
            (0..8).map(|i| format!("{:02x}", token[i] ^ token[i + 8].rotate_left(3))).collect();
        directory.join(format!("{PREFIX}{name}"))
    }
}

/// Whether a file has a name as [`SharedHandle::path_in`] makes them.
pub(crate) fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> SharedHandle {
        let token = *b"0123456789abcdef";
        SharedHandle {
            layout: Layout::new(4, 256 << 10),
            token,
            path: SharedHandle::path_in(Path::new("/dev/shm"), &token),
        }
    }

    #[test]
    fn a_handle_encodes_and_decodes() {
        assert_eq!(SharedHandle::from_bytes(&handle().to_bytes()).unwrap(), handle());
    }

    #[test]
    fn malformed_handles_are_refused() {
        let good = handle().to_bytes();
        for len in 0..good.len() {
            assert!(SharedHandle::from_bytes(&good[..len]).is_err(), "{len} bytes");
        }
        // Not the token at 14..30, nor the directory behind it, of which any is well formed.
        for at in (0..14).chain([30]).chain(39..good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 0x81;
            assert!(SharedHandle::from_bytes(&bad).is_err(), "byte {at}");
        }
        let mut long = good;
        long.extend([b'0'; 600]);
        assert!(SharedHandle::from_bytes(&long).is_err());
        assert!(SharedHandle::from_bytes(&[0xff; 64]).is_err());
    }
}
