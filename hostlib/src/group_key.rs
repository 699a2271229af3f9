//! The secret that the ranks of a confidential job have in common.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of a key.
const LEN: usize = 32;

/// Longest file that is read: the digits, and white space around them.
const FILE_LEN_MAX: u64 = 256;

/// Permission bits that let other users than the owner read, write or execute a file.
const OTHERS: u32 = 0o077;

/// A secret of 256 bits that all ranks of a [confidential](crate::Builder::confidential) job hold, and no other process: neither
/// switches nor controllers need it. Its text is 64 hexadecimal digits.
///
/// It is never printed, and erased from memory when it is dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct GroupKey([u8; LEN]);

/// Why there is no group key.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GroupKeyError {
    /// Not 64 hexadecimal digits. What was given instead is not repeated: it may be a secret.
    #[error("a group key is 64 hexadecimal digits")]
    Digits,
    /// The file cannot be read or written.
    #[error("cannot use the group key file {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: Arc<io::Error>,
    },
    /// The file holds something else.
    #[error("the file {} is no group key: it must hold 64 hexadecimal digits", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// Other users of this host may read or write the file.
    #[error("the group key file {} has permissions {mode:04o}: other users have access to it; run chmod 600", .path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The system has no random numbers.
    #[error("the system supplies no random numbers: {0}")]
    Random(getrandom::Error),
}

impl GroupKey {
    /// A new key from the system's random number generator.
    ///
    /// # Errors
    ///
    /// [`GroupKeyError::Random`].
    pub fn generate() -> Result<Self, GroupKeyError> {
        let mut key = Self([0; LEN]);
        getrandom::fill(&mut key.0).map_err(GroupKeyError::Random)?;
        Ok(key)
    }

    /// Reads a file that holds the 64 digits, and white space around them. As ssh does with private keys, a file to which other users
    /// have access is refused.
    ///
    /// # Errors
    ///
    /// [`GroupKeyError::File`], [`GroupKeyError::Permissions`], [`GroupKeyError::Content`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, GroupKeyError> {
        let path = path.as_ref();
        let failed = |source| GroupKeyError::File { path: path.to_owned(), source: Arc::new(source) };
        let file = File::open(path).map_err(failed)?;
        // Of the file that is open, so that no other takes its place.
        let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(GroupKeyError::Permissions { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(Vec::with_capacity(FILE_LEN_MAX as usize));
        file.take(FILE_LEN_MAX).read_to_end(&mut text).map_err(failed)?;
        let digits = std::str::from_utf8(&text).map(str::trim).unwrap_or_default();
        digits.parse().map_err(|_| GroupKeyError::Content { path: path.to_owned() })
    }

    /// Writes the digits and a line feed to a new file, which its owner alone may read and write.
    ///
    /// # Errors
    ///
    /// [`GroupKeyError::File`], also when the file exists: a key is never overwritten.
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<(), GroupKeyError> {
        let path = path.as_ref();
        let mut text = Zeroizing::new(String::with_capacity(2 * LEN + 1));
        for byte in self.0 {
            text.extend(
                [byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')),
            );
        }
        text.push('\n');
        let create = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        create().map_err(|source| GroupKeyError::File { path: path.to_owned(), source: Arc::new(source) })
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for GroupKey {
    type Err = GroupKeyError;

    /// From 64 hexadecimal digits.
    fn from_str(digits: &str) -> Result<Self, GroupKeyError> {
        let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return Err(GroupKeyError::Digits) };
        if pairs.len() != LEN {
            return Err(GroupKeyError::Digits);
        }
        let mut key = Self([0; LEN]);
        for (byte, pair) in key.0.iter_mut().zip(pairs) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(GroupKeyError::Digits);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(key)
    }
}

impl From<[u8; LEN]> for GroupKey {
    fn from(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for GroupKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("netfold-{}-{name}.key", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn keys_are_64_digits() {
        let key: GroupKey = DIGITS.parse().unwrap();
        assert!(key.bytes().iter().copied().eq(0..32));
        for bad in ["", &DIGITS[1..], &DIGITS[2..], &DIGITS.replace('A', "g"), &DIGITS.replace("1A", "é")] {
            assert!(matches!(bad.parse::<GroupKey>(), Err(GroupKeyError::Digits)), "{bad}");
        }
        assert_eq!(format!("{key:?}"), "GroupKey");
    }

    #[test]
    fn files_are_created_once_and_read_back() {
        let path = path("created");
        let key = GroupKey::generate().unwrap();
        key.create_file(&path).unwrap();
        assert_eq!(GroupKey::from_file(&path).unwrap().bytes(), key.bytes());
        let error = key.create_file(&path).unwrap_err();
        assert!(matches!(error, GroupKeyError::File { .. }), "{error}");
        assert_ne!(GroupKey::generate().unwrap().bytes(), key.bytes());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn files_that_others_may_read_are_refused() {
        let path = path("readable");
        std::fs::write(&path, format!("  {DIGITS}\n")).unwrap();
        for (mode, accepted) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = GroupKey::from_file(&path);
            assert_eq!(read.is_ok(), accepted, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains(&format!("{mode:04o}")), "{error}");
            }
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for bad in ["", "secret", &DIGITS[2..]] {
            std::fs::write(&path, bad).unwrap();
            let error = GroupKey::from_file(&path).unwrap_err();
            assert!(matches!(error, GroupKeyError::Content { .. }), "{error}");
            assert!(bad.is_empty() || !error.to_string().contains(bad), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(GroupKey::from_file(&path), Err(GroupKeyError::File { .. })));
    }
}
