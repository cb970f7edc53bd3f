//! What the file systems of the repository can do.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::SignedDuration;

use crate::domain::{Area, Finding, shell_word, span_text};
use crate::fs::{Ability, FileSystemTrial, is_disk_full, is_shared, kind_of};
use crate::git::Repo;
use crate::session::files::is_behind_wall;
use crate::state::SESSIONS_FOLDER;

/// The seconds from which on a difference of clocks is worth a warning.
const SKEW: u64 = 60;

/// Tries each file system that sessions and git write to.
pub(crate) fn inspect(repo: &Repo) -> Vec<Finding> {
    let own = repo.main_worktree().join(SESSIONS_FOLDER);
    // Behind a wall it is read-only.
    let own = Some(own).filter(|own| own.is_dir() && !is_behind_wall(repo));
    let places = own.into_iter().chain([repo.common_dir().to_owned(), repo.main_worktree()]);
    let mut seen = Vec::new();
    let is_new = |place: &PathBuf| {
        let device = fs::metadata(place).map(|meta| meta.dev()).ok();
        let is_new = !seen.contains(&device);
        seen.push(device);
        is_new
    };
    let tried = |place: PathBuf| match FileSystemTrial::run(&place) {
        Ok(trial) => findings(&place, trial),
        Err(error) => untried(&place, &error).into_iter().collect(),
    };
    places.filter(is_new).flat_map(tried).collect()
}

/// The finding about a file system that cannot be tried. A folder that cannot be written to is found elsewhere, and so is a full
/// disk.
fn untried(place: &Path, error: &io::Error) -> Option<Finding> {
    let is_known = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
    let at = shell_word(place);
    (!is_known && !is_disk_full(error)).then(|| {
        Finding::error(Area::Disk, format!("cannot use files in {}: {error}", place.display()))
            .hint(format!("check the disk and its mount: `dmesg | tail; findmnt -T {at}`"))
    })
}

/// The findings about the file system of `place`.
fn findings(place: &Path, trial: FileSystemTrial) -> Vec<Finding> {
    let kind = kind_of(place);
    let named = kind.map_or("the file system".to_owned(), |kind| format!("the file system ({kind})"));
    let at = place.display();
    let (works, fails): (Vec<_>, Vec<_>) = trial.works.into_iter().partition(|(_, works)| works.is_ok());
    let mut found = Vec::new();
    for (ability, error) in fails.into_iter().filter_map(|(ability, works)| Some((ability, works.err()?))) {
        if !is_disk_full(&error) {
            found.push(failure(ability, &format!("{named} at {at}"), &error));
        }
    }
    if !works.is_empty() {
        let names: Vec<String> = works.iter().map(|(ability, _)| ability.to_string()).collect();
        let text = match names.split_last() {
            Some((last, [])) => format!("{last} works"),
            Some((last, others)) => format!("{} and {last} work", others.join(", ")),
            None => String::new(),
        };
        let other_hosts = match is_shared(place) {
            true => "; other hosts may have it, and `ar` does not rely on locks between hosts",
            false => "",
        };
        found.push(Finding::ok(Area::Disk, format!("{named} at {at}: {text}{other_hosts}")));
    }
    found.extend(skewed(Area::Disk, &format!("the clock of {named} at {at}"), trial.skew, "that of this host"));
    found
}

/// A warning if `clock` is far ahead of `other` or far behind.
pub(super) fn skewed(area: Area, clock: &str, ahead: SignedDuration, other: &str) -> Option<Finding> {
    let ahead = ahead.as_secs();
    let (length, side) = (span_text(ahead.unsigned_abs() as f64), if ahead > 0 { "ahead of" } else { "behind" });
    (ahead.unsigned_abs() >= SKEW).then(|| {
        Finding::warning(area, format!("{clock} is {length} {side} {other}"))
            .hint("synchronise the clocks, as with `timedatectl set-ntp true`")
    })
}

/// The finding about something that a file system cannot do.
fn failure(ability: Ability, named: &str, error: &io::Error) -> Finding {
    let elsewhere = "move the repository to another file system, such as a local disk";
    match ability {
        Ability::Rename => {
            let what =
                format!("{named} does not replace files by rename ({error}), so a kill can leave half of a file");
            Finding::error(Area::Disk, what).hint(elsewhere)
        }
        Ability::Lock => {
            let what = format!(
                "{named} has no locks that work ({error}); without them, two processes may write to one session"
            );
            let hint = format!("mount it with locks (Lustre: `-o flock`; NFS: without `nolock`), or {elsewhere}");
            Finding::error(Area::Disk, what).hint(hint)
        }
        Ability::Sync => {
            let what =
                format!("{named} refuses to write to the disk on request ({error}), so `ar` cannot save its files");
            Finding::error(Area::Disk, what).hint(elsewhere)
        }
        // A link only saves what would be renamed otherwise.
        Ability::Link => Finding::ok(Area::Disk, format!("{named} has no hard links ({error}); `ar` does without")),
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;
    use crate::domain::Severity;

    fn found(fails: &[(Ability, i32)], skew: i64) -> Vec<Finding> {
        let result = |ability: &Ability| {
            let failed = fails.iter().find(|(failed, _)| failed == ability);
            (*ability, failed.map_or(Ok(()), |(_, code)| Err(io::Error::from_raw_os_error(*code))))
        };
        let works = Ability::VARIANTS.iter().map(result).collect();
        findings(Path::new("/proc"), FileSystemTrial { works, skew: SignedDuration::from_secs(skew) })
    }

    #[test]
    fn what_a_file_system_cannot_do_is_an_error_if_sessions_rest_on_it() {
        let whole = found(&[], -59);
        assert_eq!(whole.len(), 1, "{whole:?}");
        assert!(whole[0].what.ends_with("/proc: rename, link, lock and sync work"), "{whole:?}");
        for (ability, level) in [
            (Ability::Rename, Severity::Error),
            (Ability::Link, Severity::Ok),
            (Ability::Lock, Severity::Error),
            (Ability::Sync, Severity::Error),
        ] {
            let found = found(&[(ability, libc::EOPNOTSUPP)], 0);
            assert_eq!((found.len(), found[0].level), (2, level), "{found:?}");
            assert_eq!(found[0].hint.is_some(), level == Severity::Error, "{found:?}");
            assert!(!found[1].what.contains(&format!(" {ability}")), "{found:?}");
        }
        let works = vec![(Ability::Lock, Ok(()))];
        let shared = findings(Path::new("/no such path"), FileSystemTrial { works, skew: SignedDuration::ZERO });
        assert!(shared[0].what.contains(": lock works; other hosts may have it, and `ar` does not rely"), "{shared:?}");
        for (code, is_told) in [(libc::EACCES, false), (libc::EROFS, false), (libc::EDQUOT, false), (libc::EIO, true)] {
            let found = untried(Path::new("/r"), &io::Error::from_raw_os_error(code));
            assert_eq!(found.is_some(), is_told, "{found:?}");
        }
        // A full disk is found as such.
        let full = found(&[(Ability::Rename, libc::ENOSPC)], 0);
        assert!(full.iter().all(|finding| finding.level == Severity::Ok), "{full:?}");
    }

    #[test]
    fn a_clock_that_differs_by_a_minute_is_worth_a_warning() {
        for (skew, side) in [(75, "ahead of"), (-75, "behind")] {
            let found = found(&[], skew);
            let last = &found[1];
            assert!(last.level == Severity::Warning && last.what.contains(side), "{found:?}");
        }
    }
}
