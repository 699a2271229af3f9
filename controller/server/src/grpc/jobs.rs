//! The service `Jobs`.

use std::pin::Pin;
use std::sync::Arc;

use crate::api::v1;
use netfold_controller::command::Command;
use netfold_controller::record::JobName;
use netfold_controller::server::Control;
use netfold_controller::view::SnapshotScope;
use netfold_controller::view::{ControllerEvent, JobView};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use super::{WATCHERS_MAX, convert, flight_record};
use crate::access::{Authorizer, Visibility};
use crate::refusal::{IntoStatus as _, Reason, invalid, not_found, refuse};

/// Jobs on a page: default and maximum.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;

/// Responses buffered for a watcher; further events wait in the control plane's queue.
const WATCH_QUEUE: usize = 16;

/// Longest message of an ended job, in bytes.
const MESSAGE_LEN_MAX: usize = 256;

pub(super) struct Jobs {
    control: Control,
    authorizer: Authorizer,
    watchers: Arc<Semaphore>,
}

impl Jobs {
    pub(super) fn new(control: Control, authorizer: Authorizer) -> Self {
        Self { control, authorizer, watchers: Arc::new(Semaphore::new(WATCHERS_MAX)) }
    }

    async fn described(&self, name: JobName) -> Result<v1::Job, Status> {
        let job = self.control.job(name.clone()).await.map_err(|error| error.into_status())?;
        job.map(convert::job).ok_or_else(|| not_found("job", name.to_string()))
    }

    async fn execute(&self, command: Command) -> Result<(), Status> {
        self.control.execute(command).await.map_err(|error| error.into_status())
    }
}

#[tonic::async_trait]
impl v1::jobs_server::Jobs for Jobs {
    async fn declare(&self, request: Request<v1::DeclareJobRequest>) -> Result<Response<v1::Job>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = convert::name(request.name)?;
        self.authorizer.change(&metadata, &name.tenant).await?;
        let spec = convert::spec(request.spec)?;
        self.execute(Command::DeclareJob { name: name.clone(), spec }).await?;
        self.described(name).await.map(Response::new)
    }

    async fn list(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let visibility = self.authorizer.see(&metadata, request.tenant.as_deref()).await?;
        let filter = Filter::new(&request, visibility)?;
        let snapshot = self.control.snapshot(filter.scope).await.map_err(|error| error.into_status())?;
        // Jobs that have ended may outlast their tenant.
        if let Some(tenant) = request.tenant
            && !snapshot.tenants.iter().any(|known| known.name == tenant)
            && !snapshot.jobs.iter().any(|job| job.name.tenant == tenant)
        {
            return Err(not_found("tenant", tenant));
        }
        Ok(Response::new(filter.page(snapshot.jobs)))
    }

    async fn describe(&self, request: Request<v1::DescribeJobRequest>) -> Result<Response<v1::Job>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = convert::name(request.name)?;
        self.authorizer.see(&metadata, Some(&name.tenant)).await?;
        self.described(name).await.map(Response::new)
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::JobExplanation>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = convert::name(request.name)?;
        self.authorizer.see(&metadata, Some(&name.tenant)).await?;
        let records = self.control.explain(name.clone()).await.map_err(|error| error.into_status())?;
        let records = records.ok_or_else(|| not_found("job", name.to_string()))?;
        Ok(Response::new(flight_record::explanation(name, records)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let visibility = self.authorizer.see(&metadata, request.tenant.as_deref()).await?;
        if !request.job.is_empty() && request.tenant.is_none() {
            return Err(invalid(
                "the job's tenant is missing: set `tenant`; it is the empty name where there are no tenants",
            ));
        }
        let permit = self.watchers.clone().try_acquire_owned().map_err(|_| {
            let message = format!("the limit of {WATCHERS_MAX} watchers is reached: try again later");
            refuse(Code::ResourceExhausted, Reason::WatchersFull, message)
        })?;
        // Subscribe before the first query, so that no event between the two is missed.
        let events = self.control.events();
        let job = (!request.job.is_empty())
            .then(|| JobName { tenant: request.tenant.clone().unwrap_or_default(), job: request.job });
        let first = match &job {
            Some(name) => Some(self.described(name.clone()).await?),
            None => None,
        };
        let (sender, receiver) = mpsc::channel(WATCH_QUEUE);
        let watch = Watch { control: self.control.clone(), visibility, tenant: request.tenant, job, sender };
        tokio::spawn(async move {
            watch.run(first, events).await;
            drop(permit);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn end(&self, request: Request<v1::EndJobRequest>) -> Result<Response<v1::EndJobResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = convert::name(request.name)?;
        self.authorizer.change(&metadata, &name.tenant).await?;
        let message = match request.message.as_str() {
            "" => "it was ended by a command".to_owned(),
            text if text.len() > MESSAGE_LEN_MAX || text.chars().any(char::is_control) => {
                return Err(invalid(format!(
                    "a message has at most {MESSAGE_LEN_MAX} bytes and is one line"
                )));
            }
            text => text.to_owned(),
        };
        self.execute(Command::EndJob { name, message }).await?;
        Ok(Response::new(v1::EndJobResponse {}))
    }

    async fn forget(
        &self,
        request: Request<v1::ForgetJobRequest>,
    ) -> Result<Response<v1::ForgetJobResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = convert::name(request.name)?;
        self.authorizer.change(&metadata, &name.tenant).await?;
        self.execute(Command::ForgetJob(name)).await?;
        Ok(Response::new(v1::ForgetJobResponse {}))
    }
}

/// Which jobs a list holds.
struct Filter {
    visibility: Visibility,
    tenant: Option<String>,
    states: Vec<i32>,
    contains: String,
    page_size: usize,
    /// The last name of the previous page.
    after: Option<JobName>,
    scope: SnapshotScope,
}

impl Filter {
    fn new(request: &v1::ListJobsRequest, visibility: Visibility) -> Result<Self, Status> {
        let page_size = match request.page_size {
            0 => PAGE_DEFAULT,
            size @ 1..=PAGE_MAX => size,
            size => {
                return Err(invalid(format!("a page of {size} jobs is too large: the limit is {PAGE_MAX}")));
            }
        };
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(
                parse_token(token)
                    .ok_or_else(|| invalid("the page token is invalid: start from the first page"))?,
            ),
        };
        let live = [v1::JobState::Forming as i32, v1::JobState::Running as i32];
        let all_live = !request.states.is_empty() && request.states.iter().all(|state| live.contains(state));
        Ok(Self {
            visibility,
            tenant: request.tenant.clone(),
            states: request.states.clone(),
            contains: request.contains.clone(),
            page_size: page_size as usize,
            after,
            scope: if all_live { SnapshotScope::Live } else { SnapshotScope::All },
        })
    }

    fn takes(&self, job: &JobView) -> bool {
        self.visibility.includes(&job.name.tenant)
            && self.tenant.as_ref().is_none_or(|tenant| *tenant == job.name.tenant)
            && (self.states.is_empty() || self.states.contains(&(convert::state_message(job.state) as i32)))
            && (self.contains.is_empty() || job.name.to_string().contains(&self.contains))
    }

    fn page(&self, jobs: Vec<JobView>) -> v1::ListJobsResponse {
        let mut jobs: Vec<JobView> = jobs.into_iter().filter(|job| self.takes(job)).collect();
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        let total = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        let first = self.after.as_ref().map_or(0, |after| jobs.partition_point(|job| job.name <= *after));
        let more = jobs.len() - first > self.page_size;
        let page: Vec<v1::Job> = jobs
            .into_iter()
            .skip(first)
            .take(self.page_size)
            .map(|job| v1::Job { trees: Vec::new(), groups: Vec::new(), ..convert::job(job) })
            .collect();
        let last = page.last().filter(|_| more).and_then(|job| job.name.as_ref());
        let next_page_token = last.map(|name| token(&name.tenant, &name.job)).unwrap_or_default();
        v1::ListJobsResponse { jobs: page, next_page_token, total }
    }
}

