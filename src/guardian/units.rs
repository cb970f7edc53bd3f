//! The units that have a scheduler of the machine make patrols, printed for the user to paste.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, io};

use super::{in_shell, quoted};
use crate::domain::{ErrorKind, UserError, duration_text, refuse, shell_word};
use crate::fs::{FileError, failed, folder_of, move_irregular_away};
use crate::state;
use crate::state::user_folder;

/// The default time between two patrols.
pub const DEFAULT_EVERY: Duration = Duration::from_secs(3600);

/// The longest line that each cron reads whole, in bytes.
const CRON_LINE: usize = 998;

/// The name of the job of launchd.
const LABEL: &str = "autoresearch.guard";

/// Starts the program that is the next argument, with those that follow.
const SHELL: &str = r#"/bin/sh -c "exec \"$$0\" \"$$@\"""#;

/// A program of the machine that starts others at their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Scheduler {
    /// The systemd of this user.
    Systemd,
    /// cron.
    Cron,
    /// launchd of macOS.
    Launchd,
}

impl Scheduler {
    /// Returns the unit that makes a patrol with these `arguments` of `ar guard` at the interval `every`, with comments that say
    /// where it belongs.
    ///
    /// # Errors
    ///
    /// The home folder is missing, a path has a line break, or the line of a crontab is too long.
    pub fn unit(self, arguments: &[String], every: Duration) -> Result<String, UserError> {
        let service = Service::of(arguments, every)?;
        let log = one_line("the path of your state folder", guardian_folder()?.join("patrol.log").into_os_string())?;
        match self {
            Scheduler::Systemd => Ok(systemd_units(&service)),
            Scheduler::Cron => cron_line(&service, &log),
            Scheduler::Launchd => Ok(property_list(&service, &log)),
        }
    }
}

/// The variables that are carried over, where they are set: where programs are found, where this user's files are, and where
/// the locks of GPUs are. Anything else may be a secret.
const CARRIED: [&str; 7] =
    ["HOME", "PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];

/// A patrol, as the files of a scheduler name it. No text in it has a line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    /// The absolute path of this program.
    pub(super) program: String,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// The variables of its environment.
    pub(super) variables: Vec<(String, String)>,
    /// The time between two patrols.
    pub(super) every: Duration,
}

impl Service {
    /// A patrol by this program, with these arguments after `guard`, in this environment.
    pub(super) fn of(arguments: &[String], every: Duration) -> Result<Service, UserError> {
        let program = one_line("the path of this program", own_program()?.into_os_string())?;
        let set = CARRIED.iter().filter_map(|name| env::var_os(name).map(|value| (*name, value)));
        let variables = set.map(|(name, value)| Ok((name.to_owned(), one_line(name, value)?)));
        let variables = variables.collect::<Result<_, UserError>>()?;
        let arguments = ["guard"].into_iter().chain(arguments.iter().map(String::as_str));
        let arguments = arguments.map(|argument| one_line("an argument", argument.into()));
        Ok(Service { program, arguments: arguments.collect::<Result<_, _>>()?, variables, every })
    }
}

/// A text that the files of all schedulers can contain.
pub(super) fn one_line(what: &str, text: OsString) -> Result<String, UserError> {
    let is_one_line = |text: &String| !text.contains(char::is_control);
    text.into_string().ok().filter(is_one_line).ok_or_else(|| unwritable(what))
}

/// The error for a path or an argument that the unit of a scheduler cannot contain.
pub fn unwritable(what: &str) -> UserError {
    let text = format!("cannot write {what} into a file of the guard: it contains a line break or is not UTF-8");
    refuse(ErrorKind::CannotStart, text).hint("change it to one line of UTF-8")
}

/// The two units of systemd: one patrol, and the timer that starts one after the other.
fn systemd_units(service: &Service) -> String {
    let argument = |word: &String| format!(" {}", unit_word(word).replace('$', "$$"));
    let arguments: String = service.arguments.iter().map(argument).collect();
    // systemd refuses a program with quotes in its path, and takes `$` there for itself.
    let program = match service.program.contains(['\'', '"', '\\', '$']) {
        true => format!("{SHELL}{}", argument(&service.program)),
        false => unit_word(&service.program),
    };
    let variables: String = service
        .variables
        .iter()
        .map(|(name, value)| format!("Environment={}\n", unit_word(&format!("{name}={value}"))))
        .collect();
    format!(
        include_str!("patrol.units"),
        program = program,
        arguments = arguments,
        variables = variables,
        every = duration_text(service.every),
        seconds = service.every.as_secs()
    )
}

