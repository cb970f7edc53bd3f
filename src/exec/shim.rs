//! The shim: the process that starts a command, supervises it, terminates all of it and records how it ended.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use duct::Handle;
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, WaitIdStatus, setsid};
#[cfg(target_os = "linux")]
use rustix::process::{getpid, set_child_subreaper};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::{
    Answer, Building, ExecError, Exit, FILES_BEFORE, FilesBefore, Job, JobFiles, JobFolder, LastWord, MARKER,
    NamespaceWatch, Output, Pipe, ProcessTree, RUN, Requests, Sampler, ShimEnd, Started, Ticket, Uses, WatchedFile,
    boot_id, disk_space, host_name, kill_marked, last_line, leave_no_child, lock_path, oom_kills, open_log, receive,
    remove_socket, restarts, runtime, watch_uses,
};
use crate::domain::{FORMAT_VERSION, Space};
use crate::fs::{Unsynced, in_writable_folder, is_disk_full, is_irregular, is_shared, move_irregular_away, remove_all};
use crate::rules::{CACHED, GPU_MASKS, PORT, port_of, too_little_space};
use crate::state::{read_json, write_json, write_json_after, write_json_unsynced};
use crate::{crash, unix};

/// Runs the program as a shim until the job in `job_file` is finished. Standard input is its end of the socket to `ar`.
/// Standard output is the locked lock file of the job's folder, and standard error takes its last output. The job's
/// file, its log and its standard input arrive open over the socket, so deleting them cannot disturb the shim. `answer`
/// answers what processes behind its wall ask.
pub fn shim_main(job_file: &Path, answer: Answer) -> ExitCode {
    crash::in_shim();
    let Ok((socket, lock)) = settle_in() else { return ExitCode::FAILURE };
    let owner = socket.try_clone().map_err(ExecError::Watch);
    let result = owner.and_then(|owner| serve(job_file, lock, owner, answer));
    let word = match &result {
        Ok(()) => LastWord::Over,
        Err(error) => {
            // Without standard error there is nobody to tell.
            let _ = match error {
                ExecError::NoWall { detail, .. } => writeln!(io::stderr(), "{detail}"),
                error => writeln!(io::stderr(), "{}", in_words(error)),
            };
            match error {
                ExecError::NoWall { .. } => LastWord::NoWall,
                // Its words would not fit on the disk either.
                error if is_disk_full(error) => LastWord::DiskFull,
                _ => LastWord::Failed,
            }
        }
    };
    word.send(&socket);
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes this process independent of whoever started it: a session of its own without a terminal, default signals, and no
/// descriptors but the standard ones. Only for a process that has not opened any itself.
///
/// # Errors
///
/// It leads a process group already.
pub fn leave_starter() -> io::Result<()> {
    setsid()?;
    unix::default_signals();
    unix::close_all_but_standard();
    Ok(())
}

/// Leaves the session of `ar`, and all that `ar` had from its own starter. Returns the socket and the lock.
fn settle_in() -> io::Result<(UnixStream, File)> {
    leave_starter()?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let lock = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((socket.into(), lock.into()))
}

/// Runs the program as the shim of a job that an engine executes, until the job is finished. Does nothing if `token` is not that of
/// the job's newest start, or if that has a shim or an exit already: an engine may start a job twice, or one that was given up.
pub fn queued_shim_main(job_file: &Path, token: &str, answer: Answer) -> ExitCode {
    crash::in_shim();
    // It stays in the process group of its starter, whose signals it is to get.
    unix::default_signals();
    unix::close_all_but_standard();
    let served = open_queued(job_file, token)
        .and_then(|opened| opened.map_or(Ok(()), |(job, lock, files)| serve_queued(job, lock, files, answer)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The engine keeps it.
            let _ = writeln!(io::stderr(), "ar: {}", in_words(&error));
            ExitCode::FAILURE
        }
    }
}

/// Poll interval for the lock of an earlier start of the same job.
const LOCK_LOOK: Duration = Duration::from_secs(1);

/// Opens the files of a job that an engine executes; `None` if this start of it is not to run. A job begins once, whatever its engine
/// does with it afterwards: what it left would be part of a second run.
fn open_queued(job_file: &Path, token: &str) -> Result<Option<(Job, File, [File; 2])>, ExecError> {
    let Some(job) = await_current(job_file, token)? else { return Ok(None) };
    if JobFiles::of(&job).started.exists() {
        return Ok(None);
    }
    let path = lock_path(&job.folder);
    let failed = |source| ExecError::File { path: path.clone(), source };
    let lock = File::options().create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
    // An earlier job may have outlived what its engine knows of it. It ends by itself once it is none that counts.
    while matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        if current(job_file, token)?.is_none() {
            return Ok(None);
        }
        sleep(crash::wait(LOCK_LOOK));
    }
    let Some(job) = current(job_file, token)? else { return Ok(None) };
    // Also where locks do not work, only one start makes it.
    let started = JobFiles::of(&job).started;
    match File::create_new(&started) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(source) => return Err(ExecError::File { path: started, source }),
    }
    lock.set_len(0).map_err(failed)?;
    let log = open_log(&job.log).map_err(|source| ExecError::File { path: job.log.clone(), source })?;
    let input = job.stdin.as_deref().unwrap_or(Path::new("/dev/null"));
    let stdin = File::open(input).map_err(|source| ExecError::File { path: input.to_owned(), source })?;
    Ok(Some((job, lock, [log, stdin])))
}

