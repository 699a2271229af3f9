//! A connection to a switch, and what is done over it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::state::{Observed, group_entity, patterns, update};
use netfold_p4_runtime::v1::{self, EntityKind, ResponseType, UpdateType};

use super::super::call::{BATCH_MAX, Remote};
use super::super::error::P4RuntimeError;
use super::super::pipeline::Pipeline;
use super::super::stream::Stream;
use super::Tally;

/// A connection with an open stream.
pub(super) struct Session {
    pub(super) remote: Remote,
    pub(super) stream: Stream,
    pub(super) tally: Arc<Tally>,
}

impl Session {
    /// Has the switch run the pipeline. False when it does already and nothing was touched.
    pub(super) async fn load(&self, pipeline: &Pipeline) -> Result<bool, P4RuntimeError> {
        let there = self.remote.pipeline(ResponseType::P4infoAndCookie).await?;
        if let Some(there) = &there {
            let same = match pipeline.is(there) {
                Some(same) => same,
                // Pushed by a controller that sets no cookies.
                None => self
                    .remote
                    .pipeline(ResponseType::All)
                    .await?
                    .is_some_and(|there| there.p4_device_config == pipeline.device_config),
            };
            if same {
                return Ok(false);
            }
            self.clear_groups().await?;
        }
        self.tally.pushes.fetch_add(1, Relaxed);
        self.remote.set_pipeline(self.stream.election_id(), pipeline.message()).await?;
        Ok(true)
    }

    /// Removes all groups. A new pipeline does not empty bmv2's replication engine, and a group of the same number would
    /// get the old copies beside its own. Without a pipeline there are none, and bmv2 may crash when it is asked.
    async fn clear_groups(&self) -> Result<(), P4RuntimeError> {
        let found = self.remote.read(vec![group_entity(0, &[]).into()]).await?;
        let groups = found.into_iter().filter_map(|entity| match entity.entity {
            Some(EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
                r#type: Some(v1::Replication::MulticastGroupEntry(group)),
            })) => Some(group),
            _ => None,
        });
        let delete = |group: v1::MulticastGroupEntry| {
            let group = v1::MulticastGroupEntry { replicas: Vec::new(), metadata: Vec::new(), ..group };
            let r#type = Some(v1::Replication::MulticastGroupEntry(group));
            update(
                UpdateType::Delete,
                EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type }),
            )
        };
        self.write(vec![groups.map(delete).collect()], None).await
    }

    /// Whether the switch still runs a pipeline with this cookie: a sign of life.
    pub(super) async fn is_alive(&self, cookie: u64) -> Result<bool, P4RuntimeError> {
        let there = self.remote.pipeline(ResponseType::CookieOnly).await?;
        Ok(there.is_some_and(|there| there.cookie.is_none_or(|there| there.cookie == cookie)))
    }

    /// All that the switch holds.
    pub(super) async fn observe(&self, pipeline: &Pipeline) -> Result<Observed, P4RuntimeError> {
        let found = self.remote.read(patterns(&pipeline.schema)).await?;
        let entities = found.into_iter().filter_map(|entity| entity.entity).collect();
        Ok(Observed::new(&pipeline.schema, entities))
    }

    /// Carries updates out step by step, up to the first step in which one fails. What is to be removed and is not there
    /// counts as removed.
    pub(super) async fn write(
        &self,
        steps: Vec<Vec<v1::Update>>,
        pipeline: Option<&Pipeline>,
    ) -> Result<(), P4RuntimeError> {
        let schema = pipeline.map(|pipeline| &*pipeline.schema);
        for step in steps {
            let mut failures = Vec::new();
            let total = step.len();
            for (batch, updates) in step.chunks(BATCH_MAX).enumerate() {
                self.tally.writes.fetch_add(1, Relaxed);
                self.tally.updates.fetch_add(updates.len() as u64, Relaxed);
                let written = self.remote.write(self.stream.election_id(), updates.to_vec(), schema).await;
                match written {
                    Ok(()) => {}
                    Err(P4RuntimeError::Write { failed, .. }) => {
                        let failed = failed.into_iter().filter(|failure| {
                            failure.code != Code::NotFound
                                || updates[failure.index].r#type != UpdateType::Delete as i32
                        });
                        failures.extend(failed.map(|mut failure| {
                            failure.index += batch * BATCH_MAX;
                            failure
                        }));
                    }
                    Err(error) => return Err(error),
                }
            }
            if !failures.is_empty() {
                let switch = self.remote.switch.clone();
                return Err(P4RuntimeError::Write { switch, updates: total, failed: failures });
            }
        }
        Ok(())
    }

    /// What one cell of a counter has counted, in packets.
    pub(super) async fn cell(&self, counter_id: u32, cell: u16) -> Result<u64, P4RuntimeError> {
        let index = Some(v1::Index { index: cell.into() });
        let pattern = v1::CounterEntry { counter_id, index, data: None };
        let found = self.remote.read(vec![EntityKind::CounterEntry(pattern).into()]).await?;
        let packets = found.into_iter().filter_map(|entity| match entity.entity {
            Some(EntityKind::CounterEntry(cell)) => cell.data.map(|data| data.packet_count.max(0) as u64),
            _ => None,
        });
        Ok(packets.sum())
    }

    /// What a counter has counted, in packets, by cell.
    pub(super) async fn counters(&self, counter_id: u32) -> Result<Vec<u64>, P4RuntimeError> {
        let pattern = v1::CounterEntry { counter_id, index: None, data: None };
        let found = self.remote.read(vec![EntityKind::CounterEntry(pattern).into()]).await?;
        let mut counted = Vec::new();
        for entity in found {
            if let Some(EntityKind::CounterEntry(cell)) = entity.entity {
                let index = cell.index.map_or(0, |index| index.index.clamp(0, 1 << 20) as usize);
                if counted.len() <= index {
                    counted.resize(index + 1, 0);
                }
                counted[index] = cell.data.map_or(0, |data| data.packet_count.max(0) as u64);
            }
        }
        Ok(counted)
    }
}
