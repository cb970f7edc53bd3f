//! Commits: reading, writing and signing them.

use gix::ObjectId;
use gix::bstr::ByteSlice;

use super::identity::{Identity, identity};
use super::merge::{Merged, MergedTree, merge};
use super::store::Objects;
use crate::domain::CommitId;
use crate::git::error::{During, GitError, Result};
use crate::git::path::{commit_id, object_id};
use crate::git::programs::Program;

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
        let commit = self.commit_of(tree, parents, message)?;
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
        let mut commit = self.commit_of(tree, parents, message)?;
        commit.extra_headers.extend(header.map(|header| (header.name.into(), header.value.into())));
        self.write(&commit, "writing a commit")
    }

    fn commit_of(&self, tree: ObjectId, parents: Vec<ObjectId>, message: &str) -> Result<gix::objs::Commit> {
        let Identity { author, committer } = identity(&self.gix)?;
        let (parents, message) = (parents.into(), with_line_end(message).into());
        Ok(gix::objs::Commit { tree, parents, author, committer, encoding: None, message, extra_headers: Vec::new() })
    }

    /// Leaves commits unsigned, whatever the configuration asks for.
    pub fn sign_nothing(&self) {
        self.signs.set(false);
    }

    /// Fails if commits have to be signed and cannot be. Writes nothing.
    pub fn check_signing(&self) -> Result<()> {
        let Identity { author, committer } = identity(&self.gix)?;
        let (message, tree) = ("a test signature".into(), self.gix.empty_tree().id);
        let (parents, extra_headers) = (Vec::new().into(), Vec::new());
        self.signed(gix::objs::Commit { tree, parents, author, committer, encoding: None, message, extra_headers })
            .map(drop)
    }

    /// The commit with a signature, where the configuration asks for one. The signing program is a child of this process.
    fn signed(&self, commit: gix::objs::Commit) -> Result<gix::objs::Commit> {
        if !self.signs.get() || !self.gix.config_snapshot().boolean("commit.gpgSign").unwrap_or(false) {
            return Ok(commit);
        }
        let signing = |source: gix::Error| GitError::Signing(source.into());
        let call = self.programs.call(Program::Signing);
        call.begin();
        let options = self.gix.commit_signing_options_if_enabled().map_err(signing);
        let signed = options.and_then(|options| match options {
            Some(options) => commit.sign(options).map_err(signing),
            None => Ok(commit),
        });
        call.check(signed)
    }
}

/// A message with a line break at its end, as git stores it.
pub(super) fn with_line_end(message: &str) -> String {
    format!("{message}{}", if message.ends_with('\n') { "" } else { "\n" })
}
