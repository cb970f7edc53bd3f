//! Programs that git starts for the user while this process waits: filters and signing programs.
//!
//! gix waits for them without a deadline. A watchdog on another thread terminates them: it knows when one can be running
//! ([`Call`]), and why it has to end.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{GitError, Repo, Result};

/// How often the watchdog checks while a program can be running.
const POLL: Duration = Duration::from_millis(50);

/// What such a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// It converts a file between working tree and repository.
    Filter,
    /// It signs a commit.
    Signing,
}

impl Program {
    /// The time limit of one: a filter may download a large file; a person may have to type a passphrase.
    fn limit(self) -> Duration {
        match self {
            Program::Filter => Duration::from_secs(600),
            Program::Signing => Duration::from_secs(60),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Filter => "a git filter",
            Program::Signing => "the signing program",
        })
    }
}

/// Why a program was terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The user asked to stop.
    Asked,
    /// The time of the whole invocation is over.
    TimeOver,
    /// It ran into its own time limit.
    Late,
}

/// What the watchdog has to know.
#[derive(Default)]
pub struct Programs {
    state: Mutex<State>,
    begun: Condvar,
}

#[derive(Default)]
struct State {
    /// The innermost program that can be running, when that began, and how many calls there are.
    running: Option<(Program, Instant)>,
    calls: u32,
    end: Option<Instant>,
    asked: Option<Box<dyn Fn() -> bool + Send>>,
    cut: Option<Cut>,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Programs")
    }
}

impl Programs {
    /// Terminates programs that are still running at `end`.
    pub fn end_at(&self, end: Option<Instant>) {
        self.state().end = end;
    }

    /// Terminates programs once `asked` says that the user wants to stop.
    pub fn end_when(&self, asked: impl Fn() -> bool + Send + 'static) {
        self.state().asked = Some(Box::new(asked));
    }

    /// Watches for as long as the thread of the caller lives. `terminate` ends all that can be such a program.
    pub fn watch(&self, terminate: impl Fn()) {
        let mut state = self.state();
        loop {
            state = match state.due() {
                Some(cut) => {
                    state.cut.get_or_insert(cut);
                    drop(state);
                    terminate();
                    self.state()
                }
                None => state,
            };
            state = match state.calls {
                0 => self.begun.wait(state).unwrap_or_else(PoisonError::into_inner),
                _ => self.begun.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why what is running now has to end.
    fn due(&self) -> Option<Cut> {
        let (program, since) = self.running?;
        if self.asked.as_ref().is_some_and(|asked| asked()) {
            Some(Cut::Asked)
        } else if self.end.is_some_and(|end| Instant::now() >= end) {
            Some(Cut::TimeOver)
        } else if since.elapsed() >= program.limit() {
            Some(Cut::Late)
        } else {
            None
        }
    }
}

/// A stretch of work in which gix may start programs and wait for them; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Call {
    program: Program,
    programs: Option<Arc<Programs>>,
}

impl Call {
    /// Begins the work on the next file: the time limit is that of one program.
    pub(super) fn go_on(&self) {
        if let Some(programs) = &self.programs {
            programs.state().running = Some((self.program, Instant::now()));
        }
    }

    /// Fails if the watchdog terminated a program meanwhile: a filter that is not `required` would count as one that
    /// changes nothing.
    pub(super) fn check<T>(&self, done: Result<T>) -> Result<T> {
        let cut = self.programs.as_ref().and_then(|programs| programs.state().cut);
        match cut {
            Some(cut) => Err(GitError::Cut { program: self.program, limit: self.program.limit(), cut }),
            None => done,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(programs) = &self.programs else { return };
        let mut state = programs.state();
        state.calls = state.calls.saturating_sub(1);
        if state.calls == 0 {
            state.running = None;
            state.cut = None;
        }
    }
}

impl Repo {
    /// What the watchdog of this repository's programs has to know.
    pub fn programs(&self) -> Arc<Programs> {
        Arc::clone(&self.programs)
    }

    /// Tells the watchdog that gix may start such programs from here on.
    pub(super) fn call(&self, program: Program) -> Call {
        let is_possible = program == Program::Signing || self.has_filters();
        let programs = is_possible.then(|| Arc::clone(&self.programs));
        if let Some(programs) = &programs {
            let mut state = programs.state();
            state.calls += 1;
            state.running = Some((program, Instant::now()));
            drop(state);
            programs.begun.notify_all();
        }
        Call { program, programs }
    }

    /// Whether the configuration names any filter.
    fn has_filters(&self) -> bool {
        let config = self.gix.config_snapshot();
        config.plumbing().sections_by_name("filter").is_some_and(|mut sections| sections.next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_running_is_cut_for_one_reason_at_a_time_and_nothing_else_is() {
        let mut state = State::default();
        let now = Instant::now();
        state.end = Some(now);
        assert_eq!(state.due(), None, "nothing is running");
        state.running = Some((Program::Filter, now));
        assert_eq!(state.due(), Some(Cut::TimeOver));
        state.asked = Some(Box::new(|| true));
        assert_eq!(state.due(), Some(Cut::Asked));
        state.asked = None;
        state.end = None;
        assert_eq!(state.due(), None);
        let Some(before) = now.checked_sub(Duration::from_secs(61)) else { return };
        state.running = Some((Program::Filter, before));
        assert_eq!(state.due(), None);
        state.running = Some((Program::Signing, before));
        assert_eq!(state.due(), Some(Cut::Late));
    }
}
