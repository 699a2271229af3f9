//! Pipelines: set, saved, committed, read back.

use netfold_p4::allreduce;
use netfold_p4::profile::Profile;
use netfold_p4_runtime::v1::{PipelineAction, ResponseType};
use tonic::Code;

use crate::rig::{Client, Device, config, fast, small};

#[test]
fn a_switch_starts_without_a_pipeline_and_reports_it() {
    let device = Device::start();
    let mut client = Client::primary(device.address());
    assert_eq!(client.get(ResponseType::All), None);
    let status = client.write(Vec::new()).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.message(), "No forwarding pipeline config set for this device");
    assert_eq!(client.read(Vec::new()).unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn the_pipeline_is_read_back_in_parts() {
    let device = Device::start();
    let mut client = device.ready();
    let whole = config(&small());
    assert_eq!(client.get(ResponseType::All), Some(whole.clone()));
    let mut part = whole.clone();
    part.p4_device_config.clear();
    assert_eq!(client.get(ResponseType::P4infoAndCookie), Some(part.clone()));
    part.p4info = None;
    assert_eq!(client.get(ResponseType::CookieOnly), Some(part));
    let mut part = whole;
    part.p4info = None;
    assert_eq!(client.get(ResponseType::DeviceConfigAndCookie), Some(part));
    // A cookie of 0 differs from no cookie.
    let mut none = config(&small());
    none.cookie = None;
    client.set(PipelineAction::VerifyAndCommit, Some(none)).unwrap();
    assert_eq!(client.get(ResponseType::CookieOnly).unwrap().cookie, None);
}

#[test]
fn every_action_has_its_effect() {
    let device = Device::start();
    let mut client = Client::primary(device.address());
    let (small, fast) = (config(&small()), config(&fast()));
    assert_eq!(client.set(PipelineAction::Commit, None).unwrap_err().code(), Code::NotFound);
    client.set(PipelineAction::Verify, Some(small.clone())).unwrap();
    assert_eq!(client.get(ResponseType::All), None);
    client.set(PipelineAction::VerifyAndSave, Some(small.clone())).unwrap();
    assert_eq!(client.get(ResponseType::All), None);
    let both = client.set(PipelineAction::Commit, Some(small.clone()));
    assert_eq!(both.unwrap_err().code(), Code::InvalidArgument);
    client.set(PipelineAction::Commit, None).unwrap();
    assert_eq!(client.get(ResponseType::All), Some(small.clone()));
    assert_eq!(client.set(PipelineAction::Commit, None).unwrap_err().code(), Code::NotFound);
    let none = client.set(PipelineAction::Unspecified, Some(small.clone()));
    assert_eq!(none.unwrap_err().code(), Code::InvalidArgument);
    let other = client.set(PipelineAction::ReconcileAndCommit, Some(fast.clone()));
    assert_eq!(other.unwrap_err().code(), Code::Unimplemented);
    let mut same = small;
    same.cookie = None;
    client.set(PipelineAction::ReconcileAndCommit, Some(same.clone())).unwrap();
    assert_eq!(client.get(ResponseType::All), Some(same));
    client.set(PipelineAction::VerifyAndCommit, Some(fast)).unwrap();
    let runs = device.handle.call(|core| core.pipeline().info().fingerprint).unwrap();
    assert_eq!(runs, crate::rig::fast().fingerprint());
}

#[test]
fn pipelines_that_do_not_fit_are_refused_and_change_nothing() {
    let device = Device::start();
    let mut client = device.ready();
    let good = config(&small());
    let mut wrong = Vec::new();
    wrong.push((None, "no config"));
    let mut bad = good.clone();
    bad.p4info = None;
    wrong.push((Some(bad), "no p4info"));
    let mut bad = good.clone();
    bad.p4_device_config.clear();
    wrong.push((Some(bad), "no p4_device_config"));
    for bytes in [&b"{}"[..], b"\xff\xff", b"{\"netfold_ir\":99,\"program\":{}}"] {
        let mut bad = good.clone();
        bad.p4_device_config = bytes.to_vec();
        wrong.push((Some(bad), "p4_device_config"));
    }
    let mut bad = good.clone();
    bad.p4info = config(&fast()).p4info;
    wrong.push((Some(bad), "p4info is not that"));
    let mut bad = good.clone();
    bad.p4info.as_mut().unwrap().tables.pop();
    wrong.push((Some(bad), "is missing"));
    let mut bad = good.clone();
    bad.p4info.as_mut().unwrap().registers[0].size += 1;
    wrong.push((Some(bad), "differs"));
    let mut bad = good.clone();
    let twice = bad.p4info.as_ref().unwrap().actions[0].clone();
    bad.p4info.as_mut().unwrap().actions.push(twice);
    wrong.push((Some(bad), "is repeated"));
    let frames = allreduce::program(&Profile::hardware()).unwrap();
    wrong.push((Some(config(&frames)), "outer headers"));
    let long = allreduce::program(&Profile::software(2048)).unwrap();
    wrong.push((Some(config(&long)), "was started for"));
    for (config, text) in wrong {
        let status = client.set(PipelineAction::VerifyAndCommit, config).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{text}");
        assert!(status.message().contains(text), "{text}: {status:?}");
    }
    assert_eq!(client.get(ResponseType::All), Some(good));
}
