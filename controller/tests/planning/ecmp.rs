//! Source ports: the hash, and how evenly each policy spreads flows.

use std::net::Ipv4Addr;

use netfold_controller::route::ecmp::{Hasher, Pair, Spreading, imbalance, murmur3_32, ports};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[test]
fn the_hash_is_murmur3() {
    // The published check values of the 32-bit x86 variant.
    let cases: [(&[u8], u32, u32); 8] = [
        (b"", 0, 0),
        (b"", 1, 0x514e_28b7),
        (b"", 0xffff_ffff, 0x81f1_6f39),
        (b"\xff\xff\xff\xff", 0, 0x7629_3b50),
        (b"\x21\x43\x65\x87", 0x5082_edee, 0x2362_f9de),
        (b"\x21\x43\x65", 0, 0x7e4a_8634),
        (b"\x21", 0, 0x7266_1cf4),
        (b"Hello, world!", 0x9747_b28c, 0x2488_4cba),
    ];
    for (bytes, seed, hash) in cases {
        assert_eq!(murmur3_32(bytes, seed), hash, "{bytes:?} with seed {seed:#x}");
    }
}

/// Mean imbalance of so many pairs over 16 paths, in so many planes.
fn measured(spreading: Spreading, pairs: u32, planes: u32, trials: u32) -> f64 {
    let mut rng = StdRng::seed_from_u64(42);
    let mut sum = 0.0;
    for trial in 0..trials {
        let planes: Vec<Hasher> =
            (0..planes).map(|plane| Hasher { paths: 16, seed: trial * 7 + plane }).collect();
        let pairs: Vec<Pair> = (0..pairs)
            .map(|host| Pair {
                source: Ipv4Addr::from_bits(0x0a00_0000 + host),
                destination: Ipv4Addr::from_bits(0x0a01_0000 + host),
                destination_port: 20038,
            })
            .collect();
        let mut loads = vec![vec![0.0; 16]; planes.len()];
        ports(spreading, &pairs, &planes, &mut loads, || rng.random());
        sum += imbalance(&loads.concat());
    }
    sum / f64::from(trials)
}

fn near(what: &str, measured: f64, published: f64) {
    println!("| {what} | {published} | {measured:.3} |");
    assert!((measured / published - 1.0).abs() < 0.02, "{what}: {measured:.3} instead of {published}");
}

#[test]
fn hashing_is_as_uneven_as_chance() {
    println!("| most loaded of 16 paths / mean | published | measured (seed 42) |");
    println!("|---|---|---|");
    for (flows, published) in [(16, 3.1), (64, 1.98), (256, 1.46), (1000, 1.23)] {
        near(&format!("{flows} flows, one each pair"), measured(Spreading::Hash, flows, 1, 3_000), published);
    }
    for (flows, published) in [(1, 3.13), (2, 2.42), (4, 1.99), (8, 1.67), (16, 1.46), (32, 1.33)] {
        let spreading = Spreading::Flows(flows);
        near(&format!("16 pairs of {flows} flows"), measured(spreading, 16, 1, 3_000), published);
    }
}

#[test]
fn known_hashes_can_be_steered() {
    println!("| 16 pairs over 16 paths | most loaded / mean |");
    println!("|---|---|");
    let mut all = Vec::new();
    for (name, spreading, planes) in [
        ("plain ECMP", Spreading::Hash, 1),
        ("16 flows a pair", Spreading::Flows(16), 1),
        ("spraying over 64 ports", Spreading::Spray, 1),
        ("least loaded", Spreading::LeastLoaded, 1),
        ("least loaded in each of two planes", Spreading::Planes, 2),
    ] {
        let imbalance = measured(spreading, 16, planes, 1_000);
        println!("| {name} | {imbalance:.3} |");
        all.push(imbalance);
    }
    assert!(all.windows(2).all(|pair| pair[1] <= pair[0]), "{all:?}");
    assert!(all[3] < 1.01 && all[4] < 1.01, "one flow on each path: {all:?}");
}