/// The job of this token that is yet to run, if the job's file is that of this start.
fn current(job_file: &Path, token: &str) -> Result<Option<Job>, ExecError> {
    let job = read_json::<Job>(job_file)?;
    let is_current = |job: &Job| job.ticket.as_ref().is_some_and(|ticket| ticket.token == token && !ticket.ended);
    let ends = |job: &Job| Exit::read(&job.folder, &job.name).and_then(|exit| exit.token).as_deref() == Some(token);
    Ok(job.filter(is_current).filter(|job| !ends(job)))
}

/// The same, once this host has had time to see what another one wrote before it submitted the job.
fn await_current(job_file: &Path, token: &str) -> Result<Option<Job>, ExecError> {
    let folder = job_file.parent().unwrap_or(Path::new("/"));
    let begun = Instant::now();
    loop {
        // A client of a network file system looks into a folder anew when it is listed.
        let _ = std::fs::read_dir(folder).map(Iterator::count);
        let found = current(job_file, token);
        if matches!(found, Ok(Some(_))) || !is_shared(folder) || begun.elapsed() > crash::wait(CACHED) {
            return found;
        }
        sleep(crash::wait(LOCK_LOOK));
    }
}

/// Executes a job that an engine started.
fn serve_queued(job: Job, lock: File, files: [File; 2], answer: Answer) -> Result<(), ExecError> {
    let own = job.clone();
    // Processes that an earlier start left here without its shim.
    runtime().map_err(ExecError::Watch)?.block_on(kill_marked(&JobFiles::of(&job).job));
    // Nobody is at the other end, as after the death of an `ar` that started a job itself.
    let (owner, _) = UnixStream::pair().map_err(ExecError::Watch)?;
    let wall = job.wall.filter(|wall| wall.required || wall.builder.exists());
    let job = Job { env: env_of_queued(job.env), wall, tied: false, ..job };
    let is_current = || {
        let is_same = |there: &Ticket| own.ticket.as_ref().is_some_and(|own| own.token == there.token) && !there.ended;
        match read_json::<Job>(&JobFiles::of(&own).job) {
            // Without its file it was given up.
            Ok(there) => there.and_then(|there| there.ticket).as_ref().is_some_and(is_same),
            // A server that does not answer says nothing.
            Err(_) => true,
        }
    };
    match execute(&job, files, lock, owner, answer, is_current) {
        Err(ExecError::NoWall { detail, .. }) => {
            let exit = Exit { error: Some(detail), no_wall: true, ..Exit::at(Timestamp::now(), &job) };
            Ok(write_json(&JobFiles::of(&job).exit, &exit)?)
        }
        executed => executed,
    }
}

/// The variables of a job on the node where it runs. What the engine set there for temporary files and GPUs stays, and the port
/// comes from the engine's number of the job, of which a node never has the same twice.
fn env_of_queued(env: Vec<(String, String)>) -> Vec<(String, String)> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let number = set("SLURM_JOB_ID").and_then(|id| id.parse().ok());
    let is_slurms = |name: &str| number.is_some() && (name == "TMPDIR" || GPU_MASKS.contains(&name));
    let kept = env.into_iter().filter(|(name, _)| !(is_slurms(name) && set(name).is_some()));
    let with_port = |(name, value): (String, String)| match number {
        Some(number) if name == PORT => (name, port_of(number).to_string()),
        _ => (name, value),
    };
    kept.map(with_port).collect()
}

