//! Which session goes on: a typed `ar run` begins one with what the user committed after a session's last experiment, on its branch
//! or on their own. With slots, the user's working tree goes back to their own branch.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Wanted, is_taken, new_contract, put, with_axes};
use crate::crash;
use crate::domain::{
    Asked, Clock, CommitId, Contract, Drift, Follows, Layout, LedgerDialect, Tag, UserError, shell_word,
};
use crate::git::{Head, HeadTarget, Repo};
use crate::rules::{History, UnrecordedTip};
use crate::session::errors::{Adopting, CannotStart, SessionError, refuse};
use crate::session::files::{
    expected_tip, read_history, refuse_elsewhere, session_of_head, session_tags, session_there, stored_contract,
};
use crate::session::handlers::{SessionRefs, Workspace};
use crate::session::store::Store;
use crate::state::{Journal, SessionFolder, StateError, read_json, write_json};

/// Commits at the tip of an idle session's branch that are no experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserCommits {
    /// The tip.
    pub(crate) tip: CommitId,
    /// The commit that the session's next experiment would be made on.
    pub(crate) incumbent: CommitId,
    /// True if the commits are on top of the incumbent.
    pub(crate) is_on_top: bool,
}

impl UserCommits {
    /// Looks for them in a session that is measured and has nothing open: commits of a call are the agent's.
    pub(crate) fn find(repo: &Repo, stored: &Contract, journal: &Journal) -> Result<Option<UserCommits>, SessionError> {
        if journal.is_between() { UserCommits::of_idle(repo, stored) } else { Ok(None) }
    }

    /// The same for a session with nothing open.
    fn of_idle(repo: &Repo, stored: &Contract) -> Result<Option<UserCommits>, SessionError> {
        UserCommits::on(repo, stored, &read_history(repo, &stored.tag)?)
    }

    /// The same for a session with this history.
    fn on(repo: &Repo, stored: &Contract, history: &History) -> Result<Option<UserCommits>, SessionError> {
        let Some(tip) = repo.refs.branch(&stored.tag.branch_ref())? else { return Ok(None) };
        let incumbent = expected_tip(stored, history.incumbent().map(|record| &record.commit));
        if tip == incumbent || history.baseline().is_none() {
            return Ok(None);
        }
        let is_on_top = repo.objects.leads_to(&incumbent, &tip)?;
        Ok(Some(UserCommits { tip, incumbent, is_on_top }))
    }

    /// Looks for those to adopt in a session with nothing open, whose journal may be lost.
    pub(crate) fn to_adopt(
        repo: &Repo,
        stored: &Contract,
        journal: Option<&Journal>,
    ) -> Result<Option<UserCommits>, SessionError> {
        let is_busy = |journal: &Journal| journal.has_open() || journal.tree.reviewed().is_some();
        if journal.is_some_and(is_busy) { Ok(None) } else { UserCommits::of_idle(repo, stored) }
    }

    /// Says that they keep a session from continuing.
    pub(crate) fn refuse(
        &self,
        repo: &Repo,
        tag: &Tag,
        journal: Option<&Journal>,
    ) -> Result<SessionError, SessionError> {
        Ok(self.refusal(tag, &repo.objects.subject(&self.tip)?, Journal::is_lost(journal)).into())
    }

    /// The error for a newest commit with this subject. No session can begin with it where the journal `is_lost`.
    pub(crate) fn refusal(&self, tag: &Tag, subject: &str, is_lost: bool) -> UserError {
        let (branch, tip, base) = (tag.branch(), self.tip.short(8), self.incumbent.short(12));
        let back = |what: &str| {
            format!("name {what} with `git branch NAME`, then move the branch back with `git reset --keep {base}`")
        };
        let hint = match (self.is_on_top, is_lost) {
            (true, false) => {
                "run `ar run` to begin the next session with it, or `ar run --adopt` to measure it in this one"
                    .to_owned()
            }
            (true, true) => format!("run `ar run --adopt` to measure it in this session; or {}", back("it")),
            (false, _) => back("what is there"),
        };
        let text = format!("branch {branch} is at {tip}, which is not an experiment: {subject}");
        refuse(CannotStart, text).hint(hint)
    }
}

