//! Any bytes through the header view, its representation, the printer and the outer headers.

use netfold_wire::frame::{Ipv4Packet, OUTER_LEN, Outer, UdpPacket};
use netfold_wire::header::LEN;
use netfold_wire::{Packet, Repr};

/// Reads the data as a datagram and as a frame.
pub fn run(data: &[u8]) {
    datagram(data);
    frame(data);
    let mut repaired = data.to_vec();
    if repair(&mut repaired).is_some() {
        frame(&repaired);
    }
}

fn datagram(data: &[u8]) {
    let Ok(packet) = Packet::new_checked(data) else {
        assert!(data.len() < LEN, "a whole header was refused");
        return;
    };
    assert!(!packet.flags().to_string().is_empty());
    assert_eq!(packet.payload().len(), data.len() - LEN);
    let Ok(repr) = Repr::parse(&packet) else { return };
    assert!(repr.to_string().starts_with("netfold "));
    let mut written = vec![0xa5; data.len()];
    repr.emit(&mut Packet::new_unchecked(&mut written[..]));
    let reserved = LEN - 2;
    assert_eq!(written[..reserved], data[..reserved], "every bit of a meaningful header survives");
    assert_eq!(written[reserved..LEN], [0, 0], "reserved bits are sent as 0");
    let again = Repr::parse(&Packet::new_unchecked(&written[..])).expect("what was emitted is read");
    assert_eq!(again, repr);
}

fn frame(data: &[u8]) {
    let Ok((outer, inner)) = Outer::parse(data) else { return };
    let mut written = vec![0xa5; OUTER_LEN + inner.len()];
    let len = outer.emit(inner, 0, &mut written).expect("the buffer has the announced length");
    assert_eq!(Outer::parse(&written[..len]), Ok((outer, inner)));
    datagram(inner);
}

/// Makes a frame of the data's addresses, ports and payload with lengths and checksums that hold, so that mutation
/// gets past them.
fn repair(frame: &mut [u8]) -> Option<()> {
    if frame.len() < OUTER_LEN {
        return None;
    }
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    let len = u16::try_from(frame.len() - 14).ok()?;
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.set_total_len(len);
    ip.clear_flags();
    ip.set_frag_offset(0);
    ip.set_next_header(netfold_wire::frame::IpProtocol::Udp);
    ip.fill_checksum();
    let mut udp = UdpPacket::new_unchecked(&mut frame[34..]);
    udp.set_len(len - 20);
    udp.set_checksum(0);
    Some(())
}
