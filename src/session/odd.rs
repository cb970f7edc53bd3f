//! Folders, pipes and the like in the place of files: whoever opens one fails, or waits for ever.

use std::path::PathBuf;

use super::error::{SessionError, list};
use super::open::Session;
use super::running::RUN_FILES;
use crate::domain::Event;
use crate::exec;
use crate::state::{Mended, is_odd, move_away, move_odd_away};

/// What the folder of a run holds beside the files of the run and of the jobs.
const MORE: [&str; 3] = ["lock", "prompt.md", "proposal.json"];

impl Session<'_> {
    /// Moves away what stands in the place of `ar`'s files in the folder of an experiment's runs and is no file of its own,
    /// and says so; gives the folder. No job may go on in it.
    pub(super) fn clear_run_folder(&mut self, id: u32) -> Result<PathBuf, SessionError> {
        let folder = self.run_folder(id)?;
        let mut paths: Vec<PathBuf> = RUN_FILES.iter().chain(&MORE).map(|name| folder.join(name)).collect();
        for job in self.jobs() {
            paths.extend(["job", "started", "exit"].map(|kind| exec::job_file(&folder, &job, kind)));
            paths.push(folder.join(format!("{job}.log")));
        }
        let mut moved = Vec::new();
        for path in paths {
            moved.extend(move_odd_away(&path).map_err(|source| SessionError::Io { action: "move", path, source })?);
        }
        if !moved.is_empty() {
            self.emit(Event::Notice { detail: format!("moved what replaced files of ar's to {}", list(&moved)) })?;
        }
        Ok(folder)
    }

    /// Puts git's own files back that are no files any more, and moves other pipes in git's folder away; gives what is to be
    /// said about that.
    pub(super) fn put_git_files_right(&mut self) -> Result<Option<String>, SessionError> {
        let mended = match &mut self.store.expected.watch {
            Some(watch) => watch.git.put_back(is_odd)?,
            None => Vec::new(),
        };
        let kept = mended.into_iter().filter_map(|mended| match mended {
            Mended::PutBack(_, kept) => Some(kept),
            Mended::Deleted(_) | Mended::Left(_) => None,
        });
        let mut moved: Vec<PathBuf> = kept.collect();
        moved.extend(move_all(self.store.repo.odd_git_files())?);
        Ok(said(&moved))
    }

    /// Does the same, and moves odd ignore and attribute files of the working tree away.
    pub(super) fn put_odd_files_right(&mut self) -> Result<Vec<String>, SessionError> {
        let mut all = Vec::from_iter(self.put_git_files_right()?);
        all.extend(said(&move_all(self.store.repo.odd_worktree_files(Some(&self.tip())))?));
        Ok(all)
    }
}

fn move_all(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, SessionError> {
    let moved = |path: PathBuf| move_away(&path).map_err(|source| SessionError::Io { action: "move", path, source });
    paths.into_iter().map(moved).collect()
}

fn said(moved: &[PathBuf]) -> Option<String> {
    (!moved.is_empty()).then(|| format!("moved what replaced files that git reads to {}", list(moved)))
}
