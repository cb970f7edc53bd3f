//! The user's folder, which belongs to no repository: the register of sessions on this machine, what guardians write,
//! ratings; and the folder in memory for what has no room on a disk.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use jiff::Timestamp;
use rustix::process::getuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{StateError, lines, read_json, write_json};
use crate::domain::{CommitId, FORMAT_VERSION, Rating, Resident, Tag};
use crate::fs::{create_folder, failed, if_exists, open_regular};
use crate::rules::{AxisValues, GuardianAction, Likeness, PatrolMemory, is_beat_missing};

/// The number of bytes of a path's hash that name a folder.
const NAME: usize = 8;

/// The file in that folder that says that a resident guard is wanted.
pub const RESIDENT: &str = "resident.json";

/// Returns whether a guard watches this user's sessions: a resident guard is wanted, or the last patrol is recent.
pub fn has_guardian(now: Timestamp) -> bool {
    user_folder().map(|user| guardian_folder(&user)).is_some_and(|folder| {
        let is_wanted = fs::symlink_metadata(folder.join(RESIDENT)).is_ok();
        is_wanted || !is_beat_missing(last_patrol(&folder), now, Duration::ZERO, Resident::BEAT)
    })
}

/// The record that each patrol writes at its end.
#[derive(Deserialize)]
struct Beat {
    at: Timestamp,
}

/// Returns when the last patrol ended; `None` if none ever did, or if its record cannot be parsed. `folder` is
/// [`guardian_folder`].
pub fn last_patrol(folder: &Path) -> Option<Timestamp> {
    read_json::<Beat>(&folder.join("patrol.json")).ok().flatten().map(|beat| beat.at)
}

/// The folder of all guardians in the folder of a user.
pub fn guardian_folder(user: &Path) -> PathBuf {
    user.join("guard")
}

/// The beginning of the hash of a path, as a name.
pub(super) fn hashed(path: &Path) -> String {
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    hash.iter().take(NAME).map(|byte| format!("{byte:02x}")).collect()
}

/// A line about what a guardian did about a session. The session copies it into its own log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardianLine {
    /// The format's version.
    pub version: u32,
    /// When it was done.
    #[serde(with = "crate::domain::millis")]
    pub ts: Timestamp,
    /// The action.
    pub action: GuardianAction,
    /// The reason, as a clause.
    pub detail: String,
}

/// The memory of guardians about a session.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    version: u32,
    repository: PathBuf,
    tag: Option<Tag>,
    memory: PatrolMemory,
}

/// The files of guardians about one session.
#[derive(Debug, Clone)]
pub struct GuardianFiles {
    folder: PathBuf,
    repository: PathBuf,
    tag: Tag,
}

impl GuardianFiles {
    /// Names the files of the session `tag`, whose main worktree is `repository`; creates nothing.
    pub fn new(user: &Path, repository: &Path, tag: &Tag) -> GuardianFiles {
        let folder = guardian_folder(user).join("sessions").join(format!("{}-{tag}", hashed(repository)));
        GuardianFiles { folder, repository: repository.to_owned(), tag: tag.clone() }
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the memory of earlier patrols. Treats an unparsable file as empty: the patrol may then repeat an action,
    /// but does not fail.
    pub fn memory(&self) -> Result<PatrolMemory, StateError> {
        match read_json::<Remembered>(&self.folder.join("memory.json")) {
            Ok(remembered) => Ok(remembered.unwrap_or_default().memory),
            Err(StateError::Json { .. }) => Ok(PatrolMemory::default()),
            Err(error) => Err(error),
        }
    }

    /// Notes what was done, before it is done: a patrol that is killed in between does it at most once. The line of a redirect
    /// is what is done, so it comes first: a second one does no harm.
    pub fn remember(&self, memory: &PatrolMemory, line: Option<&GuardianLine>) -> Result<(), StateError> {
        create_folder(&self.folder)?;
        // Nothing is done that could not be noted.
        self.lines()?;
        let (repository, tag) = (self.repository.clone(), Some(self.tag.clone()));
        let remembered = Remembered { version: FORMAT_VERSION, repository, tag, memory: memory.clone() };
        let (first, then) = match line {
            Some(line) if line.action == GuardianAction::Redirect => (Some(line), None),
            line => (None, line),
        };
        self.append(first)?;
        write_json(&self.folder.join("memory.json"), &remembered)?;
        self.append(then)
    }

    fn append(&self, line: Option<&GuardianLine>) -> Result<(), StateError> {
        line.map_or(Ok(()), |line| lines::add(&self.lines_path(), line))
    }

    /// All lines about the session, in order; empty ones where a line cannot be parsed, so that the count stays right.
    pub fn lines(&self) -> Result<Vec<Option<GuardianLine>>, StateError> {
        let text = lines::content(&self.lines_path())?;
        Ok(lines(&text).map(|line| serde_json::from_slice(line).ok()).collect())
    }

    fn lines_path(&self) -> PathBuf {
        self.folder.join("lines.jsonl")
    }
}

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

/// Returns `$XDG_STATE_HOME/autoresearch`, or `~/.local/state/autoresearch` where the variable is not set to an absolute
/// path, as the XDG base directory specification has it; nothing without a home folder.
#[must_use]
pub fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("autoresearch"))
}

/// Shared memory, which every user may write to.
const SHARED_MEMORY: &str = "/dev/shm";

