//! The artifacts of kept runs: what matches before a run, what it leaves, and where that is until and after its record.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{SESSIONS_FOLDER, SessionFolder, StateError, files_below, read_json, write_json_unsynced};
use crate::crash;
use crate::domain::{Artifact, ExperimentId, FORMAT_VERSION};
use crate::fs::{
    FileStamp, clone_file, create_folder, failed, if_exists, make_folder, move_irregular_away, move_no_folder_away,
    read_tail, remove_all, take_file, write_atomic,
};
use crate::rules::ArtifactGlobs;

/// The folder of an experiment's artifacts, in that of its runs.
const ARTIFACTS: &str = "artifacts";

/// The folder of what a run left whose experiment is not recorded yet.
const PART: &str = "artifacts.part";

/// The file that says what matched before the run.
const BEFORE: &str = "artifacts.json";

/// The file that says why the artifacts were deleted.
const DROPPED: &str = "artifacts.dropped";

/// The temporary name of an artifact during its copy, in a run folder. Its prefix marks a killed copy for deletion.
const COPYING: &str = ".ar-artifact";

/// The files that matched in a working tree before a run, with their stamps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BeforeRun {
    version: u32,
    /// The globs of the session at that time.
    pub globs: Vec<String>,
    files: BTreeMap<String, FileStamp>,
}

impl BeforeRun {
    /// Looks for the files below `root` that match.
    pub fn look(root: &Path, globs: &ArtifactGlobs) -> BeforeRun {
        let files = Matching::below(root, globs).files;
        let files = files.into_iter().map(|(path, stamp)| (path.to_string_lossy().into_owned(), stamp)).collect();
        BeforeRun { version: FORMAT_VERSION, globs: globs.patterns().to_vec(), files }
    }

    /// Stores it in the folder of the run.
    pub fn store(&self, run: &Path) -> Result<(), StateError> {
        let path = run.join(BEFORE);
        move_irregular_away(&path).map_err(failed("move", &path))?;
        write_json_unsynced(&path, self)
    }

    /// Reads that of the run with this folder; `None` if there was nothing to save then.
    pub fn of(run: &Path) -> Result<Option<BeforeRun>, StateError> {
        read_json(&run.join(BEFORE))
    }

    /// Returns whether a file, with the stamp `now`, is unchanged.
    pub fn has_same(&self, path: &Path, now: &FileStamp) -> bool {
        self.files.get(path.to_string_lossy().as_ref()) == Some(now)
    }
}

/// The files that match in a working tree. The search follows no links, and skips `.git` and nested repositories.
#[derive(Debug, Default)]
pub struct Matching {
    /// The regular files, relative to the root.
    pub files: BTreeMap<PathBuf, FileStamp>,
    /// Links, FIFOs and the like.
    pub odd: Vec<PathBuf>,
}

impl Matching {
    /// Looks for it below `root`.
    pub fn below(root: &Path, globs: &ArtifactGlobs) -> Matching {
        let mut found = Matching::default();
        let mut left = vec![PathBuf::new()];
        while let Some(folder) = left.pop() {
            let is_root = folder.as_os_str().is_empty();
            let is_repository = !is_root && fs::symlink_metadata(root.join(&folder).join(".git")).is_ok();
            // An unreadable folder has nothing to save.
            let entries = fs::read_dir(root.join(&folder)).into_iter().flatten().flatten();
            for entry in entries.filter(|_| !is_repository) {
                let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
                let Ok(kind) = entry.file_type() else { continue };
                if name == ".git" || is_root && name == SESSIONS_FOLDER {
                    continue;
                }
                if kind.is_dir() {
                    if globs.lead_below(&path) {
                        left.push(path);
                    }
                } else if globs.matched(&path).is_some() {
                    match FileStamp::of(&root.join(&path)) {
                        Some(stamp) if kind.is_file() => _ = found.files.insert(path, stamp),
                        Some(_) => found.odd.push(path),
                        None => {}
                    }
                }
            }
        }
        found.odd.sort();
        found
    }
}

/// Files of a working tree to be set aside.
#[derive(Debug)]
pub struct SetAside {
    /// The root of the working tree.
    pub root: PathBuf,
    /// The files, relative to it.
    pub files: Vec<PathBuf>,
    /// True if nobody needs the files in the working tree, so that they can be moved.
    pub moves: bool,
    /// The file that the metric is read from: it is copied in any case.
    pub metric_file: Option<PathBuf>,
    /// Returns whether the disk of a path has room for so many more bytes.
    pub has_space: fn(&Path, u64) -> bool,
}

