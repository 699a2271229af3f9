//! Every call of the interface, as an administrator.

use netfold_server::VERSION_HEADER;
use netfold_server::api::v1;
use netfold_server::api::v1::jobs_client::JobsClient;
use netfold_server::api::v1::switches_client::SwitchesClient;
use netfold_server::api::v1::tenants_client::TenantsClient;
use tokio_stream::StreamExt as _;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::plane::{Plane, Served};
use crate::run;

pub(crate) async fn channel(served: &Served) -> Channel {
    Endpoint::from_shared(served.grpc()).unwrap().connect().await.unwrap()
}

pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("no reason in {status:?}"));
    assert_eq!(info.domain, "netfold.controller");
    info.reason
}

pub(crate) fn name(tenant: &str, job: &str) -> Option<v1::JobName> {
    Some(v1::JobName { tenant: tenant.into(), job: job.into() })
}

fn spec(world: u32, slots: u32) -> Option<v1::JobSpec> {
    Some(v1::JobSpec {
        world,
        mode: v1::Mode::Bfp16.into(),
        slots,
        classes: 0,
        trees: 0,
        iteration: None,
        authenticated: false,
    })
}

#[test]
fn stalls_of_jobs_are_explained() {
    let served = Served::open(Plane::populated());
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let request = v1::ExplainJobRequest { name: name("red", "train") };
        let explained = jobs.explain(request).await.unwrap().into_inner();
        assert_eq!(explained.name, name("red", "train"));
        let record = &explained.records[0];
        assert_eq!((record.as_of_ms - record.began_ms, record.ended.as_str()), (2500, ""));
        assert_eq!(record.conclusion, "rank 3 has not contributed");
        let chunk = &record.chunks[0];
        assert_eq!((chunk.chunk, chunk.slot, &chunk.missing[..]), (1034, 10, &[3][..]));
        assert_eq!((chunk.sums_missing[0].as_str(), record.unread[0].switch.as_str()), ("leaf1", "leaf2"));
        let report = record.ranks[0].report.as_ref().unwrap();
        assert_eq!((report.received_at_ms, report.sends, report.outstanding), (None, 4, 64));
        assert_eq!((report.events[0].kind.as_str(), report.events[0].chunk), ("sent", Some(1034)));
        assert_eq!((record.ranks[1].state.as_str(), record.ranks[1].report.is_none()), ("away", true));

        let request = v1::ExplainJobRequest { name: name("red", "absent") };
        let unknown = jobs.explain(request).await.unwrap_err();
        assert_eq!((unknown.code(), reason(&unknown).as_str()), (Code::NotFound, "NOT_FOUND"));
    });
}

#[test]
fn a_description_has_the_last_stalls() {
    let served = Served::open(Plane::stalled("rank 1 is stopped"));
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let request = v1::DescribeJobRequest { name: name("red", "train") };
        let stalls = jobs.describe(request).await.unwrap().into_inner().stalls;
        let lasts = v1::Stall {
            group: String::new(),
            tree: 1,
            began_ms: 61_005,
            as_of_ms: 63_305,
            ended: String::new(),
            conclusion: "rank 1 is stopped".into(),
        };
        assert_eq!(stalls[0], lasts);
        let over = (stalls[1].group.as_str(), stalls[1].ended.as_str(), stalls.len());
        assert_eq!(over, ("pipeline", "the job has results again", 2));
        let listed = jobs.list(v1::ListJobsRequest::default()).await.unwrap().into_inner();
        assert_eq!(listed.jobs[0].stalls, stalls, "netfold top lists jobs");
    });
}

