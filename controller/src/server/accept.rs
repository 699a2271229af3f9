//! Accepting connections, in spite of errors.

use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pause after an error that will not pass by itself at once, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Forwards what `accept` yields until the receiver is dropped. Errors of single connections are passed over; other
/// errors are waited out, since closing other sessions cures them.
pub(super) async fn run<T>(mut accept: impl AsyncFnMut() -> io::Result<T>, accepted: mpsc::Sender<T>) {
    loop {
        let connection = tokio::select! {
            connection = accept() => connection,
            () = accepted.closed() => return,
        };
        match connection {
            Ok(connection) => {
                if accepted.send(connection).await.is_err() {
                    return;
                }
            }
            Err(error) if is_of_one_connection(&error) => tokio::task::yield_now().await,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_survived() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (sender, mut receiver) = mpsc::channel(1);
            let mut calls = 0;
            let accept = async || {
                calls += 1;
                match calls {
                    1 => Err(io::ErrorKind::ConnectionAborted.into()),
                    2 => Err(io::Error::other("too many open files")),
                    5 => std::future::pending().await,
                    call => Ok(call),
                }
            };
            let take = async {
                let got = (receiver.recv().await, receiver.recv().await);
                drop(receiver);
                got
            };
            let (got, ()) = tokio::join!(take, run(accept, sender));
            assert_eq!(got, (Some(3), Some(4)));
        });
    }
}