/// The artifacts of a run that were set aside.
#[derive(Debug, Default)]
pub struct TakenArtifacts {
    /// The artifacts, also those that a killed process had set aside.
    pub artifacts: Vec<Artifact>,
    /// The files that could not be set aside, each with the reason.
    pub missed: Vec<(PathBuf, io::Error)>,
}

impl SetAside {
    /// Sets the files aside in the folder of their run. Called again after a kill, does what is left.
    pub fn take(self, run: &Path) -> TakenArtifacts {
        let mut taken = TakenArtifacts::default();
        let part = run.join(PART);
        if let Err(error) = self.take_into(run, &part, &mut taken.missed) {
            taken.missed.push((part.clone(), error));
        }
        taken.artifacts = artifacts_below(&part);
        taken
    }

    fn take_into(&self, run: &Path, part: &Path, missed: &mut Vec<(PathBuf, io::Error)>) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        move_no_folder_away(part)?;
        make_folder(part)?;
        for path in &self.files {
            match self.take_one(run, part, path) {
                Ok(()) => crash::point("artifacts.taken"),
                Err(error) => missed.push((path.clone(), error)),
            }
        }
        let mut folders: Vec<PathBuf> =
            self.files.iter().flat_map(|path| path.ancestors().skip(1)).map(|it| part.join(it)).collect();
        folders.sort();
        folders.dedup();
        folders.retain(|folder| folder.is_dir());
        folders.push(run.to_owned());
        folders.iter().try_for_each(|folder| File::open(folder)?.sync_all())
    }

    fn take_one(&self, run: &Path, part: &Path, path: &Path) -> io::Result<()> {
        let (from, to, copying) = (self.root.join(path), part.join(path), run.join(COPYING));
        if fs::symlink_metadata(&to).is_ok_and(|there| there.is_file()) {
            // A killed process had come so far.
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            make_folder(folder)?;
        }
        let has_space = |bytes| (self.has_space)(run, bytes);
        if self.moves && self.metric_file.as_deref() != Some(path) {
            return take_file(&from, &to, &copying, has_space).map(drop);
        }
        clone_file(&from, &copying, has_space)?;
        fs::rename(&copying, &to)
    }
}

/// The artifacts that the run with this folder set aside and that are not settled yet; `None` if there are none.
pub fn artifacts_aside(run: &Path) -> Option<Vec<Artifact>> {
    Some(artifacts_below(&run.join(PART))).filter(|artifacts| !artifacts.is_empty())
}

/// Removes what the run with this folder set aside, and what matched before it.
pub fn forget_artifacts_of(run: &Path) -> Result<(), StateError> {
    remove(&run.join(PART))?;
    remove(&run.join(BEFORE))
}

/// The regular files below a folder.
fn artifacts_below(folder: &Path) -> Vec<Artifact> {
    let artifact = |path: PathBuf| {
        let meta = fs::symlink_metadata(folder.join(&path)).ok().filter(|meta| meta.is_file())?;
        Some(Artifact { path: path.to_str()?.to_owned(), bytes: meta.len() })
    };
    let mut artifacts: Vec<Artifact> = files_below(folder, Path::new("")).into_iter().filter_map(artifact).collect();
    artifacts.sort_by(|one, other| one.path.cmp(&other.path));
    artifacts
}

fn remove(path: &Path) -> Result<(), StateError> {
    Ok(remove_all(path).map_err(failed("remove", path))?)
}

impl SessionFolder {
    /// The folder of an experiment's artifacts.
    pub fn artifacts(&self, id: ExperimentId) -> PathBuf {
        self.run(id).join(ARTIFACTS)
    }

    /// Removes what the runs of an experiment set aside, and what matched before them.
    pub fn forget_artifacts(&self, id: ExperimentId) -> Result<(), StateError> {
        self.all_runs(id).try_for_each(|run| forget_artifacts_of(&run))
    }

    /// Settles the files set aside after the one run of attempt `from` that has some, as artifacts of the recorded
    /// experiment `id`. After a kill, a retry does the rest.
    pub fn settle_artifacts(&self, id: ExperimentId, from: ExperimentId) -> Result<(), StateError> {
        let artifacts = self.artifacts(id);
        if let Some(part) = self.all_runs(from).map(|run| run.join(PART)).find(|part| part.is_dir()) {
            remove(&artifacts)?;
            create_folder(&self.run(id))?;
            fs::rename(&part, &artifacts).map_err(failed("rename", &part))?;
            let sync = |folder: PathBuf| File::open(&folder)?.sync_all();
            sync(self.run(id)).map_err(failed("sync", &artifacts))?;
        }
        crash::point("artifacts.renamed");
        [from, id].into_iter().try_for_each(|id| self.forget_artifacts(id))
    }