/// The error for a branch that another working tree has checked out.
pub(crate) fn checked_out_elsewhere(branch: &str, worktree: &Path) -> UserError {
    refuse(CannotStart, format!("the branch {branch} is checked out in {}", worktree.display()))
        .hint(format!("continue it there: cd {}; or start another session here with --tag", shell_word(worktree)))
}

/// The error for a branch that git does not allow beside another one.
pub(crate) fn branch_in_the_way(branch: &str, blocking: &str) -> UserError {
    let is_session = blocking.starts_with("autoresearch/") && branch.starts_with(blocking);
    let hint = match is_session {
        true => format!("{blocking} is a session's branch; choose another name with --branch or --tag"),
        false => format!("git branch -m {blocking} NEW-NAME"),
    };
    let text = format!("cannot create branch {branch}: git does not allow it beside the existing branch {blocking}");
    refuse(CannotStart, text).hint(hint)
}

/// The error for commits to adopt that are checked out nowhere here.
pub(super) fn adopted_elsewhere(branch: &str) -> UserError {
    let text = format!("cannot adopt the commits on {branch}: this working tree does not have them checked out");
    refuse(CannotStart, text).hint(format!("git switch {branch}"))
}

/// Returns whether commits of the user's keep an idle session from continuing. Unreadable data counts as no commits; the
/// code that needs it reports the error.
pub(crate) fn has_user_commits(repo: &Repo, tag: &Tag, journal: &Journal) -> bool {
    let stored = stored_contract(repo, tag).ok().flatten();
    let found = stored.and_then(|stored| UserCommits::find(repo, &stored, journal).ok().flatten());
    found.is_some_and(|commits| commits.is_on_top)
}

/// Classifies the commits at the tip of an idle session's branch that belong to no experiment, if there are any.
pub(crate) fn unrecorded_tip(
    repo: &Repo,
    stored: &Contract,
    journal: &Journal,
    history: &History,
) -> Result<Option<UnrecordedTip>, SessionError> {
    let commits = if journal.is_between() { UserCommits::on(repo, stored, history)? } else { None };
    let Some(commits) = commits else { return Ok(None) };
    let next = if commits.is_on_top { Next::find(repo, stored.clone(), None)? } else { None };
    Ok(Some(match next {
        Some(Next::Begins(successor)) => UnrecordedTip::OfUser(successor.tag),
        Some(Next::Begun(tag)) => UnrecordedTip::OfUser(tag),
        None => UnrecordedTip::Moved,
    }))
}

/// The session that a typed `ar run` uses instead of the one that it would continue.
#[derive(Debug)]
pub(crate) enum Next {
    /// A session to begin.
    Begins(Box<Successor>),
    /// A session that was begun with these commits already.
    Begun(Tag),
}

/// A session that begins with commits of the user's that another one does not have.
#[derive(Debug)]
pub(crate) struct Successor {
    tag: Tag,
    former: Contract,
    head: Head,
    /// The facts to remember about the former session, if this one begins on its branch.
    follows: Option<Follows>,
    /// True if it begins because the former session is finalized.
    after_finalized: bool,
}

impl Next {
    /// Looks for it after the session that is `known`, if that one is idle, or else that of HEAD's branch, whose next one is to
    /// have the tag `named`.
    pub(crate) fn after(
        repo: &Repo,
        known: Option<&Contract>,
        is_idle: bool,
        head: &Head,
        named: Option<&Tag>,
    ) -> Result<Option<Next>, SessionError> {
        match known {
            Some(stored) if is_idle => Next::find(repo, stored.clone(), None),
            Some(_) => Ok(None),
            None => match former_of_head(repo, head)? {
                Some((stored, Some(journal))) if journal.is_between() => Next::find(repo, stored, named.cloned()),
                _ => Ok(None),
            },
        }
    }