fn serve(job_file: &Path, lock: File, owner: UnixStream, answer: Answer) -> Result<(), ExecError> {
    crash::point("begun");
    let [job, log, stdin] = receive(&owner).map_err(ExecError::Watch)?;
    let unreadable = |error: serde_json::Error| ExecError::File { path: job_file.to_owned(), source: error.into() };
    let job: Job = serde_json::from_reader(BufReader::new(job)).map_err(unreadable)?;
    execute(&job, [log, stdin], lock, owner, answer, || true)
}

/// Executes a job whose files are open. Writes its exit only if the job `is_current` then.
fn execute(
    job: &Job,
    [log, stdin]: [File; 2],
    lock: File,
    owner: UnixStream,
    answer: Answer,
    is_current: impl Fn() -> bool,
) -> Result<(), ExecError> {
    // Makes orphaned descendants children of this process instead of init.
    #[cfg(target_os = "linux")]
    set_child_subreaper(Some(getpid())).map_err(|error| ExecError::Watch(error.into()))?;
    let files = JobFiles::of(job);
    let runtime = runtime().map_err(ExecError::Watch)?;
    let mut place = JobFolder::of(job, &files, lock, log);
    let exit = runtime.block_on(watch_over(job, &files, &mut place, stdin, owner, answer, &is_current));
    remove_socket(&files);
    let exit = exit?;
    crash::point("command_over");
    // The process that started the job reads it here if the folder is deleted again and again.
    let _ = serde_json::to_writer(io::stderr(), &exit).map(|()| writeln!(io::stderr()));
    if is_current() && place.keep()? {
        place.restore_log()?;
        // Another process wrote what exists by now.
        let removed =
            in_writable_folder(&files.exit, || move_irregular_away(&files.exit)).and_then(|_| remove_all(&files.exit));
        if removed.is_ok() {
            place.allow_exit();
        }
        if job.tied {
            // After a power cut, `ar` starts it again.
            write_json_unsynced(&files.exit, &exit)?;
        } else {
            // The log lasts before `exit.json` calls it complete, and the lock as it is now: in doubt, the command runs again.
            let mut unsynced = Unsynced::default();
            let paths = [job.log.clone(), place.lock_path()];
            paths.into_iter().filter(|path| !is_irregular(path)).for_each(|path| unsynced.add(path));
            write_json_after(unsynced, &files.exit, &exit)?;
        }
        crash::point("exit_written");
    }
    place.leave();
    Ok(())
}

/// The shell, at the path that `system(3)` uses.
const SHELL: &str = "/bin/sh";

