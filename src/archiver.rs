//! The other `ar`: calls that are meant for the archiver of the system are handed to it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use autoresearch::domain::{ErrorKind, UserError, refuse};
use duct::Handle;

/// Words that are set aside for commands of this program. Some read as an archiver's letters, as `stop` does: `s`, `t`, `o`
/// and `p`.
const RESERVED: &[&str] = &["ablate", "guard", "mcp", "rate", "score", "tell", "top", "verify"];

/// The program's name under which no call is the archiver's.
const OTHER_NAME: &str = "autoresearch";

/// The archiver's operations, of which a call has one. `s` goes with others as well, and `M` reads a script instead.
const OPERATIONS: &str = "dmpqrtx";

/// The archiver's modifiers, those of GNU and of LLVM together.
const MODIFIERS: &str = "abcDfilLMNoOPsSTuUvV";

/// Long options of archivers; their values may follow after `=`.
const LONG_OPTIONS: &[&str] =
    &["--format", "--output", "--plugin", "--record-libdeps", "--rsp-quoting", "--target", "--thin"];

/// Programs that a call was passed through already, as `device:inode` with spaces between: two copies of this
/// program on the PATH must not hand a call to one another for ever.
const PASSED_THROUGH: &str = "AR_ARCHIVER_PASSED_THROUGH";

/// The start of the first line that this program's own `--version` prints.
const OWN_VERSION: &str = "ar (autoresearch)";

/// Time limit for the archiver to print its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(2);

/// Returns whether a word is one of this program's `commands`, or reserved for one.
fn is_command(word: &str, commands: &[&str]) -> bool {
    commands.contains(&word) || RESERVED.contains(&word)
}

/// Returns whether a command line, the program's name first, is meant for the archiver: operation letters with modifiers, a
/// response file, or an option that only archivers have.
///
/// It never is if its first word after this program's options is a command, or if it ends with a misspelt command.
/// `means_command` reports such lines, and is called only if both programs could be meant.
pub(crate) fn is_archiver_call(
    args: &[OsString],
    commands: &[&str],
    means_command: impl Fn(&[OsString]) -> bool,
) -> bool {
    let Some((first, others)) = args.get(1..).and_then(<[OsString]>::split_first) else { return false };
    if args.first().is_some_and(|program| Path::new(program).file_name() == Some(OsStr::new(OTHER_NAME))) {
        return false;
    }
    // A response file may be named in any encoding; the rest is ASCII.
    if first.as_encoded_bytes().first() == Some(&b'@') {
        return first.len() > 1;
    }
    let is_own = |word: &str| is_command(word, commands) || matches!(word, "-h" | "--help" | "-V" | "--version" | "--");
    let Some(first) = first.to_str().filter(|first| !is_own(first)) else { return false };
    let is_word = |arg: &OsString| !arg.as_encoded_bytes().starts_with(b"-");
    // `list` is `t` with `l`, `i` and `s`, too. Such a call is the archiver's where an archive follows.
    let is_archive = |arg: &OsString| Path::new(arg).extension().is_some_and(|it| it == "a" || it == "lib");
    if crate::cli::is_foreign_word(first) && !others.first().is_some_and(is_archive) {
        return false;
    }
    let is_command = |arg: &OsString| arg.to_str().is_some_and(|word| is_command(word, commands));
    // An archive has an extension, and files to be put into it.
    let is_bare =
        |arg: &OsString| is_word(arg) && !arg.as_encoded_bytes().iter().any(|byte| matches!(byte, b'.' | b'/'));
    let may_be_ours = || others.iter().any(is_command) || others.iter().filter(|arg| is_word(arg)).all(is_bare);
    reads_as_archivers(first) && !(first.starts_with('-') && may_be_ours() && means_command(args))
}

fn reads_as_archivers(first: &str) -> bool {
    if first.starts_with("--") {
        return LONG_OPTIONS.contains(&first.split_once('=').map_or(first, |(option, _)| option));
    }
    let letters = first.strip_prefix('-').unwrap_or(first);
    // AIX: `-X32`, `-X64`, `-X32_64`, `-Xany`.
    let object_mode = first.strip_prefix("-X");
    is_operation(letters) || object_mode.is_some_and(|mode| matches!(mode, "32" | "64" | "32_64" | "any"))
}

