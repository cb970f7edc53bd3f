//! What a call of `ar run` or `ar try` is going to do, worked out before anything is changed on disk.

use std::fs;
use std::path::{Path, PathBuf};

use super::artifacts::refuse_artifacts;
use super::axes_error::AxesError;
use super::choosing::find_session;
use super::conventions::Conventions;
use super::error::SessionError;
use super::hazards::{Surveyed, plain_links};
use super::headings::missing_headings;
use super::home::{session_begun_here, way_home};
use super::next_session::{Next, UserCommits};
use super::nights::{continued_notice, settle_caps};
use super::others::has_job;
use super::own_files::OWN_FILES;
use super::placing::{
    Placing, dirty_notice, layout_lines, layout_of, refuse_in_the_way, refuse_lost, refuse_own_tree, unfinished_beside,
};
use super::programs::check_command;
use super::reading::{
    lost_records, read_history, record_id, refuse_changed, session_of_head, session_tags, stored_contract,
};
use super::research::with_research;
use super::room::refuse_full;
use super::terms::{Wanted, continue_contract, lines_passed_over, new_contract, with_axes};
use super::watchdog::watch_programs;
use crate::agent::{reports, tells_rounds};
use crate::domain::{Clock, Contract, ExperimentId, Home, Layout, Tag, list, with_causes};
use crate::git::{Changes, Head, Repo};
use crate::ledger::LedgerFile;
use crate::measure::Scanner;
use crate::rules::{
    Driver, FileTerms, GpuSlot, History, LoopCall, Tonight, cadence_warning, gaps, idle_limits, is_research,
    named_files, within,
};
use crate::state::{Journal, SESSIONS_FOLDER, SessionFolder, StateError, refuse_held};

/// The file of settings in the root of the working tree, which is the user's alone.
pub const SETTINGS_FILE: &str = "ar.toml";

/// Who makes the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// The loop calls the agent; the working tree must be clean, or its change be adopted as the first experiment.
    Loop {
        /// Whether it is adopted.
        adopt: bool,
        /// How it was started.
        call: LoopCall,
    },
    /// The change is in the working tree, or was and its run is waited for.
    WorkingTree {
        /// Whether a run is waited for.
        resume: bool,
    },
    /// Nobody makes any: the run that goes on is ended. Nothing of what a run needs is asked for.
    Ending,
}

impl Drive {
    /// The loop of `ar resume`, or of a session that is opened again.
    pub const RESUMED: Drive = Drive::Loop { adopt: false, call: LoopCall::Resumed };

    /// The loop of a typed `ar run`.
    pub const TYPED: Drive = Drive::Loop { adopt: false, call: LoopCall::Typed };

    /// Who makes the changes; nobody where a run is ended.
    pub(super) fn driver(self) -> Option<Driver> {
        match self {
            Drive::Loop { .. } => Some(Driver::Loop),
            Drive::WorkingTree { .. } => Some(Driver::Hand),
            Drive::Ending => None,
        }
    }

    /// Whether it adopts a change.
    pub(super) fn adopts(self) -> bool {
        matches!(self, Drive::Loop { adopt: true, .. })
    }
}

/// A session that can be started or continued; nothing has been changed on disk yet.
#[derive(Debug)]
pub struct Plan {
    pub(super) repo: Repo,
    pub(super) folder: SessionFolder,
    pub(super) contract: Contract,
    pub(super) file_terms: FileTerms,
    pub(super) ledger: LedgerFile,
    pub(super) clock: Clock,
    pub(super) drive: Drive,
    /// What a loop asks of its night.
    pub(super) tonight: Option<Tonight>,
    /// The user's branch to which their working tree is switched back first.
    pub(super) home: Option<String>,
    pub(super) continued: bool,
    pub(super) notices: Vec<String>,
    /// Files that are no part of any change: they grow on their own, or are links in the working trees of slots.
    pub(super) left_out: Vec<PathBuf>,
    /// Where experiments are made and run beside the user's working tree; absent *in place*.
    pub(super) layout: Option<Layout>,
    /// The GPUs of each slot; empty where they are not divided among slots.
    pub(super) gpus: Vec<GpuSlot>,
}

impl Plan {
    /// Looks at the repository and at what is asked, and refuses what cannot work.
    pub fn new(repo: Repo, wanted: &Wanted, drive: Drive, clock: Clock) -> Result<Plan, SessionError> {
        Plan::beside(repo, wanted, drive, clock, None)
    }

