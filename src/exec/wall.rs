//! The wall around a job: `bwrap` shows the command the file system as it is, and read-only over it what the job has no
//! business in.
//!
//! `bwrap` keeps a process beside the command, which would hide how the command ended, and the command would not lead a
//! process group. So this program goes between: [`enter_wall`] starts inside, says so to the shim, waits until the shim
//! has ended that process and is its parent, and becomes the shell. Where it can, that is in a process namespace of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::fs::{Access as Rights, access};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitOptions, getegid, geteuid, getpid, kill_process, setpgid, waitpid};
use rustix::stdio::dup2_stdin;

use super::{Job, JobFiles, WALLED_ARGUMENT, hand, receive, shell};
use crate::domain::{ErrorKind, UserError, refuse};
use crate::fs::program_on_path;
use crate::rules::{Access, Mount, Wall};
use crate::unix::{close_all_but_standard, end_copy, enter_process_namespace, enter_user_namespace, fork, reap_only};

/// The program that builds walls.
pub(super) const BWRAP: &str = "bwrap";

/// The longest time to build a wall, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The argument behind [`WALLED_ARGUMENT`] with which nothing is started: the wall is only tried.
const TRIAL: &str = "try";

/// The exit status of a trial for a folder that cannot be written to.
const NOT_WRITABLE: u8 = 3;

/// The reason that no wall can be built here.
fn no_wall(text: impl Into<String>, hint: impl Into<String>) -> UserError {
    refuse(ErrorKind::CannotStart, text).hint(hint)
}

/// The reason behind the last words of `bwrap`.
fn refused_by_bwrap(words: &str) -> UserError {
    let refuses = |(name, refusing, _): &(&str, &str, &str)| {
        let value = fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/")));
        value.is_ok_and(|value| value.trim() == *refusing)
    };
    let is_contained = || CONTAINER_SIGNS.iter().any(|sign| Path::new(sign).exists());
    let is_refused = REFUSALS.iter().any(|refusal| words.contains(refusal));
    match SETTINGS.into_iter().find(refuses).filter(|_| is_refused) {
        Some(setting) => no_namespaces(setting),
        None if is_contained() => no_wall(
            format!("`bwrap` does not work in this container: {words}"),
            "start the container with user namespaces: `docker run --security-opt seccomp=unconfined \
             --security-opt apparmor=unconfined --security-opt systempaths=unconfined`",
        ),
        None => {
            let hint = "run `bwrap --unshare-user --dev-bind / / true` to see it fail";
            no_wall(format!("`bwrap` does not work here: {words}"), hint)
        }
    }
}

/// The reason in a setting, with its value and one that would allow user namespaces.
fn no_namespaces((name, value, allowing): (&str, &str, &str)) -> UserError {
    let hint = format!(
        "allow them: `echo {name}={allowing} | sudo tee /etc/sysctl.d/60-user-namespaces.conf; sudo sysctl --system`"
    );
    no_wall(format!("the kernel allows no user namespaces here: {name} is {value}"), hint)
}

/// Settings of kernels that keep users from making user namespaces, the value with which they do, and one with which they
/// do not: Linux, Debian, and Ubuntu from 23.10 on.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];

/// Words of bubblewrap where it may not create a user namespace.
const REFUSALS: [&str; 3] = ["namespace", "uid map", "Operation not permitted"];

/// Files that Docker and Podman put into containers.
const CONTAINER_SIGNS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Finds bubblewrap on the PATH. Passes over the home folder and `trees`, where a job could put a program of its own.
///
/// # Errors
///
/// It is not there, or the system has none.
pub fn find_builder(trees: &[&Path]) -> Result<PathBuf, UserError> {
    if !cfg!(target_os = "linux") {
        return Err(no_wall("there is no bubblewrap for this system", "walls need Linux"));
    }
    let hint = "install bubblewrap: `sudo apt install bubblewrap`, or the same with dnf, pacman or zypper";
    program_on_path(BWRAP, trees).ok_or_else(|| no_wall("`bwrap` is not installed", hint))
}