fn is_operation(letters: &str) -> bool {
    let operations = letters.chars().filter(|letter| OPERATIONS.contains(*letter)).count();
    letters.chars().all(|letter| OPERATIONS.contains(letter) || MODIFIERS.contains(letter))
        && (operations == 1 || (operations == 0 && letters.contains(['s', 'M'])))
}

/// Replaces this process with the next `ar` on the PATH, all arguments as they are. Returns only when it cannot.
pub(crate) fn become_archiver() -> UserError {
    let Some(archiver) = candidates().into_iter().next() else {
        let first = env::args_os().nth(1).unwrap_or_default();
        let text =
            format!("`ar {}` reads as an archiver call, but the PATH has no other `ar`", first.to_string_lossy());
        return refuse(ErrorKind::CannotStart, text).hint(
            "install binutils or llvm, or name the archiver to your build (`AR=llvm-ar make`); `ar help` lists this \
             program's own commands",
        );
    };
    let source = Command::new(&archiver).args(env::args_os().skip(1)).env(PASSED_THROUGH, passed_through()).exec();
    refuse(ErrorKind::CannotStart, format!("cannot start the archiver `{}`", archiver.display())).caused_by(source)
}

/// Returns whether the first `ar` on the PATH is another program. False where there is none.
pub(crate) fn is_shadowed() -> bool {
    let first = env::var_os("PATH").and_then(|path| on_path(&path, |_| false).into_iter().next());
    let own = env::current_exe().ok().and_then(|path| identity(&path));
    first.is_some_and(|first| {
        let is_own = identity(&first) == own;
        // Another copy is as good.
        !is_own && !ask(&first).and_then(|handle| answer(&handle)).is_some_and(|line| line.starts_with(OWN_VERSION))
    })
}

/// An archiver that was asked for its version, and those to ask after it.
pub(crate) struct AskedArchiver {
    /// The one that is at work on its answer.
    handle: Option<Handle>,
    others: std::vec::IntoIter<PathBuf>,
}

impl AskedArchiver {
    /// Asks the archiver that calls go to. It answers while this program goes on.
    pub(crate) fn start() -> AskedArchiver {
        let mut others = candidates().into_iter();
        AskedArchiver { handle: others.next().and_then(|archiver| ask(&archiver)), others }
    }

    /// The first line of its answer, as build systems look for it; `None` when there is no other `ar`, or it does not answer
    /// in time.
    pub(crate) fn line(self) -> Option<String> {
        let handles = self.handle.into_iter().chain(self.others.filter_map(|archiver| ask(&archiver)));
        // Another copy of this program is not what is looked for.
        handles.filter_map(|handle| answer(&handle)).find(|line| !line.starts_with(OWN_VERSION))
    }
}

fn ask(archiver: &Path) -> Option<Handle> {
    let command = duct::cmd(archiver, ["--version"]).stdin_null().stderr_null().stdout_capture().unchecked();
    command.env(PASSED_THROUGH, passed_through()).start().ok()
}

