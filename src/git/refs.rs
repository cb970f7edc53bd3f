//! Refs: reading, creating, moving and deleting them, and naming commits.

use std::path::PathBuf;
use std::time::Duration;

use gix::bstr::ByteSlice;
use gix::lock::acquire::Fail;
use gix::refs::file::transaction::PackedRefs;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{FullName, Target};

use super::error::During;
use super::path::{commit_id, object_id};
use super::ref_guard::RefGuard;
use super::{GitError, Repo, Result};
use crate::crash;
use crate::domain::CommitId;

/// Checks a full ref name.
pub(super) fn full_name(name: &str) -> Result<FullName> {
    FullName::try_from(name).map_err(|source| GitError::NotFound { spec: name.to_owned(), source: Some(source.into()) })
}

/// How often refs are changed or listed before it is given up.
pub(super) const TRIES: u32 = 5;

/// How long a lock of refs that are made at once is waited for: 1 s, what git waits for its packed refs.
pub(super) const LOCK_WAIT: Fail = Fail::AfterDurationWithBackoff(Duration::from_secs(1));

/// How long is waited before it is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

impl Repo {
    /// Where a ref leads to, by its full name.
    pub fn branch(&self, full: &str) -> Result<Option<CommitId>> {
        let name = full_name(full)?;
        if !self.common_dir().join(full).exists() {
            self.refresh_packed_refs()?;
        }
        let Some(mut reference) = self.gix.try_find_reference(name.as_ref()).during("reading a ref")? else {
            return Ok(None);
        };
        match reference.target().try_id() {
            Some(id) if self.commits.tree(id.to_owned()).is_some() => Ok(Some(commit_id(id))),
            _ => Ok(Some(commit_id(reference.peel_to_id().during("reading a ref")?))),
        }
    }

    /// Whether there is a ref of that full name, whatever it leads to.
    pub fn has_ref(&self, full: &str) -> Result<bool> {
        if self.common_dir().join(full).is_file() {
            return Ok(true);
        }
        self.refresh_packed_refs()?;
        Ok(self.gix.try_find_reference(full_name(full)?.as_ref()).during("reading a ref")?.is_some())
    }

    /// Creates a ref at `at`, with a reflog where git keeps one; [`GitError::RefExists`] when there is one.
    pub fn create_branch(&self, branch: &str, at: &CommitId, why: &str) -> Result<()> {
        if self.branch(branch)?.is_some() {
            return Err(GitError::RefExists(branch.to_owned()));
        }
        let edit = RefEdit::update(full_name(branch)?, object_id(at)?, PreviousValue::MustNotExist, why);
        self.edit_refs([edit])?;
        self.sync_ref(branch)
    }

    /// The full ref name of a branch; [`GitError::BranchName`] when git would refuse it, also for a start that reads as an
    /// option.
    pub fn branch_ref(&self, short: &str) -> Result<String> {
        let full = format!("refs/heads/{short}");
        match FullName::try_from(full.as_str()) {
            Ok(_) if !short.starts_with('-') && short != "HEAD" => Ok(full),
            _ => Err(GitError::BranchName(short.to_owned())),
        }
    }

    /// A branch that keeps another one from being made, as git stores a branch `a` as the file and `a/b` in the folder `a`.
    pub fn branch_in_the_way(&self, short: &str) -> Result<Option<String>> {
        for (slash, _) in short.match_indices('/') {
            if self.branch(&self.branch_ref(&short[..slash])?)?.is_some() {
                return Ok(Some(short[..slash].to_owned()));
            }
        }
        let below = self.refs_under(&self.branch_ref(short)?)?;
        Ok(below.first().map(|(name, _)| name.trim_start_matches("refs/heads/").to_owned()))
    }

    /// Gives the unborn branch that `HEAD` is on its first commit, with a line in both reflogs.
    pub(super) fn create_through_head(&self, branch: FullName, at: gix::ObjectId, why: &str) -> Result<()> {
        let edit = RefEdit::update(full_name("HEAD")?, at, PreviousValue::MustNotExist, why).with_deref(true);
        self.edit_refs([edit])?;
        self.sync_ref(&branch.as_bstr().to_string())
    }

