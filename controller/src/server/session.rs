//! One session: lines in, lines out, and a quiet end.

use crate::message::{Lines, Refused, decode};
use netfold_control::SessionRequest;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest wait for a peer to take a line.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a session that was ended stays half open, so that the peer reads the last line before a reset can
/// destroy it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that are read, and thrown away, of a session that was ended.
const CLOSE_BYTES_MAX: usize = 1 << 16;

/// Bytes read at once.
const READ_BYTES: usize = 1024;

/// What a session receives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionMessage {
    /// A line: a request, or why it is none.
    Line(Result<SessionRequest, Refused>),
    /// The peer closed or broke the connection.
    Closed,
    /// The peer does not read.
    Slow,
}

/// The channel for the messages that a session receives, with the hub's number of the session; none for a session that is
/// only to be refused.
pub(super) struct SessionInput<I>(pub(super) Option<(I, mpsc::Sender<(I, SessionMessage)>)>);

impl<I: Copy> SessionInput<I> {
    async fn receive(&self, message: SessionMessage) {
        if let Self(Some((session, inputs))) = self {
            // Without a hub there is no receiver.
            let _ = inputs.send((*session, message)).await;
        }
    }
}

/// Serves a session until the hub drops the sender of `outbox`, then delivers what is left in it and closes. `lines` were read of it
/// before.
///
/// All that the peer says goes to `input`, which may make it wait. After the first line that is none, or the end of the
/// connection, the peer is not read any more.
pub(super) async fn run<S: AsyncRead + AsyncWrite, I: Copy>(
    stream: S,
    mut lines: Lines,
    mut outbox: mpsc::Receiver<Vec<u8>>,
    input: SessionInput<I>,
) {
    let (mut read, mut write) = tokio::io::split(stream);
    let mut bytes = [0; READ_BYTES];
    let mut reading = pass_on(&mut lines, &input).await;
    let mut writing = true;
    loop {
        tokio::select! {
            biased;
            line = outbox.recv() => {
                let Some(line) = line else { break };
                if writing && !matches!(timeout(WRITE_TIMEOUT, write.write_all(&line)).await, Ok(Ok(()))) {
                    writing = false;
                    reading = false;
                    input.receive(SessionMessage::Slow).await;
                }
            }
            count = read.read(&mut bytes), if reading => match count {
                Ok(count) if count > 0 => {
                    lines.push(&bytes[..count]);
                    reading = pass_on(&mut lines, &input).await;
                }
                _ => {
                    reading = false;
                    input.receive(SessionMessage::Closed).await;
                }
            },
        }
    }
    if writing && write.shutdown().await.is_ok() {
        // Elapsed: the peer had its time.
        let _ = timeout(CLOSE_TIMEOUT, drain(&mut read, &mut bytes)).await;
    }
}

/// Passes on all whole lines; returns whether the session may go on.
async fn pass_on<I: Copy>(lines: &mut Lines, input: &SessionInput<I>) -> bool {
    loop {
        let message = match lines.next_line() {
            Ok(None) => return true,
            Ok(Some(line)) => decode(&line),
            Err(refused) => Err(refused),
        };
        let is_request = message.is_ok();
        input.receive(SessionMessage::Line(message)).await;
        if !is_request {
            return false;
        }
    }
}

async fn drain(read: &mut (impl AsyncRead + Unpin), bytes: &mut [u8]) {
    let mut left = CLOSE_BYTES_MAX;
    while let Ok(count @ 1..) = read.read(bytes).await {
        left = left.saturating_sub(count);
        if left == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_control::Refusal;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(future)
    }

    type Inputs = mpsc::Receiver<((), SessionMessage)>;

    /// Runs a session against `peer`, which gets its end of the connection, the sender of the outbox and what the
    /// session receives; returns the inputs that `peer` has not taken.
    fn session(
        buffer: usize,
        peer: impl AsyncFnOnce(tokio::io::DuplexStream, mpsc::Sender<Vec<u8>>, &mut Inputs),
    ) -> Vec<SessionMessage> {
        block_on(async {
            let (near, far) = tokio::io::duplex(buffer);
            let (outbox, lines) = mpsc::channel(4);
            let (inputs, mut received) = mpsc::channel(4);
            tokio::join!(
                run(near, Lines::default(), lines, SessionInput(Some(((), inputs)))),
                peer(far, outbox, &mut received)
            );
            let mut rest = Vec::new();
            while let Some(((), message)) = received.recv().await {
                rest.push(message);
            }
            rest
        })
    }

    #[test]
    fn lines_in_pieces_are_requests() {
        let rest = session(64, async |mut far, outbox, received| {
            for piece in [&b"{\"type\":"[..], b"\"alive\"}\n{\"type\":\"leave\"}", b"\n"] {
                far.write_all(piece).await.unwrap();
            }
            assert_eq!(received.recv().await.unwrap().1, SessionMessage::Line(Ok(SessionRequest::ALIVE)));
            assert_eq!(received.recv().await.unwrap().1, SessionMessage::Line(Ok(SessionRequest::Leave {})));
            drop(outbox);
        });
        assert_eq!(rest, []);
    }

    #[test]
    fn nothing_is_read_after_garbage_and_the_answer_arrives() {
        let rest = session(1 << 20, async |mut far, outbox, received| {
            let mut garbage = vec![b'x'; 5000];
            garbage.extend_from_slice(b"\n{\"type\":\"alive\"}\n");
            far.write_all(&garbage).await.unwrap();
            let ((), message) = received.recv().await.unwrap();
            assert!(
                matches!(message, SessionMessage::Line(Err(refused)) if refused.reason == Refusal::Protocol)
            );
            outbox.send(b"go away\n".to_vec()).await.unwrap();
            drop(outbox);
            let mut answer = String::new();
            far.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "go away\n");
        });
        assert_eq!(rest, []);
    }

    #[test]
    fn a_peer_that_does_not_read_is_slow() {
        let rest = session(16, async |far, outbox, received| {
            outbox.send(vec![b'x'; 64]).await.unwrap();
            assert_eq!(received.recv().await.unwrap().1, SessionMessage::Slow);
            drop(outbox);
            drop(far);
        });
        assert_eq!(rest, []);
    }

    #[test]
    fn a_peer_that_never_closes_is_closed() {
        let rest = session(16, async |mut far, outbox, received| {
            drop(outbox);
            assert_eq!(received.recv().await, None, "the session is over");
            assert!(far.write_all(b"x").await.is_err());
        });
        assert_eq!(rest, []);
    }
}
