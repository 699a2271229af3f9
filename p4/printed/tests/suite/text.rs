//! What is not understood in a text, and what a program must not do.

use netfold_p4::allreduce;
use netfold_p4::profile::Profile;
use netfold_p4::tna::{Chip, print};
use netfold_p4_printed::{Sent, Tofino};

fn printed(chip: Chip) -> String {
    let profile = Profile { lane_words: 8, slots: 16, jobs: 4, ..Profile::tofino() };
    print(&allreduce::program(&profile).unwrap(), chip).unwrap()
}

#[test]
fn what_is_not_understood_is_an_error_with_its_line() {
    let text = printed(Chip::Tofino1);
    let error = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        let error = Tofino::new(&changed).map(|_| ()).unwrap_err();
        let at = text[..text.find(from).unwrap()].lines().count();
        // A table is complete at its end.
        assert!(error.line.abs_diff(at) <= 8, "{error}, and the change is in line {at}");
        error.what
    };
    let nowhere = Tofino::new(&text.replacen("transition accept;", "transition nowhere;", 1)).unwrap_err();
    assert!(nowhere.what.contains("'nowhere'"), "{nowhere}");
    assert!(error("hdr.netfold.chunk - meta.stored", "hdr.netfold.chunk - meta.reason").contains("operands"));
    assert!(error("meta.diff = hdr", "meta.reason = hdr").contains("reason"));
    assert!(error("x_claim.apply();", "x_clam.apply();").contains("'x_clam'"));
    assert!(error("(0x0, 0x0, 0x0, _)", "(0x0, 0x0, _)").contains("3 values for 4 keys"));
    assert!(error("size = 3;", "size = 2;").contains("3 entries"));
    assert!(
        error("claim_touch.execute(meta.index)", "claim_touch.clear(meta.index)")
            .contains("claim_touch.clear")
    );
    for cut in (0..text.len()).step_by(997) {
        assert!(Tofino::new(&text[..cut]).is_err(), "the first {cut} bytes");
    }
}

#[test]
fn a_register_that_is_accessed_twice_is_a_fault() {
    let text =
        printed(Chip::Tofino2).replace("x_version.apply();", "x_version.apply();\n        x_claim.apply();");
    let mut tofino = Tofino::new(&text).unwrap();
    assert_eq!(tofino.receive(1, &[0; 60]).unwrap().sent, Sent::Nothing);
    let always =
        text.replace("const default_action = NoAction();", "const default_action = claim_peek_out();");
    assert!(Tofino::new(&always).is_err(), "other tables do not have this action");
    let at = text.find("table x_claim {").unwrap();
    let claim = text[at..].replacen(
        "const default_action = NoAction();",
        "const default_action = claim_peek_out();",
        1,
    );
    let mut tofino = Tofino::new(&(text[..at].to_string() + &claim)).unwrap();
    let fault = tofino.receive(1, &[0; 60]).unwrap_err().to_string();
    assert!(fault.contains("'claim' is accessed twice") || fault.contains("'claim' has no entry"), "{fault}");
}