    /// The experiments whose runs left something that is not settled.
    pub fn unsettled_artifacts(&self) -> Vec<ExperimentId> {
        let runs = fs::read_dir(self.runs()).into_iter().flatten().flatten();
        let ids = runs.filter_map(|run| run.file_name().to_str()?.parse::<u32>().ok()).map(ExperimentId::from);
        ids.filter(|id| self.all_runs(*id).any(|run| fs::symlink_metadata(run.join(PART)).is_ok())).collect()
    }

    /// Deletes an experiment's artifacts, and leaves a note that says why.
    pub fn drop_artifacts(&self, id: ExperimentId, why: &str) -> Result<(), StateError> {
        let (note, part) = (self.run(id).join(DROPPED), self.run(id).join(PART));
        move_irregular_away(&note).map_err(failed("move", &note))?;
        write_atomic(&note, format!("{why}\n").as_bytes())?;
        crash::point("artifacts.drop_noted");
        remove(&part)?;
        // A process that is killed now leaves nothing that looks whole.
        if_exists(fs::rename(self.artifacts(id), &part)).map_err(failed("rename", &part))?;
        crash::point("artifacts.drop_begun");
        remove(&part)
    }

    /// The reason why an experiment's artifacts were deleted; `None` if they were not.
    pub fn why_artifacts_dropped(&self, id: ExperimentId) -> Option<String> {
        let note = read_tail(&self.run(id).join(DROPPED), 0).ok().filter(|note| !note.is_empty())?;
        Some(String::from_utf8_lossy(&note).trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ExperimentId = ExperimentId::BASELINE;

    fn globs(patterns: &[&str]) -> ArtifactGlobs {
        ArtifactGlobs::of(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn only_regular_files_of_the_tree_itself_match() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        for path in ["a.pt", "out/b.pt", "out/c.txt", ".git/d.pt", ".autoresearch/t/e.pt", "nested/.git", "nested/f.pt"]
        {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        std::os::unix::fs::symlink("a.pt", root.join("link.pt")).unwrap();
        std::os::unix::fs::symlink("out", root.join("linked")).unwrap();
        let found = Matching::below(root, &globs(&["**/*.pt"]));
        assert_eq!(found.files.keys().collect::<Vec<_>>(), [Path::new("a.pt"), Path::new("out/b.pt")]);
        assert_eq!(found.odd, [Path::new("link.pt")]);

        let before = BeforeRun::look(root, &globs(&["**/*.pt"]));
        fs::rename(root.join("out/c.txt"), root.join("a.pt")).unwrap();
        let now = Matching::below(root, &globs(&["**/*.pt"])).files;
        let changed = now.iter().filter(|(path, stamp)| !before.has_same(path, stamp));
        assert_eq!(changed.map(|(path, _)| path).collect::<Vec<_>>(), [Path::new("a.pt")]);
    }

    #[test]
    fn what_was_set_aside_by_a_killed_process_is_no_less_than_what_is_left() {
        let [tree, session] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let folder = SessionFolder::new(session.path(), &"t".parse().unwrap());
        folder.create_run(ID).unwrap();
        fs::create_dir(tree.path().join("out")).unwrap();
        for path in ["a", "out/b"] {
            fs::write(tree.path().join(path), path).unwrap();
        }
        let take = |files: &[&str]| {
            let (root, files) = (tree.path().to_owned(), files.iter().map(PathBuf::from).collect());
            SetAside { root, files, moves: true, metric_file: None, has_space: |_, _| true }.take(&folder.run(ID))
        };
        assert_eq!(take(&["out/b"]).artifacts.len(), 1);
        let taken = take(&["a", "gone"]);
        let names: Vec<_> = taken.artifacts.iter().map(|it| (it.path.as_str(), it.bytes)).collect();
        assert_eq!(names, [("a", 1), ("out/b", 5)]);
        assert_eq!(taken.missed.len(), 1);
        assert!(!tree.path().join("a").exists() && !tree.path().join("out/b").exists());
        assert_eq!(folder.unsettled_artifacts(), [ID]);
        let empty = tree.path().join("a run for whose files there was no room");
        fs::create_dir_all(empty.join(PART)).unwrap();
        assert_eq!((artifacts_aside(&folder.run(ID)).map(|all| all.len()), artifacts_aside(&empty)), (Some(2), None));
        folder.settle_artifacts(ID, ID).unwrap();
        folder.settle_artifacts(ID, ID).unwrap();
        assert_eq!(fs::read(folder.artifacts(ID).join("out/b")).unwrap(), b"out/b");
        folder.drop_artifacts(ID, "too many").unwrap();
        assert!(!folder.artifacts(ID).exists() && folder.unsettled_artifacts().is_empty());
        assert_eq!(folder.why_artifacts_dropped(ID).as_deref(), Some("too many"));
    }
}
