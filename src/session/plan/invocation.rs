//! Plans an invocation of `ar run` or `ar try` before it changes anything on disk.

use std::path::{Path, PathBuf};
use std::{env, fs};

use super::{
    Next, Placing, Successor, Surveyed, UserCommits, Wanted, adopted_elsewhere, checked_out_elsewhere,
    continue_contract, continued_notice, dirty_notice, layout_lines, layout_of, lines_passed_over, new_contract,
    plain_links, refuse_beside_slots, refuse_in_the_way, refuse_lost, refuse_own_tree, refuse_several,
    refuse_threshold, refuse_without_slurm, session_begun_here, settle_caps, unfinished_beside, way_home, with_axes,
};
use crate::agent::{reports, tells_rounds};
use crate::domain::{
    Asked, Clock, Contract, ExperimentId, Layout, LedgerDialect, Sandbox, Spent, Tag, TreeOwner, UserError, list,
    shell_word, with_causes,
};
use crate::git::{Changes, Head, Repo};
use crate::ledger::{LedgerFile, RESULTS};
use crate::measure::Scanner;
use crate::rules::{
    FileTerms, GpuSlot, HiddenPlaces, History, LoopCall, OtherHost, SessionDriver, Tonight, UV_LINK_MODE,
    cadence_warning, gaps, idle_limits, links_from_cache, named_files, refuse_incomparable, within,
};
use crate::session::errors::{Adopting, CannotStart, CommandRole, SessionError, TryError, Usage, refuse};
use crate::session::files::{
    Conventions, SETTINGS_FILE, check_command, has_job, is_own, lost_records, read_baseline, read_history, record_id,
    refuse_changed, refuse_elsewhere, refuse_full, refuse_tracked, session_of_head, session_tags, session_there,
    stored_contract,
};
use crate::session::handlers::{convert_as_at_start, refuse_artifacts};
use crate::session::research::{missing_headings, with_research};
use crate::session::store::{Walls, left_at_tip, watch_programs};
use crate::state::{Journal, OwnerLock, SESSIONS_FOLDER, SessionFolder, StateError, refuse_held};

/// The source of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// The loop calls the agent; the working tree must be clean, or its change be adopted as the first experiment.
    Loop {
        /// True if the change in the working tree is adopted.
        adopt: bool,
        /// The way in which the loop was started.
        call: LoopCall,
    },
    /// The change is in the working tree, or was there and its run has begun.
    WorkingTree {
        /// True to wait for a run that has begun.
        resume: bool,
    },
    /// No changes: the current run is terminated. The requirements of a run are not checked.
    Ending,
}

impl Drive {
    /// The loop of `ar resume`, or of a session that is opened again.
    pub const RESUMED: Drive = Drive::Loop { adopt: false, call: LoopCall::Resumed };

    /// The loop of a typed `ar run`.
    pub const TYPED: Drive = Drive::Loop { adopt: false, call: LoopCall::Typed };

    /// The driver that makes the changes; `None` if a run is terminated.
    pub(crate) fn driver(self) -> Option<SessionDriver> {
        match self {
            Drive::Loop { .. } => Some(SessionDriver::Loop),
            Drive::WorkingTree { .. } => Some(SessionDriver::Hand),
            Drive::Ending => None,
        }
    }

    /// Returns whether the loop adopts a change.
    pub(crate) fn adopts(self) -> bool {
        matches!(self, Drive::Loop { adopt: true, .. })
    }
}

/// A session that can be started or continued; nothing has been changed on disk yet.
#[derive(Debug)]
pub struct Plan {
    pub(crate) repo: Repo,
    pub(crate) folder: SessionFolder,
    pub(crate) contract: Contract,
    pub(crate) file_terms: FileTerms,
    pub(crate) ledger: LedgerFile,
    pub(crate) clock: Clock,
    pub(crate) drive: Drive,
    /// The settings of a loop for its night.
    pub(crate) tonight: Option<Tonight>,
    /// The usage of all calls of the agent so far.
    pub(crate) spent: Spent,
    /// The user's branch to which their working tree is switched back first.
    pub(crate) home: Option<String>,
    pub(crate) continued: bool,
    pub(crate) notices: Vec<String>,
    /// Files that are no part of any change: they grow on their own, or are links in the working trees of slots.
    pub(crate) left_out: Vec<PathBuf>,
    /// The slots and seats outside the user's working tree; absent *in place*.
    pub(crate) layout: Option<Layout>,
    /// The GPUs of each slot; empty where they are not divided among slots.
    pub(crate) gpus: Vec<GpuSlot>,
    /// The walls around jobs.
    pub(crate) walls: Walls,
    /// What `--hide` names.
    pub(crate) hidden_places: HiddenPlaces,
    /// True if a session is taken over although a process of another host may drive it.
    pub(crate) take_over: bool,
    /// The lock of a session that this process opens again: nobody else gets it in between, and a request to stop is heard.
    pub(crate) lock: Option<OwnerLock>,
}