/// A word as systemd reads it in `ExecStart=` and `Environment=`. In arguments, `$` has to be doubled as well; in assignments
/// it stands for itself.
fn unit_word(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// The line of a crontab, which gives its variables to the patrol alone.
fn cron_line(service: &Service, log: &str) -> Result<String, UserError> {
    let variables: String =
        service.variables.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
    // For cron, `%` is the end of the command, also between quotes; not all of them know an escape.
    let command = format!("{variables}{} >{} 2>&1", in_shell(service), quoted(log));
    let command = command.replace('%', r#"'"$(printf '\045')"'"#);
    let line = format!("{} {command}\n", schedule(service.every));
    if line.len() <= CRON_LINE {
        return Ok(line);
    }
    Err(refuse(ErrorKind::CannotStart, "the line of the crontab would be longer than cron reads")
        .hint("run it with a short PATH: `PATH=/usr/local/bin:/usr/bin:/bin ar guard --print cron`"))
}

/// When cron starts a patrol: cron can only part an hour or a day evenly, so patrols may come more often than asked for.
fn schedule(every: Duration) -> String {
    let minutes = every.as_secs() / 60;
    let part = |whole: u64, most: u64| (1..=most.max(1)).rev().find(|part| whole.is_multiple_of(*part)).unwrap_or(1);
    match minutes {
        ..60 => match part(60, minutes.min(30)) {
            1 => "* * * * *".to_owned(),
            minutes => format!("*/{minutes} * * * *"),
        },
        _ => match part(24, (minutes / 60).min(24)) {
            1 => "0 * * * *".to_owned(),
            24 => "0 0 * * *".to_owned(),
            hours => format!("0 */{hours} * * *"),
        },
    }
}

/// The property list of launchd.
fn property_list(service: &Service, errors: &str) -> String {
    let words = [&service.program].into_iter().chain(&service.arguments);
    let words: String = words.map(|word| format!("\t\t<string>{}</string>\n", escaped(word))).collect();
    let variables: String = service
        .variables
        .iter()
        .map(|(name, value)| format!("\t\t<key>{}</key>\n\t\t<string>{}</string>\n", escaped(name), escaped(value)))
        .collect();
    format!(
        include_str!("patrol.plist"),
        label = LABEL,
        words = words,
        variables = variables,
        seconds = service.every.as_secs(),
        errors = escaped(errors)
    )
}

/// A text between two tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The error for a file of the guard's.
pub(super) fn no_file(error: FileError) -> UserError {
    let hint = format!("run `ls -ld {}` to see who may write there", shell_word(folder_of(&error.path)));
    UserError::of(error, Some(hint))
}

/// The suffix that Linux adds to the name of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// The start of the names of this program's variables.
const OWN: &str = "AR_";

/// Returns the folder that guardians write to: `guard` in the user's state folder.
///
/// # Errors
///
/// The user has no home folder.
pub(super) fn guardian_folder() -> Result<PathBuf, UserError> {
    let no_home = || {
        refuse(ErrorKind::CannotStart, "no home folder: neither HOME nor XDG_STATE_HOME is an absolute path")
            .hint("set HOME to your home folder: export HOME=/home/you")
    };
    user_folder().map(|user| state::guardian_folder(&user)).ok_or_else(no_home)
}

/// The error for a program that does not start.
pub(super) fn not_started(program: &Path, source: io::Error) -> UserError {
    refuse(ErrorKind::CannotStart, format!("cannot start {}", program.display()))
        .caused_by(source)
        .hint(format!("run `ls -l {}` to see what it is", shell_word(program)))
}

/// The path of this program; after an upgrade, that of the new one.
pub(super) fn own_program() -> Result<PathBuf, UserError> {
    let path = env::current_exe().map_err(failed("find", Path::new("/proc/self/exe"))).map_err(no_file)?;
    let replaced = path.to_str().and_then(|text| text.strip_suffix(REPLACED)).map(PathBuf::from);
    Ok(replaced.unwrap_or(path))
}

/// The home folder, where it is known.
pub(super) fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The names of the variables of sessions and settings in the environment of this process.
pub(super) fn own_variables() -> impl Iterator<Item = OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| name.as_encoded_bytes().starts_with(OWN.as_bytes()))
}

/// Clears these variables, so that the starter's do not reach what a guard starts.
pub(super) fn without_own_variables(command: &mut Command) -> &mut Command {
    for name in own_variables() {
        command.env_remove(name);
    }
    command
}