/// A page token: the name after which the next page begins, so that jobs that appear or disappear meanwhile do not shift the others.
fn token(tenant: &str, job: &str) -> String {
    format!("{}:{tenant}{job}", tenant.len())
}

fn parse_token(token: &str) -> Option<JobName> {
    let (len, names) = token.split_once(':')?;
    let (tenant, job) = names.split_at_checked(len.parse().ok()?)?;
    Some(JobName { tenant: tenant.to_owned(), job: job.to_owned() })
}

/// Sends events to one watcher.
struct Watch {
    control: Control,
    visibility: Visibility,
    tenant: Option<String>,
    job: Option<JobName>,
    sender: mpsc::Sender<Result<v1::WatchResponse, Status>>,
}

impl Watch {
    async fn run(
        self,
        first: Option<v1::Job>,
        mut events: tokio::sync::broadcast::Receiver<Arc<ControllerEvent>>,
    ) {
        if let Some(job) = first
            && !self.send(Ok(v1::WatchResponse { event: None, job: Some(job) })).await
        {
            return;
        }
        loop {
            let received = tokio::select! {
                received = events.recv() => received,
                () = self.sender.closed() => return,
            };
            let answer = match received {
                Ok(event) if !self.concerns(&event) => continue,
                Ok(event) => Ok(self.answer(&event).await),
                Err(RecvError::Lagged(missed)) => {
                    let message =
                        format!("{missed} events were missed: describe the job again and restart the watch");
                    Err(refuse(Code::DataLoss, Reason::FellBehind, message))
                }
                Err(RecvError::Closed) => return,
            };
            let last = answer.is_err();
            if !self.send(answer).await || last {
                return;
            }
        }
    }

    async fn send(&self, answer: Result<v1::WatchResponse, Status>) -> bool {
        self.sender.send(answer).await.is_ok()
    }

    fn concerns(&self, event: &ControllerEvent) -> bool {
        let job = event.job.as_ref();
        match (&self.job, &self.tenant, &self.visibility) {
            (Some(watched), ..) => job == Some(watched),
            (None, Some(tenant), _) => job.is_some_and(|job| job.tenant == *tenant),
            (None, None, Visibility::Everything) => true,
            (None, None, visibility) => job.is_some_and(|job| visibility.includes(&job.tenant)),
        }
    }

    async fn answer(&self, event: &ControllerEvent) -> v1::WatchResponse {
        let job = match &event.job {
            // If the control plane has ended, the stream ends by itself.
            Some(name) => self.control.job(name.clone()).await.ok().flatten(),
            None => None,
        };
        v1::WatchResponse { event: Some(convert::event(event)), job: job.map(convert::job) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tokens_represent_any_name() {
        for (tenant, job) in [("", "job"), ("red", "a/b"), ("tä:nt", "3:x"), ("", "")] {
            let name = JobName { tenant: tenant.into(), job: job.into() };
            assert_eq!(parse_token(&token(tenant, job)), Some(name));
        }
        for wrong in ["x", ":", "9:short", "1:ä", "-1:x"] {
            assert_eq!(parse_token(wrong), None, "{wrong}");
        }
    }
}