/// Builds such a wall once and looks from inside whether `folder` can be written to.
///
/// # Errors
///
/// The reason that jobs cannot be started behind it.
pub fn try_wall(wall: &Wall, folder: &Path) -> Result<(), UserError> {
    let refused = |error: io::Error| refused_by_bwrap(&error.to_string());
    let program = own_program().map_err(refused)?;
    let mut command = Command::new(&wall.builder);
    command.args(arguments(wall, Path::new("/"), &program)).arg(TRIAL).arg(folder);
    let output = command.stdin(Stdio::null()).output().map_err(refused)?;
    match output.status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(NOT_WRITABLE) => {
            let folder = folder.display();
            let hint = format!("give the repository to the user that runs `ar`: chown -R \"$(id -u)\" {folder}");
            Err(no_wall(format!("a job behind it could not write to `{folder}`, which belongs to another user"), hint))
        }
        _ => Err(refused_by_bwrap(&last_line(&output.stderr))),
    }
}

/// This program, open, to be started inside: there the link `/proc/self/exe` of a process outside cannot be followed, and
/// the file may have been replaced since.
fn own_program() -> io::Result<File> {
    let program = File::open("/proc/self/exe")?;
    // `bwrap` and what it starts inherit it.
    fcntl_setfd(&program, FdFlags::empty())?;
    Ok(program)
}

/// The words of a call that starts what is behind them in a wall. It ends with its starter, and with all that it started.
pub fn wall_words(wall: &Wall) -> Vec<String> {
    let more = ["--unshare-pid", "--die-with-parent", "--"].map(OsString::from);
    let words = [wall.builder.clone().into()].into_iter().chain(mounts(wall)).chain(more);
    words.map(|word: OsString| word.to_string_lossy().into_owned()).collect()
}

/// The arguments of `bwrap` for a job in `cwd`, up to those of the program that it starts.
fn arguments(wall: &Wall, cwd: &Path, program: &File) -> Vec<OsString> {
    let mut all = mounts(wall);
    all.extend(["--chdir".into(), cwd.into(), "--".into()]);
    all.extend([format!("/proc/self/fd/{}", program.as_raw_fd()).into(), WALLED_ARGUMENT.into()]);
    all
}

/// The arguments for the mounts of a wall.
fn mounts(wall: &Wall) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["--unshare-user", "--dev-bind", "/", "/"].map(OsString::from).into();
    for Mount { path, source, access } in &wall.mounts {
        if *access == Access::Empty {
            all.extend(["--tmpfs".into(), path.into()]);
            continue;
        }
        // Without what is to be seen in its place, the job would see what is there.
        let option = match (access, source) {
            (Access::Writable, None) => "--dev-bind-try",
            (Access::Writable, Some(_)) => "--dev-bind",
            (Access::ReadOnly | Access::Empty, None) => "--ro-bind-try",
            (Access::ReadOnly | Access::Empty, Some(_)) => "--ro-bind",
        };
        all.extend([option.into(), source.as_ref().unwrap_or(path).into(), path.into()]);
    }
    all
}

/// The last line that is not empty of what `bwrap` said.
pub(super) fn last_line(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    words.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no output").to_owned()
}

/// A wall that is being built around a command: what `bwrap` is started with, and the shim's end of a socket to the
/// process inside.
pub(super) struct Building {
    /// The arguments of the program.
    pub(super) arguments: Vec<OsString>,
    /// The program.
    pub(super) builder: PathBuf,
    /// Its standard input.
    pub(super) stdin: OwnedFd,
    socket: UnixStream,
    /// Open until the process inside has started.
    _program: File,
}

impl Building {
    /// Prepares the wall for a shell that runs the command of a job with input from `stdin`.
    pub(super) fn new(wall: &Wall, job: &Job, files: &JobFiles, stdin: &File) -> io::Result<Building> {
        let program = own_program()?;
        let (socket, theirs) = UnixStream::pair()?;
        hand(&socket, [stdin.as_fd()])?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut arguments = arguments(wall, &job.cwd, &program);
        arguments.extend([files.job.clone().into(), job.command.clone().into()]);
        Ok(Building { arguments, builder: wall.builder.clone(), stdin: theirs.into(), socket, _program: program })
    }

