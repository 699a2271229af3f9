//! Writes and reads of a running pipeline: what each update says of itself is what the entities that are read before and after it show.

use std::sync::OnceLock;

use netfold_p4::ir::Program;
use netfold_p4::p4info::counter_id;
use netfold_p4_runtime::state::{self, Changes, Observed, State};
use netfold_p4_runtime::v1::{self, Atomicity, EntityKind, Replication, UpdateType};
use netfold_switch::{Core, Handle, pipeline_for};
use netfold_switch_p4runtime::fuzzing::{Control, Refused};
use prost::Message;

use super::entity;
use super::{CPU_PORT, DEVICE, Idle, bid, check, idle_switch, primary};
use crate::input::Input;

const STEPS_MAX: usize = 40;
const UPDATES_MAX: usize = 4;

/// A switch with the program, whose tables are empty and whose cells are zero between two inputs: to make it takes much longer than to run
/// an input.
struct Shared {
    handle: Handle,
    control: Control,
}

struct Scene<'s> {
    switch: &'s Idle,
    shared: &'s Shared,
    /// All that the switch holds.
    there: Snapshot,
    /// What it held at some time, and is to hold again.
    wanted: State,
}

/// Entries and groups, as they are read, and the cells of counters and registers.
#[derive(Debug, Clone, PartialEq)]
struct Snapshot {
    entries: Vec<v1::Entity>,
    cells: Vec<u64>,
}

fn group_of_all() -> EntityKind {
    let r#type = Some(Replication::MulticastGroupEntry(v1::MulticastGroupEntry::default()));
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type })
}

/// All cells, past the requests of P4Runtime.
fn cells(core: &mut Core, program: &Program) -> Vec<u64> {
    let pipeline = core.pipeline();
    let counters =
        program.counters.iter().flat_map(|counter| pipeline.counters(counter_id(counter.id)).to_vec());
    let mut cells: Vec<u64> = counters.collect();
    let mut values = Vec::new();
    for register in &program.registers {
        for index in 0..register.size as usize {
            assert!(pipeline.read_register(&register.name, index, &mut values), "the program has it");
        }
    }
    cells.extend(values.into_iter().map(u64::from));
    cells
}

/// The pipeline with cells of 0.
fn clear(core: &mut Core, program: &Program) {
    let pipeline = core.pipeline();
    program.counters.iter().for_each(|counter| pipeline.counters_mut(counter_id(counter.id)).fill(0));
    for register in &program.registers {
        for index in 0..register.size as usize {
            let mut values = Vec::new();
            pipeline.read_register(&register.name, index, &mut values);
            values.fill(0);
            assert!(pipeline.write_register(&register.name, index, &values), "the program has it");
        }
    }
}

impl Shared {
    fn get(switch: &Idle) -> &'static Self {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        SHARED.get_or_init(|| {
            let handle = idle_switch();
            let pipeline = pipeline_for(&switch.program).expect("a right program").0;
            let installed = handle.call(move |core| {
                core.replace_pipeline(pipeline);
                core.set_cpu_port(CPU_PORT, |_| {});
            });
            installed.expect("calls of an idle switch take place");
            let control = Control::new(&handle, CPU_PORT).expect("calls of an idle switch take place");
            control.adopt(&switch.program).expect("the switch runs it");
            bid(&control);
            Self { handle, control }
        })
    }

    fn read(&self, patterns: Vec<EntityKind>) -> Vec<v1::Entity> {
        let entities = patterns.into_iter().map(v1::Entity::from).collect();
        let request = v1::ReadRequest { device_id: DEVICE, entities, ..Default::default() };
        let (entities, results) = self.control.read(&request).expect("the device is there");
        assert!(results.iter().all(Result::is_ok));
        entities
    }

    fn snapshot(&self, switch: &'static Idle) -> Snapshot {
        let entries = self.read(vec![EntityKind::TableEntry(Default::default()), group_of_all()]);
        let cells = self.handle.call(|core| cells(core, &switch.program));
        Snapshot { entries, cells: cells.expect("calls of an idle switch take place") }
    }
}

pub(super) fn run(input: &mut Input<'_>, switch: &'static Idle) {
    let shared = Shared::get(switch);
    let there = shared.snapshot(switch);
    assert!(there.entries.is_empty() && there.cells.iter().all(|cell| *cell == 0));
    let mut scene = Scene { switch, shared, there, wanted: State::default() };
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.below(8) {
            0 => scene.read(input),
            1 => scene.packet_out(input),
            2 if input.below(2) == 0 => scene.wanted = scene.observed().state,
            2 => scene.reconcile(),
            _ => scene.write(input),
        }
    }
    scene.end();
}