impl Plan {
    /// Looks at the repository and at what is asked, and refuses what cannot work.
    pub fn new(repo: Repo, wanted: &Wanted, drive: Drive, clock: Clock) -> Result<Plan, SessionError> {
        Plan::beside(repo, wanted, drive, clock, None)
    }

    /// Does the same beside a session that is open in this process with this lock, which the plan then has too.
    pub(crate) fn beside(
        mut repo: Repo,
        wanted: &Wanted,
        drive: Drive,
        clock: Clock,
        lock: Option<OwnerLock>,
    ) -> Result<Plan, SessionError> {
        let own = lock.as_ref().map(OwnerLock::said);
        refuse_no_folder(&repo)?;
        refuse_own_tree(&repo)?;
        let subject = Subject::find(&repo, wanted, drive, own)?;
        let (journal, before) = (subject.journal.as_ref(), subject.before.as_ref());
        let continued = subject.known.is_some();
        let layout = subject.new_layout(&repo)?;
        let tree = TreeOwner::of(layout.as_ref());
        if tree.has_user() {
            refuse_lost(&repo, subject.tag.as_ref().filter(|_| continued), journal)?;
            by_others(refuse_held(repo.git_dir()), own)?;
        }
        repo.ready()?;
        let is_chosen = continued || subject.asked.ledger.is_some();
        let said = if is_chosen { Conventions::default() } else { Conventions::of(repo.worktree()) };
        let SessionTerms { contract, file_terms, tonight, notices: of_terms } =
            subject.settle(&repo, said.dialect(), clock)?;
        let folder = SessionFolder::new(repo.main_worktree(), &contract.tag);
        let mut notices = if tree.has_user() { refuse_others(&repo, &contract.tag)? } else { Vec::new() };
        if drive != Drive::Ending {
            refuse_without_slurm(layout.as_ref(), &contract)?;
        }
        let placing = Placing::new(layout, subject.asked_layout(), before, &contract.tag, drive)?;
        refuse_threshold(&contract)?;
        refuse_several(&contract, placing.layout.as_ref())?;
        REPOSITORY_CHECKS.iter().try_for_each(|check| check(&repo, &subject, &contract))?;
        let place = LedgerFile::place(repo.main_worktree(), &contract.metric.name);
        let refused = if continued { SessionError::Ledger } else { SessionError::LedgerBeforeStart };
        let ledger = LedgerFile::open(&place, &contract.metric.name, contract.ledger).map_err(refused)?;
        let tried = continued.then(|| Walls::tried(contract.sandbox, &repo, repo.worktree()));
        if let Some(tried) = &tried {
            let none = Walls::default();
            convert_as_at_start(&mut repo, &folder, tried.as_ref().map_or(&none, |(walls, _)| walls))?;
        }
        let changes = repo.working_tree.changes()?;
        let home = if tree.has_user() { None } else { subject.way_home(&repo, &contract, &changes)? };
        notices.extend(of_terms);
        let mut plan = Plan {
            repo,
            folder,
            contract,
            file_terms,
            ledger,
            clock,
            drive,
            tonight,
            spent: journal.map(|journal| *journal.expenses.spent()).unwrap_or_default(),
            home,
            continued,
            notices,
            left_out: Vec::new(),
            layout: placing.layout,
            gpus: placing.gpus,
            walls: Walls::default(),
            hidden_places: HiddenPlaces::default(),
            take_over: wanted.take_over,
            lock,
        };
        CHECKS.iter().try_for_each(|check| check(&plan, &subject, &changes))?;
        let surveyed = plan.survey(before)?;
        plan.notices.extend(surveyed.into_iter().chain(placing.notices));
        let walled = plan.build_walls(tried)?;
        plan.notices.extend(walled);
        plan.hide()?;
        let told = plan.told(&subject, &changes, &said)?;
        plan.notices.extend(told);
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

    /// Returns whether the session existed before.
    pub fn continued(&self) -> bool {
        self.continued
    }
}

/// The session that an invocation is about, as it is found.
struct Subject<'a> {
    wanted: &'a Wanted,
    /// All of that.
    asked: Asked,
    drive: Drive,
    tag: Option<Tag>,
    /// The HEAD on which a new session begins.
    head: Head,
    /// The stored contract; absent for a new session.
    known: Option<Contract>,
    journal: Option<Journal>,
    /// A new session that begins with commits of the user's that another session does not have.
    successor: Option<Box<Successor>>,
    /// The session that a typed `ar run` continues since it began at HEAD.
    begun_here: Option<Tag>,
    /// The layout that it had last, also where the journal is lost.
    before: Option<Layout>,
    /// Folders that stood in place of its files.
    moved: Vec<PathBuf>,
    /// The other host that it is taken over from.
    from: Option<OtherHost>,
}

