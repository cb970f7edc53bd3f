//! When the agent is called again for the same experiment.

use crate::domain::{Failure, FailureClass, Version};

/// The most times that the agent may rework a change that failed a guard: 2, as in the bounded modify-verify-decide
/// protocols in use.
pub const REWORKS: u32 = 2;

/// The most fixes of a change that does not parse or import: 2, after which the protocols of overnight training skip
/// the idea.
pub const FIXES: u32 = 2;

/// The reason to call the agent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReworkTask {
    /// Fix: the code does not parse, or an import fails.
    Fix,
    /// Rework: the value is better, but a guard fails.
    Rework,
    /// Mend: it was merged with what was kept meanwhile, and fails since.
    Mend,
}

/// A further call of the agent for the same experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReworkCall {
    /// Its reason.
    pub task: ReworkTask,
    /// Retry number, from 1.
    pub time: u32,
    /// The most retries allowed.
    pub limit: u32,
}

/// Decides whether to call the agent again for an experiment that ended with `failure`, after earlier `versions` that
/// failed.
pub fn next_rework(failure: Option<&Failure>, versions: &[Version]) -> Option<ReworkCall> {
    let task = task_of(failure)?;
    let limit = match task {
        ReworkTask::Fix => FIXES,
        ReworkTask::Rework => REWORKS,
        ReworkTask::Mend => 1,
    };
    let before = versions.iter().filter(|version| task_of(version.failure.as_ref()) == Some(task)).count();
    let time = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
    (time <= limit).then_some(ReworkCall { task, time, limit })
}

/// The tree of a run on slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// The change on its own base.
    Own,
    /// The change, merged with what was kept meanwhile before its first run.
    Merged,
    /// A trial of winners.
    Trial,
}

/// The same on slots. A change that fails once it is merged goes to the agent once, whatever the failure is: the idea is not
/// to blame. A trial has no agent of its own: it did not hold, and its halves are tried.
pub fn next_rework_on_slots(ran: Ran, failure: Option<&Failure>, versions: &[Version]) -> Option<ReworkCall> {
    let judges = failure.is_some_and(|failure| failure.class.judges_change());
    match ran {
        Ran::Own => next_rework(failure, versions),
        Ran::Merged => next_rework(failure, versions).or_else(|| {
            (judges && versions.is_empty()).then_some(ReworkCall { task: ReworkTask::Mend, time: 1, limit: 1 })
        }),
        Ran::Trial => None,
    }
}

fn task_of(failure: Option<&Failure>) -> Option<ReworkTask> {
    match failure?.class {
        FailureClass::SyntaxError | FailureClass::ImportError => Some(ReworkTask::Fix),
        FailureClass::GuardFailed => Some(ReworkTask::Rework),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CommitId;

    fn failure(class: FailureClass) -> Option<Failure> {
        Some(Failure::new(class, ""))
    }

    #[test]
    fn fixes_and_reworks_are_counted_each_for_itself() {
        use FailureClass::{GuardFailed, ImportError, Oom, SyntaxError};
        let version = |class| Version {
            commit: CommitId::new(""),
            saved: String::new(),
            failure: failure(class),
            reason: String::new(),
            value: None,
            guards: Vec::new(),
        };
        for (last, before, expected) in [
            (Oom, vec![], None),
            (SyntaxError, vec![], Some((ReworkTask::Fix, 1))),
            (ImportError, vec![SyntaxError], Some((ReworkTask::Fix, 2))),
            (SyntaxError, vec![SyntaxError, ImportError], None),
            (GuardFailed, vec![SyntaxError, ImportError], Some((ReworkTask::Rework, 1))),
            (GuardFailed, vec![GuardFailed, SyntaxError], Some((ReworkTask::Rework, 2))),
            (GuardFailed, vec![GuardFailed, GuardFailed], None),
        ] {
            let versions: Vec<_> = before.iter().copied().map(version).collect();
            let found = next_rework(failure(last).as_ref(), &versions).map(|again| (again.task, again.time));
            assert_eq!(found, expected, "{last} after {before:?}");
        }
        assert_eq!(next_rework(None, &[]), None);
        let mend = |class, versions: &[Version]| {
            next_rework_on_slots(Ran::Merged, failure(class).as_ref(), versions).map(|it| it.task)
        };
        assert_eq!(mend(Oom, &[]), Some(ReworkTask::Mend));
        assert_eq!(mend(Oom, &[version(Oom)]), None, "once");
        assert_eq!(mend(SyntaxError, &[]), Some(ReworkTask::Fix));
        assert_eq!(mend(FailureClass::Lost, &[]), None, "nobody's change is to blame");
        assert_eq!(next_rework_on_slots(Ran::Merged, None, &[]), None);
        for class in [SyntaxError, ImportError, GuardFailed, Oom] {
            assert_eq!(next_rework_on_slots(Ran::Trial, failure(class).as_ref(), &[]), None, "{class} of a trial");
            let own = next_rework(failure(class).as_ref(), &[]);
            assert_eq!(next_rework_on_slots(Ran::Own, failure(class).as_ref(), &[]), own, "{class} on its own base");
        }
    }
}