    /// Looks for it after an idle session.
    fn find(repo: &Repo, stored: Contract, named: Option<Tag>) -> Result<Option<Next>, SessionError> {
        let Some(commits) = UserCommits::of_idle(repo, &stored)?.filter(|it| it.is_on_top) else {
            return Ok(None);
        };
        let former = stored.tag.clone();
        let is_follower = |it: &Contract| it.follows.as_ref().is_some_and(|follows| follows.tag == former);
        let (branch, at) = stored.home();
        let follows = Follows {
            tag: former.clone(),
            incumbent: commits.incumbent,
            branch: branch.map(str::to_owned),
            at: at.clone(),
        };
        let head = Head::Branch { name: former.branch_ref(), commit: commits.tip };
        let follows = Some(follows);
        let successor = Successor { tag: former.clone(), former: stored, head, follows, after_finalized: false };
        Next::at(repo, successor, named, is_follower).map(Some)
    }

    /// Finds the next session if HEAD is outside session branches. Requires that the session to continue lacks HEAD's
    /// commits, or is finalized and has slots.
    pub(crate) fn on_own_branch(
        repo: &Repo,
        stored: &Contract,
        is_idle: bool,
        head: &Head,
        wanted: &Wanted,
    ) -> Result<Option<Next>, SessionError> {
        let Some(commit) = head.commit().filter(|_| is_idle) else { return Ok(None) };
        let history = read_history(repo, &stored.tag)?;
        let incumbent = expected_tip(stored, history.incumbent().map(|record| &record.commit));
        if history.baseline().is_none() {
            return Ok(None);
        }
        // If the session already has the commits, another one begins only after its end.
        let has_commits = repo.objects.leads_to(commit, &incumbent)?;
        if has_commits && !is_over_on_slots(repo, wanted, stored)? {
            return Ok(None);
        }
        let (tag, former, head) = (stored.tag.clone(), stored.clone(), head.clone());
        let successor = Successor { tag, former, head, follows: None, after_finalized: has_commits };
        let is_wanted = |it: &Contract| {
            let is_same = !has_commits || Drift::all(stored, it).is_empty();
            is_same && !it.imported && !is_over_on_slots(repo, wanted, it).unwrap_or(false)
        };
        Next::at(repo, successor, None, is_wanted).map(Some)
    }

    /// The session that began at its HEAD already and is wanted, or the successor with a free tag, or the one that is `named`.
    fn at(
        repo: &Repo,
        successor: Successor,
        named: Option<Tag>,
        is_wanted: impl Fn(&Contract) -> bool,
    ) -> Result<Next, SessionError> {
        // A session that was killed while it was opened may have neither branch nor record.
        let (free, taken) = free_tag_after(repo, &successor.former.tag)?;
        for tag in session_tags(repo)?.into_iter().chain(taken) {
            let begun = stored_contract(repo, &tag)?.filter(|it| Some(&it.start) == successor.head.commit());
            if begun.is_some_and(|begun| is_wanted(&begun)) {
                return Ok(Next::Begun(tag));
            }
        }
        Ok(Next::Begins(Box::new(Successor { tag: named.unwrap_or(free), ..successor })))
    }
}

impl Successor {
    /// Its tag.
    pub(crate) fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The slots of the session before, where it is to have the same.
    pub(crate) fn layout(&self, repo: &Repo) -> Option<Layout> {
        layout_before(repo, &self.former.tag).filter(|_| self.after_finalized)
    }

    /// The HEAD on which it begins.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// The notice that the session began.
    pub(crate) fn notice(&self) -> String {
        let (tag, former) = (&self.tag, &self.former.tag);
        let branch = self.head.branch();
        if self.after_finalized {
            let from = branch.map(|branch| format!(" from {}", branch.trim_start_matches("refs/heads/")));
            let from = from.unwrap_or_default();
            return format!("began session {tag}{from} by the settings of session {former}, which is finalized");
        }
        match (&self.follows, branch) {
            (Some(_), _) => {
                let branch = former.branch();
                format!("began session {tag} with your commits on {branch}; session {former} stays as it was")
            }
            (None, Some(branch)) => {
                let branch = branch.trim_start_matches("refs/heads/");
                format!("began session {tag} with your commits on {branch}, which session {former} does not have")
            }
            (None, None) => format!("began session {tag} with your commits, which session {former} does not have"),
        }
    }