/// Runs the command to its end. An error that prevents its start is part of the result.
async fn watch_over(
    job: &Job,
    files: &JobFiles,
    place: &mut JobFolder<'_>,
    stdin: File,
    owner: UnixStream,
    answer: Answer,
    is_current: &impl Fn() -> bool,
) -> Result<Exit, ExecError> {
    let listen = |kind| signal(kind).map_err(ExecError::Watch);
    let mut child = listen(SignalKind::child())?;
    let mut term = listen(SignalKind::terminate())?;
    // Received without effect. Unlike ignored signals, the command gets these with their defaults.
    let _ignored = (listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?);
    let mut owner = ShimEnd::of(owner, job.tied).map_err(ExecError::Watch)?;

    let mut exit = Exit::at(Timestamp::now(), job);
    let oom_before = oom_kills();
    let start = Instant::now();
    let log = note_start(job, place, exit.started)?;
    let requests = Requests::of(job, files);
    let uses = watch_listed(job);
    let mut launched = match log.map_err(NotStarted::Command).and_then(|log| launch(job, files, stdin, log)) {
        Ok(launched) => launched,
        Err(NotStarted::Command(error)) => {
            exit.error = Some(error);
            return Ok(exit);
        }
        Err(NotStarted::Wall(detail)) => return Err(ExecError::NoWall { command: job.command.clone(), detail }),
    };
    crash::point("launched");
    if let Some(requests) = requests {
        requests.serve(launched.leader, job, answer);
    }
    let lasting = place.make_last();
    let tree = ProcessTree::new(launched.leader, launched.first);
    let mut sampler = Sampler::new(start, job);
    let mut namespaces = NamespaceWatch::new(&job.folder);
    // This clock stands still while the machine sleeps: a closed laptop does not use up the deadline.
    let deadline = start.checked_add(job.timeout);

    let mut ended = loop {
        if let Some(ended) = tree.leader_ended().map_err(ExecError::Watch)? {
            break Some(ended);
        }
        tokio::select! {
            _ = child.recv() => drop(tree.reap_ended()),
            _ = term.recv() => { exit.stopped = true; break None }
            () = owner.wants_end() => { exit.stopped = true; break None }
            () = at(deadline) => { exit.timed_out = true; break None }
            () = sleep_until(sampler.next) => {
                namespaces.look(&sampler.sample(&tree));
                if is_to_end(&mut exit, &mut sampler, &tree, place, is_current) {
                    break None;
                }
            }
        }
    };
    (exit.finished, exit.seconds) = (Timestamp::now(), start.elapsed().as_secs_f64());
    // The engine may have ended the command together with this process.
    exit.stopped |= !exit.timed_out && term.recv().now_or_never().is_some();
    crash::point("command_ended");
    exit.survivors = tree.end(job.grace, &mut child).await;
    if ended.is_none() {
        ended = tree.leader_ended().map_err(ExecError::Watch)?;
        (exit.finished, exit.seconds) = (Timestamp::now(), start.elapsed().as_secs_f64());
    }
    // By the time that somebody reads how it ended, there may be room again.
    exit.disk.room = full_disk(job);
    if exit.survivors == 0 {
        launched.release().await;
    }
    exit.disk.torn = launched.output.is_torn();

    exit.uses = uses.map(|uses| uses());
    exit.watched = job.watched.as_ref().map(|path| WatchedFile::look(&job.cwd.join(path)));
    lasting.map(JoinHandle::join);
    note_ending(&mut exit, ended.as_ref(), oom_before);
    sampler.note_peaks(&mut exit);
    Ok(exit)
}

/// Watches the use of the files that a run's list names, if there is one.
fn watch_listed(job: &Job) -> Option<impl FnOnce() -> Uses + use<>> {
    let listed = Some(job.folder.join(FILES_BEFORE)).filter(|_| job.name == RUN)?;
    let before = read_json::<FilesBefore>(&listed).ok().flatten()?;
    watch_uses(&job.cwd, &before.files)
}

/// Puts back what is lost of a job's files while its command goes on. Returns whether the command is to end; `exit` then says why.
fn is_to_end(
    exit: &mut Exit,
    sampler: &mut Sampler,
    tree: &ProcessTree,
    place: &mut JobFolder<'_>,
    is_current: &impl Fn() -> bool,
) -> bool {
    if !is_current() {
        exit.stopped = true;
        return true;
    }
    // A file that cannot be restored now is restored later.
    let _ = place.keep();
    let silence = sampler.silence(tree, place.written()).map(|silence| silence.as_secs_f64());
    exit.timed_out |= silence.is_some();
    exit.silent = silence;
    silence.is_some()
}

/// The room that is left on a job's disks, where one of them is full or nearly so.
fn full_disk(job: &Job) -> Option<Space> {
    let disks = [&job.cwd, &job.folder].into_iter().filter_map(|path| disk_space(path).ok());
    disks.into_iter().find(|space| too_little_space(*space, 0))
}

/// Notes that the command starts, and opens its log. An error in words prevents the start, but a full disk is one of the
/// shim: `exit.json` would keep it, and there may be room the next time.
fn note_start(job: &Job, place: &mut JobFolder<'_>, started: Timestamp) -> Result<Result<File, String>, ExecError> {
    let noted = place.note_start(started_at(job, started));
    let noted = noted.and_then(|()| place.refuse_exit());
    match noted.and_then(|()| place.log_for_command()) {
        Err(error) if is_disk_full(&error) => Err(error),
        log => Ok(log.map_err(|error| in_words(&error))),
    }
}

/// The reason that a command was not started, in words.
enum NotStarted {
    /// Something that it needs is missing: the outcome of the job.
    Command(String),
    /// Its wall cannot be built, which says nothing about the command.
    Wall(String),
}