/// The terms on which a session goes on or begins.
struct SessionTerms {
    contract: Contract,
    file_terms: FileTerms,
    tonight: Option<Tonight>,
    /// Things to tell about them.
    notices: Vec<String>,
}

impl<'a> Subject<'a> {
    /// Finds it. Refuses a session that another process holds.
    fn find(repo: &Repo, wanted: &'a Wanted, drive: Drive, own: Option<&str>) -> Result<Self, SessionError> {
        let (asked, mut head) = (wanted.all(), repo.refs.head()?);
        let tag = asked.tag.clone().or_else(|| session_of_head(&head));
        let is_free = tag.is_none() && drive == Drive::TYPED;
        let begun_here = if is_free { session_begun_here(repo, wanted, &head)? } else { None };
        // Without a metric and a command, the user means an existing session.
        let is_meant = tag.is_none() && begun_here.is_none() && asked.metric.is_none() && asked.command.is_none();
        let mut tag = if is_meant { session_there(repo)? } else { tag.or_else(|| begun_here.clone()) };
        if let Drive::WorkingTree { resume } = drive {
            refuse_beside_slots(repo, tag.as_ref(), resume)?;
        }
        let folder_of = |tag: &Tag| SessionFolder::new(repo.main_worktree(), tag);
        let (mut known, mut journal, mut moved): (Option<Contract>, _, _) = (None, None, Vec::new());
        let mut from = None;
        if let Some(tag) = &tag {
            moved = folder_of(tag).move_folders_away()?;
            by_others(folder_of(tag).refuse_held(), own)?;
            from = refuse_elsewhere(&folder_of(tag), wanted.take_over)?;
            known = stored_contract(repo, tag)?;
            if let Some(stored) = known.as_ref().filter(|stored| stored.imported) {
                return Err(SessionError::ImportedSession(stored.tag.to_string()));
            }
            journal = if known.is_some() { Journal::read(&folder_of(tag).state())? } else { None };
        }
        let is_idle = journal.as_ref().is_some_and(Journal::is_between);
        let next = match (drive, &known) {
            (Drive::TYPED, Some(stored)) if is_meant => Next::on_own_branch(repo, stored, is_idle, &head, wanted)?,
            (Drive::TYPED, _) => Next::after(repo, known.as_ref(), is_idle, &head, tag.as_ref())?,
            _ => None,
        };
        let mut successor = None;
        match next {
            None => {}
            Some(Next::Begun(next)) => {
                by_others(folder_of(&next).refuse_held(), own)?;
                from = refuse_elsewhere(&folder_of(&next), wanted.take_over)?;
                (known, journal) = (stored_contract(repo, &next)?, Journal::read(&folder_of(&next).state())?);
                tag = Some(next);
            }
            Some(Next::Begins(next)) => {
                (tag, head, known, journal) = (Some(next.tag().clone()), next.head().clone(), None, None);
                from = None;
                successor = Some(next);
            }
        }
        let before = last_layout(repo, tag.as_ref().filter(|_| known.is_some()), journal.as_ref())?;
        Ok(Subject { wanted, asked, drive, tag, head, known, journal, successor, begun_here, before, moved, from })
    }

    /// The wishes for its layout; the settings file is for new sessions.
    fn asked_layout(&self) -> &Asked {
        if self.known.is_some() { &self.wanted.given } else { &self.asked }
    }

    /// The layout that it has from now on.
    fn new_layout(&self, repo: &Repo) -> Result<Option<Layout>, UserError> {
        let inherited = self.successor.as_ref().and_then(|successor| successor.layout(repo));
        // The commands of an engine stand in the file alone.
        let asked = Asked { engine: self.asked.engine.clone(), ..self.asked_layout().clone() };
        layout_of(&asked, &self.wanted.flags, self.before.as_ref().or(inherited.as_ref()))
    }