impl Scene<'static> {
    fn snapshot(&self) -> Snapshot {
        self.shared.snapshot(self.switch)
    }

    fn update(&self, input: &mut Input<'_>) -> v1::Update {
        let kind = if input.below(16) == 0 { input.below(6) } else { 1 + input.below(3) };
        // An entity that is there, in half of the cases.
        let known = input.below(256).checked_rem(self.there.entries.len()).filter(|_| input.below(2) == 0);
        let entity = match known {
            Some(at) if input.below(2) == 0 => {
                Some(entity::changed(input, &self.switch.info, &self.there.entries[at]))
            }
            Some(at) => Some(self.there.entries[at].clone()),
            None => entity::any(input, &self.switch.info),
        };
        v1::Update { r#type: kind as i32, entity }
    }

    fn request(&self, updates: Vec<v1::Update>, atomicity: Atomicity) -> v1::WriteRequest {
        let atomicity = atomicity as i32;
        v1::WriteRequest {
            device_id: DEVICE,
            election_id: primary(),
            updates,
            atomicity,
            ..Default::default()
        }
    }

    fn write(&mut self, input: &mut Input<'_>) {
        let count = if input.below(2) == 0 { 1 } else { 1 + input.below(UPDATES_MAX) };
        let updates: Vec<v1::Update> = (0..count).map(|_| self.update(input)).collect();
        let atomicity = Atomicity::try_from(input.below(3) as i32).expect("there are three");
        let mut request = self.request(updates.clone(), atomicity);
        match input.below(32) {
            0 => request.election_id = None,
            1 => request.device_id = 2,
            2 => request.role = "other".into(),
            3 => request.role_id = 1,
            4 => request.atomicity = 3,
            _ => {}
        }
        let is_admitted = request == self.request(updates.clone(), atomicity);
        let before = self.there.clone();
        let results = self.shared.control.write(request);
        self.there = self.snapshot();
        match results {
            Ok(results) => {
                assert!(is_admitted && results.len() == updates.len());
                self.compare(&before, &updates, &results, atomicity);
            }
            Err(refused) => {
                check(&refused);
                assert!(!is_admitted, "{refused:?}");
                assert_eq!(self.there, before, "what is refused changes nothing");
            }
        }
    }

    fn compare(
        &self,
        before: &Snapshot,
        updates: &[v1::Update],
        results: &[Result<(), Refused>],
        atomicity: Atomicity,
    ) {
        results.iter().filter_map(|result| result.as_ref().err()).for_each(check);
        let failed = results.iter().filter(|result| result.is_err()).count();
        if failed > 0 && atomicity != Atomicity::ContinueOnError {
            assert_eq!(failed, results.len(), "all or none: {results:?}");
        }
        if failed == results.len() {
            assert_eq!(&self.there, before, "{updates:?}: {results:?}");
            return;
        }
        let done = updates.iter().zip(results).filter(|(_, result)| result.is_ok()).map(|(update, _)| update);
        let count = |kind: UpdateType| done.clone().filter(|update| update.r#type == kind as i32).count();
        let (inserted, deleted) = (count(UpdateType::Insert), count(UpdateType::Delete));
        assert_eq!(
            self.there.entries.len() + deleted,
            before.entries.len() + inserted,
            "{updates:?}: {results:?}"
        );
        if let [update] = updates {
            let new =
                |from: &[v1::Entity], to: &[v1::Entity]| to.iter().filter(|to| !from.contains(to)).count();
            let (came, went) =
                (new(&before.entries, &self.there.entries), new(&self.there.entries, &before.entries));
            match UpdateType::try_from(update.r#type) {
                Ok(UpdateType::Insert) => assert_eq!((came, went), (1, 0)),
                Ok(UpdateType::Delete) => assert_eq!((came, went), (0, 1)),
                _ => assert!(came == went && came <= 1),
            }
            let cells = matches!(
                update.entity.as_ref().and_then(|entity| entity.entity.as_ref()),
                Some(EntityKind::CounterEntry(_) | EntityKind::RegisterEntry(_))
            );
            assert!(cells || self.there.cells == before.cells, "{update:?}");
        }
    }

    /// A pattern gives entities that are there, and changes nothing.
    fn read(&mut self, input: &mut Input<'_>) {
        let entities = match input.below(4) {
            0 => v1::ReadRequest::decode(input.some(100)).unwrap_or_default().entities,
            _ => entity::any(input, &self.switch.info).into_iter().collect(),
        };
        let request = v1::ReadRequest { device_id: DEVICE, entities, ..Default::default() };
        let (found, results) = self.shared.control.read(&request).expect("few entities are there");
        assert_eq!(results.len(), request.entities.len());
        results.iter().filter_map(|result| result.as_ref().err()).for_each(check);
        let all =
            [EntityKind::CounterEntry(Default::default()), EntityKind::RegisterEntry(Default::default())];
        let cells = if found.is_empty() { Vec::new() } else { self.shared.read(all.into()) };
        for entity in &found {
            let is_default =
                matches!(&entity.entity, Some(EntityKind::TableEntry(entry)) if entry.is_default_action);
            assert!(
                is_default || self.there.entries.contains(entity) || cells.contains(entity),
                "{entity:?}"
            );
        }
        assert_eq!(self.snapshot(), self.there, "reading changes nothing");
    }

    /// What a controller reads of the switch.
    fn observed(&self) -> Observed {
        let patterns = state::patterns(&self.switch.schema).into_iter().filter_map(|pattern| pattern.entity);
        let entities = self.shared.read(patterns.collect()).into_iter().filter_map(|entity| entity.entity);
        Observed::new(&self.switch.schema, entities.collect())
    }

    /// The changes that a controller finds necessary are accepted, and leave what is wanted.
    fn reconcile(&mut self) {
        let schema = &self.switch.schema;
        let observed = self.observed();
        assert!(observed.foreign.is_empty(), "{:?}", observed.foreign);
        let changes = Changes::between(schema, observed, &self.wanted).expect("it was held");
        let count = changes.inserted + changes.removed + changes.modified;
        assert_eq!(count, changes.steps.iter().map(Vec::len).sum::<usize>());
        for step in changes.steps {
            let results = self.shared.control.write(self.request(step.clone(), Atomicity::ContinueOnError));
            let results = results.expect("the primary writes");
            assert!(results.iter().all(Result::is_ok), "{step:?}: {results:?}");
        }
        let observed = self.observed();
        assert_eq!(observed.state, self.wanted);
        let changes = Changes::between(schema, observed, &self.wanted).expect("it was held");
        assert!(changes.steps.iter().all(Vec::is_empty), "{:?}", changes.steps);
        self.there = self.snapshot();
    }

    /// A packet of the primary goes through the pipeline; its entries stay.
    fn packet_out(&mut self, input: &mut Input<'_>) {
        let client = 1 + u64::from(input.below(8) == 0);
        let metadata = if input.below(8) == 0 { vec![v1::PacketMetadata::default()] } else { Vec::new() };
        let payload = input.some(100).to_vec();
        let is_sound = client == 1 && metadata.is_empty();
        let refused = self.shared.control.packets_out(client, vec![v1::PacketOut { payload, metadata }]);
        let refused = refused.expect("the switch runs");
        refused.iter().for_each(check);
        assert_eq!(refused.is_empty(), is_sound);
        let after = self.snapshot();
        let before = std::mem::replace(&mut self.there, after);
        assert_eq!(self.there.entries, before.entries);
        assert!(is_sound || self.there == before);
    }

    /// All that is there can be deleted, and written as it was read, and deleted again.
    fn end(mut self) {
        let all = |kind: UpdateType| {
            let update =
                |entity: &v1::Entity| v1::Update { r#type: kind as i32, entity: Some(entity.clone()) };
            self.there.entries.iter().map(update).collect::<Vec<_>>()
        };
        let (deletes, inserts) = (all(UpdateType::Delete), all(UpdateType::Insert));
        let before = self.there.clone();
        let len = before.entries.len();
        for (updates, left) in [(deletes.clone(), 0), (inserts, len), (deletes, 0)] {
            let results = self.shared.control.write(self.request(updates, Atomicity::DataplaneAtomic));
            let results = results.expect("the primary writes");
            assert!(results.iter().all(Result::is_ok), "{results:?} {before:?}");
            self.there = self.snapshot();
            assert_eq!(self.there.entries[..], before.entries[..left], "what was read is written");
        }
        assert_eq!(self.there.cells, before.cells);
        let switch = self.switch;
        let cleared = self.shared.handle.call(|core| clear(core, &switch.program));
        cleared.expect("calls of an idle switch take place");
    }
}
