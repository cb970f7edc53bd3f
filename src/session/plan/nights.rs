//! The night that an invocation of the loop enters, and which caps hold in it.

use jiff::Timestamp;

use super::invocation::Drive;
use super::terms::Wanted;
use crate::domain::{Clock, Contract, moment_text};
use crate::exec::boot_id;
use crate::rules::{History, LoopCall, Moment, Night, NightCaps, Tonight};
use crate::state::Journal;

/// Settles the caps of a contract: for a loop those of its night, which it gives; what `ar try` is given counts the session.
/// `stored` is the contract of before, of a session that continues.
pub(crate) fn settle_caps(
    contract: &mut Contract,
    stored: Option<&Contract>,
    journal: Option<&Journal>,
    wanted: &Wanted,
    drive: Drive,
    now: Timestamp,
) -> Option<Tonight> {
    let given = NightCaps::of(&wanted.given);
    let call = match drive {
        Drive::Loop { call, .. } => call,
        Drive::WorkingTree { .. } => {
            stored.map_or_else(|| NightCaps::of(&wanted.file), NightCaps::in_contract).enter(contract);
            let session = &mut contract.caps;
            session.session_max_experiments = given.experiments.or(session.session_max_experiments);
            session.session_max_cost = given.cost.or(session.session_max_cost);
            session.session_max_tokens = given.tokens.or(session.session_max_tokens);
            return None;
        }
        Drive::Ending => return None,
    };
    let before = stored.and_then(|stored| night_before(journal, stored));
    let same_boot = journal.is_none_or(|journal| journal.presence.is_of_boot(boot_id().as_deref()));
    let is_typed = call != LoopCall::Resumed;
    // A time that was given now, counted from a night of long ago, may be over.
    let is_over = |night: &Night| {
        let end = wanted.given.budget.map(|budget| night.began.checked_add(budget));
        end.is_some_and(|end| end.is_ok_and(|end| end <= now))
    };
    let goes_on = |night: &Night| night.is_unfinished(same_boot, now) && !is_over(night);
    let begins = match call {
        LoopCall::Typed => !before.as_ref().is_some_and(goes_on),
        LoopCall::Requeued => before.is_none(),
        LoopCall::Resumed => false,
    };
    let caps = match (begins, stored) {
        (false, Some(stored)) => given.or(before.map_or_else(|| NightCaps::in_contract(stored), |night| night.caps)),
        _ => given.or(NightCaps::of(&wanted.file)),
    };
    caps.enter(contract);
    let is_new_time = stored.is_none_or(|stored| stored.until != contract.until);
    Some(Tonight {
        begins,
        is_typed,
        caps,
        anew: if is_typed { NightCaps::default() } else { given },
        budget: wanted.given.budget,
        until: wanted.given.until.is_some() && (!is_typed || is_new_time),
    })
}

/// The notice that a typed `ar run` continues the last night.
pub(crate) fn continued_notice(tonight: &Tonight, journal: Option<&Journal>) -> Option<String> {
    let night = journal?.expenses.last_night().filter(|_| tonight.is_typed && !tonight.begins)?;
    Some(format!(
        "continued the night begun at {}, as its last loop was cut short; its experiments count",
        moment_text(night.began)
    ))
}

/// The night that a session is in, or was in last. One of an earlier version began with the session.
fn night_before(journal: Option<&Journal>, contract: &Contract) -> Option<Night> {
    let Journal { presence, expenses, .. } = journal?;
    // After the loss of a journal, all experiments count as one night.
    expenses.night_before(contract, presence.is_unseen() || presence.is_loop(), presence.night_end())
}

/// The night of a loop that is about to begin, by the journal before the loop is noted there.
pub(crate) fn entered_night(
    journal: &Journal,
    tonight: &Tonight,
    contract: &Contract,
    history: &History,
    clock: Clock,
) -> Night {
    let at = Moment {
        now: clock.now(),
        next: history.next_sequence(),
        budget: contract.budget,
        until: contract.until.map(|time| clock.next(time)),
    };
    Night::enter(night_before(Some(journal), contract), tonight, at)
}
