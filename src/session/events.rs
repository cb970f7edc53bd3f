//! Who is told what happens: the observer, the event logs and the command of `--on-event`.

use std::collections::BTreeSet;

use super::hooks::Hooks;
use super::interrupts::Interrupt;
use crate::domain::Event;
use crate::state::EventLog;

/// Whoever watches the loop.
pub type Observer<'a> = Box<dyn FnMut(&Event) + 'a>;

/// All who are told of events.
pub(super) struct Events<'a> {
    pub(super) observer: Observer<'a>,
    pub(super) log: EventLog,
    pub(super) hooks: Hooks,
    /// The strongest interrupt that was told as an event.
    pub(super) told: Interrupt,
    /// What was told to be wrong with something that the loop does not depend on.
    pub(super) troubles: BTreeSet<String>,
}

impl<'a> Events<'a> {
    /// Tells `observer`, and writes to `log`.
    pub(super) fn new(observer: Observer<'a>, log: EventLog) -> Self {
        Events { observer, log, hooks: Hooks::default(), told: Interrupt::None, troubles: BTreeSet::new() }
    }
}