    /// Settles its terms. Refuses some that cannot work.
    fn settle(&self, repo: &Repo, dialect: Option<LedgerDialect>, clock: Clock) -> Result<SessionTerms, SessionError> {
        let (wanted, journal, is_new) = (self.wanted, self.journal.as_ref(), self.known.is_none());
        let mut contract = self.contract(repo, dialect, clock)?;
        if self.known.as_ref() != Some(&contract) {
            refuse_incomparable(&contract, read_baseline(repo, &contract.tag)?.as_ref())?;
        }
        let tonight = settle_caps(&mut contract, self.known.as_ref(), journal, wanted, self.drive, clock.now());
        let (contract, sources, odd) = with_research(repo, contract, is_new)?;
        let (contract, weights) = with_axes(contract)?;
        // A pattern that cannot work is refused before anything starts.
        Scanner::new(&contract.metric)?;
        watch_programs(repo, contract.budget.filter(|_| matches!(self.drive, Drive::Loop { .. })))?;
        let file_terms = FileTerms::of(&contract)?.keep_sources(sources);
        if file_terms.protects(Path::new(SETTINGS_FILE)) {
            repo.working_tree.leave_alone(Path::new(SETTINGS_FILE))?;
        }
        if is_new || wanted.given.artifacts.is_some() {
            refuse_artifacts(repo, &contract, &file_terms)?;
        }
        let night = tonight.as_ref().and_then(|tonight| continued_notice(tonight, journal));
        let notices = odd.into_iter().chain(weights).chain(night).collect();
        Ok(SessionTerms { contract, file_terms, tonight, notices })
    }

    /// The user's branch to which their working tree goes back before slots have their own. Refuses a tree that is in the way.
    fn way_home(&self, repo: &Repo, contract: &Contract, changes: &Changes) -> Result<Option<String>, SessionError> {
        let head = repo.refs.head()?;
        let was_begun = self.journal.as_ref().is_some_and(|journal| journal.tree.is_homeward());
        let may_go = self.drive == Drive::TYPED || was_begun;
        let home = if may_go { way_home(repo, contract, &head, &changes.tracked_paths(), was_begun)? } else { None };
        refuse_in_the_way(repo, contract, &head, self.open().filter(|_| self.before.is_none()), home.is_some())?;
        Ok(home)
    }

    /// Its terms: those that are stored, with what is asked for, or new ones.
    fn contract(&self, repo: &Repo, dialect: Option<LedgerDialect>, clock: Clock) -> Result<Contract, SessionError> {
        let Subject { wanted, drive, .. } = *self;
        match (&self.known, &self.successor) {
            (Some(stored), _) => {
                self.tag.as_ref().map_or(Ok(()), |tag| refuse_gaps(repo, tag))?;
                refuse_changed(repo, &stored.tag, stored)?;
                continue_contract(stored.clone(), wanted, drive)
            }
            _ if matches!(drive, Drive::WorkingTree { resume: true } | Drive::Ending) => {
                Err(TryError::NothingOpen.into())
            }
            (None, Some(successor)) => successor.contract(repo, wanted, dialect, clock),
            (None, None) => new_contract(repo, self.tag.clone(), &self.asked, &self.head, dialect, clock),
        }
    }

    /// The experiment that is recorded next, if one is open.
    fn open(&self) -> Option<ExperimentId> {
        self.journal.as_ref().and_then(Journal::next_recorded)
    }
}

/// The checks before the ledger is opened, in their order.
const REPOSITORY_CHECKS: [RepositoryCheck; 4] = [check_open, check_untracked, check_checked_out, check_filters];

/// Refuses what a plan would be made of.
type RepositoryCheck = fn(&Repo, &Subject, &Contract) -> Result<(), SessionError>;

/// Refuses to try a change while another one is open.
fn check_open(_: &Repo, subject: &Subject, _: &Contract) -> Result<(), SessionError> {
    let open = subject.open().filter(|_| subject.drive == Drive::WorkingTree { resume: false });
    open.map_or(Ok(()), |id| Err(TryError::StillOpen(id).into()))
}

/// Refuses a repository that tracks `ar`'s own files.
fn check_untracked(repo: &Repo, _: &Subject, contract: &Contract) -> Result<(), SessionError> {
    let place = LedgerFile::place(repo.main_worktree(), &contract.metric.name);
    refuse_tracked(repo, [RESULTS.into(), place.file_name().unwrap_or_default().into()])
}

/// Refuses a branch that another working tree has checked out.
fn check_checked_out(repo: &Repo, _: &Subject, contract: &Contract) -> Result<(), SessionError> {
    let elsewhere = repo.refs.checked_out_elsewhere(&contract.tag.branch_ref())?;
    elsewhere.map_or(Ok(()), |worktree| Err(checked_out_elsewhere(&contract.tag.branch(), &worktree).into()))
}