#[test]
fn jobs_are_declared_described_ended_and_forgotten() {
    let served = Served::open(Plane::populated());
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let iteration =
            v1::Iteration { work: 1600, compute_us: 200_000, send_after_us: None, bytes: 400 << 20 };
        let asked = v1::JobSpec { iteration: Some(iteration), ..spec(8, 0).unwrap() };
        let request = v1::DeclareJobRequest { name: name("red", "next"), spec: Some(asked) };
        let declared = jobs.declare(request.clone()).await.unwrap().into_inner();
        assert_eq!((declared.state(), declared.declared), (v1::JobState::Declared, true));
        let iteration = v1::Iteration { send_after_us: Some(200_000), ..iteration };
        let expected = v1::JobSpec { slots: 256, classes: 1, trees: 1, iteration: Some(iteration), ..asked };
        assert_eq!(declared.spec, Some(expected));
        let again = jobs.declare(request).await.unwrap_err();
        assert_eq!((again.code(), reason(&again).as_str()), (Code::AlreadyExists, "EXISTS"));

        let described =
            jobs.describe(v1::DescribeJobRequest { name: name("red", "train") }).await.unwrap().into_inner();
        assert_eq!((described.state(), described.slots_held), (v1::JobState::Running, 384));
        let band = v1::Band { first: 8, classes: 4, dscp: vec![10; 4] };
        assert_eq!(described.band, Some(band));
        let tree = &described.trees[0];
        assert_eq!((tree.places[0].switch.as_str(), tree.places[1].parent.as_str()), ("spine1", "spine1"));
        assert_eq!((tree.members.len(), tree.members[3].endpoint.as_str()), (4, "10.0.0.4:20038"));

        let request = v1::EndJobRequest { name: name("red", "train"), message: "maintenance".into() };
        jobs.end(request).await.unwrap();
        let described =
            jobs.describe(v1::DescribeJobRequest { name: name("red", "train") }).await.unwrap().into_inner();
        assert_eq!((described.state(), described.last.as_str()), (v1::JobState::Ended, "maintenance"));

        jobs.forget(v1::ForgetJobRequest { name: name("red", "train") }).await.unwrap();
        let gone = jobs.describe(v1::DescribeJobRequest { name: name("red", "train") }).await.unwrap_err();
        assert_eq!((gone.code(), reason(&gone).as_str()), (Code::NotFound, "NOT_FOUND"));
        assert!(gone.message().contains("red/train"), "{gone}");
    });
}

#[test]
fn invalid_requests_are_refused_with_a_message() {
    let served = Served::open(Plane::populated());
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let nameless = v1::JobSpec { mode: 0, ..spec(8, 64).unwrap() };
        for (name, spec) in [
            (None, spec(8, 64)),
            (name("red", ""), spec(8, 64)),
            (name("red", "x"), None),
            (name("red", "x"), Some(nameless)),
            (name("red", "x"), spec(100_000, 64)),
            (name("red", "x"), spec(8, 65)),
        ] {
            let wrong = jobs.declare(v1::DeclareJobRequest { name, spec }).await.unwrap_err();
            assert_eq!((wrong.code(), reason(&wrong).as_str()), (Code::InvalidArgument, "INVALID"));
            assert!(wrong.message().len() > 10, "{wrong}");
        }
        let message = "two\nlines".to_owned();
        let wrong = jobs.end(v1::EndJobRequest { name: name("red", "train"), message }).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument);
        for request in [
            v1::ListJobsRequest { page_size: 1_001, ..Default::default() },
            v1::ListJobsRequest { page_token: "99:x".into(), ..Default::default() },
        ] {
            assert_eq!(jobs.list(request).await.unwrap_err().code(), Code::InvalidArgument);
        }
    });
}

#[test]
fn lists_are_filtered_and_paged() {
    let served = Served::open(Plane::large(7, 100));
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let mut names = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListJobsRequest { page_size: 9, page_token, ..Default::default() };
            let page = jobs.list(request).await.unwrap().into_inner();
            assert!(page.jobs.len() <= 9 && page.total == 100);
            names.extend(page.jobs.into_iter().map(|job| job.name.unwrap()));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(names.len(), 100);
        assert!(names.is_sorted_by(|a, b| (&a.tenant, &a.job) < (&b.tenant, &b.job)), "{names:?}");

        let of_one = v1::ListJobsRequest { tenant: Some("tenant-0003".into()), ..Default::default() };
        let listed = jobs.list(of_one).await.unwrap().into_inner();
        assert_eq!(listed.total, 14);
        assert!(listed.jobs.iter().all(|job| job.name.as_ref().unwrap().tenant == "tenant-0003"));
        let ninety = v1::ListJobsRequest { contains: "job-0009".into(), ..Default::default() };
        assert_eq!(jobs.list(ninety).await.unwrap().into_inner().total, 10);
        let states = vec![v1::JobState::Running as i32];
        let running = v1::ListJobsRequest { states, ..Default::default() };
        assert_eq!(jobs.list(running).await.unwrap().into_inner().total, 0);
    });
}

