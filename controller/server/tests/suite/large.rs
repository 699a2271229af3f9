//! Calls to a controller with a thousand tenants and ten thousand jobs. The times are printed, not asserted.

use std::time::{Duration, Instant};

use netfold_server::api::v1;
use netfold_server::api::v1::jobs_client::JobsClient;

use crate::calls::{channel, name};
use crate::plane::{Plane, Served};
use crate::run;

/// Measurements of each call.
const ROUNDS: usize = 15;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn lists_and_descriptions_of_a_large_controller_are_complete() {
    let served = Served::open(Plane::large(1_000, 10_000));
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let (mut all, mut filtered, mut described) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let begun = Instant::now();
            let page =
                jobs.list(v1::ListJobsRequest { page_size: 1_000, ..Default::default() }).await.unwrap();
            all.push(begun.elapsed());
            assert_eq!((page.get_ref().jobs.len(), page.get_ref().total), (1_000, 10_000));

            let tenant = Some(format!("tenant-{round:04}"));
            let begun = Instant::now();
            let page = jobs.list(v1::ListJobsRequest { tenant, ..Default::default() }).await.unwrap();
            filtered.push(begun.elapsed());
            assert_eq!(page.get_ref().total, 10);

            let begun = Instant::now();
            jobs.describe(v1::DescribeJobRequest { name: name("tenant-0005", "job-00005") }).await.unwrap();
            described.push(begun.elapsed());
        }
        let (all, filtered, described) = (median(all), median(filtered), median(described));
        println!(
            "1,000 tenants, 10,000 jobs: a page of 1,000 jobs {all:?}, one tenant's {filtered:?}, one job {described:?}"
        );
    });
}