fn answer(handle: &Handle) -> Option<String> {
    let Ok(Some(output)) = handle.wait_timeout(VERSION_PATIENCE) else {
        let _ = handle.kill();
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(|line| line.trim().to_owned());
    line.filter(|line| output.status.success() && !line.is_empty())
}

/// The `ar`s on the PATH that a call was not passed through yet, in order.
fn candidates() -> Vec<PathBuf> {
    let passed_through = passed_through();
    let seen: Vec<&str> = passed_through.to_str().unwrap_or_default().split(' ').collect();
    env::var_os("PATH").map(|path| on_path(&path, |identity| seen.contains(&identity))).unwrap_or_default()
}

/// [`PASSED_THROUGH`] with this program added.
fn passed_through() -> OsString {
    let before = env::var_os(PASSED_THROUGH).unwrap_or_default();
    let own = env::current_exe().ok().and_then(|path| identity(&path)).unwrap_or_default();
    [before.as_os_str(), OsStr::new(&own)].join(OsStr::new(" "))
}

/// The executable files named `ar` in the folders of `path`, without those that `skip` knows by their identity.
fn on_path(path: &OsStr, skip: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    env::split_paths(path)
        .map(|folder| if folder.as_os_str().is_empty() { Path::new(".").join("ar") } else { folder.join("ar") })
        .filter(|file| {
            let executable =
                fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
            executable && identity(file).is_some_and(|identity| !skip(&identity))
        })
        .collect()
}

/// Identifies a file whatever its name: links, also hard ones, have the identity of their target.
fn identity(path: &Path) -> Option<String> {
    fs::metadata(path).ok().map(|meta| format!("{}:{}", meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_to_archiver(line: &str) -> bool {
        let args: Vec<OsString> = ["ar"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        is_archiver_call(&args, &crate::cli::commands(), crate::cli::means_command)
    }

    #[test]
    fn archiver_calls_are_known_by_their_first_argument() {
        for first in [
            "rcs",
            "cru",
            "crD",
            "-crD",
            "qc",
            "t",
            "-M",
            "M",
            "s",
            "x",
            "d",
            "p",
            "-t",
            "rv",
            "csr",
            "csrDT",
            "cq",
            "qL",
            "rcTP",
            "-rcs",
            "tO",
            "ru",
            "@args.rsp",
            "--plugin",
            "--plugin=x.so",
            "--target=elf64-x86-64",
            "--output=out",
            "--thin",
            "--record-libdeps=-lm",
            "--format=gnu",
            "--rsp-quoting=posix",
            "-X64",
            "-X32_64",
            "-q lib.a x.o",
            "-q log.a status.o",
            "-q statsu.a",
            "-q archive",
            "-q statsu member",
            "-qv lib.a x.o",
            "-m lib.a x.o",
            "-rcs status x.o",
            "rcs log x.o",
            "--format gnu rcs lib.a",
            "--output out x lib.a",
            "list lib.a",
            "ls lib.a",
            "tail lib.a",
        ] {
            assert!(goes_to_archiver(first), "{first}");
        }
    }

    #[test]
    fn each_command_is_ours() {
        let mut program = crate::cli::program();
        program.build();
        let commands = crate::cli::commands();
        let names = program.get_subcommands().map(|command| command.get_name().to_owned());
        let unknown: Vec<_> = names.filter(|name| !is_command(name, &commands)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn everything_else_is_ours() {
        for first in crate::cli::commands().iter().chain(RESERVED).chain(&["-h", "--help", "-V", "--version", "--"]) {
            assert!(!goes_to_archiver(first), "{first}");
        }
        for first in [
            "",
            "-",
            "--",
            "@",
            "c",
            "D",
            "-v",
            "stopp",
            "statsu",
            "rr",
            "rt",
            "repot",
            "--metric",
            "--outputs",
            "-X",
            "__shim",
            "--tag=t",
            "résumé",
            "xx",
            "./t",
            "T",
            "-q status",
            "-q statsu",
            "-q --color never log t",
            "-qv report",
            "-m text try",
            "--format json status",
            "--format=json status",
            "--output out.csv export --to csv",
            "list",
            "ls --format json",
            "list nov20",
            "tail",
            "tail run.log",
            "last",
            "ps",
            "history",
        ] {
            assert!(!goes_to_archiver(first), "{first}");
        }
    }

    #[test]
    fn links_to_a_skipped_program_are_skipped_too() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let executable = |path: &Path, mode| {
            fs::write(path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let (own, soft, hard, data, other) =
            (folder("own"), folder("soft"), folder("hard"), folder("data"), folder("other"));
        executable(&own.join("ar"), 0o755);
        std::os::unix::fs::symlink(own.join("ar"), soft.join("ar")).unwrap();
        fs::hard_link(own.join("ar"), hard.join("ar")).unwrap();
        executable(&data.join("ar"), 0o644);
        executable(&other.join("ar"), 0o755);
        let path = env::join_paths([&own, &soft, &hard, &data, &root.path().join("none"), &other]).unwrap();
        let own = identity(&own.join("ar")).unwrap();
        assert_eq!(on_path(&path, |identity| identity == own), [other.join("ar")]);
    }
}
