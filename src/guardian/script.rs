//! The resident guard as a shell script.

use std::time::Duration;

use super::program::guardian_folder;
use super::service_error::ServiceError;
use super::units::{Service, one_line};
use crate::domain::Resident;

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
pub fn resident_script(settings: &Resident) -> Result<String, ServiceError> {
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
            std::fs::write(folder.path().join("patrol.json"), beat).unwrap();
            let text = format!("{}\n{}\nfolder=$1\nseconds $(last)", function("seconds"), function("last"));
            let said = Command::new("sh").args(["-c", &text, "sh"]).arg(folder.path()).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), at.as_second().to_string(), "{at}");
        }
    }
}