    /// Its terms: those of flags and `ar.toml`, as for any new session. Without a metric there, they change those of the
    /// session before; its agent stays where none is named.
    pub(crate) fn contract(
        &self,
        repo: &Repo,
        wanted: &Wanted,
        dialect: Option<LedgerDialect>,
        clock: Clock,
    ) -> Result<Contract, SessionError> {
        let former = &self.former;
        let mut asked = wanted.all();
        if asked.metric.is_none() {
            asked.metric = Some(former.metric.name.clone());
            asked.source = asked.source.or_else(|| Some(former.metric.source.clone()));
            asked.command = asked.command.or_else(|| Some(former.command.clone()));
            let begun = self.contract_here(repo, &asked, dialect, clock)?;
            let kept = Contract {
                tag: begun.tag,
                start: begun.start,
                started_from: begun.started_from,
                created: begun.created,
                ..former.clone()
            };
            return Ok(Contract { follows: self.follows.clone(), ..put(&asked, kept) });
        }
        asked.command = asked.command.or_else(|| Some(former.command.clone()));
        let begun = self.contract_here(repo, &asked, dialect, clock)?;
        let (agent, agent_preset) = match asked.agent {
            Some(_) => (begun.agent.clone(), begun.agent_preset.clone()),
            None => (former.agent.clone(), former.agent_preset.clone()),
        };
        Ok(Contract { agent, agent_preset, follows: self.follows.clone(), ..begun })
    }

    /// The new contract at HEAD; an unchanged metric keeps its direction.
    fn contract_here(
        &self,
        repo: &Repo,
        asked: &Asked,
        dialect: Option<LedgerDialect>,
        clock: Clock,
    ) -> Result<Contract, SessionError> {
        let is_same = asked.metric.as_ref() == Some(&self.former.metric.name);
        let direction = asked.direction.or(Some(self.former.metric.direction).filter(|_| is_same));
        let asked = Asked { direction, ..asked.clone() };
        new_contract(repo, Some(self.tag.clone()), &asked, &self.head, dialect, clock)
    }
}

