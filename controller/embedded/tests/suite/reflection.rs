//! Attacks on an address that takes part in nothing: a switch sends it nothing, whatever its job's other members do.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use netfold_control::{Join, Mode, PathChallenge, PathToken, Refusal, SessionEvent, SessionRequest};
use netfold_embedded::EmbeddedSwitch;
use netfold_proto::{Instant, PathValidation};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

/// A control session that the test plays, line by line.
struct Session(BufReader<TcpStream>);

impl Session {
    fn join(switch: SocketAddr, (rank, world): (u16, u16), endpoint: SocketAddr) -> Self {
        let stream = TcpStream::connect(switch).unwrap();
        stream.set_read_timeout(Some(crate::TIMEOUT)).unwrap();
        let mut session = Self(BufReader::new(stream));
        let join = Join::new("attack", (rank, world), Mode::I32, 16, endpoint.port());
        session.say(&SessionRequest::Join(Join { address: Some(endpoint.ip()), ..join }));
        session
    }

    fn say(&mut self, request: &SessionRequest) {
        let line = serde_json::to_string(request).unwrap() + "\n";
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
    }

    /// The next event that is not a heartbeat.
    fn receive(&mut self) -> SessionEvent {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            match serde_json::from_str(&line).unwrap() {
                SessionEvent::Alive {} => {}
                event => return event,
            }
        }
    }

    fn challenge(&mut self) -> PathChallenge {
        match self.receive() {
            SessionEvent::Path(challenge) => challenge,
            other => panic!("not challenged: {other:?}"),
        }
    }

    fn refusal(&mut self) -> Refusal {
        match self.receive() {
            SessionEvent::Refused { reason, .. } => reason,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A packet of the job, with lanes or without.
fn packet(challenge: &PathChallenge, kind: Kind, flags: Flags, lane_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; header::LEN + lane_bytes];
    let repr = Repr {
        kind,
        flags,
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: challenge.job,
        slot: 0,
        set: 0,
        epoch: challenge.epoch,
        key: challenge.key,
        chunk: 1,
        bitmap: u32::from(kind == Kind::Close),
        count: 0,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    };
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    bytes
}

/// All packets with which a member could make a switch send results, to the switch; returns the bytes sent and received, and the token.
fn attack(socket: &UdpSocket, switch: SocketAddr, challenge: &PathChallenge) -> (usize, usize, PathToken) {
    let trimmed = Flags::BARE.with(Flags::TRIMMED).with(Flags::DROPPABLE);
    let packets = [
        packet(challenge, Kind::Data, Flags::DROPPABLE, 1408),
        packet(challenge, Kind::Data, trimmed, 0),
        packet(challenge, Kind::Close, Flags::BARE, 0),
        packet(challenge, Kind::Data, trimmed.with(Flags::RESEND), 0),
        packet(challenge, Kind::Data, Flags::BARE, 0),
    ];
    for packet in &packets {
        socket.send_to(packet, switch).unwrap();
    }
    let validation = PathValidation::new(Instant::ZERO, challenge.clone());
    let (mut bytes, mut received, mut token) = ([0; 2048], 0, None);
    // Four of them are DATA, each of which has a reply; the switch has processed all when the last one has come.
    for _ in 0..4 {
        let len = socket.recv(&mut bytes).unwrap();
        received += len;
        token = token.or(validation.token(&bytes[..len]));
    }
    (packets.iter().map(Vec::len).sum(), received, token.expect("replies carry the token"))
}

#[test]
fn an_address_that_receives_no_token_receives_no_packet() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let victim = UdpSocket::bind("127.0.0.2:0").unwrap();
    let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
    attacker.set_read_timeout(Some(crate::TIMEOUT)).unwrap();
    let mut own = Session::join(switch.control(), (0, 2), attacker.local_addr().unwrap());
    let mut named = Session::join(switch.control(), (1, 2), victim.local_addr().unwrap());
    let challenge = own.challenge();
    assert_eq!(named.challenge(), challenge);

    let to = SocketAddr::new(switch.control().ip(), challenge.udp_port);
    let (sent, received, token) = attack(&attacker, to, &challenge);
    assert!(received <= sent, "{received} bytes for {sent}");
    own.say(&SessionRequest::Path { token });
    // The attacker's own token says nothing about the other address.
    named.say(&SessionRequest::Path { token });
    assert_eq!(named.refusal(), Refusal::Path);
    assert_eq!(own.refusal(), Refusal::PeersMissing);

    victim.set_nonblocking(true).unwrap();
    let nothing = victim.recv(&mut [0; 2048]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "the victim received a packet");
    let counters = switch.stop().unwrap();
    assert_eq!(counters.results, 0);
}