/// Refuses a repository with files whose required filter cannot start.
fn check_filters(repo: &Repo, subject: &Subject, _: &Contract) -> Result<(), SessionError> {
    if subject.drive == Drive::Ending {
        return Ok(());
    }
    for filter in repo.working_tree.required_filters()? {
        let mut lines = filter.lines.iter();
        let checked = lines.try_for_each(|line| check_command(CommandRole::Filter, line, repo.worktree()));
        if checked.is_err() && repo.working_tree.file_of_filter(&filter)?.is_some() {
            return checked;
        }
    }
    Ok(())
}

/// The last checks, in their order.
const CHECKS: [Check; 4] = [check_tree, check_change, check_programs, check_agent];

/// Refuses a plan.
type Check = fn(&Plan, &Subject, &Changes) -> Result<(), SessionError>;

/// Refuses changes and commits in the user's working tree that nobody is to measure. With an experiment open or a late review
/// cut off, the tree is somewhere in between and an agent may still be ending; its recovery sees to that.
fn check_tree(plan: &Plan, subject: &Subject, changes: &Changes) -> Result<(), SessionError> {
    let Plan { repo, contract, drive, .. } = plan;
    let is_undone = matches!(drive, Drive::Loop { adopt: false, .. } | Drive::Ending);
    let is_reviewed = is_undone && subject.journal.as_ref().is_some_and(|journal| journal.tree.reviewed().is_some());
    let journal = subject.journal.as_ref();
    if subject.open().is_some() || !plan.tree().has_user() || is_reviewed {
        return Ok(());
    }
    if subject.known.is_some()
        && journal.is_none()
        && left_at_tip(repo, &plan.folder, contract, &read_history(repo, &contract.tag)?)?.is_some()
    {
        return Ok(());
    }
    repo.index.is_free()?;
    let adopted = subject.known.as_ref().filter(|_| drive.adopts());
    let commits = adopted.map_or(Ok(None), |stored| UserCommits::to_adopt(repo, stored, journal))?;
    let dirty = changes.tracked_paths();
    match (commits, drive) {
        (Some(commits), _) if !commits.is_on_top => Err(commits.refuse(repo, &contract.tag, journal)?),
        (Some(commits), _) if subject.head.commit() != Some(&commits.tip) => {
            Err(adopted_elsewhere(&contract.tag.branch()).into())
        }
        (None, Drive::Loop { adopt: true, .. }) if dirty.is_empty() => {
            let text = "nothing to adopt: the working tree has no uncommitted change";
            Err(refuse(CannotStart, text).hint("omit --adopt").into())
        }
        // The change would have to move to another branch.
        (None, _) if !dirty.is_empty() && is_elsewhere(repo, &subject.head, contract)? => {
            Err(SessionError::Dirty { paths: dirty, adopting: Adopting::Nowhere })
        }
        (None, Drive::Loop { adopt: false, .. }) if !dirty.is_empty() => {
            let adopting = match subject.known {
                None => Adopting::Start,
                Some(_) => Adopting::Session(contract.tag.clone()),
            };
            Err(SessionError::Dirty { paths: dirty, adopting })
        }
        _ => Ok(()),
    }
}

fn check_change(plan: &Plan, _: &Subject, changes: &Changes) -> Result<(), SessionError> {
    let is_tried = !plan.continued && matches!(plan.drive, Drive::WorkingTree { .. });
    if is_tried && changes.tracked.is_empty() { Err(TryError::NothingToTry.into()) } else { Ok(()) }
}

/// Says that a command line names a file that exists only in the folder below the root where `ar` was started.
fn files_below_root(root: &Path, command: &str) -> Option<String> {
    let here = env::current_dir().ok()?;
    let below = here.strip_prefix(root.canonicalize().ok()?).ok().filter(|below| !below.as_os_str().is_empty())?;
    let is_only_here = |path: &Path| here.join(path).exists() && !root.join(path).exists();
    let named = named_files(command).into_iter().map(|file| file.path).find(|path| is_only_here(path))?;
    if command.trim_start().starts_with("cd ") {
        return None;
    }
    let (root, named, below) = (root.display(), named.display(), shell_word(below));
    Some(format!("the command runs in {root}, which has no {named}: pass --cmd \"cd {below} && {command}\""))
}

