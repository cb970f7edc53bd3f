//! Clearing the working tree around calls and runs: protected files are restored, and what may not be there is moved aside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Protected, Shadows, Workspace, bytecode, name_of};
use crate::domain::{Actor, CommitId, ExperimentId, Failure, FailureClass, Notice, Phase, list};
use crate::fs::{free_name, is_made, make_writable, move_to};
use crate::git::{Proposal, WhyLeftOut};
use crate::machine::{Attempt, AttemptHead};
use crate::rules::{Forbidden, folders_of, is_protected, takes_the_place};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::{SETTINGS_FILE, remove_file};
use crate::session::store::Store;
use crate::state::{PROTECTED, files_below};

impl Workspace {
    /// Puts those protected files back that git does not have and that somebody changed, and removes their bytecode
    /// that the commit `at` does not have; gives the files that were changed.
    fn restore_copies(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        at: &CommitId,
    ) -> Result<Vec<PathBuf>, SessionError> {
        for path in bytecode(self.root(), &self.protected.modules()) {
            if !store.repo.objects.is_in(at, &path)? {
                remove_file(&self.root().join(path))?;
            }
        }
        // The user's working tree has the protected files that git does not have.
        let root = store.repo.worktree().to_owned();
        let copies = self.protected.store.clone();
        let changed = self.protected.stored.copies.changed(&root, &copies)?;
        if changed.is_empty() {
            return Ok(changed);
        }
        let (mut aside, mut left) = (Vec::new(), Vec::new());
        for path in &changed {
            aside.extend(self.move_out_of_the_way(store, id, &root, path)?);
            if !self.protected.stored.copies.restore(&root, &copies, path)? {
                left.push(path.clone());
            }
        }
        // For a file without a copy, later comparisons use its new state, also in another process.
        self.write_protected(store)?;
        let back: Vec<PathBuf> = changed.iter().filter(|path| !left.contains(path)).cloned().collect();
        if !back.is_empty() {
            store.note(Notice::ProtectedRestored { paths: back, found: aside });
        }
        match left.is_empty() {
            true => Ok(changed),
            false if self.protected.stored.copies.has_stamps_alone() => {
                store.note(format!("detected changes of protected files that ar cannot restore: {}", list(&left)));
                Ok(changed)
            }
            false => {
                let text = format!("protected files were changed and their copies are missing: {}", list(&left));
                Err(refuse(CannotStart, text)
                    .hint("restore them as they were when the session began, or start another session with --tag")
                    .into())
            }
        }
    }

