//! The units of systemd for one user.

use std::path::{Path, PathBuf};

use super::service::Service;
use crate::domain::duration_text;

/// The names of the units.
pub(super) const SERVICE: &str = "autoresearch-guard.service";
pub(super) const TIMER: &str = "autoresearch-guard.timer";

/// Starts the program that is the next argument, with those that follow.
const SHELL: &str = r#"/bin/sh -c "exec \"$$0\" \"$$@\"""#;

/// The folder of a user's units, below the folder of configurations.
pub(super) fn folder(config: &Path) -> PathBuf {
    config.join("systemd/user")
}

/// The link by which `systemctl --user enable` has the timer start with the user's systemd.
pub(super) fn wants_link(config: &Path) -> PathBuf {
    folder(config).join("timers.target.wants").join(TIMER)
}

/// The unit of one patrol.
pub(super) fn service_unit(service: &Service) -> String {
    let argument = |word: &String| format!(" {}", quoted(word).replace('$', "$$"));
    let arguments: String = service.arguments.iter().map(argument).collect();
    // systemd refuses a program with quotes in its path, and takes `$` there for itself.
    let program = match service.program.contains(['\'', '"', '\\', '$']) {
        true => format!("{SHELL}{}", argument(&service.program)),
        false => quoted(&service.program),
    };
    let variables: String = service
        .variables
        .iter()
        .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
        .collect();
    format!(include_str!("patrol.service"), program = program, arguments = arguments, variables = variables)
}

/// The unit that starts one patrol after the other.
pub(super) fn timer_unit(service: &Service) -> String {
    format!(include_str!("patrol.timer"), every = duration_text(service.every), seconds = service.every.as_secs())
}

/// A word as systemd reads it in `ExecStart=` and `Environment=`. In arguments, `$` has to be doubled as well; in assignments
/// it stands for itself.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    /// Returns whether systemd accepts the units, with its output. If systemd is not installed, reports that and returns
    /// `None`.
    fn verify(folder: &Path, service: &Service) -> Option<(bool, String)> {
        fs::write(folder.join(SERVICE), service_unit(service)).unwrap();
        fs::write(folder.join(TIMER), timer_unit(service)).unwrap();
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
        let unit = service_unit(&Service::odd());
        let line = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(
            line("ExecStart="),
            r#"/bin/sh -c "exec \"$$0\" \"$$@\"" "/opt/my tools/100%%/it's $$HOME \\ \"ar\"" "guard" "--nudge" "claude -p \"$$X $${Y}\" 'a' 50%% \\n <&> é""#
        );
        assert_eq!(line("Environment="), r#""PATH=/a b:/usr/bin:/c%%d/$e\\f\"g'h&<i>""#);
        assert!(timer_unit(&Service::odd()).contains("\nOnUnitActiveSec=3600\n"));
    }
}
