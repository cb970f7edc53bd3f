//! The register of this user's sessions on this machine: `sessions` in the user's folder, a line of JSON for each.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{StateError, lines};
use crate::domain::{FORMAT_VERSION, Tag};
use crate::fs::{failed, if_exists, open_regular};

/// A session in the register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    version: u32,
    /// The main worktree of its repository.
    pub repository: PathBuf,
    /// The session.
    pub tag: Tag,
    /// When it was entered.
    #[serde(with = "crate::domain::millis")]
    pub opened: Timestamp,
}

impl Registered {
    fn is(&self, repository: &Path, tag: &Tag) -> bool {
        self.repository == repository && self.tag == *tag
    }
}

/// The register. Several processes may write to it at the same time.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
}

impl Register {
    /// The register in the folder of a user; creates nothing.
    pub fn new(user: &Path) -> Register {
        Register { path: user.join("sessions") }
    }

    /// Enters a session, unless it is listed.
    pub fn enter(&self, repository: &Path, tag: &Tag, opened: Timestamp) -> Result<(), StateError> {
        let mut file = lines::lock(&self.path)?;
        if self.read(&mut file)?.iter().any(|known| known.is(repository, tag)) {
            return Ok(());
        }
        let line = Registered { version: FORMAT_VERSION, repository: repository.to_owned(), tag: tag.clone(), opened };
        lines::add(&self.path, &line)
    }

    /// The sessions, in the order in which they were entered. Lines that cannot be parsed are left out.
    pub fn sessions(&self) -> Result<Vec<Registered>, StateError> {
        let file = if_exists(open_regular(&self.path)).map_err(failed("read", &self.path))?;
        file.map_or(Ok(Vec::new()), |mut file| self.read(&mut file))
    }

    /// Drops the sessions that are `gone`, and returns the others.
    pub fn prune(&self, gone: impl Fn(&Registered) -> bool) -> Result<Vec<Registered>, StateError> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut file = lines::lock(&self.path)?;
        let known = self.read(&mut file)?;
        let (dropped, left): (Vec<_>, Vec<_>) = known.into_iter().partition(gone);
        if !dropped.is_empty() {
            lines::replace(&self.path, &left)?;
        }
        Ok(left)
    }

    fn read(&self, file: &mut File) -> Result<Vec<Registered>, StateError> {
        let text = ends_of(file).map_err(failed("read", &self.path))?;
        Ok(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// The number of bytes to read from each end of a longer register: some 60,000 sessions each.
const END: u64 = 8 << 20;

/// Reads a file, or the two ends of one that is too long to be of this program's making; in it a newline stands for the middle.
fn ends_of(file: &mut File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let length = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    file.by_ref().take(2 * END).read_to_end(&mut text)?;
    if length > 2 * END {
        text.truncate(END as usize);
        text.push(b'\n');
        file.seek(SeekFrom::Start(length - END))?;
        file.by_ref().take(END).read_to_end(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn writers_at_the_same_time_lose_no_line_and_double_none() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("a/b");
        let tag = |n: usize| format!("t{n}").parse::<Tag>().unwrap();
        thread::scope(|scope| {
            for writer in 0..4 {
                let user = &user;
                scope.spawn(move || {
                    let register = Register::new(user);
                    for n in 0..25 {
                        register.enter(Path::new("/r"), &tag(n), Timestamp::UNIX_EPOCH).unwrap();
                        if writer == 0 {
                            register.prune(|known| known.tag == tag(100 + n)).unwrap();
                            register.enter(Path::new("/r"), &tag(101 + n), Timestamp::UNIX_EPOCH).unwrap();
                        }
                    }
                });
            }
        });
        let register = Register::new(&user);
        let mut tags: Vec<_> = register.sessions().unwrap().into_iter().map(|known| known.tag).collect();
        tags.sort();
        let mut expected: Vec<_> = (0..25).chain([125]).map(tag).collect();
        expected.sort();
        assert_eq!(tags, expected);
    }

    #[test]
    fn a_register_of_a_terabyte_is_read_at_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::new(folder.path());
        let [first, last] = ["/first", "/last"].map(Path::new);
        let tag: Tag = "t".parse().unwrap();
        register.enter(first, &tag, Timestamp::UNIX_EPOCH).unwrap();
        let file = fs::OpenOptions::new().write(true).open(folder.path().join("sessions")).unwrap();
        if let Err(error) = file.set_len(1 << 40) {
            eprintln!("skipped: no sparse file of a terabyte: {error}");
            return;
        }
        register.enter(last, &tag, Timestamp::UNIX_EPOCH).unwrap();
        let found: Vec<_> = register.sessions().unwrap().into_iter().map(|known| known.repository).collect();
        assert_eq!(found, [first, last]);
    }

    #[test]
    fn a_torn_line_hides_no_other_and_what_is_gone_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::new(folder.path());
        assert_eq!((register.sessions().unwrap(), register.prune(|_| true).unwrap()), (Vec::new(), Vec::new()));
        let [here, gone] = ["/here", "/gone"].map(Path::new);
        let tag: Tag = "t".parse().unwrap();
        fs::write(folder.path().join("sessions"), "{\"version\":1,\"repos").unwrap();
        register.enter(gone, &tag, Timestamp::UNIX_EPOCH).unwrap();
        register.enter(here, &tag, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(register.sessions().unwrap().len(), 2);
        let left = register.prune(|known| known.repository == gone).unwrap();
        assert_eq!(left.iter().map(|known| known.repository.as_path()).collect::<Vec<_>>(), [here]);
        assert_eq!(register.sessions().unwrap(), left);
        let line = fs::read_to_string(folder.path().join("sessions")).unwrap();
        assert_eq!(
            line,
            "{\"version\":1,\"repository\":\"/here\",\"tag\":\"t\",\"opened\":\"1970-01-01T00:00:00.000Z\"}\n"
        );
    }
}