/// Refuses command lines that cannot start.
fn check_programs(plan: &Plan, _: &Subject, _: &Changes) -> Result<(), SessionError> {
    let Plan { repo, contract, .. } = plan;
    if plan.drive == Drive::Ending {
        return Ok(());
    }
    check_command(CommandRole::Command, &contract.command, repo.worktree())?;
    contract.guards.iter().try_for_each(|guard| check_command(CommandRole::Guard, guard, repo.worktree()))?;
    if let Some(reviewer) = &contract.reviewer {
        check_command(CommandRole::Reviewer, reviewer, repo.worktree())?;
        for script in named_files(reviewer).into_iter().filter(|file| file.is_script) {
            // A program on the PATH is there for the reviewer, too.
            let is_program = reviewer.split_whitespace().next().map(Path::new) == Some(&script.path);
            let is_here = fs::symlink_metadata(repo.worktree().join(&script.path)).is_ok();
            if (is_here || !is_program) && !repo.working_tree.is_tracked(&script.path)? {
                let script = script.path.display();
                let text =
                    format!("the reviewer works in a tree of its own, which lacks {script}: git does not track it");
                return Err(refuse(CannotStart, text)
                    .hint("commit it, or name it in --reviewer by its full path or below $AR_ROOT")
                    .into());
            }
        }
    }
    let (mut hook, role) = (contract.on_event.iter(), CommandRole::OnEvent);
    hook.try_for_each(|hook| check_command(role, hook, role.folder(repo.worktree())))
}

fn check_agent(plan: &Plan, _: &Subject, _: &Changes) -> Result<(), SessionError> {
    let agent = plan.agent().filter(|_| plan.contract.max_experiments != Some(0));
    agent.map_or(Ok(()), |agent| check_command(CommandRole::Agent, agent, plan.repo.worktree()))
}

impl Plan {
    /// The place where experiments are made and run.
    fn tree(&self) -> TreeOwner {
        TreeOwner::of(self.layout.as_ref())
    }

    /// The command line of the agent that a loop calls.
    fn agent(&self) -> Option<&str> {
        self.contract.agent.as_deref().filter(|_| matches!(self.drive, Drive::Loop { .. }))
    }

    /// Notices about limits that may not act with this agent.
    pub(crate) fn idle_limits(&self, agent: &str) -> Option<String> {
        idle_limits(&self.contract, reports(agent), &self.spent)
    }

    /// Refuses slots in which runs would measure the wrong code. Gives what is told of their links, if it was not `before`.
    fn survey(&mut self, before: Option<&Layout>) -> Result<Option<String>, SessionError> {
        let Some(layout) = &mut self.layout else { return Ok(None) };
        let mut notice = None;
        if self.drive != Drive::Ending {
            layout.links = plain_links(&self.repo, &self.contract, &layout.links)?;
            layout.writable = layout.writable.iter().filter_map(|link| within(link)).collect();
            let surveyed = Surveyed::new(&self.repo, &self.contract, layout);
            surveyed.refuse()?;
            if surveyed.has_linked_environment() {
                self.file_terms = self.file_terms.clone().share_environment();
            }
            notice = surveyed.notice()?.filter(|_| before != Some(&*layout));
        }
        // A link is no folder, so the pattern that ignores a folder does not ignore it.
        let root = self.repo.worktree();
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        self.left_out = layout.links.iter().map(|link| root.join(link)).collect();
        Ok(notice)
    }

    /// Tries whether jobs can have walls, unless they were `tried` before, and tells in a line whether they do. Refuses to start
    /// without where that is required.
    fn build_walls(
        &mut self,
        tried: Option<Result<(Walls, Option<UserError>), SessionError>>,
    ) -> Result<Option<String>, SessionError> {
        if self.drive == Drive::Ending || self.contract.sandbox == Sandbox::Off {
            return Ok(None);
        }
        let try_now = || Walls::tried(self.contract.sandbox, &self.repo, self.repo.worktree());
        let (walls, reason) = tried.unwrap_or_else(try_now)?;
        self.walls = walls;
        // A user who requires them knows, and a change handed in needs no reminder.
        let is_told = !self.continued || matches!(self.drive, Drive::Loop { .. });
        Ok((self.contract.sandbox == Sandbox::Auto && is_told).then(|| match reason {
            None => "jobs run behind walls, built by `bwrap`".to_owned(),
            Some(reason) => format!("jobs run without walls: {reason}"),
        }))
    }

