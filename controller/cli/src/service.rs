//! Notifications to systemd about a service's state, as sd_notify(3) describes them.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Environment variable with the address of systemd's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends assignments such as `READY=1`, separated by line breaks. Without systemd, or in a service that is not of `Type=notify`, it does
/// nothing.
pub(crate) fn notify(state: &str) {
    if let Err(error) = send(state) {
        log::warn!("cannot notify systemd: {error}");
    }
}

fn send(state: &str) -> io::Result<()> {
    let Some(address) = env::var_os(SOCKET).filter(|address| !address.is_empty()) else { return Ok(()) };
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(path)))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
