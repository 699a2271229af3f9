//! Carries out what administrators and tenants ask for.

use super::{Coordinator, Named, join};
use crate::command::{Command, CommandError};
use crate::jobs::{EndReason, JobEvent};
use crate::message::Refused;
use crate::policy::{Supply, leaves_others};
use crate::record::{Change, JobName, JobRecord, JobSpec, JobState, TenantRecord};
use netfold_control::TREES_MAX;
use netfold_wire::{CLASSES_MAX, WORLD_MAX};
use std::time::Duration;

impl Coordinator {
    /// Carries out a command.
    ///
    /// # Errors
    /// [`CommandError`]; nothing has changed.
    pub fn execute(&mut self, now: Duration, command: Command) -> Result<(), CommandError> {
        self.tick(now);
        if self.shut_down {
            return Err(CommandError::Gone);
        }
        match command {
            Command::AddTenant(record) => self.add_tenant(record),
            Command::SetTenant { name, quota, weight, priority, token } => self.set_tenant(name, |record| {
                record.quota = quota.unwrap_or(record.quota);
                record.weight = weight.unwrap_or(record.weight);
                record.priority = priority.unwrap_or(record.priority);
                record.token = token.or(record.token);
            }),
            Command::RemoveTenant(name) => self.remove_tenant(name),
            Command::DeclareJob { name, spec } => self.declare(name, spec),
            Command::EndJob { name, message } => self.end_job(name, message),
            Command::ForgetJob(name) => self.forget(name),
            Command::Drain { switch, drained, evict } => self.drain(switch, drained, evict),
            Command::DrainLink { a, b, drained, evict } => self.drain_link((&a, &b), drained, evict),
        }
    }

    pub(super) fn changed(&mut self, what: &'static str, name: String, message: impl Into<String>) {
        self.log(JobEvent::Changed { what, name, message: message.into() });
    }

    fn add_tenant(&mut self, record: TenantRecord) -> Result<(), CommandError> {
        join::check_name(&record.name).map_err(invalid)?;
        if self.tenants.contains_key(&record.name) {
            return Err(CommandError::Exists { what: "tenant", name: record.name });
        }
        if self.tenants.len() >= self.config.jobs_kept {
            let message = format!("there are {} tenants already: remove some", self.tenants.len());
            return Err(CommandError::Conflict(message));
        }
        self.put_tenant(record, "was added")
    }

    fn set_tenant(
        &mut self,
        name: String,
        change: impl FnOnce(&mut TenantRecord),
    ) -> Result<(), CommandError> {
        let Some(record) = self.tenants.get(&name) else {
            return Err(CommandError::NotFound { what: "tenant", name });
        };
        let mut record = record.clone();
        change(&mut record);
        self.put_tenant(record, "was changed")
    }

    fn put_tenant(&mut self, record: TenantRecord, message: &str) -> Result<(), CommandError> {
        if record.weight == 0 {
            return Err(CommandError::Invalid("a weight of 0: give 1 or more".into()));
        }
        let name = record.name.clone();
        self.tenants.insert(name.clone(), record.clone());
        self.keep(Change::Tenant(record));
        self.changed("tenant", name, message);
        // Its priority may be another.
        self.reband();
        Ok(())
    }

    fn remove_tenant(&mut self, name: String) -> Result<(), CommandError> {
        let what = "tenant";
        if !self.tenants.contains_key(&name) {
            return Err(CommandError::NotFound { what, name });
        }
        let used = self.used(&name);
        if used.jobs > 0 {
            let message = format!("tenant '{name}' has {} jobs that form or run: end them first", used.jobs);
            return Err(CommandError::Conflict(message));
        }
        let jobs = self.jobs.keys().filter(|job| job.tenant == name).cloned();
        for job in jobs.collect::<Vec<_>>() {
            self.drop_record(&job);
        }
        self.tenants.remove(&name);
        self.keep(Change::TenantGone(name.clone()));
        self.changed(what, name, "was removed");
        Ok(())
    }

    fn declare(&mut self, name: JobName, spec: JobSpec) -> Result<(), CommandError> {
        let what = "job";
        join::check_name(&name.job).map_err(invalid)?;
        check_spec(&spec)?;
        if self.config.tenants && !self.tenants.contains_key(&name.tenant) {
            return Err(CommandError::NotFound { what: "tenant", name: name.tenant });
        }
        if self.trees_with_groups(&name).next().is_some()
            || self.jobs.get(&name).is_some_and(|job| job.declared)
        {
            return Err(CommandError::Exists { what, name: name.to_string() });
        }
        let declared = self.jobs.values().filter(|job| job.declared).count();
        if declared >= self.config.jobs_kept {
            return Err(CommandError::Conflict(format!("{declared} jobs are declared already: forget some")));
        }
        self.check_declared(&name.tenant, declared)?;
        self.drop_record(&name);
        let record = JobRecord {
            name: name.clone(),
            spec,
            declared: true,
            state: JobState::Declared,
            epoch: 0,
            changed_s: self.unix_s(),
            last: None,
        };
        self.jobs.insert(name.clone(), record.clone());
        self.keep(Change::Job(record));
        self.changed(what, name.to_string(), "was declared");
        Ok(())
    }