/// Brings the branch of the session before back to its incumbent, now that this one is measured and holds the user's
/// commits. A branch that somebody has moved, checked out or is using stays.
pub(crate) fn leave_former_branch(repo: &Repo, contract: &Contract) -> Result<(), SessionError> {
    let Some(Follows { tag, incumbent, .. }) = contract.follows.clone() else { return Ok(()) };
    let branch = tag.branch_ref();
    let is_here = matches!(repo.refs.head()?, Head::Branch { name, .. } if name == branch);
    if repo.refs.branch(&branch)?.as_ref() != Some(&contract.start)
        || is_here
        || repo.refs.checked_out_elsewhere(&branch)?.is_some()
    {
        return Ok(());
    }
    let folder = SessionFolder::new(repo.main_worktree(), &tag);
    folder.create()?;
    let _lock = match folder.lock(repo.git_dir(), false) {
        Ok(lock) => lock,
        Err(StateError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if refuse_elsewhere(&folder, false).is_err() {
        return Ok(());
    }
    let why = format!("its commits begin session {}", contract.tag);
    SessionRefs { repo, tag: &tag }.move_branch(&contract.start, &incumbent, &why)?;
    crash::point("next.former_left");
    Ok(())
}

/// The contract of the session whose branch is checked out: the next commit there begins another one. `None` also if it is
/// unreadable; the code that needs it reports the error.
pub fn session_checked_out(repo: &Repo) -> Option<Contract> {
    let (contract, _) = former_of_head(repo, &repo.refs.head().ok()?).ok().flatten()?;
    Some(contract).filter(|contract| !contract.imported)
}

/// The session of HEAD's branch, for a typed `ar run` that names one which is not there.
pub(crate) fn former_of_head(repo: &Repo, head: &Head) -> Result<Option<(Contract, Option<Journal>)>, SessionError> {
    let Some(tag) = session_of_head(head) else { return Ok(None) };
    // The code that needs another session's data reports read errors.
    let Some(contract) = stored_contract(repo, &tag).ok().flatten() else { return Ok(None) };
    let journal = Journal::read(&SessionFolder::new(repo.main_worktree(), &tag).state()).ok().flatten();
    Ok(Some((contract, journal)))
}

/// The first free tag behind that of a session, `s-2` and then `s-3`, and those behind it that are taken.
fn free_tag_after(repo: &Repo, tag: &Tag) -> Result<(Tag, Vec<Tag>), SessionError> {
    let (mut trouble, mut taken) = (None, Vec::new());
    let is_known = |tag: &Tag| {
        let is_known = is_taken(repo, tag).unwrap_or_else(|error| {
            trouble = Some(error);
            false
        });
        taken.extend(is_known.then(|| tag.clone()));
        is_known
    };
    let free = tag.next(is_known);
    trouble.map_or(Ok((free, taken)), Err)
}

/// The file in the state folder that says where `ar finalize` put what was kept.
const FINALIZED: &str = "finalized.json";

/// The branch that `ar finalize` created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FinalizedBranch {
    /// The branch, as a full ref name.
    branch: String,
    /// The incumbent of the session at that time.
    incumbent: CommitId,
}

/// Notes that a branch has what a session kept, up to its incumbent.
pub(crate) fn note_finalized(folder: &SessionFolder, branch: &str, incumbent: &CommitId) -> Result<(), StateError> {
    let finalized = FinalizedBranch { branch: branch.to_owned(), incumbent: incumbent.clone() };
    write_json(&folder.state().join(FINALIZED), &finalized)
}

/// Returns whether a branch contains everything that a session kept.
fn is_finalized(repo: &Repo, contract: &Contract) -> Result<bool, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), &contract.tag);
    let Some(finalized) = read_json::<FinalizedBranch>(&folder.state().join(FINALIZED))? else { return Ok(false) };
    let history = read_history(repo, &contract.tag)?;
    let incumbent = expected_tip(contract, history.incumbent().map(|record| &record.commit));
    Ok(finalized.incumbent == incumbent && repo.refs.has_ref(&finalized.branch)?)
}

/// Returns whether a typed `ar run` with slots must not continue this session, because a branch contains all that it kept.
pub(crate) fn is_over_on_slots(repo: &Repo, wanted: &Wanted, contract: &Contract) -> Result<bool, SessionError> {
    Ok(has_slots(repo, wanted, &contract.tag) && is_finalized(repo, contract)?)
}

/// Returns whether a session has slots, or is to get some.
fn has_slots(repo: &Repo, wanted: &Wanted, tag: &Tag) -> bool {
    wanted.all().layout(None).is_some() || layout_before(repo, tag).is_some()
}

/// The slots that a session had last.
pub(crate) fn layout_before(repo: &Repo, tag: &Tag) -> Option<Layout> {
    let state = SessionFolder::new(repo.main_worktree(), tag).state();
    Journal::read(&state).ok().flatten()?.layout
}

/// Returns whether a session's contract matches the requested terms.
pub(crate) fn has_terms(contract: &Contract, asked: &Asked) -> bool {
    let asked = put(asked, contract.clone());
    with_axes(asked).is_ok_and(|(asked, _)| Drift::all(contract, &asked).is_empty())
}

/// The newest session, where a typed `ar run` with slots continues it: it began at the very commit that HEAD's branch is at,
/// is not finalized, and has the terms that are asked for.
pub(crate) fn session_begun_here(repo: &Repo, wanted: &Wanted, head: &Head) -> Result<Option<Tag>, SessionError> {
    let Some(tag) = session_there(repo)? else { return Ok(None) };
    let Some(contract) = stored_contract(repo, &tag)?.filter(|contract| !contract.imported) else { return Ok(None) };
    let begun_here = match head {
        Head::Branch { name, commit } => contract.home() == (Some(name.as_str()), commit),
        Head::Detached { .. } | Head::Unborn { .. } => false,
    };
    if !begun_here || !has_slots(repo, wanted, &tag) || is_finalized(repo, &contract)? {
        return Ok(None);
    }
    Ok(has_terms(&contract, &wanted.all()).then_some(tag))
}