/// Has a command read nothing, and write to a new file; nowhere if that cannot be made, as a full disk stops no guard. What
/// is no file in its place is moved away: whoever opens a pipe waits for a reader, and a link leads to somebody's file.
pub(super) fn log_to(command: &mut Command, path: &Path) {
    let _ = move_irregular_away(path);
    let mut new = File::options();
    new.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let log = new.open(path).and_then(|log| Ok((log.try_clone()?, log)));
    let (out, error) = log.map_or_else(|_| (Stdio::null(), Stdio::null()), |(out, error)| (out.into(), error.into()));
    command.stdin(Stdio::null()).stdout(out).stderr(error);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    impl Service {
        /// A patrol with all that has to be quoted somewhere.
        fn odd() -> Service {
            let odd = |text: &str| text.to_owned();
            Service {
                program: odd("/opt/my tools/100%/it's $HOME \\ \"ar\""),
                arguments: vec![odd("guard"), odd("--nudge"), odd("claude -p \"$X ${Y}\" 'a' 50% \\n <&> é")],
                variables: vec![(odd("PATH"), odd("/a b:/usr/bin:/c%d/$e\\f\"g'h&<i>"))],
                every: DEFAULT_EVERY,
            }
        }
    }

    const SERVICE: &str = "autoresearch-guard.service";

    const TIMER: &str = "autoresearch-guard.timer";

    /// Returns whether systemd accepts the units, with its output. If systemd is not installed, reports that and returns
    /// `None`.
    fn verify(folder: &Path, service: &Service) -> Option<(bool, String)> {
        let units = systemd_units(service);
        let (unit, timer) = units.split_once("\n\n# Save").unwrap();
        fs::write(folder.join(SERVICE), unit).unwrap();
        fs::write(folder.join(TIMER), format!("# Save{timer}")).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).args([SERVICE, TIMER].map(|name| folder.join(name))).env("LC_ALL", "C");
        match verify.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display())).output() {
            Err(error) => {
                eprintln!("skipped: systemd-analyze: {error}");
                None
            }
            Ok(output) => Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    #[test]
    fn systemd_accepts_the_units_and_finds_the_program_at_an_odd_path() {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("my tools/100%");
        fs::create_dir_all(&programs).unwrap();
        symlink("/bin/sh", programs.join("ar")).unwrap();
        let program = programs.join("ar").to_str().unwrap().to_owned();
        for program in [program.clone(), Service::odd().program] {
            let Some((accepted, said)) = verify(folder.path(), &Service { program, ..Service::odd() }) else { return };
            assert!(accepted && !said.contains("autoresearch-guard"), "{said}");
        }
        let missing = Service { program: program + "x", ..Service::odd() };
        let (accepted, said) = verify(folder.path(), &missing).unwrap();
        assert!(!accepted && said.contains("is not executable"), "{said}");
    }

    #[test]
    fn what_systemd_would_expand_is_quoted() {
        let unit = systemd_units(&Service::odd());
        let line = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(
            line("ExecStart="),
            r#"/bin/sh -c "exec \"$$0\" \"$$@\"" "/opt/my tools/100%%/it's $$HOME \\ \"ar\"" "guard" "--nudge" "claude -p \"$$X $${Y}\" 'a' 50%% \\n <&> é""#
        );
        assert_eq!(line("Environment="), r#""PATH=/a b:/usr/bin:/c%%d/$e\\f\"g'h&<i>""#);
        assert!(unit.contains("\nOnUnitActiveSec=3600\n"));
    }

    #[test]
    fn cron_parts_an_hour_or_a_day_and_comes_rather_too_often() {
        for (minutes, text) in [
            (1, "* * * * *"),
            (7, "*/6 * * * *"),
            (30, "*/30 * * * *"),
            (45, "*/30 * * * *"),
            (59, "*/30 * * * *"),
            (60, "0 * * * *"),
            (90, "0 * * * *"),
            (120, "0 */2 * * *"),
            (300, "0 */4 * * *"),
            (1440, "0 0 * * *"),
        ] {
            let every = Duration::from_secs(minutes * 60);
            assert_eq!(schedule(every), text, "{minutes}");
        }
    }

    #[test]
    fn the_line_of_cron_reaches_the_program_as_it_was_meant() {
        let folder = tempfile::Builder::new().prefix("50% it's $HOME ").tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let service = Service {
            program: path("the program"),
            variables: vec![
                ("VALUE".into(), Service::odd().variables[0].1.clone()),
                ("PATH".into(), "/usr/bin:/bin".into()),
            ],
            ..Service::odd()
        };
        let program = "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$VALUE\"\n";
        fs::write(&service.program, program).unwrap();
        assert!(Command::new("chmod").args(["+x", &service.program]).status().unwrap().success());
        let line = cron_line(&service, &path("log")).unwrap();
        assert!(!line.contains('%'), "{line}");
        let command = line.strip_prefix("0 * * * * ").unwrap();
        assert!(Command::new("/bin/sh").args(["-c", command]).status().unwrap().success());
        let words = [&service.arguments[..], &[service.variables[0].1.clone()]].concat().join("\n");
        assert_eq!(fs::read_to_string(path("log")).unwrap(), words + "\n");
    }

    #[test]
    fn what_xml_would_read_is_escaped() {
        let service = Service::odd();
        let text = property_list(&service, "/log & more");
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let list = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let strings: Vec<&str> =
            list.descendants().filter(|node| node.has_tag_name("string")).filter_map(|node| node.text()).collect();
        let mut expected = vec![LABEL, &service.program];
        expected.extend(service.arguments.iter().map(String::as_str));
        expected.extend([service.variables[0].1.as_str(), "/log & more"]);
        assert_eq!(strings, expected);
        assert_eq!(list.descendants().find(|node| node.has_tag_name("integer")).unwrap().text(), Some("3600"));
    }
}
