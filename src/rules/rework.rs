//! When the agent is called again for the experiment it is at.

use crate::domain::{Failure, FailureClass, Version};

/// How often a change whose guard fails is reworked: 2, as in the bounded modify-verify-decide protocols in use.
pub const REWORKS: u32 = 2;

/// How often a change that does not parse or import is fixed: 2, after which the protocols of overnight training skip the
/// idea.
pub const FIXES: u32 = 2;

/// What the agent is called again for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// The code does not parse, or an import fails.
    Fix,
    /// The number is better, and a guard fails.
    Rework,
}

/// A further call of the agent for the same experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// What it is for.
    pub task: Task,
    /// The how-manieth call for that it is, from 1 on.
    pub time: u32,
    /// How many of them there may be.
    pub limit: u32,
}

/// Whether the agent is called again for an experiment that ended with `failure`, after `versions` of it that did before.
pub fn again(failure: Option<&Failure>, versions: &[Version]) -> Option<Again> {
    let task = task_of(failure)?;
    let limit = match task {
        Task::Fix => FIXES,
        Task::Rework => REWORKS,
    };
    let before = versions.iter().filter(|version| task_of(version.failure.as_ref()) == Some(task)).count();
    let time = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
    (time <= limit).then_some(Again { task, time, limit })
}

fn task_of(failure: Option<&Failure>) -> Option<Task> {
    match failure?.class {
        FailureClass::SyntaxError | FailureClass::ImportError => Some(Task::Fix),
        FailureClass::GuardFailed => Some(Task::Rework),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CommitId;

    fn failure(class: FailureClass) -> Option<Failure> {
        Some(Failure { class, excerpt: String::new() })
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
            (SyntaxError, vec![], Some((Task::Fix, 1))),
            (ImportError, vec![SyntaxError], Some((Task::Fix, 2))),
            (SyntaxError, vec![SyntaxError, ImportError], None),
            (GuardFailed, vec![SyntaxError, ImportError], Some((Task::Rework, 1))),
            (GuardFailed, vec![GuardFailed, SyntaxError], Some((Task::Rework, 2))),
            (GuardFailed, vec![GuardFailed, GuardFailed], None),
        ] {
            let versions: Vec<_> = before.iter().copied().map(version).collect();
            let found = again(failure(last).as_ref(), &versions).map(|again| (again.task, again.time));
            assert_eq!(found, expected, "{last} after {before:?}");
        }
        assert_eq!(again(None, &[]), None);
    }
}