    /// Waits until the wall stands, ends the `bwrap` process `builder` by `end`, which makes the processes inside children of
    /// this one, and lets that start the shell which is to. Returns it, and the first one of its process namespace.
    ///
    /// # Errors
    ///
    /// The wall cannot be built; `bwrap` has said why on its standard error. Or there is no answer within a minute.
    pub(super) fn finish(mut self, builder: Pid, end: impl FnOnce()) -> io::Result<(Pid, Option<Pid>)> {
        // Only processes inside hold the other end then.
        drop(self.stdin);
        let mut ids = [[0; 4]; 3];
        self.socket.read_exact(ids.as_flattened_mut())?;
        let [starter, shell, first] = ids.map(|id| Pid::from_raw(i32::from_ne_bytes(id)));
        let shell = shell.ok_or(io::ErrorKind::InvalidData)?;
        kill_process(builder, Signal::KILL)?;
        end();
        if starter != Some(shell) {
            // Its end makes them children of this process. `bwrap` may have waited for it.
            let _ = waitpid(starter, WaitOptions::empty());
        }
        self.socket.write_all(b"g")?;
        Ok((shell, first))
    }
}

/// Runs inside a wall, as the program that `bwrap` starts: becomes the shell of the command once the shim says so, or only
/// looks whether a folder can be written to. Standard input is the socket to the shim.
pub fn enter_wall(arguments: &[OsString]) -> ExitCode {
    close_all_but_standard();
    let result = leave_privileges().and_then(|()| match arguments {
        [what, folder] if what == TRIAL => match access(folder, Rights::WRITE_OK) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(_) => Ok(ExitCode::from(NOT_WRITABLE)),
        },
        [_, command] => Err(become_shell(command)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    });
    result.unwrap_or_else(|error| {
        // The shim reads the last line.
        let _ = writeln!(io::stderr(), "{error}");
        ExitCode::FAILURE
    })
}

/// Enters a further user namespace with a mount namespace of its own, as the same user: in the one in which the wall was built,
/// root has the right to unmount, and a folder of it that is handed to a process elsewhere loses its mounts when it ends.
fn leave_privileges() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    enter_user_namespace()?;
    // Some kernels allow the maps only after this, and others do not need it.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Replaces this process, or a copy of it, by the shell. Returns only an error.
fn become_shell(command: &OsString) -> io::Error {
    let prepare = || {
        let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let [stdin] = receive(&socket)?;
        dup2_stdin(stdin)?;
        let me = getpid();
        match fork()? {
            // Without it, the job sees more.
            None if leave_processes(me, &socket).is_err() => end_copy(1),
            None => {}
            Some(copy)
                if waitpid(Some(copy), WaitOptions::empty())?.is_some_and(|(_, end)| end.exit_status() == Some(0)) =>
            {
                end_copy(0);
            }
            Some(_) => {
                setpgid(None, None)?;
                tell(&socket, [Some(me), Some(me), None])?;
            }
        }
        socket.read_exact(&mut [0])
    };
    match prepare() {
        Ok(()) => Command::new(shell()).arg0("sh").arg("-c").arg(command).exec(),
        Err(error) => error,
    }
}

/// Makes this process a copy of it in a process namespace of its own: it sees no process outside, and can send none a signal.
/// The copy's parent is outside, and learns how it ends. Ends where that works.
fn leave_processes(starter: Pid, socket: &UnixStream) -> io::Result<()> {
    enter_process_namespace()?;
    let (mut is_ready, ready) = io::pipe()?;
    let Some(first) = fork()? else { return reap_only(ready) };
    drop(ready);
    is_ready.read_exact(&mut [0])?;
    let Some(shell) = fork()? else { return Ok(()) };
    setpgid(Some(shell), Some(shell))?;
    tell(socket, [Some(starter), Some(shell), Some(first)])?;
    end_copy(0);
}

/// Tells the shim which processes wait for it.
fn tell(mut socket: &UnixStream, ids: [Option<Pid>; 3]) -> io::Result<()> {
    socket.write_all(ids.map(|id| Pid::as_raw(id).to_ne_bytes()).as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_user_namespaces_is_named_with_the_setting_that_allows_them() {
        let error = no_namespaces(SETTINGS[0]);
        let text = "the kernel allows no user namespaces here: user.max_user_namespaces is 0";
        let hint = "allow them: `echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-user-namespaces.conf; \
                    sudo sysctl --system`";
        assert_eq!((error.to_string().as_str(), error.hint.as_deref()), (text, Some(hint)));
    }
}
