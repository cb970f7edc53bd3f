//! Locks of this machine's GPUs, so that no two sessions of a user take one, whatever repositories they are in.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use crate::domain::{Gpu, Tag, few, shell_word};
use crate::exec::Executor;
use crate::fs::{FileError, GLANCE, failed, is_disk_full, lock_within, share_within};
use crate::state::SessionFolder;

/// The session that has a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHolder {
    /// The root of its main worktree.
    pub repository: PathBuf,
    /// Its tag.
    pub session: Tag,
    /// The process that advances it.
    pub process: u32,
}

/// The reason that GPUs cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum GpuLockError {
    /// Other sessions have them.
    #[error("{}", in_use(.0))]
    InUse(Vec<(Gpu, Option<GpuHolder>)>),
    /// The locks would be where another user can change them.
    #[error("cannot lock GPUs in {}: it is not a folder that only you can write to", .0.display())]
    NotPrivate(PathBuf),
    /// A lock cannot be opened or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl GpuLockError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            GpuLockError::InUse(_) => Some("choose other GPUs with --gpus, or wait until that session ends".into()),
            GpuLockError::NotPrivate(path) => Some(format!("run `ls -ld {}` to see whose it is", shell_word(path))),
            GpuLockError::File(_) if is_disk_full(self) => Some("free disk space; nothing was lost".into()),
            GpuLockError::File(_) => None,
        }
    }
}

fn in_use(gpus: &[(Gpu, Option<GpuHolder>)]) -> String {
    let holder = |holder: &Option<GpuHolder>| match holder {
        Some(GpuHolder { repository, session, .. }) => format!("session {session} in {}", repository.display()),
        None => "another session".to_owned(),
    };
    let words: Vec<String> = gpus.iter().map(|(gpu, by)| format!("{gpu} is in use by {}", holder(by))).collect();
    few(&words).join(", ")
}

/// The right to use GPUs, until it is dropped or the process ends.
#[derive(Debug)]
pub struct GpuLocks {
    _files: Vec<File>,
}

impl GpuLocks {
    /// Locks all these GPUs for a session, or none.
    ///
    /// # Errors
    ///
    /// [`GpuLockError::InUse`] names all that other sessions have.
    pub fn take(gpus: &[Gpu], holder: &GpuHolder) -> Result<GpuLocks, GpuLockError> {
        GpuLocks::take_in(&lock_folders()?, gpus, holder, GLANCE)
    }

    /// Locks them in each of these folders, and waits so long for all together.
    fn take_in(
        folders: &[PathBuf],
        gpus: &[Gpu],
        holder: &GpuHolder,
        patience: Duration,
    ) -> Result<GpuLocks, GpuLockError> {
        let deadline = Instant::now() + patience;
        let wanted = wanted(gpus);
        let (mut held, mut in_use) = (Vec::new(), Vec::new());
        for (folder, (name, (gpu, share))) in
            folders.iter().flat_map(|folder| wanted.iter().map(move |it| (folder, it)))
        {
            let path = folder.join(name);
            let mut file = open(&path).map_err(failed("open", &path))?;
            let left = deadline.saturating_duration_since(Instant::now());
            let locked = match share {
                Share::Whole => lock_within(&file, left),
                Share::Instance => share_within(&file, left),
            };
            let is_locked = locked.map_err(failed("lock", &path))?;
            let last = read(&mut file);
            let is_free =
                is_locked && (*share == Share::Instance || !last.as_ref().is_some_and(|last| left_run(last, holder)));
            if is_free {
                held.push((path, file));
            } else if !in_use.iter().any(|(known, _)| known == *gpu) {
                in_use.push(((*gpu).clone(), last));
            }
        }
        if !in_use.is_empty() {
            return Err(GpuLockError::InUse(in_use));
        }
        // Only who has all may overwrite what holders of other instances wrote.
        for (path, file) in &mut held {
            write(file, holder).map_err(failed("write", path))?;
        }
        Ok(GpuLocks { _files: held.into_iter().map(|(_, file)| file).collect() })
    }
}