/// The branch to which the user's working tree goes back, so that a session can go on in slots whose branch, or the one
/// before it, is checked out; `None` where neither is, or where the branch is gone or used elsewhere. If it was begun, a kill
/// may have left it half done.
pub(crate) fn way_home(
    repo: &Repo,
    contract: &Contract,
    head: &Head,
    dirty: &[PathBuf],
    was_begun: bool,
) -> Result<Option<String>, SessionError> {
    let Head::Branch { name, .. } = head else { return Ok(None) };
    let former = contract.follows.as_ref().map(|follows| follows.tag.branch_ref());
    if *name != contract.tag.branch_ref() && Some(name) != former.as_ref() {
        return Ok(None);
    }
    if !dirty.is_empty() && !was_begun {
        return Err(SessionError::Dirty { paths: dirty.to_vec(), adopting: Adopting::Nowhere });
    }
    let Some(branch) = contract.home().0.map(str::to_owned) else { return Ok(None) };
    let is_there = repo.refs.branch(&branch)?.is_some() && repo.refs.checked_out_elsewhere(&branch)?.is_none();
    Ok(is_there.then_some(branch))
}

/// Switches the user's working tree back to their branch.
pub(crate) fn go_home(
    workspace: &mut Workspace,
    store: &mut Store,
    branch: Option<String>,
) -> Result<(), SessionError> {
    let at = match &branch {
        Some(branch) => store.repo.refs.branch(branch)?,
        None => None,
    };
    if let (Some(branch), Some(at)) = (branch, at) {
        store.journal.tree.go_home(Some(branch.clone()));
        store.write_journal()?;
        crash::point("home.noted");
        let head = workspace.repo.refs.head()?;
        workspace.restore(store, &at, head.commit().unwrap_or(&at))?;
        crash::point("home.put_back");
        workspace.point_head(&HeadTarget::Branch(branch))?;
        crash::point("home.head_pointed");
    }
    store.journal.tree.go_home(None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_that_no_session_can_use_are_refused_with_a_way_out() {
        let path = Path::new("a b/c");
        let tag: Tag = "t".parse().unwrap();
        let commits =
            |is_on_top| UserCommits { tip: CommitId::new("1234"), incumbent: CommitId::new("5678"), is_on_top };
        let tip = |is_on_top, is_lost| commits(is_on_top).refusal(&tag, "mine", is_lost);
        for (error, text, hint) in [
            (
                branch_in_the_way("autoresearch/t/x", "autoresearch/t"),
                "cannot create branch autoresearch/t/x: git does not allow it beside the existing branch autoresearch/t",
                "autoresearch/t is a session's branch; choose another name with --branch or --tag",
            ),
            (
                branch_in_the_way("a/x", "a"),
                "cannot create branch a/x: git does not allow it beside the existing branch a",
                "git branch -m a NEW-NAME",
            ),
            (
                adopted_elsewhere("main"),
                "cannot adopt the commits on main: this working tree does not have them checked out",
                "git switch main",
            ),
            (
                checked_out_elsewhere("autoresearch/t", path),
                "the branch autoresearch/t is checked out in a b/c",
                "continue it there: cd 'a b/c'; or start another session here with --tag",
            ),
            (
                tip(true, true),
                "branch autoresearch/t is at 1234, which is not an experiment: mine",
                "run `ar run --adopt` to measure it in this session; or name it with `git branch NAME`, then move the \
                 branch back with `git reset --keep 5678`",
            ),
            (
                tip(true, false),
                "branch autoresearch/t is at 1234, which is not an experiment: mine",
                "run `ar run` to begin the next session with it, or `ar run --adopt` to measure it in this one",
            ),
            (
                tip(false, true),
                "branch autoresearch/t is at 1234, which is not an experiment: mine",
                "name what is there with `git branch NAME`, then move the branch back with `git reset --keep 5678`",
            ),
        ] {
            assert_eq!(
                (error.kind, error.to_string().as_str(), error.hint.as_deref()),
                (CannotStart, text, Some(hint))
            );
        }
    }
}
