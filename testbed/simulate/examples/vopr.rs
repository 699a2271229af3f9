fn main() {
    let mut args = std::env::args().skip(1);
    let first: u64 = args.next().unwrap().parse().unwrap();
    let count: u64 = args.next().unwrap().parse().unwrap();
    let start = std::time::Instant::now();
    let mut bad = 0;
    let (mut fin, mut ended, mut dg, mut ev) = (0, 0, 0, 0);
    for seed in first..first + count {
        match netfold_simulate::vopr::run(seed) {
            Ok(s) => {
                if count < 5 {
                    println!("{seed}: {s:?}");
                }
                fin += s.finished;
                ended += s.ended;
                dg += s.datagrams;
                ev += s.events;
            }
            Err(v) => {
                bad += 1;
                if count < 5 {
                    println!("{v}");
                } else {
                    println!("seed {seed}: {}", v.message.chars().take(300).collect::<String>());
                }
            }
        }
    }
    println!(
        "{count} seeds, {bad} violations, {:?}; finished {fin} ended {ended} datagrams {dg} events {ev}",
        start.elapsed()
    );
}
