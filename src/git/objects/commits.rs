//! Commits: reading, writing and signing them, their authors and times, and their trees.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use gix::ObjectId;
use gix::actor::Signature;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::date::Time;
use gix::diff::tree::recorder::Change;
use gix::diff::tree::{Recorder, State};
use gix::index::entry::Mode;
use gix::objs::TreeRefIter;
use gix::objs::tree::{Editor, EntryMode};
use gix::traverse::tree::Recorder as Files;

use super::{merge, print};
use crate::domain::CommitId;
use crate::git::{
    ChangeKind, ChangedPath, Diff, During, EntryKind, GitError, Merged, MergedTree, Objects, Program, Result,
    TreeChange, Version, commit_id, object_id, to_git, to_path,
};

/// A header of a commit besides git's own.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value, on one line.
    pub value: &'a str,
}

impl Objects {
    /// Brings what changed from `base` to `theirs` onto `ours`. Renames are not followed: a renamed file is deleted and
    /// added. A file that both sides changed is merged by lines, as the attributes in `ours` and in git's
    /// `info/attributes` ask for. If they name a driver that the configuration defines, the file is in conflict: the driver
    /// is a program, and is not started. A submodule that both sides moved is in conflict, too.
    pub fn merge(&self, base: &CommitId, ours: &CommitId, theirs: &CommitId) -> Result<Merged> {
        merge(self, self.tree_id(base)?, self.tree_id(ours)?, self.tree_id(theirs)?)
    }

    /// Commits a merged tree on `parent`; refs are as before. The message ends with a line break; the commit is signed where
    /// `commit.gpgSign` asks for it. When this returns, the commit is on disk with all that belongs to it.
    pub fn commit_merged(&self, merged: &MergedTree, parent: &CommitId, message: &str) -> Result<CommitId> {
        let id = self.write_commit(merged.tree, vec![object_id(parent)?], message, true)?;
        self.sync(merged.written.iter().copied().chain([id]))?;
        Ok(commit_id(id))
    }

    /// The tree of a commit, as its full hexadecimal name.
    pub fn tree_of(&self, commit: &CommitId) -> Result<String> {
        Ok(self.tree_id(commit)?.to_string())
    }

    /// The parents of a commit, the first one first.
    pub fn parents(&self, commit: &CommitId) -> Result<Vec<CommitId>> {
        self.read_commit(commit, |commit| Ok(commit.parent_ids().map(commit_id).collect()))
    }

    /// The subject of a commit: its message up to the first empty line, on one line.
    pub fn subject(&self, commit: &CommitId) -> Result<String> {
        self.read_commit(commit, |commit| {
            let message = commit.message().during("reading a commit")?;
            Ok(message.summary().to_str_lossy().into_owned())
        })
    }

    /// Returns whether a commit has a header of this name.
    pub fn has_header(&self, commit: &CommitId, name: &str) -> Result<bool> {
        self.read_commit(commit, |commit| {
            let commit = commit.decode().during("reading a commit")?;
            Ok(commit.extra_headers().find(name).is_some())
        })
    }

    /// Returns whether `commit` is `other` or one of its ancestors. False if an incomplete history does not show it.
    pub fn leads_to(&self, commit: &CommitId, other: &CommitId) -> Result<bool> {
        let commit = object_id(commit)?;
        let other = object_id(other)?;
        let is_base = |gix: &gix::Repository| {
            let base = gix.merge_base(commit, other).during("comparing histories")?;
            Ok(base.is_some_and(|base| base == commit))
        };
        Ok(commit == other || self.read(is_base).unwrap_or_default())
    }

    /// Counts the commits that `tip` has and `base` does not.
    pub fn count_between(&self, base: &CommitId, tip: &CommitId) -> Result<usize> {
        const WHAT: &str = "counting commits";
        let (base, tip) = (object_id(base)?, object_id(tip)?);
        self.read(|gix| {
            let walk = gix.rev_walk([tip]).with_hidden([base]).all().during(WHAT)?;
            walk.map(|commit| commit.during(WHAT).map(drop)).collect::<Result<Vec<()>>>().map(|all| all.len())
        })
    }

