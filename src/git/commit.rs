//! Writing commits.

use gix::ObjectId;

use super::identity::Identity;
use super::path::{commit_id, object_id};
use super::programs::Program;
use super::{GitError, Proposal, Repo, Result, Untracked, refs, sync};
use crate::crash;
use crate::domain::CommitId;
use crate::fs::Unsynced;

impl Repo {
    /// Commits a proposal on `parent`; refs and index are as before. The message is taken as it is, with a line break
    /// at its end. Hooks do not run; the commit is signed where `commit.gpgSign` asks for it. When this returns, the
    /// commit is on disk with all that belongs to it.
    pub fn commit(&self, proposal: &Proposal, parent: &CommitId, message: &str) -> Result<CommitId> {
        let (commit, unsynced) = self.commit_unsynced(proposal, parent, message)?;
        sync::now(unsynced)?;
        Ok(commit)
    }

    /// Does the same, and gives what is to be synced before anything leads to the commit.
    pub fn commit_unsynced(
        &self,
        proposal: &Proposal,
        parent: &CommitId,
        message: &str,
    ) -> Result<(CommitId, Unsynced)> {
        let id = self.write_commit(proposal.tree, vec![object_id(parent)?], message, true)?;
        crash::point("git.commit_unsynced");
        Ok((commit_id(id), self.unsynced_objects(proposal.written.iter().copied().chain([id]))))
    }

    /// What is to be synced before anything leads to a commit of a proposal that somebody else made.
    pub fn unsynced_commit(&self, proposal: &Proposal, commit: &CommitId) -> Result<Unsynced> {
        Ok(self.unsynced_objects(proposal.written.iter().copied().chain([object_id(commit)?])))
    }

    /// Commits the tree of another commit on `parent`, as [`Repo::commit`] does.
    pub fn commit_tree_of(&self, content: &CommitId, parent: &CommitId, message: &str) -> Result<CommitId> {
        let id = self.write_commit(self.tree_id(content)?, vec![object_id(parent)?], message, true)?;
        self.sync_objects([id])?;
        Ok(commit_id(id))
    }

    /// Commits everything that is in the working tree of a repository without a commit, on its branch.
    pub fn commit_first(&self, message: &str) -> Result<CommitId> {
        let super::Head::Unborn { name } = self.head()? else {
            return Err(GitError::RefExists("HEAD".to_owned()));
        };
        let proposal = self.propose_on(self.gix.empty_tree().id, &Untracked::default())?;
        let id = self.write_commit(proposal.tree, Vec::new(), message, true)?;
        self.sync_objects(proposal.written.iter().copied().chain([id]))?;
        let why = format!("commit (initial): {}", message.lines().next().unwrap_or_default());
        self.create_through_head(refs::full_name(&name)?, id, &why)?;
        self.adopt_index(proposal)?;
        Ok(commit_id(id))
    }

    /// Writes a commit object, not yet synced.
    pub(super) fn write_commit(
        &self,
        tree: ObjectId,
        parents: Vec<ObjectId>,
        message: &str,
        may_sign: bool,
    ) -> Result<ObjectId> {
        let identity = self.identity()?;
        let mut message = message.to_owned();
        if !message.ends_with('\n') {
            message.push('\n');
        }
        let commit = gix::objs::Commit {
            tree,
            parents: parents.into(),
            author: identity.author,
            committer: identity.committer,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        };
        let commit = if may_sign { self.signed(commit)? } else { commit };
        let id = self.write_object(&commit, "writing a commit")?;
        self.commits.note(id, tree);
        Ok(id)
    }

    /// Leaves commits unsigned, whatever the configuration asks for.
    pub fn sign_nothing(&self) {
        self.signs.set(false);
    }

    /// Fails if commits have to be signed and cannot be. Writes nothing.
    pub fn check_signing(&self) -> Result<()> {
        let Identity { author, committer } = self.identity()?;
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
        let call = self.call(Program::Signing);
        call.begin();
        let options = self.gix.commit_signing_options_if_enabled().map_err(signing);
        let signed = options.and_then(|options| match options {
            Some(options) => commit.sign(options).map_err(signing),
            None => Ok(commit),
        });
        call.check(signed)
    }
}