/// A command that was started.
struct Launched {
    /// The shell.
    leader: Pid,
    /// The first process of the namespace that it is in, if that is one of its own.
    first: Option<Pid>,
    /// Its process, where it is the one that was started: behind a wall that was another.
    handle: Option<Handle>,
    output: Output,
}

impl Launched {
    /// Reaps a command of which nothing runs, and lets its log be written to the end.
    async fn release(&mut self) {
        // Only these reap the leader and free its id.
        drop(self.handle.as_ref().map(Handle::wait));
        leave_no_child().await;
        // It holds the last end of the pipe.
        drop(self.handle.take());
        self.output.finish().await;
    }
}

/// Notes how the command's shell ended; `oom_before` counts what the kernel killed for lack of memory before.
fn note_ending(exit: &mut Exit, ended: Option<&WaitIdStatus>, oom_before: Option<u64>) {
    exit.exit = ended.and_then(WaitIdStatus::exit_status);
    exit.signal = ended.and_then(WaitIdStatus::terminating_signal);
    let killed = exit.signal == Some(9) || exit.exit == Some(128 + 9);
    exit.oom_killed = killed && !exit.timed_out && !exit.stopped && oom_kills() > oom_before;
}

fn started_at(job: &Job, started: Timestamp) -> Started {
    let deadline = SignedDuration::try_from(job.timeout).ok().and_then(|timeout| started.checked_add(timeout).ok());
    let (pid, boot_id, host) = (std::process::id(), boot_id(), host_name());
    Started { version: FORMAT_VERSION, pid, boot_id, host, started, deadline, restarts: restarts() }
}

fn in_words(error: &ExecError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

/// Starts the command as the leader of a process group of its own, with input from `stdin` and output to `log`, behind its
/// wall if it has one.
fn launch(job: &Job, files: &JobFiles, stdin: File, log: File) -> Result<Launched, NotStarted> {
    if !job.cwd.is_dir() {
        return Err(NotStarted::Command(format!("the working folder `{}` does not exist", job.cwd.display())));
    }
    let no_wall = |why: &str| NotStarted::Wall(format!("no wall can be built for it: {why}"));
    let in_words = |error: io::Error| NotStarted::Command(error.to_string());
    let (pipe, output) = Pipe::new().map_err(in_words)?;
    let building = job.wall.as_ref().map(|wall| Building::new(wall, job, files, &stdin));
    let building = building.transpose().map_err(in_words)?;
    let mut command = match &building {
        None => duct::cmd(shell(), ["-c", &job.command]).stdin_file(stdin).before_spawn(|command| {
            std::os::unix::process::CommandExt::arg0(command, "sh");
            std::os::unix::process::CommandExt::process_group(command, 0);
            Ok(())
        }),
        Some(building) => {
            let socket = building.stdin.try_clone().map_err(in_words)?;
            duct::cmd(&building.builder, &building.arguments).stdin_file(socket)
        }
    };
    // duct applies the outer redirection first, so this refers to the output.
    command = command.dir(&job.cwd).env(MARKER, &files.job).stderr_to_stdout().stdout_file(output).unchecked();
    for (name, value) in &job.env {
        command = command.env(name, value);
    }
    let handle = command.start().map_err(|error| match building {
        // No program can be called with what the command has in it.
        Some(_) if error.kind() != io::ErrorKind::InvalidInput => no_wall(&format!("bwrap: {error}")),
        _ => NotStarted::Command(format!("sh: {error}")),
    })?;
    drop(command);
    let started = handle.pids().first().and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
    let started = started.ok_or_else(|| NotStarted::Command("it has no process".into()))?;
    let (leader, first, handle) = match building {
        None => (started, None, Some(handle)),
        Some(building) => match building.finish(started, || drop(handle.wait())) {
            Ok((inside, first)) => (inside, first, None),
            Err(error) => {
                let _ = handle.kill();
                drop(handle);
                let words = last_line(&pipe.words());
                return Err(no_wall(&format!("{words} ({error})")));
            }
        },
    };
    Ok(Launched { leader, first, handle, output: pipe.drain(log, job.log_limit).map_err(in_words)? })
}

/// The shell's program, at the path that `system(3)` uses.
pub(super) fn shell() -> &'static str {
    // Otherwise the one of PATH, which takes a try in each folder.
    if Path::new(SHELL).exists() { SHELL } else { "sh" }
}

/// Waits for a time; for ever without one.
pub(super) async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
