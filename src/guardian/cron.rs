//! The crontab of a user.

use std::path::Path;
use std::time::Duration;

use super::script::{LITERAL, exported, in_shell, quoted};
use super::service::Service;

/// The last word of the line that is the guard's; the others are the user's.
const MARKER: &str = "autoresearch-guard";

/// The script that the line calls: cron cuts long lines, and the user's other lines must not get this one's variables.
pub(super) const SCRIPT: &str = "patrol.sh";

/// The script, whose output goes to `log`.
pub(super) fn script(service: &Service, log: &str) -> String {
    format!(
        "#!/bin/sh\n\
         {LITERAL}\
         # Written by `ar guard --install`; `ar guard --uninstall` removes it.\n\
         {}\
         exec {} >{} 2>&1\n",
        exported(&service.variables),
        in_shell(service),
        quoted(log)
    )
}

/// The line that calls the script.
pub(super) fn line(script: &str, every: Duration) -> String {
    // For cron, `%` is the end of the command, also between quotes; not all of them know an escape.
    let script = quoted(script).replace('%', r#"'"$(printf '\045')"'"#);
    format!("{} /bin/sh {script} {MARKER}\n", schedule(every).0)
}

/// When cron starts a patrol, and the time between two of them: cron can only part an hour or a day evenly, so patrols may
/// come more often than asked for.
pub(super) fn schedule(every: Duration) -> (String, Duration) {
    let minutes = every.as_secs() / 60;
    let part = |whole: u64, most: u64| (1..=most.max(1)).rev().find(|part| whole.is_multiple_of(*part)).unwrap_or(1);
    let (text, minutes) = match minutes {
        ..60 => match part(60, minutes.min(30)) {
            1 => ("* * * * *".to_owned(), 1),
            minutes => (format!("*/{minutes} * * * *"), minutes),
        },
        _ => match part(24, (minutes / 60).min(24)) {
            1 => ("0 * * * *".to_owned(), 60),
            24 => ("0 0 * * *".to_owned(), 24 * 60),
            hours => (format!("0 */{hours} * * *"), hours * 60),
        },
    };
    (text, Duration::from_secs(minutes * 60))
}

/// A crontab without the guard's line.
pub(super) fn without_line(crontab: &[u8]) -> Vec<u8> {
    let lines = crontab.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !is_own(line)).flatten().copied().collect()
}

/// A crontab with the guard's line at its end, instead of an earlier one.
pub(super) fn with_line(crontab: &[u8], line: &str) -> Vec<u8> {
    let mut lines = without_line(crontab);
    if lines.last().is_some_and(|last| *last != b'\n') {
        lines.push(b'\n');
    }
    lines.extend_from_slice(line.as_bytes());
    lines
}

/// Returns whether a line is the guard's and was not commented out by the user.
fn is_own(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.starts_with(b"#") && Path::new(MARKER).as_os_str().as_encoded_bytes() == last_word(line)
}

fn last_word(line: &[u8]) -> &[u8] {
    line.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_lines_of_the_user_stay_as_they_are() {
        let own = line("/s/patrol.sh", Duration::from_secs(3600));
        assert_eq!(own, "0 * * * * /bin/sh '/s/patrol.sh' autoresearch-guard\n");
        let comment = format!("# {own}");
        for users in [
            b"".as_slice(),
            b"MAILTO=me\n\n0 1 * * * backup %x\n",
            b"0 1 * * * no line break at the end",
            b"# \xff no UTF-8\n0 1 * * * echo autoresearch-guard on\n",
            comment.as_bytes(),
        ] {
            let installed = with_line(users, &own);
            assert!(installed.starts_with(users) && installed.ends_with(own.as_bytes()));
            assert_eq!(with_line(&installed, &own), installed);
            let mut left = without_line(&installed);
            left.truncate(users.len());
            assert_eq!((left.as_slice(), without_line(&installed).len() - users.len() < 2), (users, true));
        }
    }

    #[test]
    fn cron_parts_an_hour_or_a_day_and_comes_rather_too_often() {
        for (minutes, text, real) in [
            (1, "* * * * *", 1),
            (7, "*/6 * * * *", 6),
            (30, "*/30 * * * *", 30),
            (45, "*/30 * * * *", 30),
            (59, "*/30 * * * *", 30),
            (60, "0 * * * *", 60),
            (90, "0 * * * *", 60),
            (120, "0 */2 * * *", 120),
            (300, "0 */4 * * *", 240),
            (1440, "0 0 * * *", 1440),
        ] {
            let every = Duration::from_secs(minutes * 60);
            assert_eq!(schedule(every), (text.to_owned(), Duration::from_secs(real * 60)), "{minutes}");
        }
    }

    #[test]
    fn line_and_script_reach_the_program_as_they_were_meant() {
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
        std::fs::write(&service.program, program).unwrap();
        assert!(Command::new("chmod").args(["+x", &service.program]).status().unwrap().success());
        std::fs::write(path("patrol.sh"), script(&service, &path("log"))).unwrap();
        let line = line(&path("patrol.sh"), service.every);
        assert!(!line.contains('%'), "{line}");
        let command = line.strip_prefix("0 * * * * ").unwrap();
        assert!(Command::new("/bin/sh").args(["-c", command]).status().unwrap().success());
        let words = [&service.arguments[..], &[service.variables[0].1.clone()]].concat().join("\n");
        assert_eq!(std::fs::read_to_string(path("log")).unwrap(), words + "\n");
    }
}