/// Returns whether the `last` session that had a GPU left a run on it that is still running, unless `holder` is that
/// session. A run outlives its `ar`, whose locks die with it. An active session holds the locks itself.
fn left_run(last: &GpuHolder, holder: &GpuHolder) -> bool {
    if (&last.repository, &last.session) == (&holder.repository, &holder.session) {
        return false;
    }
    let folder = SessionFolder::new(&last.repository, &last.session);
    Executor::of_any().busy_in(&folder.runs()).next().is_some() && folder.refuse_held().is_ok()
}

/// The extent of a lock on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// For one session alone.
    Whole,
    /// Together with those that have other instances of it.
    Instance,
}

/// The locks of some GPUs, in the order in which all sessions take them: of two that want the same, one gets all.
/// An instance shares the lock of its GPU.
fn wanted(gpus: &[Gpu]) -> BTreeMap<String, (&Gpu, Share)> {
    // UUIDs of instances had slashes once.
    let name = |uuid: &str| uuid.replace('/', "_");
    let parents = gpus.iter().filter_map(|gpu| Some((name(gpu.parent.as_ref()?), (gpu, Share::Instance))));
    let wholes = gpus.iter().map(|gpu| (name(&gpu.uuid), (gpu, Share::Whole)));
    parents.chain(wholes).collect()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Notes who holds a lock. Holders of instances of one GPU overwrite one another.
fn write(file: &mut File, holder: &GpuHolder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    // JSON has no words for every path; the lock holds all the same.
    file.write_all(&serde_json::to_vec(holder).unwrap_or_default())
}

/// Reads the holder of a lock; `None` if it cannot be read, as while it is being written.
fn read(file: &mut File) -> Option<GpuHolder> {
    /// A path and a tag, with room to spare.
    const LARGEST: u64 = 64 << 10;
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The folders of the locks, made if they do not exist. A lock is taken in each, because a user's logins differ in whether
/// they have a runtime folder, and it goes when the last login ends.
fn lock_folders() -> Result<Vec<PathBuf>, GpuLockError> {
    let me = getuid().as_raw();
    // `su` leaves the variable with the folder of somebody else.
    let is_mine = |folder: &PathBuf| {
        folder.is_absolute() && fs::metadata(folder).is_ok_and(|there| there.is_dir() && there.uid() == me)
    };
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_mine);
    let bases = runtime.map(|folder| folder.join("autoresearch"));
    let bases = bases.into_iter().chain([env::temp_dir().join(format!("autoresearch-{me}"))]);
    bases
        .map(|base| {
            private_folder(&base).and_then(|()| {
                let folder = base.join("gpus");
                private_folder(&folder).map(|()| folder)
            })
        })
        .collect()
}

/// Makes a folder for this user alone, and refuses anything else in its place.
fn private_folder(path: &Path) -> Result<(), GpuLockError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed("create", path)(error).into()),
        _ => {}
    }
    let there = fs::symlink_metadata(path).map_err(failed("read", path))?;
    let is_private = there.is_dir() && there.uid() == getuid().as_raw() && there.mode() & 0o077 == 0;
    if is_private { Ok(()) } else { Err(GpuLockError::NotPrivate(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use std::thread;

    use super::*;

    fn gpu(uuid: &str, parent: Option<&str>) -> Gpu {
        Gpu { index: 1, uuid: uuid.into(), model: String::new(), memory: None, parent: parent.map(str::to_owned) }
    }

    fn holder(tag: &str) -> GpuHolder {
        GpuHolder { repository: "/path".into(), session: tag.parse().unwrap(), process: 7 }
    }

    fn take(folder: &Path, gpus: &[Gpu], tag: &str) -> Result<GpuLocks, GpuLockError> {
        GpuLocks::take_in(&[folder.to_owned()], gpus, &holder(tag), GLANCE)
    }

    /// The error for a session that cannot have these GPUs.
    fn refused(folder: &Path, gpus: &[Gpu]) -> String {
        let taken = GpuLocks::take_in(&[folder.to_owned()], gpus, &holder("other"), Duration::ZERO);
        taken.unwrap_err().to_string()
    }

    #[test]
    fn a_gpu_has_one_session_until_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["GPU-a", "GPU-b", "GPU-c"].map(|uuid| gpu(uuid, None));
        let night = take(folder.path(), &[a.clone(), b.clone()], "night").unwrap();
        let said = "GPU 1 (GPU-b) is in use by session night in /path";
        assert_eq!(refused(folder.path(), &[b.clone(), c.clone()]), said);
        take(folder.path(), &[c], "day").expect("who is refused takes nothing");
        fs::write(folder.path().join("GPU-a"), "{").unwrap();
        let said = format!("GPU 1 (GPU-a) is in use by another session, {said}");
        assert_eq!(refused(folder.path(), &[b.clone(), a.clone()]), said);
        drop(night);
        take(folder.path(), &[a, b], "day").unwrap();
    }

    #[test]
    fn instances_have_sessions_of_their_own_but_not_beside_one_that_has_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let whole = gpu("GPU-a", None);
        let [one, two] = ["MIG-GPU-a/1/0", "MIG-GPU-a/2/0"].map(|uuid| gpu(uuid, Some("GPU-a")));
        let first = take(folder.path(), std::slice::from_ref(&one), "one").unwrap();
        let second = take(folder.path(), std::slice::from_ref(&two), "two").unwrap();
        let said = ["1/0 of GPU 1 is in use by session one", "2/0 of GPU 1 is in use by session two"];
        let said = said.map(|said| format!("MIG instance MIG-GPU-a/{said} in /path"));
        assert_eq!(refused(folder.path(), &[two, one.clone()]), said.join(", "));
        let said = "GPU 1 (GPU-a) is in use by session two in /path";
        assert_eq!(refused(folder.path(), std::slice::from_ref(&whole)), said);
        drop((first, second));
        let _whole = take(folder.path(), &[whole], "all").unwrap();
        let said = "MIG instance MIG-GPU-a/1/0 of GPU 1 is in use by session all in /path";
        assert_eq!(refused(folder.path(), &[one]), said);
    }

    #[test]
    fn a_run_that_outlives_its_session_keeps_the_gpu_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let gpus = [gpu("GPU-a", None)];
        let night = GpuHolder { repository: folder.path().to_owned(), ..holder("night") };
        let take = |holder: &GpuHolder| GpuLocks::take_in(&[folder.path().to_owned()], &gpus, holder, GLANCE);
        drop(take(&night).unwrap());
        let session = folder.path().join(".autoresearch/night");
        let run = session.join("runs/00001");
        fs::create_dir_all(&run).unwrap();
        let shim = File::create(run.join("lock")).unwrap();
        shim.lock().unwrap();
        let said = format!("GPU 1 (GPU-a) is in use by session night in {}", folder.path().display());
        assert_eq!(refused(folder.path(), &gpus), said);
        drop(take(&night).unwrap());
        // It is active again, on other GPUs.
        let active = File::create(session.join("lock")).unwrap();
        active.lock().unwrap();
        drop(take(&holder("day")).unwrap());
        drop(take(&night).unwrap());
        drop((active, shim));
        // A process that another test forks has all files of this one open until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(error) = take(&holder("day")) {
            assert!(Instant::now() < deadline, "{error}");
            thread::yield_now();
        }
    }

    #[test]
    fn one_folder_of_several_suffices_to_see_another_session() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let gpus = [gpu("GPU-a", None)];
        let _night = GpuLocks::take_in(&paths, &gpus, &holder("night"), GLANCE).unwrap();
        assert_eq!(refused(&paths[1], &gpus), "GPU 1 (GPU-a) is in use by session night in /path");
    }

    #[test]
    fn locks_are_only_where_nobody_else_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        private_folder(&path("own")).unwrap();
        private_folder(&path("own")).unwrap();
        assert_eq!(fs::metadata(path("own")).unwrap().mode() & 0o777, 0o700);
        symlink("own", path("link")).unwrap();
        fs::write(path("file"), "").unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), Permissions::from_mode(0o770)).unwrap();
        for name in ["link", "file", "open"] {
            assert!(matches!(private_folder(&path(name)), Err(GpuLockError::NotPrivate(_))), "{name}");
        }
        symlink("/etc/passwd", path("own/GPU-a")).unwrap();
        let taken = take(&path("own"), &[gpu("GPU-a", None)], "night");
        assert!(matches!(taken, Err(GpuLockError::File(_))), "{taken:?}");
    }
}
