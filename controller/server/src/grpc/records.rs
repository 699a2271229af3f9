//! The service `Records`.

use std::pin::Pin;

use crate::api::v1;
use netfold_controller::server::{Control, RecordsError};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status};

use crate::access::Authorizer;
use crate::backup::Backup;
use crate::refusal::{Reason, refuse};

/// Bytes of a message.
const PART_LEN: usize = 64 << 10;

pub(super) struct Records {
    control: Control,
    authorizer: Authorizer,
}

impl Records {
    pub(super) fn new(control: Control, authorizer: Authorizer) -> Self {
        Self { control, authorizer }
    }
}

#[tonic::async_trait]
impl v1::records_server::Records for Records {
    type BackupStream = Pin<Box<dyn Stream<Item = Result<v1::BackupResponse, Status>> + Send>>;

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        self.authorizer.admin(request.metadata())?;
        let records = self.control.records().await.map_err(|error| {
            let message = match &error {
                RecordsError::Store(error) => format!("{error}: {}", error.source),
                error => error.to_string(),
            };
            refuse(Code::Unavailable, Reason::ShuttingDown, message)
        })?;
        let bytes = Backup::now(records).encode();
        let parts: Vec<_> =
            bytes.chunks(PART_LEN).map(|part| Ok(v1::BackupResponse { data: part.to_vec() })).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }
}
