//! Writing below `.autoresearch` while a process deletes that folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::thread::sleep;
use std::time::Duration;

/// The folder of this program in the root of a working tree.
pub const OWN_FOLDER: &str = ".autoresearch";

/// Pauses before each retry. A loaded machine needs more than a second for one `rm -rf`.
const PAUSES: [u64; 12] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 800, 1600];

/// Runs `write`, which writes to `path`. If the folder of `path` was deleted, recreates it and retries. Does this only below
/// `.autoresearch`: elsewhere a missing folder is the caller's mistake.
pub fn standing<T>(path: &Path, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause in PAUSES {
        match write() {
            Err(error) if was_deleted(path, &error) && is_below_sessions(path) => {}
            written => return written,
        }
        sleep(Duration::from_millis(pause));
        if let Some(folder) = path.parent() {
            // If this fails, the next attempt reports why.
            let _ = fs::create_dir_all(folder);
        }
    }
    write()
}

/// Creates a folder with those above it that are not there.
pub fn make_folder(path: &Path) -> io::Result<()> {
    standing(path, || fs::create_dir_all(path))
}

/// Returns whether a file or folder was deleted during an attempt. A folder deleted while it is created can look like
/// something else at its path.
fn was_deleted(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound => true,
        ErrorKind::AlreadyExists => path.is_dir() || !path.exists(),
        _ => false,
    }
}

fn is_below_sessions(path: &Path) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components);
    folders.filter(|part| matches!(part, Component::Normal(_))).any(|part| part.as_os_str() == OWN_FOLDER)
}

#[cfg(test)]
mod tests {
    use std::fs::remove_dir_all;

    use super::super::{append_line, write_atomic};
    use super::*;

    #[test]
    fn a_folder_that_goes_while_it_is_written_to_is_made_again_below_the_sessions_only() {
        let root = tempfile::tempdir().unwrap();
        let sessions = root.path().join(OWN_FOLDER);
        let path = sessions.join("t/logs/work.jsonl");
        let mut deletions = 3;
        let written = standing(&path, || {
            if deletions > 0 {
                deletions -= 1;
                let _ = remove_dir_all(&sessions);
            }
            fs::write(&path, "line")
        });
        written.unwrap();
        remove_dir_all(&sessions).unwrap();
        append_line(&path, "line").unwrap();
        remove_dir_all(&sessions).unwrap();
        write_atomic(&path, b"line").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "line");
        remove_dir_all(&sessions).unwrap();
        make_folder(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(make_folder(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let elsewhere = root.path().join("elsewhere/file");
        assert!(append_line(&elsewhere, "line").is_err() && write_atomic(&elsewhere, b"line").is_err());
        assert!(!root.path().join("elsewhere").exists());
    }
}