    /// Whether one more declared job of a tenant leaves room in the database to other tenants, where `declared` are there.
    fn check_declared(&self, tenant: &str, declared: usize) -> Result<(), CommandError> {
        let Some(share) = self.share_of(tenant) else { return Ok(()) };
        let own = self.jobs.values().filter(|job| job.declared && job.name.tenant == tenant).count();
        let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
        let all = self.config.jobs_kept;
        if leaves_others(Supply { all: count(all), used: count(declared), held: count(own) }, 1, share) {
            return Ok(());
        }
        Err(CommandError::Conflict(format!(
            "tenant '{tenant}' has declared {own} of {all} jobs, and what is left is kept for other tenants: forget some of its jobs"
        )))
    }

    fn end_job(&mut self, name: JobName, message: String) -> Result<(), CommandError> {
        let trees = self.trees_with_groups(&name);
        let trees: Vec<(bool, Named)> = trees.map(|(tree, named)| (tree.group.is_empty(), named)).collect();
        if trees.is_empty() {
            let message = format!("job '{name}' neither forms nor runs");
            return match self.jobs.contains_key(&name) {
                true => Err(CommandError::Conflict(message)),
                false => Err(CommandError::NotFound { what: "job", name: name.to_string() }),
            };
        }
        for (own, tree) in trees {
            // One that has not begun is remembered as if it had run.
            let spec = match tree {
                Named::Forming(formation) => self.forming.get(&formation).map(|job| job.spec),
                Named::Active(job) => {
                    let starting = self.active.get(&job).filter(|active| active.phase.is_starting());
                    starting.map(|active| active.spec)
                }
            };
            if let Some(spec) = spec.filter(|_| own) {
                self.remember_ended(&name, spec, &message);
            }
            self.end_tree(tree, EndReason::Stopped { message: message.clone() });
        }
        self.changed("job", name.to_string(), "was ended");
        Ok(())
    }

    fn forget(&mut self, name: JobName) -> Result<(), CommandError> {
        if self.trees_with_groups(&name).next().is_some() {
            return Err(CommandError::Conflict(format!("job '{name}' forms or runs: end it first")));
        }
        if !self.drop_record(&name) {
            return Err(CommandError::NotFound { what: "job", name: name.to_string() });
        }
        self.flight_records.forget(&name);
        self.changed("job", name.to_string(), "was forgotten");
        Ok(())
    }

    fn drop_record(&mut self, name: &JobName) -> bool {
        let Some(record) = self.jobs.remove(name) else { return false };
        self.over.remove(record.changed_s, name);
        self.keep(Change::JobGone(name.clone()));
        true
    }

    fn drain(&mut self, name: String, drained: bool, evict: bool) -> Result<(), CommandError> {
        let Some(switch) = self.fleet.find(&name) else {
            return Err(CommandError::NotFound { what: "switch", name });
        };
        if self.fleet.is_drained(switch) != drained {
            self.fleet.set_drained(switch, drained);
            self.persist_switch(switch);
            let message = if drained { "takes no more jobs" } else { "takes jobs again" };
            self.changed("switch", name.clone(), message);
        }
        if drained && evict {
            self.displace_all(switch, &format!("switch '{name}' is being drained"));
        }
        self.place_waiting(self.now);
        Ok(())
    }
}

fn invalid(refused: Refused) -> CommandError {
    CommandError::Invalid(refused.message)
}

fn check_spec(spec: &JobSpec) -> Result<(), CommandError> {
    let invalid = |message: String| Err(CommandError::Invalid(message));
    if !(1..=WORLD_MAX).contains(&spec.world) {
        return invalid(format!("a world of {} workers: a job has 1 to {WORLD_MAX}", spec.world));
    }
    if !spec.slots.is_power_of_two() {
        return invalid(format!("{} slots asked for: ask for a power of two", spec.slots));
    }
    if !spec.classes.is_power_of_two() || spec.classes > CLASSES_MAX || u32::from(spec.classes) > spec.slots {
        return invalid(format!(
            "{} classes in {} slots: a power of two, at most {CLASSES_MAX}, and a slot each",
            spec.classes, spec.slots
        ));
    }
    if !(1..=TREES_MAX).contains(&spec.trees) {
        return invalid(format!("{} trees: a job has 1 to {TREES_MAX}", spec.trees));
    }
    if let Some(fault) = spec.iteration.and_then(|iteration| iteration.fault()) {
        return invalid(fault);
    }
    Ok(())
}