    /// Finds what `--hide` names. Refuses a hidden split that could not decide or would not be hidden.
    fn hide(&mut self) -> Result<(), SessionError> {
        let Contract { holdout, holdout_unsealed, agent, recheck, .. } = &self.contract;
        if self.drive == Drive::Ending {
            return Ok(());
        }
        let refused = |text: &str, hint: &str| Err(refuse(Usage, text).hint(hint).into());
        let Contract { holdout_metric, holdout_report, .. } = &self.contract;
        if holdout.is_none() && (holdout_metric.is_some() || *holdout_report) {
            return refused("there is no hidden split to report", "add --holdout COMMAND");
        }
        let is_unnamed = holdout_metric.is_none() && self.contract.deciding_composite().is_some();
        if holdout.is_some() && is_unnamed && !self.continued {
            return refused(
                "`ar` computes the composite from the axes of the visible run, so the hidden number needs a name of its own",
                "name what the hidden command prints with --holdout-metric",
            );
        }
        if self.contract.decides_on_hidden() && *recheck > 0 {
            return refused(
                "--recheck makes runs whose values agents can read",
                "leave it out: a hidden split allows no such run",
            );
        }
        let is_sealed = self.contract.hides() && !holdout_unsealed;
        if !self.walls.hold() && is_sealed {
            return refused(
                "without walls, agents can read what --hide names and all hidden values",
                "install bubblewrap and leave out `--sandbox off`, or accept that with --holdout-unsealed",
            );
        }
        if agent.is_none() && is_sealed {
            return refused(
                "an agent that drives by itself is behind no wall, and can read what --hide names and all hidden values",
                "name an agent for `ar` to call, as in --agent claude, or accept that with --holdout-unsealed",
            );
        }
        let walls = std::mem::take(&mut self.walls);
        (self.walls, self.hidden_places) = walls.hiding(&self.repo, &self.folder, &self.contract)?;
        Ok(())
    }

    /// The notice that `uv` cannot link from its cache into a working tree behind a wall: the tree is another mount.
    fn uv_notice(&self) -> Option<String> {
        let mut lines = self.contract.guards.iter().chain([&self.contract.command]);
        let is_chosen = env::var_os(UV_LINK_MODE).is_some_and(|mode| !mode.is_empty());
        (self.walls.hold() && !is_chosen && lines.any(|line| links_from_cache(line))).then(|| {
            format!(
                "behind walls, `uv` copies packages from its cache, as hard links into a working tree fail; set \
                 {UV_LINK_MODE}=copy to silence its warning, or {UV_LINK_MODE}=symlink to link"
            )
        })
    }

    /// The notices for the user when the session is opened.
    fn told(&self, subject: &Subject, changes: &Changes, said: &Conventions) -> Result<Vec<String>, SessionError> {
        let Plan { repo, contract, layout, continued, .. } = self;
        let passed_over = continued.then(|| lines_passed_over(contract, layout.as_ref(), subject.wanted).join(", "));
        let has_blind_cap = |agent: &&str| contract.caps.agent_rounds.is_some() && !tells_rounds(agent);
        let told = [
            subject.from.as_ref().map(|from| format!("took over the session, last active {from}")),
            if self.tree().has_user() { None } else { dirty_notice(changes) },
            passed_over.filter(|lines| !lines.is_empty()).map(|lines| {
                format!("ignored lines of ar.toml that differ from the session's stored settings: {lines}")
            }),
            said.ledger_text().filter(|_| self.ledger.is_missing()),
            (!continued && self.ledger.name() != RESULTS).then(|| {
                let (metric, name) = (&contract.metric.name, self.ledger.name());
                format!("{RESULTS} has the rows of another metric: those of {metric} go to {name}")
            }),
            (!subject.moved.is_empty())
                .then(|| format!("moved folders that stood in place of ar's files: {}", list(&subject.moved))),
            self.agent().and_then(|agent| self.idle_limits(agent)),
            self.agent()
                .filter(has_blind_cap)
                .map(|_| "--agent-rounds cannot act: the agent is not known to report its rounds".to_owned()),
            contract.cadence.and_then(cadence_warning),
            self.uv_notice().filter(|_| !continued),
            files_below_root(repo.worktree(), &contract.command),
            if *continued { None } else { missing_headings(repo, contract)? },
        ];
        let mut told: Vec<String> = told.into_iter().flatten().collect();
        if !continued && subject.asked.tag.is_none() {
            told.extend(unfinished_beside(repo)?);
        }
        told.extend(subject.successor.as_ref().map(|successor| successor.notice()));
        let home = self.home.as_deref().map(|home| home.trim_start_matches("refs/heads/"));
        told.extend(home.map(|home| format!("switched this working tree back to {home}, as slots have their own")));
        if *continued {
            told.extend(subject.begun_here.as_ref().map(|tag| {
                format!("continued session {tag}, which began from here; pass --tag NEW to begin another one")
            }));
            return Ok(told);
        }
        if subject.successor.is_none() && !session_tags(repo)?.is_empty() {
            let from = contract.start_text();
            told.push(format!("started a new session from {from}; run `ar resume TAG` to continue an earlier one"));
        }
        if repo.identity_is_fallback() {
            told.push("git knows no user.name and user.email; commits are made as `ar`".to_owned());
        }
        told.extend(untracked_notice(changes, self.tree()));
        if repo.objects.files_at(&contract.start, |path| self.file_terms.is_in_scope(path))?.is_empty() {
            told.push(format!("no file of the repository matches the scope: {}", contract.scope.join(", ")));
        }
        Ok(told)
    }
}