    /// Finds the commit whose name starts with hexadecimal digits; nothing where there is none, or several objects do. As many
    /// may be asked for that are not there, packs made meanwhile are not looked for.
    pub fn commits_starting(&self) -> impl Fn(&str) -> Option<CommitId> {
        let mut known = self.on_disk().clone();
        known.refresh_never();
        move |digits| {
            let prefix = gix::hash::Prefix::from_hex(digits).ok()?;
            let commit = commit_id(known.lookup_prefix(prefix, None).ok()??.ok()?);
            self.has_commit(&commit).then_some(commit)
        }
    }

    /// Returns whether a commit exists, with its tree.
    pub fn has_commit(&self, commit: &CommitId) -> bool {
        self.tree_id(commit).is_ok_and(|tree| self.has(tree))
    }

    pub(in crate::git) fn tree_id(&self, commit: &CommitId) -> Result<ObjectId> {
        self.read_commit(commit, |commit| Ok(commit.tree_id().during("reading a commit")?.detach()))
    }

    fn read_commit<T>(&self, commit: &CommitId, read: impl Fn(&gix::Commit<'_>) -> Result<T>) -> Result<T> {
        let id = object_id(commit)?;
        self.read(|gix| {
            let found = gix.find_commit(id);
            let missing =
                |source: gix::Error| GitError::NotFound { spec: commit.to_string(), source: Some(source.into()) };
            read(&found.map_err(missing)?)
        })
    }

    /// Commits the tree of another commit on `parent`; signed where `commit.gpgSign` asks for it. When this returns, the
    /// commit is on disk.
    pub fn commit_tree_of(&self, content: &CommitId, parent: &CommitId, message: &str) -> Result<CommitId> {
        let id = self.write_commit(self.tree_id(content)?, vec![object_id(parent)?], message, true)?;
        self.sync([id])?;
        Ok(commit_id(id))
    }

    /// Writes a commit object, not yet synced.
    pub(in crate::git) fn write_commit(
        &self,
        tree: ObjectId,
        parents: Vec<ObjectId>,
        message: &str,
        may_sign: bool,
    ) -> Result<ObjectId> {
        let commit = self.build_commit(tree, parents, message)?;
        let commit = if may_sign { self.signed(commit)? } else { commit };
        self.write(&commit, "writing a commit")
    }

    /// Writes an unsigned commit object with a header of its own, which no log shows, not yet synced.
    pub(in crate::git) fn write_marked_commit(
        &self,
        tree: ObjectId,
        parents: Vec<ObjectId>,
        message: &str,
        header: Option<Header<'_>>,
    ) -> Result<ObjectId> {
        let mut commit = self.build_commit(tree, parents, message)?;
        commit.extra_headers.extend(header.map(|header| (header.name.into(), header.value.into())));
        self.write(&commit, "writing a commit")
    }

    fn build_commit(&self, tree: ObjectId, parents: Vec<ObjectId>, message: &str) -> Result<gix::objs::Commit> {
        let Identity { author, committer } = identity(&self.gix)?;
        let (parents, message) = (parents.into(), with_line_end(message).into());
        Ok(gix::objs::Commit { tree, parents, author, committer, encoding: None, message, extra_headers: Vec::new() })
    }

    /// Leaves commits unsigned, whatever the configuration asks for.
    pub fn sign_nothing(&self) {
        self.signs.set(false);
    }

    /// Signs commits by the settings of `gix`, with a program that is started by a call that begins with these words.
    pub(in crate::git) fn sign_by(&self, gix: Rc<gix::Repository>, words: Vec<String>) {
        self.signing.replace((gix, words));
    }

    /// Fails if commits have to be signed and cannot be. Writes nothing.
    pub fn check_signing(&self) -> Result<()> {
        let commit = self.build_commit(self.gix.empty_tree().id, Vec::new(), "a test signature")?;
        self.signed(commit).map(drop)
    }

    /// The commit with a signature, where the configuration asks for one. The signing program is a child of this process.
    fn signed(&self, commit: gix::objs::Commit) -> Result<gix::objs::Commit> {
        let (gix, words) = &*self.signing.borrow();
        if !self.signs.get() || !gix.config_snapshot().boolean("commit.gpgSign").unwrap_or(false) {
            return Ok(commit);
        }
        let signing = |source: gix::Error| GitError::Signing(source.into());
        let call = self.programs.call(Program::Signing);
        call.begin()?;
        let options = gix.commit_signing_options_if_enabled().map_err(signing);
        let signed = options.and_then(|options| match options {
            Some(mut options) => {
                if let Some((first, others)) = words.split_first() {
                    let program = mem::replace(&mut options.program, first.into());
                    options.program_arguments = others.iter().map(Into::into).chain([program]).collect();
                }
                commit.sign(options).map_err(signing)
            }
            None => Ok(commit),
        });
        call.check(signed)
    }
}

/// A message with a line break at its end, as git stores it.
pub(super) fn with_line_end(message: &str) -> String {
    format!("{message}{}", if message.ends_with('\n') { "" } else { "\n" })
}

/// The name and address of commits where git has none configured.
const FALLBACK: (&str, &str) = ("ar", "ar@localhost");

/// Author and committer of a commit made now.
pub(in crate::git) struct Identity {
    pub(in crate::git) author: Signature,
    pub(in crate::git) committer: Signature,
}

/// Author and committer as `GIT_AUTHOR_*`, `GIT_COMMITTER_*` and `user.*` say; the time is now unless
/// `GIT_AUTHOR_DATE` or `GIT_COMMITTER_DATE` says otherwise, and never before 1970, of which git makes no dates.
pub(in crate::git) fn identity(gix: &gix::Repository) -> Result<Identity> {
    let committer = signature(gix.committer(), "GIT_COMMITTER_DATE")?;
    let author = signature(gix.author(), "GIT_AUTHOR_DATE")?;
    let fallback = || Signature { name: FALLBACK.0.into(), email: FALLBACK.1.into(), time: Time::now_local_or_utc() };
    let committer = committer.unwrap_or_else(fallback);
    let author = author.unwrap_or_else(|| Signature { time: Time::now_local_or_utc(), ..committer.clone() });
    let from_1970 = |who: Signature| Signature { time: Time { seconds: who.time.seconds.max(0), ..who.time }, ..who };
    Ok(Identity { author: from_1970(author), committer: from_1970(committer) })
}

/// A name or an address as git writes it: without the characters that separate them in a commit, and without punctuation at
/// either end.
fn cleaned(text: &BStr) -> BString {
    let is_crud = |byte: u8| byte <= b' ' || b".,:;<>\"\\'".contains(&byte);
    let start = text.iter().position(|byte| !is_crud(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_crud(*byte)).map_or(start, |last| last + 1);
    text[start..end].iter().copied().filter(|byte| !b"<>\n".contains(byte)).collect::<Vec<u8>>().into()
}

/// gix takes the time once, when the repository is opened; that is right only where the environment sets it.
fn signature(configured: Option<gix::Result<gix::actor::SignatureRef<'_>>>, date: &str) -> Result<Option<Signature>> {
    let Some(configured) = configured else { return Ok(None) };
    let configured = configured.during("reading the identity")?;
    let time = match std::env::var_os(date) {
        Some(_) => configured.time().during("reading the identity")?,
        None => Time::now_local_or_utc(),
    };
    Ok(Some(Signature { name: cleaned(configured.name), email: cleaned(configured.email), time }))
}

const WHAT: &str = "reading a tree";

/// The entry of a commit at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Nothing.
    Missing,
    /// A folder, a link or a submodule.
    NoFile,
    /// A file of so many bytes, which are more than were asked for.
    TooLarge(u64),
    /// A file.
    File(Vec<u8>),
}

impl Objects {
    /// Reads the entry of a commit at a path. Does not read a file of more than `limit` bytes.
    pub fn read_at(&self, commit: &CommitId, path: &Path, limit: u64) -> Result<Stored> {
        let Some((mode, id)) = self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())? else {
            return Ok(Stored::Missing);
        };
        if !matches!(mode, Mode::FILE | Mode::FILE_EXECUTABLE) {
            return Ok(Stored::NoFile);
        }
        let size = self.size(id)?;
        Ok(if size > limit { Stored::TooLarge(size) } else { Stored::File(self.blob(id)?) })
    }

