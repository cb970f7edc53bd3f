//! The resident guard: it depends on no session and no scheduler, and calls a patrol when none comes.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};

use super::program::{guardian_folder, home, log_to, own_program, without_own_variables};
use super::seat::Seat;
use super::service_error::ServiceError;
use super::wanted::wanted;
use crate::domain::{Resident, duration_text, ended_text, span_text, with_causes};
use crate::rules::{is_beat_missing, pause_after_patrol};
use crate::state::last_patrol;

/// The hidden first argument that makes the program the resident guard.
pub const RESIDENT_ARGUMENT: &str = "__resident";

/// Messages of the resident guard when it ends by itself.
const UNWANTED: &str = "no resident guard is wanted any more";
const UNSEATED: &str = "the lock file was removed or replaced; the next patrol starts another resident guard";

/// Time in which a terminated patrol may end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// The shortest and the longest pause between two looks at a patrol that is running.
const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(1);

/// The exit code of a patrol that found a session which needs a person.
const NEEDS_PERSON: i32 = 4;

/// Is the resident guard, until none is wanted. `say` gets a line for each call of a patrol.
///
/// # Errors
///
/// There is no home folder, or another resident guard runs.
pub fn reside(mut say: impl FnMut(&str)) -> Result<(), ServiceError> {
    let folder = guardian_folder()?;
    let program = own_program()?;
    let mut seat = Seat::take(&folder)?;
    seat.sign();
    let Some(mut settings) = wanted(&folder, &Resident::default())? else {
        say(UNWANTED);
        return Ok(());
    };
    say(&format!("the resident guard {}", settings_text(&settings)));
    let mut watch = Watch { beat: None, since: Instant::now(), called: Instant::now(), pause: Duration::ZERO };
    loop {
        // First of all: what started this one may be about to make a patrol, too.
        sleep(settings.wake);
        match wanted(&folder, &settings)? {
            Some(found) if seat.holds() => settings = found,
            found => {
                say(if found.is_some() { UNSEATED } else { UNWANTED });
                return Ok(());
            }
        }
        if let Some(missing) = watch.missing(&folder, settings.beat) {
            say(&format!("{missing}; calling one"));
            let outcome = call(&folder, &program, &settings);
            say(&match &outcome {
                Ok(ended) => format!("the patrol ended: {}", ended.text()),
                Err(error) => format!("cannot start the patrol: {}", with_causes(error)),
            });
            let succeeded = outcome.is_ok_and(|ended| ended.succeeded());
            (watch.called, watch.pause) = (Instant::now(), pause_after_patrol(succeeded, settings.beat));
        }
    }
}

/// The resident guard's view of the patrols.
struct Watch {
    /// The beat that it saw last.
    beat: Option<Timestamp>,
    /// Since when that is the beat.
    since: Instant,
    /// When the last patrol that it called ended, and how long it calls none after that.
    called: Instant,
    pause: Duration,
}

impl Watch {
    /// Looks at the beat; says what is missing, if it is time to call a patrol.
    fn missing(&mut self, folder: &Path, limit: Duration) -> Option<String> {
        let (beat, now) = (last_patrol(folder), Timestamp::now());
        if beat != self.beat {
            (self.beat, self.since) = (beat, Instant::now());
        }
        let is_missing = is_beat_missing(beat, now, self.since.elapsed(), limit);
        (is_missing && self.called.elapsed() >= self.pause).then(|| match beat {
            Some(beat) if beat <= now => {
                let age = now.duration_since(beat).as_secs_f64();
                format!("the last patrol ended {} ago", span_text(age))
            }
            Some(_) => "the last patrol ended in the future, by this clock".to_owned(),
            None => "no patrol has come yet".to_owned(),
        })
    }
}

/// The end of a patrol.
struct Ended {
    status: ExitStatus,
    timed_out: bool,
    seconds: f64,
}

impl Ended {
    fn succeeded(&self) -> bool {
        !self.timed_out && matches!(self.status.code(), Some(0 | NEEDS_PERSON))
    }

    fn text(&self) -> String {
        ended_text(self.status.code(), self.status.signal(), self.timed_out, self.seconds)
    }
}

/// Calls a patrol and waits for its end. One that takes longer than the beat is terminated, with its process group.
fn call(folder: &Path, program: &Path, settings: &Resident) -> io::Result<Ended> {
    let mut command = match &settings.patrol {
        Some(line) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", line]);
            shell
        }
        None => {
            let mut patrol = Command::new(program);
            patrol.arg("guard").args(&settings.arguments);
            patrol
        }
    };
    log_to(&mut command, &folder.join("patrol.log"));
    without_own_variables(&mut command)
        .current_dir(home().filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/")))
        .process_group(0);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let in_time = wait(&mut child, settings.beat)?;
    let timed_out = in_time.is_none();
    let status = match in_time {
        Some(status) => status,
        None => terminate(&mut child)?,
    };
    Ok(Ended { status, timed_out, seconds: start.elapsed().as_secs_f64() })
}

/// Waits for a process, but not longer than `patience`.
fn wait(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let (start, mut pause) = (Instant::now(), SHORT);
    loop {
        let left = patience.saturating_sub(start.elapsed());
        match child.try_wait()? {
            None if !left.is_zero() => sleep(pause.min(left)),
            ended => return Ok(ended),
        }
        pause = (pause * 2).min(LONG);
    }
}

/// Terminates a process and its group, and reaps it.
fn terminate(child: &mut Child) -> io::Result<ExitStatus> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = |signal| group.map(|group| kill_process_group(group, signal));
    signal(Signal::TERM);
    let ended = wait(child, GRACE)?;
    // Also kills the processes that the leader left behind.
    signal(Signal::KILL);
    match ended {
        Some(status) => Ok(status),
        None => child.wait(),
    }
}

/// Describes the work of a resident guard with these settings.
pub(super) fn settings_text(settings: &Resident) -> String {
    let (beat, wake) = (duration_text(settings.beat), duration_text(settings.wake));
    let patrol = settings.patrol.as_deref().unwrap_or("ar guard");
    format!("looks every {wake}, and calls `{patrol}` when the last patrol is {beat} old")
}
