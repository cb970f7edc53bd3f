//! The service that a scheduler starts: a patrol, with the variables that it needs.

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use super::program::own_program;
use super::service_error::ServiceError;

/// The default time between two patrols.
pub const DEFAULT_EVERY: Duration = Duration::from_secs(3600);

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
    pub(super) fn of(arguments: &[String], every: Duration) -> Result<Service, ServiceError> {
        let program = one_line("the path of this program", own_program()?.into_os_string())?;
        let set = CARRIED.iter().filter_map(|name| env::var_os(name).map(|value| (*name, value)));
        let variables = set.map(|(name, value)| Ok((name.to_owned(), one_line(name, value)?)));
        let variables = variables.collect::<Result<_, ServiceError>>()?;
        let arguments = ["guard"].into_iter().chain(arguments.iter().map(String::as_str));
        let arguments = arguments.map(|argument| one_line("an argument", argument.into()));
        Ok(Service { program, arguments: arguments.collect::<Result<_, _>>()?, variables, every })
    }
}

/// A text that the files of all schedulers can contain.
pub(super) fn one_line(what: &str, text: OsString) -> Result<String, ServiceError> {
    let is_one_line = |text: &String| !text.contains(char::is_control);
    let unwritable = || ServiceError::Unwritable { what: what.to_owned() };
    text.into_string().ok().filter(is_one_line).ok_or_else(unwritable)
}

#[cfg(test)]
impl Service {
    /// A patrol with all that has to be quoted somewhere.
    pub(super) fn odd() -> Service {
        let odd = |text: &str| text.to_owned();
        Service {
            program: odd("/opt/my tools/100%/it's $HOME \\ \"ar\""),
            arguments: vec![odd("guard"), odd("--nudge"), odd("claude -p \"$X ${Y}\" 'a' 50% \\n <&> é")],
            variables: vec![(odd("PATH"), odd("/a b:/usr/bin:/c%d/$e\\f\"g'h&<i>"))],
            every: DEFAULT_EVERY,
        }
    }
}
