//! The receivers of events: the observer, the event logs and the command of `--on-event`.

use serde_json::{Value, json};

use super::hooks::Hooks;
use crate::domain::{Clock, Event, Notice, USER};
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Interrupts, Store};
use crate::state::{EventLog, Level};

/// A callback that receives the loop's events.
pub type Observer<'a> = Box<dyn FnMut(&Event) + 'a>;

/// All receivers of events. Only this type sends events to them.
pub(crate) struct Events<'a> {
    observer: Observer<'a>,
    pub(crate) log: EventLog,
    hooks: Hooks,
    /// The strongest interrupt that was told.
    pub(crate) told: Interrupt,
}

impl<'a> Events<'a> {
    /// Tells `observer`, and writes to `log`.
    pub(crate) fn new(observer: Observer<'a>, log: EventLog) -> Self {
        Events { observer, log, hooks: Hooks::default(), told: Interrupt::None }
    }

    /// Tells what happened in the session of `store`, whose folder must be whole.
    pub(crate) fn emit(&mut self, event: &Event, store: &Store) -> Result<(), SessionError> {
        let told = self.publish(event, store);
        self.hooks.alert(event, &store.into());
        self.publish_hook_trouble(store);
        told
    }

    fn publish(&mut self, event: &Event, store: &Store) -> Result<(), SessionError> {
        (self.observer)(event);
        let (level, decision) = match event {
            Event::RunProgress { .. } => return Ok(()),
            Event::ChangesSaved { .. }
            | Event::EnvironmentChanged { .. }
            | Event::Notice(
                Notice::BaselineTainted { .. }
                | Notice::BestDiffers { .. }
                | Notice::BestFails { .. }
                | Notice::Drifts { .. },
            ) => (Level::Warn, false),
            Event::Outage { .. } | Event::Escalated { .. } => (Level::Warn, true),
            Event::ExperimentFinished { .. }
            | Event::CalledAgain { .. }
            | Event::Directed { .. }
            | Event::Flagged { .. }
            | Event::OutageOver { .. }
            | Event::EscalationOver { .. }
            | Event::Sleep { .. }
            | Event::Told { .. }
            | Event::SessionStopped { .. } => (Level::Info, true),
            _ => (Level::Info, false),
        };
        let now = store.now();
        let detail = event_detail(event);
        self.log.work(now, level, event.into(), &detail)?;
        if decision {
            let source = if matches!(event, Event::Told { .. }) { USER } else { "rules" };
            self.log.decision(now, source, event.into(), &detail)?;
        }
        Ok(())
    }

    /// Waits until the command of `--on-event` was told of all that happened. A signal ends each of its waits.
    pub(crate) async fn finish_alerts(&mut self, interrupts: &Interrupts, clock: Clock) {
        self.hooks.finish(interrupts.listen(), clock).await;
    }

    /// Returns whether a problem with the command of `--on-event` is not yet logged.
    pub(crate) fn has_hook_trouble(&self) -> bool {
        self.hooks.has_trouble()
    }

    /// Logs problems with the command of `--on-event`. Ignores errors: a lost alert, or a lost line about it, does no harm.
    pub(crate) fn publish_hook_trouble(&mut self, store: &Store) {
        if let Some(event) = self.hooks.note_trouble(&self.log) {
            let _ = self.publish(&event, store);
        }
    }
}

/// An event for the logs: without its name, and a record cut down to what a line of a log is read for.
pub(crate) fn event_detail(event: &Event) -> Value {
    if let Event::ExperimentFinished { record, doubt, .. } = event {
        return json!({
            "experiment": record.id,
            "commit": record.commit,
            "outcome": record.outcome,
            "value": record.metric.value,
            "failure": record.failure.as_ref().map(|failure| failure.class),
            "reason": record.reason,
            "doubt": doubt,
        });
    }
    let mut value = json!(event);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("event");
    }
    value
}