    /// Moves the entry at a protected path, or a non-folder at one of its parent paths, into the session's folder.
    /// Returns its new path. Moves nothing if some protected file has no copy to restore.
    fn move_out_of_the_way(
        &self,
        store: &Store,
        id: ExperimentId,
        root: &Path,
        path: &Path,
    ) -> Result<Option<PathBuf>, SessionError> {
        if self.protected.stored.copies.has_stamps_alone() {
            return Ok(None);
        }
        let mut prefix = PathBuf::new();
        for part in path.components() {
            prefix.push(part);
            match fs::symlink_metadata(root.join(&prefix)) {
                Ok(meta) if meta.is_dir() && prefix != path => {}
                Ok(_) => return move_aside_from(root, store, id, &prefix).map(Some),
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Moves something out of the working tree into the session's folder, and gives where it is now.
    pub(crate) fn move_aside(&self, store: &Store, id: ExperimentId, path: &Path) -> Result<PathBuf, SessionError> {
        move_aside_from(self.root(), store, id, path)
    }

    /// Moves a folder out of the working tree that stands at the path of the metric file, where no run could write it.
    pub(crate) fn clear_folder_at(
        &self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
        file: &Path,
    ) -> Result<(), SessionError> {
        let is_folder = fs::symlink_metadata(self.root().join(file)).is_ok_and(|meta| meta.is_dir());
        if is_folder && file.is_relative() && !store.repo.objects.is_in(commit, file)? {
            let moved = self.move_aside(store, id, file)?;
            note_moved(store, vec![moved], "a run writes the metric file there");
        }
        Ok(())
    }

    /// Undoes what the agent did to protected files that git does not have; gives what is forbidden of it. To be called before
    /// the change is read.
    pub(crate) fn undo_forbidden(&mut self, store: &mut Store, head: &AttemptHead) -> Result<Forbidden, SessionError> {
        let mut changed = self.restore_copies(store, head.id, &head.base)?;
        changed.extend(self.settle_settings(store)?.then(|| SETTINGS_FILE.into()));
        let protected = changed.iter().map(|path| is_protected(path)).collect();
        Ok(Forbidden { protected, scope: Vec::new() })
    }

    /// Moves out of the working tree what is new there, is in no commit and may not be there, and adds it to what is `found`.
    pub(crate) fn clear_out(
        &mut self,
        store: &mut Store,
        head: &AttemptHead,
        change: &Proposal,
        found: &mut Forbidden,
    ) -> Result<(), SessionError> {
        let (id, base) = (head.id, &head.base);
        let in_change: BTreeSet<PathBuf> = change.paths().iter().map(|changed| changed.path.clone()).collect();
        let (taken, mut moved) = self.clear_shadows(store, id, base, |path| !in_change.contains(path))?;
        found.protected.extend(taken.iter().map(|(path, module)| takes_the_place(path, module)));
        for path in self.new_protected(store) {
            if !in_change.contains(&path) {
                found.protected.push(is_protected(&path));
                moved.push(self.move_aside(store, id, &path)?);
            }
        }
        for left_out in change.left_out() {
            let why = match left_out.why {
                WhyLeftOut::Repository => "is a git repository of its own: no commit would hold its files",
                WhyLeftOut::Path => "is a path that git refuses to check out",
                WhyLeftOut::Encoding => "sets working-tree-encoding, by which files would be checked out damaged",
                WhyLeftOut::Attributes => "names a git filter that fails",
                WhyLeftOut::Filter => "has a git filter that fails",
                WhyLeftOut::Unreadable => "cannot be read",
            };
            found.scope.push(format!("{} {why}", left_out.path.display()));
        }
        note_moved(store, moved, "no commit would hold it");
        self.clear_left_out(store, id, base, change)
    }

    /// Moves the parts of a change that no commit would hold out of the working tree. Restores the files that `base`
    /// has, as far as their filters work.
    pub(crate) fn clear_left_out(
        &self,
        store: &mut Store,
        id: ExperimentId,
        base: &CommitId,
        change: &Proposal,
    ) -> Result<(), SessionError> {
        let mut moved = Vec::new();
        for left_out in change.left_out() {
            if fs::symlink_metadata(self.root().join(&left_out.path)).is_ok() {
                moved.push(self.move_aside(store, id, &left_out.path)?);
            }
            if left_out.why != WhyLeftOut::Repository && store.repo.objects.is_in(base, &left_out.path)? {
                // If this fails, rolling the change back writes the file once everything else is restored.
                let path = std::slice::from_ref(&left_out.path);
                let _ = self.repo.working_tree.write_as_pinned(base, path, &self.protected.filters);
            }
        }
        note_moved(store, moved, "no commit would hold it");
        Ok(())
    }

    /// Notes what stands below protected paths now as nothing that the next call of the agent made. What appeared while a
    /// call was under way that came to no change is moved out of the working tree.
    pub(crate) fn remember_beside_protected(&mut self, store: &mut Store) -> Result<(), SessionError> {
        if !self.owner.has_user() {
            // Nothing but agents writes there.
            return Ok(());
        }
        if let Some(id) = store.journal.first().filter(|first| first.phase() == Phase::Proposing).map(Attempt::id) {
            let moved = self
                .new_protected(store)
                .iter()
                .map(|path| self.move_aside(store, id, path))
                .collect::<Result<Vec<_>, _>>()?;
            note_moved(store, moved, "it appeared below a protected path while the agent was active");
        }
        let beside = self.beside_protected(store).iter().map(|path| name_of(path)).collect();
        if self.protected.stored.beside != beside {
            self.protected.stored.beside = beside;
            self.write_protected(store)?;
        }
        Ok(())
    }

    fn write_protected(&self, store: &mut Store) -> Result<(), SessionError> {
        Ok(store.expected.write_file(store.folder.state().join(PROTECTED), &self.protected.stored)?)
    }

    /// Files below protected paths that the agent made.
    fn new_protected(&self, store: &Store) -> Vec<PathBuf> {
        let mut files = self.beside_protected(store);
        files.retain(|path| !self.protected.stored.beside.contains(&name_of(path)));
        files
    }

    /// Files below protected paths that neither git nor the session has.
    fn beside_protected(&self, store: &Store) -> Vec<PathBuf> {
        let root = self.root();
        let tops = folders_of(&store.contract.protect).into_iter().filter(|top| !top.as_os_str().is_empty());
        let files = tops.flat_map(|top| files_below(root, &top));
        let (main, layout) = (store.repo.main_worktree(), store.journal.layout.as_ref());
        let links = if self.owner.has_user() { &[] } else { layout.map_or(&[][..], |layout| &layout.links) };
        let is_new = |path: &PathBuf| {
            self.file_terms.is_named_protected(path)
                && !(links.contains(path) && is_made(main, root, path))
                && !self.protected.stored.copies.has(path)
                && self.protected.tracked.binary_search(path).is_err()
        };
        if self.protected.stored.copies.has_stamps_alone() { Vec::new() } else { files.filter(is_new).collect() }
    }

    /// Moves out of the working tree what takes the place of a protected module and is not in the commit `at`, as far as it is
    /// `meant`; gives each with its module, and where they are now.
    fn clear_shadows(
        &self,
        store: &Store,
        id: ExperimentId,
        at: &CommitId,
        meant: impl Fn(&Path) -> bool,
    ) -> Result<(Shadows, Vec<PathBuf>), SessionError> {
        let (mut taken, mut moved) = (Vec::new(), Vec::new());
        for (path, module) in self.protected.new_shadows(self.root()) {
            if !meant(&path) || store.repo.objects.is_in(at, &path)? {
                continue;
            }
            // A package is moved with all that is in it, unless something else of it is tracked.
            let package = path.parent().filter(|parent| module.with_extension("") == **parent);
            let whole = match package {
                Some(package) if !store.repo.objects.is_in(at, package)? => package,
                _ => &path,
            };
            if fs::symlink_metadata(self.root().join(whole)).is_ok() {
                moved.push(self.move_aside(store, id, whole)?);
            }
            taken.push((path, module));
        }
        Ok((taken, moved))
    }

    /// Restores the approved protected files just before the run or a guard, and removes their shadows.
    pub(crate) fn restore_protected(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        self.restore_tracked_protected(store, id, commit)?;
        self.restore_copies(store, id, commit)?;
        if !id.is_baseline() {
            let (_, moved) = self.clear_shadows(store, id, commit, |_| true)?;
            note_moved(store, moved, "Python would import it instead of a protected file");
        }
        self.protected.before_run = self.protected.stamps(self.root(), store.repo.worktree());
        Ok(())
    }

    /// Restores the tracked protected files to their state in `commit`, and saves the changed ones.
    pub(crate) fn restore_tracked_protected(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        let Protected { tracked, filters, .. } = &self.protected;
        let changed = self.repo.working_tree.differing(commit, tracked, filters)?;
        if changed.is_empty() {
            return Ok(());
        }
        store.note(format!("restored protected files that were changed in between: {}", list(&changed)));
        self.restore(store, commit, commit)?;
        // The restore skips files that git considers unchanged. Move these aside, and write them as committed.
        let Protected { tracked, filters, .. } = &self.protected;
        let unrestored = self.repo.working_tree.differing(commit, tracked, filters)?;
        if unrestored.is_empty() {
            return Ok(());
        }
        let mut moved = Vec::new();
        for path in &unrestored {
            if fs::symlink_metadata(self.root().join(path)).is_ok() {
                moved.push(self.move_aside(store, id, path)?);
            }
        }
        self.repo.working_tree.write_as_pinned(commit, &unrestored, filters)?;
        store.note(Notice::ProtectedRestored { paths: unrestored, found: moved });
        Ok(())
    }

    /// Makes the protected files of a refused `commit` those of its `base` again, as far as that has them; all else that it
    /// changes stays in the working tree, staged.
    pub(crate) fn restore_only_protected(&mut self, commit: &CommitId, base: &CommitId) -> Result<(), SessionError> {
        let changed = self.repo.objects.changed_between(base, commit)?;
        let tracked = changed.into_iter().map(|changed| changed.path).filter(|path| self.file_terms.protects(path));
        let mut back = BTreeSet::new();
        for path in tracked {
            if self.repo.objects.is_in(base, &path)? {
                back.insert(path);
            }
        }
        self.repo.working_tree.take_over(commit, base, |path| back.contains(path))?;
        let known = self.known_untracked()?;
        let staged = self.repo.working_tree.propose(base, &known)?;
        self.adopt_index(staged)
    }

    /// Returns the failure if `who`, the run or a guard, changed or shadowed protected files, and removes the shadows. Files that
    /// the baseline's run creates count as the user's own.
    pub(crate) fn check_protected(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
        who: Actor,
    ) -> Result<Option<Failure>, SessionError> {
        let Protected { tracked, filters, .. } = &self.protected;
        let mut changed = self.repo.working_tree.differing(commit, tracked, filters)?;
        changed.extend(self.restore_copies(store, id, commit)?);
        let mut lines = Vec::new();
        if !changed.is_empty() {
            lines.push(format!("{who} changed {}", list(&changed)));
        }
        if id.is_baseline() {
            let new = self.protected.new_shadows(self.root());
            if !new.is_empty() {
                self.protected.stored.shadows.extend(new.into_iter().map(|(path, _)| path));
                self.write_protected(store)?;
            }
        } else {
            let (taken, moved) = self.clear_shadows(store, id, commit, |_| true)?;
            note_moved(store, moved, "Python would import it instead of a protected file");
            let shadows = |(path, module): &(PathBuf, PathBuf)| {
                format!("{who} made {}, which takes the place of {}", path.display(), module.display())
            };
            lines.extend(taken.iter().map(shadows));
        }
        Ok((!lines.is_empty()).then(|| Failure::new(FailureClass::Protected, lines.join("\n"))))
    }

    /// The protected files that somebody touched while the run went on, by what the file system says of them: one that was
    /// changed and changed back is among them. None where another process started the run.
    pub(crate) fn protected_touched(&self, store: &Store) -> Vec<PathBuf> {
        let now = self.protected.stamps(self.root(), store.repo.worktree());
        let before = self.protected.before_run.iter();
        before.filter(|(path, stamp)| now.get(*path) != Some(*stamp)).map(|(path, _)| path.clone()).collect()
    }
}

fn note_moved(store: &mut Store, to: Vec<PathBuf>, why: &'static str) {
    if !to.is_empty() {
        store.note(Notice::MovedOut { to, why });
    }
}

/// Moves something out of the working tree at `root` into the session's folder, and gives where it is now.
pub(crate) fn move_aside_from(
    root: &Path,
    store: &Store,
    id: ExperimentId,
    path: &Path,
) -> Result<PathBuf, SessionError> {
    let from = root.join(path);
    let failed = |source| SessionError::Io { action: "move", path: from.clone(), source };
    let to = aside_path(store, id, path)?;
    // Neither a folder that is read-only can be moved, nor what is in one.
    for folder in [Some(&*from), from.parent()].into_iter().flatten() {
        make_writable(folder).map_err(failed)?;
    }
    move_to(&from, &to).map_err(failed)?;
    Ok(to)
}

/// A free path in the session's folder for a file of the working tree. Creates the folders that lead to it.
pub(crate) fn aside_path(store: &Store, id: ExperimentId, path: &Path) -> Result<PathBuf, SessionError> {
    let to = free_name(&store.folder.root().join("aside").join(format!("{id:05}")).join(path));
    let folder = to.parent().unwrap_or(&to);
    let failed = |source| SessionError::Io { action: "create", path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    Ok(to)
}