    /// The hexadecimal name of the file or folder that a commit has at a path: what has the same name has the same content.
    pub fn name_at(&self, commit: &CommitId, path: &Path) -> Result<Option<String>> {
        Ok(self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())?.map(|(_, id)| id.to_string()))
    }

    /// The files below a folder of a commit, relative to the repository's root and sorted; links and submodules are none.
    pub fn files_below(&self, commit: &CommitId, folder: &Path) -> Result<Vec<PathBuf>> {
        let Some((Mode::DIR, tree)) = self.entry_in(self.tree_id(commit)?, to_git(folder)?.as_ref())? else {
            return Ok(Vec::new());
        };
        let mut paths = self.paths_in(tree, |mode| mode.is_blob())?;
        paths.iter_mut().for_each(|path| *path = folder.join(&path));
        Ok(paths)
    }

    /// Returns whether a commit has a file or folder at a path.
    pub fn is_in(&self, commit: &CommitId, path: &Path) -> Result<bool> {
        Ok(self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())?.is_some())
    }

    /// The files of a commit that `is_meant` names, sorted by path; submodules are none.
    pub fn files_at(&self, commit: &CommitId, is_meant: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
        let mut paths = self.paths_at(commit, |mode| !mode.is_tree() && !mode.is_commit())?;
        paths.retain(|path| is_meant(path));
        Ok(paths)
    }

    /// The submodules of a commit, sorted by path.
    pub fn submodules_at(&self, commit: &CommitId) -> Result<Vec<PathBuf>> {
        self.paths_at(commit, EntryMode::is_commit)
    }

    fn paths_at(&self, commit: &CommitId, is_meant: impl Fn(&EntryMode) -> bool) -> Result<Vec<PathBuf>> {
        self.paths_in(self.tree_id(commit)?, is_meant)
    }

    fn paths_in(&self, tree: ObjectId, is_meant: impl Fn(&EntryMode) -> bool) -> Result<Vec<PathBuf>> {
        let found = self.read(|gix| {
            let mut found = Files::default();
            gix.find_tree(tree).during(WHAT)?.traverse().breadthfirst(&mut found).during(WHAT)?;
            Ok(found)
        })?;
        let meant = found.records.into_iter().filter(|entry| is_meant(&entry.mode));
        let mut paths: Vec<PathBuf> = meant.map(|entry| to_path(entry.filepath.as_bstr())).collect();
        paths.sort();
        Ok(paths)
    }

    /// The files that differ from `a` to `b`, sorted by path; a renamed one is deleted and added.
    pub fn changed_between(&self, a: &CommitId, b: &CommitId) -> Result<Vec<ChangedPath>> {
        self.changed_paths(&self.tree_changes(self.tree_id(a)?, self.tree_id(b)?)?)
    }

    pub(in crate::git) fn changed_paths(&self, changes: &[TreeChange]) -> Result<Vec<ChangedPath>> {
        let mut paths = Vec::new();
        for &TreeChange { ref path, old, new } in changes {
            let size = match new {
                Some((mode, id)) if mode != Mode::COMMIT => self.size(id)?,
                _ => 0,
            };
            let entry = new.or(old).map_or(EntryKind::File, |(mode, _)| EntryKind::of(mode));
            paths.push(ChangedPath { path: to_path(path.as_ref()), kind: ChangeKind::of(old, new), entry, size });
        }
        Ok(paths)
    }

    /// Returns the changes from `a` to `b` as a unified diff, as `git diff` prints it: three lines of context, renames
    /// found, `Binary files … differ` for a binary file. Ignores attributes that name a way to show a file.
    pub fn diff_text(&self, a: &CommitId, b: &CommitId) -> Result<Vec<u8>> {
        Ok(print(&self.gix, self.diff(a, b)?))
    }

    /// Returns the changes from `a` to `b`.
    pub fn diff(&self, a: &CommitId, b: &CommitId) -> Result<Diff> {
        self.diff_of_trees(self.tree_id(a)?, self.tree_id(b)?)
    }

    /// Returns the changes from one tree to another.
    pub(in crate::git) fn diff_of_trees(&self, a: ObjectId, b: ObjectId) -> Result<Diff> {
        let changes = self.tree_changes(a, b)?;
        self.read(|gix| Diff::of(gix, (a, b), &changes))
    }

    /// Returns the version of a tree at a path; `None` for a folder.
    pub(in crate::git) fn version_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<Version>> {
        Ok(self.entry_in(tree, path)?.filter(|(mode, _)| *mode != Mode::DIR))
    }

    fn entry_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<Version>> {
        self.read(|gix| {
            let tree = gix.find_tree(tree).during(WHAT)?;
            let entry = tree.lookup_entry(path.split_str("/")).during(WHAT)?;
            Ok(entry.map(|entry| (Mode::from(entry.mode()), entry.object_id())))
        })
    }

    /// The files in which two trees differ, sorted by path. A renamed file is deleted and added: gix would read the whole index
    /// to find renames.
    pub(in crate::git) fn tree_changes(&self, old: ObjectId, new: ObjectId) -> Result<Vec<TreeChange>> {
        const WHAT: &str = "comparing trees";
        if old == new {
            return Ok(Vec::new());
        }
        let found = self.read(|gix| {
            let (before, after) = (gix.find_tree(old).during(WHAT)?, gix.find_tree(new).during(WHAT)?);
            let mut found = Recorder::default();
            gix::diff::tree(entries(&before), entries(&after), State::default(), &gix.objects, &mut found)
                .during(WHAT)?;
            Ok(found)
        })?;
        let file = |mode: EntryMode, id| (!mode.is_tree()).then(|| (Mode::from(mode), id));
        let mut sides = BTreeMap::<BString, (Option<Version>, Option<Version>)>::new();
        for change in found.records {
            // A file that becomes a folder comes as one change here and one addition for each file in it.
            let (path, old, new) = match change {
                Change::Addition { path, entry_mode, oid, .. } => (path, None, file(entry_mode, oid)),
                Change::Deletion { path, entry_mode, oid, .. } => (path, file(entry_mode, oid), None),
                Change::Modification { path, previous_entry_mode, previous_oid, entry_mode, oid } => {
                    (path, file(previous_entry_mode, previous_oid), file(entry_mode, oid))
                }
            };
            if old.is_some() || new.is_some() {
                let both = sides.entry(path).or_default();
                (both.0, both.1) = (old.or(both.0), new.or(both.1));
            }
        }
        Ok(sides.into_iter().map(|(path, (old, new))| TreeChange { path, old, new }).collect())
    }

    /// Writes a tree with some files changed or removed. Adds the objects written for it, not yet synced, to `written`.
    /// A file takes the place of a folder, and a folder that of a file.
    pub(in crate::git) fn edited_tree<'a>(
        &self,
        base: ObjectId,
        changes: impl Iterator<Item = (&'a BString, Option<Version>)>,
        written: &mut Vec<ObjectId>,
    ) -> Result<ObjectId> {
        const WHAT: &str = "writing a tree";
        let (removed, set): (Vec<_>, Vec<_>) = changes.partition(|(_, version)| version.is_none());
        let (tree, new) = self.read(|gix| {
            let root = gix.find_tree(base).during(WHAT)?;
            let mut editor = Editor::new(root.decode().during(WHAT)?.into(), &gix.objects, gix.object_hash());
            for (path, _) in &removed {
                editor.remove_if_leaf(path.split_str("/").map(ByteSlice::as_bstr)).during(WHAT)?;
            }
            for (path, version) in &set {
                let Some((mode, id)) = version else { continue };
                let Some(mode) = mode.to_tree_entry_mode() else { continue };
                editor.upsert(path.split_str("/").map(ByteSlice::as_bstr), mode.kind(), *id).during(WHAT)?;
            }
            let mut new = Vec::new();
            let tree = editor.write(|tree| {
                let id = self.write(tree, WHAT)?;
                new.push(id);
                Ok::<_, GitError>(id)
            })?;
            Ok((tree, new))
        })?;
        written.extend(new);
        Ok(tree)
    }
}

fn entries<'a>(tree: &'a gix::Tree<'_>) -> TreeRefIter<'a> {
    TreeRefIter::from_bytes(&tree.data, tree.id.kind())
}