/// The layout of the last process of a session; by the records where its journal is lost.
fn last_layout(repo: &Repo, known: Option<&Tag>, journal: Option<&Journal>) -> Result<Option<Layout>, SessionError> {
    let recorded = match known.filter(|_| Journal::is_lost(journal)) {
        Some(tag) => read_history(repo, tag)?.layout().cloned(),
        None => None,
    };
    Ok(journal.and_then(|journal| journal.layout.clone()).or(recorded))
}

/// Accepts a lock that the session holds which is open in this process, with `own` in it.
fn by_others(held: Result<(), StateError>, own: Option<&str>) -> Result<(), StateError> {
    match held {
        Err(StateError::Held { holder }) if own == Some(holder.as_str()) => Ok(()),
        held => held,
    }
}

/// Refuses a repository in which something else stands where the folder of all sessions is to be.
fn refuse_no_folder(repo: &Repo) -> Result<(), SessionError> {
    let path = repo.main_worktree().join(SESSIONS_FOLDER);
    let is_irregular = fs::symlink_metadata(&path).is_ok() && !path.is_dir();
    if is_irregular { Err(SessionError::NoFolder(path)) } else { Ok(()) }
}

/// Refuses a session that has lost a record: what would be made of it is no continuation.
fn refuse_gaps(repo: &Repo, tag: &Tag) -> Result<(), SessionError> {
    let refs = repo.refs.refs_under(&tag.ref_prefix())?;
    let numbers = refs.iter().filter_map(|(name, _)| record_id(name, tag)).map(ExperimentId::number);
    // Numbers without gaps need no look into the records.
    let lost = if gaps(numbers).is_empty() { Vec::new() } else { lost_records(repo, tag)? };
    lost.first().map_or(Ok(()), |id| Err(SessionError::LostRecord { tag: tag.to_string(), id: *id }))
}

/// Refuses to touch a working tree in which another session has an experiment open: its run may still read the files. A
/// journal that cannot be read is in the way only while something of its session goes on; else it gives a notice.
fn refuse_others(repo: &Repo, tag: &Tag) -> Result<Vec<String>, SessionError> {
    let mut unread = Vec::new();
    for other in session_tags(repo)?.into_iter().filter(|other| other != tag) {
        let folder = SessionFolder::new(repo.main_worktree(), &other);
        let journal = match Journal::read(&folder.state()) {
            Err(error) if has_job(&folder) => return Err(error.into()),
            Err(error) => {
                unread.push(format!("skipped the journal of session {other}: {}", with_causes(&error)));
                continue;
            }
            Ok(journal) => journal,
        };
        if journal.as_ref().is_some_and(|journal| journal.is_active_in(repo.worktree())) {
            refuse_elsewhere(&folder, false)?;
        }
        if let Some(id) = journal.and_then(|journal| journal.open_in(repo.worktree())) {
            return Err(TryError::OtherOpen { tag: other.to_string(), id }.into());
        }
    }
    Ok(unread)
}

/// Returns whether HEAD is neither on the session's branch nor at its tip, which is the start where there is no branch yet.
fn is_elsewhere(repo: &Repo, head: &Head, contract: &Contract) -> Result<bool, SessionError> {
    let branch = contract.tag.branch_ref();
    let tip = repo.refs.branch(&branch)?.unwrap_or_else(|| contract.start.clone());
    Ok(match head {
        Head::Branch { name, commit } => *name != branch && *commit != tip,
        Head::Detached { commit } => *commit != tip,
        Head::Unborn { .. } => false,
    })
}

fn untracked_notice(changes: &Changes, at: TreeOwner) -> Option<String> {
    const SHOWN: usize = 5;
    let paths: Vec<_> = changes.untracked.paths().filter(|path| !is_own(path)).collect();
    let names: Vec<_> = paths.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    let more = if paths.len() > SHOWN { format!(" and {} more", paths.len() - SHOWN) } else { String::new() };
    let out =
        if at.has_user() { "until you `git add` them" } else { "unless you commit them or name them with --link" };
    (!paths.is_empty())
        .then(|| format!("untracked files stay out of every experiment {out}: {}{more}", names.join(", ")))
}