#[test]
fn a_watcher_receives_events_with_the_jobs_current_state() {
    let served = Served::open(Plane::populated());
    run(async {
        let channel = channel(&served).await;
        let mut jobs = JobsClient::new(channel.clone());
        let request = v1::WatchRequest { tenant: Some("red".into()), job: "train".into() };
        let mut watched = jobs.watch(request).await.unwrap().into_inner();
        let first = watched.next().await.unwrap().unwrap();
        assert!(first.event.is_none());
        let job = first.job.unwrap();
        assert_eq!((job.epoch, job.trees[0].members.len()), (7, 4));

        // The end of another job is not sent to this watcher.
        let end = |tenant, job| v1::EndJobRequest { name: name(tenant, job), message: "over".into() };
        jobs.end(end("blue", "tune")).await.unwrap();
        jobs.end(end("red", "train")).await.unwrap();
        let next = watched.next().await.unwrap().unwrap();
        let event = next.event.unwrap();
        assert_eq!((event.kind.as_str(), event.message.as_str()), ("job_ended", "over"));
        assert_eq!(event.job, name("red", "train"));
        assert_eq!(next.job.unwrap().state(), v1::JobState::Ended);

        let absent = v1::WatchRequest { tenant: Some("red".into()), job: "absent".into() };
        assert_eq!(jobs.watch(absent).await.unwrap_err().code(), Code::NotFound);
        let without_tenant = v1::WatchRequest { tenant: None, job: "train".into() };
        assert_eq!(jobs.watch(without_tenant).await.unwrap_err().code(), Code::InvalidArgument);
    });
}

#[test]
fn tenants_are_added_changed_and_removed() {
    let served = Served::open(Plane::populated());
    run(async {
        let mut tenants = TenantsClient::new(channel(&served).await);
        let quota = Some(v1::Quota { slots: Some(64), jobs: None, workers: Some(8) });
        let add = v1::AddTenantRequest {
            name: "green".into(),
            quota,
            weight: 0,
            priority: 7,
            without_token: false,
        };
        let added = tenants.add(add.clone()).await.unwrap().into_inner();
        assert!(added.token.starts_with("nf_") && added.token.len() == 46);
        let tenant = added.tenant.unwrap();
        assert_eq!((tenant.quota, tenant.weight, tenant.priority, tenant.has_token), (quota, 1, 7, true));
        assert_eq!(tenants.add(add).await.unwrap_err().code(), Code::AlreadyExists);

        let set = v1::SetTenantRequest { name: "green".into(), quota: None, weight: 5, priority: None };
        let tenant = tenants.set(set).await.unwrap().into_inner();
        assert_eq!(
            (tenant.quota, tenant.weight, tenant.priority),
            (quota, 5, 7),
            "fields that are not set stay unchanged"
        );
        let set = v1::SetTenantRequest { name: "green".into(), quota: None, weight: 0, priority: Some(0) };
        assert_eq!(tenants.set(set.clone()).await.unwrap().into_inner().priority, 0);
        let set = v1::SetTenantRequest { priority: Some(256), ..set };
        assert_eq!(tenants.set(set).await.unwrap_err().code(), Code::InvalidArgument);
        let rotate = v1::RotateTokenRequest { name: "green".into() };
        let rotated = tenants.rotate_token(rotate).await.unwrap().into_inner();
        assert_ne!(rotated.token, added.token);

        let remove = |name: &str| v1::RemoveTenantRequest { name: name.into() };
        let busy = tenants.remove(remove("red")).await.unwrap_err();
        assert_eq!((busy.code(), reason(&busy).as_str()), (Code::FailedPrecondition, "CONFLICT"));
        tenants.remove(remove("green")).await.unwrap();
        assert_eq!(tenants.remove(remove("green")).await.unwrap_err().code(), Code::NotFound);
        let listed = tenants.list(v1::ListTenantsRequest::default()).await.unwrap().into_inner().tenants;
        let names: Vec<&str> = listed.iter().map(|tenant| tenant.name.as_str()).collect();
        assert_eq!(names, ["blue", "red"]);
    });
}

