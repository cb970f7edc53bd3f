//! The resident guard: it depends on no session and no scheduler, and calls a patrol when none comes. A lock keeps it
//! to one, a file says that it is wanted, and it exists as a shell script, too.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time;

use super::{
    Service, guardian_folder, home, log_to, no_file, not_started, one_line, own_program, without_own_variables,
};
use crate::domain::{
    Area, Clock, ErrorKind, Finding, Resident, UserError, duration_text, ended_text, refuse, shell_word, span_text,
    with_causes,
};
use crate::fs::{GLANCE, create_folder, failed, is_at, lock_within, open_regular, share_within};
use crate::rules::{is_beat_missing, pause_after_patrol};
use crate::state::{RESIDENT, StateError, last_patrol, read_json, write_json};

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
pub fn reside(mut say: impl FnMut(&str)) -> Result<(), UserError> {
    let folder = guardian_folder()?;
    let program = own_program()?;
    let mut seat = GuardLock::take(&folder)?;
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
struct PatrolEnd {
    status: ExitStatus,
    timed_out: bool,
    seconds: f64,
}

impl PatrolEnd {
    fn succeeded(&self) -> bool {
        !self.timed_out && matches!(self.status.code(), Some(0 | NEEDS_PERSON))
    }

    fn text(&self) -> String {
        ended_text(self.status.code(), self.status.signal(), self.timed_out, self.seconds)
    }
}

/// Calls a patrol and waits for its end. One that takes longer than the beat is terminated, with its process group.
fn call(folder: &Path, program: &Path, settings: &Resident) -> io::Result<PatrolEnd> {
    let mut command = Command::new(settings.patrol.as_ref().map_or(program, |_| Path::new("/bin/sh")));
    match &settings.patrol {
        Some(line) => command.args(["-c", line]),
        None => command.arg("guard").args(&settings.arguments),
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
    Ok(PatrolEnd { status, timed_out, seconds: start.elapsed().as_secs_f64() })
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
fn settings_text(settings: &Resident) -> String {
    let (beat, wake) = (duration_text(settings.beat), duration_text(settings.wake));
    let patrol = settings.patrol.as_deref().unwrap_or("ar guard");
    format!("looks every {wake}, and calls `{patrol}` when the last patrol is {beat} old")
}

/// The lock of the resident guard, held until this is dropped or the process ends.
pub(super) struct GuardLock {
    file: File,
    path: PathBuf,
}

fn lock_file(folder: &Path) -> PathBuf {
    folder.join("resident.lock")
}

impl GuardLock {
    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// Another resident guard holds it, or its file cannot be opened.
    pub(super) fn take(folder: &Path) -> Result<GuardLock, UserError> {
        create_folder(folder).map_err(no_file)?;
        let path = lock_file(folder);
        let lock = || -> io::Result<Option<File>> {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NONBLOCK);
            let file = options.open(&path)?;
            Ok(lock_within(&file, GLANCE)?.then_some(file))
        };
        match lock().map_err(failed("lock", &path)).map_err(no_file)? {
            Some(file) => Ok(GuardLock { file, path }),
            None => {
                let process = holder(&path);
                let named = process.map(|pid| format!(": process {pid}")).unwrap_or_default();
                let end = process.map(|pid| format!("run `kill {pid}` to end it, or ")).unwrap_or_default();
                Err(refuse(ErrorKind::Held, format!("another resident guard is running{named}"))
                    .hint(format!("{end}run `rm {}` to want none", shell_word(&wanted_file(folder)))))
            }
        }
    }

    /// Names this process in the file, for messages. A full disk stops no guard.
    pub(super) fn sign(&mut self) {
        let _ = self.file.set_len(0).and_then(|()| self.file.rewind());
        let _ = writeln!(self.file, "{}", std::process::id());
    }

    /// Returns whether the file is still the one that another process would lock.
    pub(super) fn holds(&self) -> bool {
        is_at(&self.file, &self.path).unwrap_or(true)
    }
}

/// The process that the lock file names.
fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    open_regular(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The process of the running resident guard, `Some(None)` if it is not named; `None` if none runs. Changes nothing.
fn seated(folder: &Path) -> Option<Option<u32>> {
    let path = lock_file(folder);
    let file = open_regular(&path).ok()?;
    // A process that starts one takes a moment to let go of the lock.
    let is_free = share_within(&file, GLANCE / 10).unwrap_or(true);
    (!is_free).then(|| holder(&path))
}

/// The file.
pub(super) fn wanted_file(folder: &Path) -> PathBuf {
    folder.join(RESIDENT)
}

/// Returns the settings of the resident guard; `None` if none is wanted.
///
/// A file that nobody can read still says that one is wanted: it gives `known`.
pub(super) fn wanted(folder: &Path, known: &Resident) -> Result<Option<Resident>, UserError> {
    let path = wanted_file(folder);
    match read_json(&path) {
        Ok(found) => Ok(found),
        Err(error @ StateError::Newer { .. }) => Err(error.into()),
        Err(_) => Ok(fs::symlink_metadata(&path).is_ok().then(|| known.clone())),
    }
}

/// Says that one is wanted.
pub(super) fn want(folder: &Path, resident: &Resident) -> Result<(), UserError> {
    create_folder(folder).map_err(no_file)?;
    Ok(write_json(&wanted_file(folder), resident)?)
}

/// The part that is the same everywhere.
const BODY: &str = include_str!("resident.sh");

/// A line for those who check scripts.
const LITERAL: &str =
    "# shellcheck disable=SC2016,SC2089,SC2090 # Quotes and dollars in values of variables mean themselves.\n";

/// Returns the resident guard as a POSIX shell script, which needs `ar` only for the patrol itself, by its absolute path.
///
/// # Errors
///
/// There is no home folder, or a path contains a line break.
pub fn resident_script(settings: &Resident) -> Result<String, UserError> {
    let folder = one_line("the path of your state folder", guardian_folder()?.into_os_string())?;
    let service = Service::of(&settings.arguments, Duration::ZERO)?;
    let patrol = match &settings.patrol {
        Some(line) => format!("/bin/sh -c {}", quoted(line)),
        None => in_shell(&service),
    };
    let seconds = |duration: Duration| duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    Ok(format!(
        "#!/bin/sh\n\
         {LITERAL}\
         # The resident guard of autoresearch, printed by `ar guard --print-sh`. It calls a patrol when the last one is too old.\n\
         # Start it at each boot, detached: nohup sh FILE >/dev/null 2>&1 &\n\
         \n\
         # The folder with the beat of the patrols.\n\
         folder={}\n\
         # Seconds: the age of the last patrol at which one is called, and the time between two looks.\n\
         beat={}\n\
         wake={}\n\
         # What a patrol needs.\n\
         {}\
         patrol() {{\n\
         \texec {patrol}\n\
         }}\n\
         \n{BODY}",
        quoted(&folder),
        seconds(settings.beat),
        seconds(settings.wake),
        exported(&service.variables)
    ))
}

/// Lines of a script that set variables for all that it starts.
fn exported(variables: &[(String, String)]) -> String {
    let lines = variables.iter().map(|(name, value)| format!("{name}={}\nexport {name}\n", quoted(value)));
    lines.collect()
}

/// The command of a patrol, as a script calls it.
pub(super) fn in_shell(service: &Service) -> String {
    let words = [&service.program].into_iter().chain(&service.arguments);
    words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A text as one word of the shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Says when the last patrol came, and whether the resident guard runs. Changes nothing.
pub fn examine_guardians(clock: Clock) -> Vec<Finding> {
    let found = guardian_folder().and_then(|folder| Ok((wanted(&folder, &Resident::default())?, folder)));
    let (settings, folder) = match found {
        Ok(found) => found,
        Err(error) => {
            return vec![Finding { hint: error.hint.clone(), ..Finding::warning(Area::Guardian, with_causes(&error)) }];
        }
    };
    let mut found = vec![patrols(&folder, settings.as_ref(), clock)];
    found.extend(settings.map(|_| {
        match seated(&folder) {
            Some(process) => {
                let process = process.map(|pid| format!(": process {pid}")).unwrap_or_default();
                Finding::ok(Area::Guardian, format!("the resident guard is running{process}"))
            }
            None => Finding::warning(Area::Guardian, "a resident guard is wanted, but none is running").hint(format!(
                "run `ar guard` to start it, or `rm {}` to want none",
                shell_word(&wanted_file(&folder))
            )),
        }
    }));
    found
}

fn patrols(folder: &Path, settings: Option<&Resident>, clock: Clock) -> Finding {
    let limit = settings.map_or(Resident::BEAT, |settings| settings.beat);
    let Some(beat) = last_patrol(folder) else {
        return Finding::ok(Area::Guardian, "no patrol has come yet (`ar guard --print systemd`)");
    };
    let last = format!("the last patrol ended at {}", clock.said(beat));
    if is_beat_missing(Some(beat), clock.now(), Duration::ZERO, limit) {
        return Finding::warning(Area::Guardian, format!("patrols are missing: {last}"))
            .hint("run `ar guard` for a patrol by hand, and see whether your timer or crontab still starts it");
    }
    Finding::ok(Area::Guardian, last)
}

/// The exit code of a resident guard that found another one.
const HELD: i32 = 5;

/// Starts the resident guard in the background if one is wanted and none is running, and gives its process then. It survives
/// this process, its terminal and its session, and gets no `AR_` variable.
///
/// # Errors
///
/// A newer version of `ar` wrote its settings, or it does not start.
pub fn ensure_resident() -> Result<Option<u32>, UserError> {
    ensure().map(|(started, _)| started.map(|child| child.id()))
}

/// Does that again and again, as often as the resident guard wakes, and reaps what it started. Calls `tell` with the first
/// error, be it its own or that of the resident guard.
pub async fn keep_resident(tell: impl FnOnce(&UserError)) -> Infallible {
    let (mut tell, mut wake) = (Some(tell), Resident::WAKE);
    let mut started: Option<Child> = None;
    loop {
        let ended = started.as_mut().map(Child::try_wait);
        if matches!(ended, Some(Ok(None))) {
            time::sleep(wake).await;
            continue;
        }
        // One that is killed is only started again; one that is not wanted, or finds another, ends as it should.
        let is_failure = |status: &ExitStatus| status.code().is_some_and(|code| code != 0 && code != HELD);
        let failed = ended.and_then(|ended| ended.ok().flatten()).filter(is_failure);
        let error = match ensure() {
            Ok(next) => {
                (started, wake) = next;
                failed.map(|status| {
                    let text = format!("it ended ({status}); guard/resident.log in your state folder has its output");
                    refuse(ErrorKind::CannotStart, text).hint("run `ar guard --resident` to see why")
                })
            }
            Err(error) => {
                (started, wake) = (None, Resident::WAKE);
                Some(error)
            }
        };
        if let Some(error) = error {
            tell.take().into_iter().for_each(|tell| tell(&error));
        }
        time::sleep(wake).await;
    }
}

/// Starts it if it is wanted and gone, and gives how often it wakes.
fn ensure() -> Result<(Option<Child>, Duration), UserError> {
    // Without a home folder nobody can want one.
    let Ok(folder) = guardian_folder() else { return Ok((None, Resident::WAKE)) };
    let Some(settings) = wanted(&folder, &Resident::default())? else { return Ok((None, Resident::WAKE)) };
    if seated(&folder).is_some() {
        return Ok((None, settings.wake));
    }
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.args([RESIDENT_ARGUMENT, "detached"]).current_dir("/");
    log_to(&mut command, &folder.join("resident.log"));
    let started = without_own_variables(&mut command).spawn();
    let child = started.map_err(|source| not_started(&program, source))?;
    Ok((Some(child), settings.wake))
}

/// Notes that a resident guard is wanted, and turns this process into it, in the foreground. Returns only if that fails.
pub fn become_resident(settings: &Resident) -> UserError {
    let become_it = || -> Result<UserError, UserError> {
        let folder = guardian_folder()?;
        // The lock is free: the program that follows takes it.
        drop(GuardLock::take(&folder)?);
        want(&folder, settings)?;
        let program = own_program()?;
        // A fresh program has a third of this one's memory, which reading the command line took.
        let mut command = Command::new(&program);
        let source = without_own_variables(command.arg(RESIDENT_ARGUMENT)).exec();
        Ok(not_started(&program, source))
    };
    become_it().unwrap_or_else(|error| error)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use jiff::{SignedDuration, Timestamp};

    use super::*;

    /// A function of the script, by its name.
    fn function(name: &str) -> &'static str {
        let start = BODY.find(&format!("{name}() {{")).unwrap();
        let end = BODY[start..].find("\n}\n").unwrap();
        &BODY[start..start + end + 3]
    }

    #[test]
    fn the_script_reads_the_moments_that_patrols_write() {
        let folder = tempfile::tempdir().unwrap();
        let start: Timestamp = "1999-12-31T23:59:59Z".parse().unwrap();
        for day in (0..60 * 366).step_by(97) {
            let at = start + SignedDuration::from_secs(day * 86_401);
            let beat = format!("{{\n  \"version\": 1,\n  \"at\": \"{at:.3}\"\n}}\n");
            fs::write(folder.path().join("patrol.json"), beat).unwrap();
            let text = format!("{}\n{}\nfolder=$1\nseconds $(last)", function("seconds"), function("last"));
            let said = Command::new("sh").args(["-c", &text, "sh"]).arg(folder.path()).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), at.as_second().to_string(), "{at}");
        }
    }
}