    /// Does the same beside a session that is open in this process and made its locks with `own` in them.
    pub(super) fn beside(
        repo: Repo,
        wanted: &Wanted,
        drive: Drive,
        clock: Clock,
        own: Option<&str>,
    ) -> Result<Plan, SessionError> {
        let by_others = |held: Result<(), StateError>| match held {
            Err(StateError::Held { holder }) if own == Some(holder.as_str()) => Ok(()),
            held => held,
        };
        let asked = &wanted.all();
        refuse_no_folder(&repo)?;
        refuse_own_tree(&repo)?;
        let head = repo.refs.head()?;
        let tag = match &asked.tag {
            Some(tag) => Some(tag.clone()),
            None => session_of_head(&head),
        };
        let begun_here = match (&tag, drive) {
            (None, Drive::TYPED) => session_begun_here(&repo, wanted, &head)?,
            _ => None,
        };
        // Who gives no terms means a session that has some.
        let is_meant = tag.is_none() && begun_here.is_none() && asked.metric.is_none() && asked.command.is_none();
        let tag = if is_meant { session_there(&repo)? } else { tag.or_else(|| begun_here.clone()) };
        let mut moved = Vec::new();
        let mut known = match &tag {
            Some(tag) => {
                let folder = SessionFolder::new(&repo.main_worktree(), tag);
                moved = folder.move_folders_away()?;
                by_others(folder.refuse_held())?;
                stored_contract(&repo, tag)?
            }
            None => None,
        };
        if let Some(stored) = known.as_ref().filter(|stored| stored.imported) {
            return Err(SessionError::ImportedSession(stored.tag.to_string()));
        }
        let journal_of = |tag: &Tag| Journal::read(&SessionFolder::new(&repo.main_worktree(), tag).state());
        let mut journal = tag.as_ref().filter(|_| known.is_some()).map(journal_of).transpose()?.flatten();
        let next = match (drive, &known) {
            (Drive::TYPED, Some(stored)) if is_meant => {
                Next::on_own_branch(&repo, stored, journal.as_ref(), &head, wanted)?
            }
            (Drive::TYPED, _) => Next::after(&repo, known.as_ref(), journal.as_ref(), &head, tag.as_ref())?,
            _ => None,
        };
        let (tag, head, successor) = match next {
            None => (tag, head, None),
            Some(Next::Begun(tag)) => {
                by_others(SessionFolder::new(&repo.main_worktree(), &tag).refuse_held())?;
                (known, journal) = (stored_contract(&repo, &tag)?, journal_of(&tag)?);
                (Some(tag), head, None)
            }
            Some(Next::Begins(successor)) => {
                (known, journal) = (None, None);
                (Some(successor.tag().clone()), successor.head().clone(), Some(successor))
            }
        };
        let continued = known.is_some();
        let journal = journal.as_ref();
        let recorded = match &tag {
            Some(tag) if continued && journal.is_none_or(|journal| journal.presence.is_unseen()) => {
                read_history(&repo, tag)?.layout().cloned()
            }
            _ => None,
        };
        let before = journal.and_then(|journal| journal.layout.as_ref()).or(recorded.as_ref());
        // The settings file is for new sessions.
        let asked_layout = if continued { &wanted.given } else { asked };
        let inherited = successor.as_ref().and_then(|successor| successor.layout(&repo));
        let layout = layout_of(asked_layout, &wanted.given, before.or(inherited.as_ref()))?;
        let tree = Home::of(layout.as_ref());
        if tree.has_user() {
            refuse_lost(&repo, tag.as_ref().filter(|_| continued), journal)?;
            by_others(refuse_held(repo.git_dir()))?;
        }
        repo.ready()?;
        let said =
            if continued || asked.ledger.is_some() { Conventions::default() } else { Conventions::of(repo.worktree()) };
        if let (Some(tag), true) = (&tag, continued) {
            refuse_gaps(&repo, tag)?;
        }
        let mut contract = match &known {
            Some(stored) => {
                refuse_changed(&repo, &stored.tag, stored)?;
                continue_contract(stored.clone(), wanted, drive)?
            }
            None if matches!(drive, Drive::WorkingTree { resume: true } | Drive::Ending) => {
                return Err(SessionError::NothingOpen);
            }
            None => match &successor {
                Some(successor) => successor.contract(&repo, wanted, said.dialect(), clock)?,
                None => new_contract(&repo, tag, asked, &head, said.dialect(), clock)?,
            },
        };
        let tonight = settle_caps(&mut contract, known.as_ref(), journal, wanted, drive, clock.now());
        let (contract, sources, odd) = with_research(&repo, contract, !continued)?;
        let (contract, weights) = with_axes(contract)?;
        // A pattern that cannot work is refused before anything starts.
        Scanner::new(&contract.metric)?;
        watch_programs(&repo, contract.budget.filter(|_| matches!(drive, Drive::Loop { .. })))?;
        let mut file_terms = FileTerms::of(&contract)?.keep_sources(sources);
        if file_terms.protects(Path::new(SETTINGS_FILE)) {
            repo.working_tree.leave_alone(Path::new(SETTINGS_FILE))?;
        }
        if !continued || wanted.given.artifacts.is_some() {
            refuse_artifacts(&repo, &contract, &file_terms)?;
        }
        let folder = SessionFolder::new(&repo.main_worktree(), &contract.tag);
        let unread = if tree.has_user() { refuse_others(&repo, &contract.tag)? } else { Vec::new() };
        let open = journal.and_then(Journal::next_recorded);
        let mut placing = Placing::new(layout, asked_layout, before, &contract.tag, drive)?;
        // A session that has several from an earlier version keeps them.
        let had_slots = before.is_some_and(|before| before.slots > 1);
        if let Some(layout) = placing.layout.as_ref().filter(|layout| layout.slots > 1 && !had_slots)
            && (contract.keep_above.is_some() || is_research(&contract))
        {
            return Err(AxesError::OneSlot(layout.slots).into());
        }
        if let (Some(id), Drive::WorkingTree { resume: false }) = (open, drive) {
            return Err(SessionError::StillOpen(id));
        }
        for path in ["results.tsv", ".autoresearch"] {
            if repo.working_tree.is_tracked(Path::new(path))? {
                return Err(SessionError::Tracked(path));
            }
        }
        if let Some(worktree) = repo.refs.checked_out_elsewhere(&contract.tag.branch_ref())? {
            return Err(SessionError::CheckedOutElsewhere { branch: contract.tag.branch(), worktree });
        }
        let ledger =
            LedgerFile::open(&repo.main_worktree().join("results.tsv"), &contract.metric.name, contract.ledger)
                .map_err(if continued { SessionError::Ledger } else { SessionError::LedgerBeforeStart })?;
        let changes = repo.working_tree.changes()?;
        let mut home = None;
        if !tree.has_user() {
            let dirty: Vec<PathBuf> = changes.tracked.iter().map(|(path, _)| path.clone()).collect();
            let is_homeward = journal.is_some_and(|journal| journal.tree.is_homeward());
            if drive == Drive::TYPED || is_homeward {
                home = way_home(&repo, &contract, &repo.refs.head()?, &dirty, journal)?;
            }
            refuse_in_the_way(&repo, &contract, &repo.refs.head()?, open.filter(|_| before.is_none()), home.is_some())?;
        }
        // With an experiment open or a late review cut off, the working tree is somewhere in between and an agent may still be
        // ending; its recovery sees to that.
        let is_undone = matches!(drive, Drive::Loop { .. }) && !drive.adopts();
        let is_reviewed = is_undone && journal.is_some_and(|journal| journal.tree.reviewed().is_some());
        if open.is_none() && tree.has_user() && !is_reviewed {
            repo.index.is_free()?;
            let has_commits = match (drive.adopts(), &known, journal) {
                (true, Some(stored), Some(journal)) => UserCommits::find(&repo, stored, journal)?,
                _ => None,
            };
            match has_commits {
                Some(commits) if !commits.is_on_top => return Err(commits.refuse(&repo, &contract.tag)?),
                Some(commits) if head.commit() != Some(&commits.tip) => {
                    return Err(SessionError::AdoptedElsewhere(contract.tag.branch()));
                }
                Some(_) => {}
                None => check_working_tree(&changes, drive, &head, &contract)?,
            }
        }
        if !continued && matches!(drive, Drive::WorkingTree { .. }) && changes.tracked.is_empty() {
            return Err(SessionError::NothingToTry);
        }
        if drive != Drive::Ending {
            check_command("command", &contract.command, repo.worktree())?;
            for guard in &contract.guards {
                check_command("guard", guard, repo.worktree())?;
            }
            if let Some(reviewer) = &contract.reviewer {
                check_command("reviewer", reviewer, repo.worktree())?;
                for script in named_files(reviewer).into_iter().filter(|file| file.is_script) {
                    // A program on the PATH is there for the reviewer, too.
                    let is_program = reviewer.split_whitespace().next().map(Path::new) == Some(&script.path);
                    let is_here = fs::symlink_metadata(repo.worktree().join(&script.path)).is_ok();
                    if (is_here || !is_program) && !repo.working_tree.is_tracked(&script.path)? {
                        return Err(SessionError::ReviewerUntracked(script.path));
                    }
                }
            }
            if let Some(hook) = &contract.on_event {
                // It is called in a folder of its own, from where no relative path leads anywhere.
                check_command("command of --on-event", hook, Path::new("/"))?;
            }
        }
        if let (Some(agent), Drive::Loop { .. }) = (&contract.agent, drive)
            && contract.max_experiments != Some(0)
        {
            check_command("agent", agent, repo.worktree())?;
        }
        let mut notices = unread;
        notices.extend(odd.into_iter().chain(weights));
        notices.extend(tonight.as_ref().and_then(|tonight| continued_notice(tonight, journal)));
        if let Some(layout) = &mut placing.layout
            && drive != Drive::Ending
        {
            layout.links = plain_links(&repo, &contract, &layout.links)?;
            layout.writable = layout.writable.iter().filter_map(|link| within(link)).collect();
            let surveyed = Surveyed::new(&repo, &contract, layout);
            surveyed.refuse()?;
            if surveyed.has_linked_environment() {
                file_terms = file_terms.share_environment();
            }
            notices.extend(surveyed.notice()?.filter(|_| before != Some(&*layout)));
        }
        notices.extend(placing.notices);
        if !tree.has_user() {
            notices.extend(dirty_notice(&changes));
        }
        let passed_over =
            if continued { lines_passed_over(&contract, placing.layout.as_ref(), wanted) } else { Vec::new() };
        if !passed_over.is_empty() {
            let lines = passed_over.join(", ");
            notices.push(format!("ignored lines of ar.toml that differ from the session's stored settings: {lines}"));
        }
        notices.extend(said.ledger_text().filter(|_| !repo.main_worktree().join("results.tsv").exists()));
        if !moved.is_empty() {
            notices.push(format!("moved folders that stood in place of ar's files: {}", list(&moved)));
        }
        if let (Some(agent), Drive::Loop { .. }) = (&contract.agent, drive) {
            let spent = journal.map(|journal| *journal.expenses.spent()).unwrap_or_default();
            notices.extend(idle_limits(&contract, reports(agent), &spent));
            if contract.caps.agent_rounds.is_some() && !tells_rounds(agent) {
                notices.push("--agent-rounds cannot act: the agent is not known to report its rounds".to_owned());
            }
        }
        notices.extend(contract.cadence.and_then(cadence_warning));
        if !continued {
            notices.extend(missing_headings(&repo, &contract)?);
        }
        if !continued && asked.tag.is_none() {
            notices.extend(unfinished_beside(&repo)?);
        }
        notices.extend(successor.as_ref().map(|successor| successor.notice()));
        let short = |branch: &str| branch.trim_start_matches("refs/heads/").to_owned();
        notices.extend(
            home.as_deref()
                .map(|home| format!("switched this working tree back to {}, as slots have their own", short(home))),
        );
        notices.extend(
            begun_here.filter(|_| continued).map(|tag| {
                format!("continued session {tag}, which began from here; pass --tag NEW to begin another one")
            }),
        );
        if !continued && successor.is_none() && !session_tags(&repo)?.is_empty() {
            let from = contract.start_text();
            notices.push(format!("started a new session from {from}; run `ar resume TAG` to continue an earlier one"));
        }
        if !continued && repo.identity_is_fallback() {
            notices.push("git knows no user.name and user.email; commits are made as `ar`".to_owned());
        }
        if !continued {
            notices.extend(untracked_notice(&changes, tree));
        }
        if !continued && repo.objects.files_at(&contract.start, |path| file_terms.is_in_scope(path))?.is_empty() {
            notices.push(format!("no file of the repository matches the scope: {}", contract.scope.join(", ")));
        }
        let (layout, gpus) = (placing.layout, placing.gpus);
        // A link is no folder, so the pattern that ignores a folder does not ignore it.
        let links = layout.iter().flat_map(|layout| &layout.links);
        let root = repo.worktree().canonicalize().unwrap_or_else(|_| repo.worktree().to_owned());
        let left_out = links.map(|link| root.join(link)).collect();
        let plan = Plan {
            repo,
            folder,
            contract,
            file_terms,
            ledger,
            clock,
            drive,
            tonight,
            home,
            continued,
            notices,
            left_out,
            layout,
            gpus,
        };
        if drive != Drive::Ending {
            refuse_full(&plan.repo, &plan.folder, &History::default())?;
        }
        Ok(plan)
    }