    /// Deletes a ref that stands at `at`; [`GitError::RefMoved`] when it stands elsewhere.
    pub fn delete_branch(&self, branch: &str, at: &CommitId) -> Result<()> {
        self.expect(branch, Some(at))?;
        let expected = PreviousValue::MustExistAndMatch(Target::Object(object_id(at)?));
        self.edit_refs([RefEdit::delete(full_name(branch)?, expected)])
            .map_err(|err| self.moved_meanwhile(branch, at, err))?;
        self.sync_ref(branch)
    }

    /// Moves a branch from one commit to another, forwards or back, with a line in its reflog, and in that of `HEAD`
    /// when it is on the branch. [`GitError::RefMoved`] when the branch does not stand at `from`.
    pub fn advance(&self, branch: &str, from: &CommitId, to: &CommitId, why: &str) -> Result<()> {
        let on_branch = self.head_branch()?.as_deref() == Some(branch);
        let edit = RefEdit {
            change: Change::Update {
                log: LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: why.into() },
                expected: PreviousValue::MustExistAndMatch(Target::Object(object_id(from)?)),
                new: Target::Object(object_id(to)?),
            },
            name: full_name(if on_branch { "HEAD" } else { branch })?,
            deref: on_branch,
        };
        self.edit_refs([edit]).map_err(|err| self.moved_meanwhile(branch, from, err))?;
        self.sync_ref(branch)
    }

    /// The commit that a revision names: a hash or the start of one, a ref, `HEAD~1` …
    pub fn resolve(&self, spec: &str) -> Result<CommitId> {
        let not_found = |source: gix::Error| GitError::NotFound { spec: spec.to_owned(), source: Some(source.into()) };
        let id = self.gix.rev_parse_single(spec).map_err(not_found)?;
        let commit = id.object().and_then(|object| object.peel_to_commit()).map_err(not_found)?;
        Ok(commit_id(commit.id))
    }

    /// The commit whose name starts with `digits`, hexadecimal ones; nothing where there is none, or several objects do.
    pub fn commit_starting(&self, digits: &str) -> Option<CommitId> {
        let prefix = gix::hash::Prefix::from_hex(digits).ok()?;
        let id = self.gix.objects.lookup_prefix(prefix, None).ok()??.ok()?;
        let commit = commit_id(id);
        self.has_commit(&commit).then_some(commit)
    }

    /// The tree of a commit, as its full hexadecimal name.
    pub fn tree_of(&self, commit: &CommitId) -> Result<String> {
        Ok(self.tree_id(commit)?.to_string())
    }

    /// The parents of a commit, the first one first.
    pub fn parents(&self, commit: &CommitId) -> Result<Vec<CommitId>> {
        let commit = self.find_commit(commit)?;
        Ok(commit.parent_ids().map(commit_id).collect())
    }

    /// Whether `commit` is `other` or one of its ancestors; not where a history that is not whole does not show it.
    pub fn leads_to(&self, commit: &CommitId, other: &CommitId) -> Result<bool> {
        let commit = object_id(commit)?;
        let other = object_id(other)?;
        Ok(commit == other
            || self.gix.merge_base(commit, other).is_ok_and(|base| base.is_some_and(|base| base == commit)))
    }

    /// The subject of a commit: its message up to the first empty line, on one line.
    pub fn subject(&self, commit: &CommitId) -> Result<String> {
        let commit = self.find_commit(commit)?;
        let message = commit.message().during("reading a commit")?;
        Ok(message.summary().to_str_lossy().into_owned())
    }

    pub(super) fn find_commit(&self, commit: &CommitId) -> Result<gix::Commit<'_>> {
        self.gix
            .find_commit(object_id(commit)?)
            .map_err(|source| GitError::NotFound { spec: commit.to_string(), source: Some(source.into()) })
    }

    pub(super) fn tree_id(&self, commit: &CommitId) -> Result<gix::ObjectId> {
        let id = object_id(commit)?;
        if let Some(tree) = self.commits.tree(id) {
            return Ok(tree);
        }
        let tree = self.find_commit(commit)?.tree_id().during("reading a commit")?.detach();
        self.commits.note(id, tree);
        Ok(tree)
    }

    /// Carries out changes of refs as the committer. Somebody who packs refs meanwhile takes their files away, and what was
    /// read of the packed ones before is old: then it is tried again.
    pub(super) fn edit_refs(&self, edits: impl IntoIterator<Item = RefEdit>) -> Result<()> {
        self.carry_out(edits, false)
    }

    /// Makes many new refs in one step, by one rename of the file of packed refs: all of them are there, or none is.
    pub(super) fn edit_refs_at_once(&self, edits: impl IntoIterator<Item = RefEdit>) -> Result<()> {
        self.carry_out(edits, true)
    }

    fn carry_out(&self, edits: impl IntoIterator<Item = RefEdit>, at_once: bool) -> Result<()> {
        let committer = self.identity()?.committer;
        let mut time = gix::date::parse::TimeBuf::default();
        let committer = committer.to_ref(&mut time);
        let edits: Vec<RefEdit> = edits.into_iter().collect();
        for tries in 1.. {
            let _guard = RefGuard::begin(self.git_dir(), &self.locks_of(&edits)?)?;
            crash::point("git.locks_named");
            let objects = Box::new(&self.gix.objects);
            let edited = match at_once {
                true => self
                    .gix
                    .refs
                    .transaction()
                    .packed_refs(PackedRefs::DeletionsAndNonSymbolicUpdatesRemoveLooseSourceReference(objects))
                    .prepare(edits.clone(), LOCK_WAIT, LOCK_WAIT)
                    .and_then(|prepared| prepared.commit(Some(committer))),
                false => self.gix.edit_references_as(edits.clone(), Some(committer)),
            };
            match edited {
                Ok(_) => break,
                Err(err) if tries == TRIES => return Err(err).during("updating refs"),
                Err(_) => {
                    std::thread::sleep(PAUSE);
                    self.refresh_packed_refs()?;
                }
            }
        }
        crash::point("git.ref_moved");
        // What the refs lead to may have been pruned before they did.
        self.rewrite_lost()
    }

    /// Forgets what was read of the packed refs: a ref whose file is gone may have been packed in the same moment.
    pub(super) fn refresh_packed_refs(&self) -> Result<()> {
        if !self.common_dir().join("packed-refs").exists() {
            return Ok(());
        }
        self.gix.refs.force_refresh_packed_buffer().during("reading the packed refs")
    }

    /// The lock files that a change of refs makes.
    fn locks_of(&self, edits: &[RefEdit]) -> Result<Vec<PathBuf>> {
        let lock = |name: &str| {
            let folder = if name == "HEAD" { self.git_dir() } else { self.common_dir() };
            folder.join(format!("{name}.lock"))
        };
        // Packed refs are locked for whatever has to be looked up or removed there.
        let mut locks = vec![lock("packed-refs")];
        for edit in edits {
            locks.push(lock(&edit.name.as_bstr().to_str_lossy()));
            if edit.deref
                && let Some(branch) = self.head_branch()?
            {
                locks.push(lock(&branch));
            }
        }
        Ok(locks)
    }

    fn expect(&self, name: &str, expected: Option<&CommitId>) -> Result<()> {
        let found = self.branch(name)?;
        if found.as_ref() == expected {
            return Ok(());
        }
        Err(GitError::RefMoved { name: name.to_owned(), expected: expected.cloned(), found })
    }

    /// Tells a lost race for a ref from any other failure.
    fn moved_meanwhile(&self, name: &str, expected: &CommitId, err: GitError) -> GitError {
        self.expect(name, Some(expected)).err().unwrap_or(err)
    }
}