/// Returns the paths of this user's folder on file systems in memory, in the order of preference: in the runtime folder, then
/// in shared memory. Processes of one user may differ in `$XDG_RUNTIME_DIR`, which cron does not set.
pub(super) fn volatile_folders() -> Vec<PathBuf> {
    let me = getuid().as_raw();
    // `su` leaves the variable with the folder of another user.
    let is_mine = |folder: &PathBuf| {
        folder.is_absolute() && fs::metadata(folder).is_ok_and(|there| there.is_dir() && there.uid() == me)
    };
    let runtime = [env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), Some(format!("/run/user/{me}").into())];
    let mut bases: Vec<PathBuf> = runtime.into_iter().flatten().filter(is_mine).collect();
    bases.dedup();
    bases.push(SHARED_MEMORY.into());
    bases.into_iter().map(|base| base.join(format!("autoresearch-{me}"))).collect()
}

/// Returns whether a path is a folder that only this user can access. Does not follow links.
pub(super) fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|there| there.is_dir() && there.uid() == getuid().as_raw() && there.mode() & 0o077 == 0)
}

/// Makes a folder for this user alone; returns false if something else is there.
pub(super) fn make_private(path: &Path) -> bool {
    let _ = DirBuilder::new().mode(0o700).create(path);
    is_private(path)
}

/// The name of the file.
const FILE: &str = "ratings.jsonl";

/// A rating of a session, with what the session's axes were then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RatedLine {
    /// The format's version.
    pub version: u32,
    /// The main working tree of its repository, for people.
    pub repository: PathBuf,
    /// The session.
    pub tag: Tag,
    /// The commit that it started from: with the tag it names the session, wherever its repository lies.
    pub start: CommitId,
    /// The rating.
    #[serde(flatten)]
    pub rating: Rating,
    /// The properties that make its numbers comparable; absent for a session without axes.
    pub likeness: Option<Likeness>,
    /// The means of its axes.
    #[serde(default)]
    pub means: AxisValues,
}

impl RatedLine {
    /// The line of a rating.
    pub fn new(
        repository: &Path,
        tag: &Tag,
        start: &CommitId,
        rating: Rating,
        axes: Option<(Likeness, AxisValues)>,
    ) -> RatedLine {
        let (likeness, means) = axes.map_or((None, AxisValues::new()), |(likeness, means)| (Some(likeness), means));
        RatedLine {
            version: FORMAT_VERSION,
            repository: repository.to_owned(),
            tag: tag.clone(),
            start: start.clone(),
            rating,
            likeness,
            means,
        }
    }

    /// Returns whether it rates this session.
    pub fn is_of(&self, tag: &Tag, start: &CommitId) -> bool {
        self.tag == *tag && self.start == *start
    }

    /// The session as it is named in another repository.
    pub fn name(&self) -> String {
        let folder = self.repository.file_name().unwrap_or_default().to_string_lossy();
        format!("{folder}/{}", self.tag)
    }
}

/// The newest rating of each session; lines that cannot be read are skipped. Empty without a home folder.
///
/// # Errors
///
/// The file cannot be read.
pub fn read_ratings() -> Result<Vec<RatedLine>, StateError> {
    let Some(path) = user_folder().map(|folder| folder.join(FILE)) else { return Ok(Vec::new()) };
    let mut ratings: Vec<RatedLine> = Vec::new();
    for line in lines(&lines::content(&path)?) {
        let Ok(line) = serde_json::from_slice::<RatedLine>(line) else { continue };
        if Rating::value(&line.rating.value.to_string()).is_ok() {
            ratings.retain(|known| !known.is_of(&line.tag, &line.start));
            ratings.push(line);
        }
    }
    Ok(ratings)
}

/// Adds a rating; `false` without a home folder.
///
/// # Errors
///
/// The file cannot be written.
pub fn add_rating(line: &RatedLine) -> Result<bool, StateError> {
    let Some(folder) = user_folder() else { return Ok(false) };
    create_folder(&folder)?;
    lines::add_durably(&folder.join(FILE), line)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::{fs, thread};

    use super::*;

    #[test]
    fn only_a_beat_that_can_be_read_is_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_patrol(folder.path()), None);
        let path = folder.path().join("patrol.json");
        for (text, is_beat) in [
            (r#"{"version":1,"at":"2026-11-20T22:00:00.000Z"}"#, true),
            (r#"{"version":1,"at":"2026-11-20T23:00:00+01:00","more":[1]}"#, true),
            (r#"{"version":1,"at":"yesterday"}"#, false),
            (r#"{"version":1}"#, false),
            (r#"{"version":1,"at":"2026-11-2"#, false),
            ("\0\0\0", false),
            ("", false),
        ] {
            fs::write(&path, text).unwrap();
            let at = "2026-11-20T22:00:00Z".parse().ok().filter(|_| is_beat);
            assert_eq!(last_patrol(folder.path()), at, "{text}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(last_patrol(folder.path()), None);
    }

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

    #[test]
    fn a_folder_that_is_a_link_or_open_to_others_is_not_private() {
        let folder = tempfile::tempdir().unwrap();
        let [own, link, open] = ["own", "link", "open"].map(|name| folder.path().join(name));
        assert!(make_private(&own) && make_private(&own), "also a second time");
        symlink(&own, &link).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o750)).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!([&link, &open, &folder.path().join("file")].map(|path| make_private(path)), [false; 3]);
    }
}