    /// Makes files no part of any change, such as the one that the loop's own output goes to.
    pub fn leave_out(mut self, files: Vec<PathBuf>) -> Plan {
        self.left_out.extend(files);
        self
    }

    /// Adds something to tell when the session is opened.
    pub fn note(mut self, notice: String) -> Plan {
        self.notices.push(notice);
        self
    }

    /// The slots and their GPUs, as lines for a person; none *in place*.
    pub fn layout_lines(&self) -> Vec<String> {
        layout_lines(self.layout.as_ref(), &self.gpus)
    }

    /// The terms.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Whether the session was there before.
    pub fn continued(&self) -> bool {
        self.continued
    }
}

/// Refuses a repository in which something else stands where the folder of all sessions is to be.
fn refuse_no_folder(repo: &Repo) -> Result<(), SessionError> {
    let path = repo.main_worktree().join(SESSIONS_FOLDER);
    if fs::symlink_metadata(&path).is_ok() && !path.is_dir() {
        return Err(SessionError::NoFolder(path));
    }
    Ok(())
}

/// The session that a call without terms is about, if there is any.
fn session_there(repo: &Repo) -> Result<Option<Tag>, SessionError> {
    match find_session(repo, None) {
        Ok(tag) => Ok(Some(tag)),
        Err(SessionError::NoSession { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a session that has lost a record: what would be made of it is no continuation.
fn refuse_gaps(repo: &Repo, tag: &Tag) -> Result<(), SessionError> {
    let refs = repo.refs.refs_under(&tag.ref_prefix())?;
    let numbers = refs.iter().filter_map(|(name, _)| record_id(name, tag)).map(ExperimentId::number);
    // Numbers without gaps need no look into the records.
    let lost = if gaps(numbers).is_empty() { Vec::new() } else { lost_records(repo, tag)? };
    match lost.first() {
        Some(id) => Err(SessionError::LostRecord { tag: tag.to_string(), id: *id }),
        None => Ok(()),
    }
}

/// Refuses to touch a working tree in which another session has an experiment open: its run may still read the files. A
/// journal that cannot be read is in the way only while something of its session goes on; else it gives a notice.
fn refuse_others(repo: &Repo, tag: &Tag) -> Result<Vec<String>, SessionError> {
    let mut unread = Vec::new();
    for other in session_tags(repo)? {
        if other == *tag {
            continue;
        }
        let folder = SessionFolder::new(&repo.main_worktree(), &other);
        let journal = match Journal::read(&folder.state()) {
            Ok(journal) => journal,
            Err(error) if has_job(&folder) => return Err(error.into()),
            Err(error) => {
                unread.push(format!("skipped the journal of session {other}: {}", with_causes(&error)));
                continue;
            }
        };
        if let Some(journal) = journal
            && let Some(first) = journal.first()
            && journal.users_tree() == Some(repo.worktree())
        {
            return Err(SessionError::OtherOpen { tag: other.to_string(), id: first.open.id });
        }
    }
    Ok(unread)
}

fn check_working_tree(changes: &Changes, drive: Drive, head: &Head, contract: &Contract) -> Result<(), SessionError> {
    let dirty: Vec<PathBuf> = changes.tracked.iter().map(|(path, _)| path.clone()).collect();
    match drive {
        Drive::Loop { adopt: true, .. } if dirty.is_empty() => Err(SessionError::NothingToAdopt),
        Drive::Loop { adopt: false, .. } if !dirty.is_empty() => Err(SessionError::Dirty(dirty)),
        // The change would have to move to another branch.
        _ if !dirty.is_empty() && is_elsewhere(head, contract) => Err(SessionError::Dirty(dirty)),
        _ => Ok(()),
    }
}

/// Whether HEAD is neither where the session is nor where it starts.
fn is_elsewhere(head: &Head, contract: &Contract) -> bool {
    match head {
        Head::Branch { name, commit } => *name != contract.tag.branch_ref() && *commit != contract.start,
        Head::Detached { commit } => *commit != contract.start,
        Head::Unborn { .. } => false,
    }
}

fn untracked_notice(changes: &Changes, tree: Home) -> Option<String> {
    const SHOWN: usize = 5;
    let own = |path: &Path| OWN_FILES.iter().any(|own| path.starts_with(own.trim_matches('/')));
    let paths: Vec<_> = changes.untracked.paths().filter(|path| !own(path)).collect();
    let names: Vec<_> = paths.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    let more = if paths.len() > SHOWN { format!(" and {} more", paths.len() - SHOWN) } else { String::new() };
    let out = match tree.has_user() {
        true => "until you `git add` them",
        false => "unless you commit them or name them with --link",
    };
    (!paths.is_empty())
        .then(|| format!("untracked files stay out of every experiment {out}: {}{more}", names.join(", ")))
}