#[test]
fn switches_are_listed_described_and_drained() {
    let served = Served::open(Plane::populated());
    run(async {
        let mut switches = SwitchesClient::new(channel(&served).await);
        let listed = switches.list(v1::ListSwitchesRequest::default()).await.unwrap().into_inner();
        assert_eq!((listed.switches.len(), listed.links.len(), listed.access.len()), (5, 6, 2));
        let traffic = listed.links[0].traffic.unwrap();
        assert_eq!((traffic.bytes_per_second, traffic.packets_per_second), (625_000_000, 435_000));
        assert_eq!((listed.access[0].host.as_str(), listed.access[0].switch.as_str()), ("hosts1", "leaf1"));
        assert_eq!(listed.access[0].traffic.unwrap().bytes_per_second, 2_500_000_000);
        assert_eq!(listed.links[5].traffic, None, "a link without trees");
        let request = v1::DescribeSwitchRequest { name: "leaf1".into(), tenant: None };
        let leaf = switches.describe(request).await.unwrap().into_inner();
        assert_eq!((leaf.slots_used, leaf.ranges.len(), leaf.packets["duplicate"]), (256, 2, 321));
        assert_eq!(leaf.ranges[1].job, name("blue", "tune"));
        let request = v1::DrainSwitchRequest { name: "leaf1".into(), drained: true, evict: false };
        assert!(switches.drain(request).await.unwrap().into_inner().drained);
        let request = v1::DescribeSwitchRequest { name: "leaf9".into(), tenant: None };
        assert_eq!(switches.describe(request).await.unwrap_err().code(), Code::NotFound);
    });
}

#[test]
fn links_are_listed_and_drained() {
    let served = Served::open(Plane::populated());
    run(async {
        let mut switches = SwitchesClient::new(channel(&served).await);
        let listed = switches.list(v1::ListSwitchesRequest::default()).await.unwrap().into_inner().links;
        let link = &listed[0];
        assert_eq!(
            (link.drained, link.demand, link.demand_measured),
            (false, 40_000_000_000, 30_000_000_000)
        );
        assert_eq!(link.jobs.len(), 2);
        assert_eq!(
            (link.jobs[0].job.clone(), link.jobs[0].source.as_str()),
            (name("red", "train"), "pattern")
        );
        let drain = |a: &str, b: &str, drained| v1::DrainLinkRequest {
            a: a.into(),
            b: b.into(),
            drained,
            evict: false,
        };
        let drained = switches.drain_link(drain("leaf1", "spine1", true)).await.unwrap().into_inner().links;
        assert!(drained.len() == 1 && drained[0].drained && drained[0].b == "spine1", "{drained:?}");
        let undrained =
            switches.drain_link(drain("leaf1", "spine1", false)).await.unwrap().into_inner().links;
        assert!(undrained.len() == 1 && !undrained[0].drained);
        let unknown = switches.drain_link(drain("spine1", "spine2", true)).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound);
        assert_eq!(
            unknown.message(),
            "there is no link 'spine1 - spine2'; there are leaf1 - spine1 and 5 more"
        );
    });
}

#[test]
fn every_response_names_the_release_also_to_calls_that_do_not_exist() {
    let served = Served::open(Plane::populated());
    run(async {
        let channel = channel(&served).await;
        let release = Some(env!("CARGO_PKG_VERSION").parse().unwrap());
        let listed = JobsClient::new(channel.clone()).list(v1::ListJobsRequest::default()).await.unwrap();
        assert_eq!(listed.metadata().get(VERSION_HEADER), release.as_ref());
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/netfold.controller.v2.Jobs/List");
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let missing = client.unary(tonic::Request::new(()), path, codec).await.unwrap_err();
        assert_eq!(missing.code(), Code::Unimplemented);
        assert_eq!(missing.metadata().get(VERSION_HEADER), release.as_ref());
    });
}

#[test]
fn the_interface_is_available_by_reflection() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let served = Served::closed(Plane::populated());
    run(async {
        let mut reflection = ServerReflectionClient::new(channel(&served).await);
        let message_request = Some(MessageRequest::ListServices(String::new()));
        let request = ServerReflectionRequest { host: String::new(), message_request };
        let mut answers =
            reflection.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
        let answer = answers.next().await.unwrap().unwrap();
        let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
            panic!("{answer:?}");
        };
        let names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
        for service in ["Jobs", "Tenants", "Switches"] {
            assert!(names.contains(&format!("netfold.controller.v1.{service}")), "{names:?}");
        }
    });
}
