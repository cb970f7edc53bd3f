//! A session as a reader sees it, with its ratings and artifacts: what `ar log`, `show`, `report` and the like are made of.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::agent;
use crate::agent::{Briefing, Memories};
use crate::domain::{
    Clock, CommitId, Composite, Contract, ExperimentId, ExperimentName, Imported, Note, Outcome, PRESETS, Phase,
    Rating, Record, Spent, Tag, UserError, Which, cut, experiment_name, with_causes,
};
use crate::fs::{clone_file, failed, free_beside, make_folder, open_regular};
use crate::git::{Notes, Repo, Stored};
use crate::measure::{PlainText, plain_text};
use crate::report::Report;
use crate::rules::{
    Checks, HiddenBook, History, LadderState, Likeness, OtherBaseline, RatedSession, SessionFacts, Unfound, Weighed,
    axis_means, cap_of_tries, find_experiment, session_enough, weigh,
};
use crate::session::errors::{CannotStart, SessionError, Usage, refuse};
use crate::session::files::{
    Choice, Chosen, choose_session, no_experiment, no_session, parse_record, program_of, read_history, refuse_changed,
    session_tags, stored_contract,
};
use crate::session::handlers::{SessionRefs, convert_as_at_start};
use crate::session::research::covered_topics;
use crate::session::store::{Files, Walls, last_failed_log, memories, waiting_messages};
use crate::state::{
    Calls, HiddenFile, Journal, RatedLine, SessionFolder, add_rating, plain_log, read_log_tail, read_ratings,
};

/// A session as a reader sees it.
#[derive(Debug)]
pub struct SessionView {
    /// The repository.
    pub repo: Repo,
    /// Its tag.
    pub tag: Tag,
    /// Its folder.
    pub folder: SessionFolder,
    /// Its terms, where they are stored.
    pub contract: Option<Contract>,
    /// Its experiments.
    pub history: Arc<History>,
    /// The reason why this session is read.
    pub choice: Choice,
    /// The runs and verdicts of its hidden split, where it is read for a person.
    pub hidden: Arc<HiddenBook>,
}

/// The ref of the notes: `git log --notes=autoresearch` shows them, `git notes --ref=autoresearch` reads and edits them.
pub(crate) const NOTES: &str = "refs/notes/autoresearch";

impl SessionView {
    /// Reads the session that `tag` names, else the one that a command without a name is about.
    pub fn open(dir: &Path, tag: Option<Tag>) -> Result<Self, SessionError> {
        let repo = Repo::discover(dir)?;
        let Chosen { tag, choice } = choose_session(&repo, tag)?;
        let history = Arc::new(read_history(&repo, &tag)?);
        let contract = stored_contract(&repo, &tag)?;
        let folder = SessionFolder::new(repo.main_worktree(), &tag);
        Ok(SessionView { repo, tag, folder, contract, history, choice, hidden: Arc::default() })
    }

    /// The same with the runs and verdicts of its hidden split, for a person: a call sees an empty file in their place.
    ///
    /// # Errors
    ///
    /// Their file cannot be read.
    pub fn for_person(self) -> Result<SessionView, SessionError> {
        let hidden = HiddenFile::new(&self.folder.state()).read()?;
        Ok(SessionView { hidden: Arc::new(hidden), ..self })
    }

    /// The axes of its experiments, where it has some.
    pub fn composite(&self) -> Option<&Composite> {
        self.contract.as_ref()?.composite.as_ref()
    }

    /// The change of an experiment as a unified diff; empty for the baseline, and where the commit is not known.
    pub fn diff(&self, record: &Record) -> Result<Vec<u8>, SessionError> {
        if record.base == record.commit || !record.commit.is_known() {
            return Ok(Vec::new());
        }
        Ok(self.repo.objects.diff_text(&record.base, &record.commit)?)
    }

    /// The files that an experiment changed; empty for the baseline, and where the commit is not known or not readable.
    fn changed(&self, record: &Record) -> Vec<String> {
        if record.base == record.commit || !record.commit.is_known() {
            return Vec::new();
        }
        let changed = self.repo.objects.changed_between(&record.base, &record.commit).unwrap_or_default();
        changed.iter().map(|changed| changed.path.to_string_lossy().into_owned()).collect()
    }

    /// The path of the log of an experiment's newest run, compressed or not.
    pub fn run_log(&self, id: ExperimentId) -> PathBuf {
        self.folder.run_log(id)
    }

    /// Has programs of git's configuration started as at the session's start, behind walls if jobs have these: for commands that
    /// check files out or sign commits.
    ///
    /// # Errors
    ///
    /// A wall is required and cannot be built, or the stored settings cannot be read.
    pub fn convert_as_at_start(&mut self) -> Result<(), SessionError> {
        let sandbox = self.contract.as_ref().map(|contract| contract.sandbox).unwrap_or_default();
        let (mut walls, _) = Walls::tried(sandbox, &self.repo, self.repo.worktree())?;
        if let Some(contract) = &self.contract {
            (walls, _) = walls.hiding(&self.repo, &self.folder, contract)?;
        }
        convert_as_at_start(&mut self.repo, &self.folder, &walls)
    }

    /// The logs of an experiment's runs that are there, in order: those of versions that were reworked, with their number,
    /// and the newest. Compressed or not.
    pub fn run_logs(&self, record: &Record) -> Vec<(Option<usize>, PathBuf)> {
        let versions = (1..=record.change.versions.len()).map(|version| {
            let log = self.folder.log(record.id, &format!("run.{version}.log"));
            (Some(version), log)
        });
        versions.chain([(None, self.run_log(record.id))]).filter(|(_, log)| log.exists()).collect()
    }

    /// Gives a log piece by piece as plain text: not compressed, without escapes and control characters.
    pub fn stream_log(&self, log: &Path, mut give: impl FnMut(&[u8])) -> Result<(), SessionError> {
        let failed = |source| SessionError::Io { action: "read", path: log.to_owned(), source };
        let mut input = open_regular(log).and_then(plain_log).map_err(failed)?;
        let (mut plain, mut buffer) = (PlainText::default(), vec![0; 256 * 1024]);
        loop {
            match input.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => give(&plain.push(&buffer[..count])),
            }
        }
        give(&plain.finish());
        Ok(())
    }

    /// The last lines of the newest log, without escape sequences; empty where there is no log.
    pub fn log_tail(&self, id: ExperimentId) -> Result<String, SessionError> {
        const LINES: usize = 20;
        let text = plain_text(&read_log_tail(&self.run_log(id))?);
        let lines: Vec<_> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(LINES)..].iter().map(|line| format!("{line}\n")).collect())
    }

    /// Reads the session and the record of an experiment. If its name contains no session, uses `tag` as in
    /// [`SessionView::open`].
    pub fn open_at(dir: &Path, name: &ExperimentName, tag: Option<Tag>) -> Result<(Self, Record), SessionError> {
        if let (Some(tag), Some(other)) = (&tag, &name.tag)
            && tag != other
        {
            return Err(refuse(Usage, format!("{name} is not in session {tag}")).hint("omit --tag").into());
        }
        let view = SessionView::open(dir, name.tag.clone().or(tag))?;
        let record = view.find(&name.which)?.clone();
        Ok((view, record))
    }

    /// Refuses an experiment whose code nobody knows: another tool's, whose ledger names no commit of this repository.
    pub fn require_commit(record: &Record) -> Result<(), SessionError> {
        if record.commit.is_known() {
            return Ok(());
        }
        let why = match &record.origin.imported {
            Some(Imported { file, line, commit_text: Some(text), .. }) if !text.trim().is_empty() => {
                format!("line {line} of {file} names `{}`, a commit that does not exist here", cut(text.trim(), 40))
            }
            Some(Imported { file, line, .. }) => format!("line {line} of {file} names none"),
            None => "its record names none".to_owned(),
        };
        let Record { tag, id, .. } = record;
        Err(refuse(CannotStart, format!("the commit of experiment {id} of session {tag} is unknown: {why}"))
            .hint(
                "if another repository has it, `git fetch` it from there and import the ledger again with `--tag NEW`",
            )
            .into())
    }

    /// The session and why it is the one that is read.
    pub fn chosen(&self) -> Chosen {
        Chosen { tag: self.tag.clone(), choice: self.choice }
    }

    /// The experiment that is meant.
    pub fn find(&self, which: &Which) -> Result<&Record, SessionError> {
        find_experiment(&self.history, which).map_err(|unfound| match unfound {
            Unfound::Missing => no_experiment(&self.history, &self.tag, which.to_string()),
            Unfound::NothingKept => self.nothing_kept().into(),
            Unfound::Ambiguous(found) => {
                let candidate = |record: &&Record| format!("{} ({})", record.id, record.commit.short(12));
                let candidates = found.iter().map(candidate).collect::<Vec<_>>().join(", ");
                refuse(Usage, format!("`{which}` matches several commits of session {}: {candidates}", self.tag))
                    .hint("write more digits, or use the experiment number")
                    .into()
            }
        })
    }

    /// The error where nothing was kept but the baseline.
    pub fn nothing_kept(&self) -> UserError {
        refuse(CannotStart, format!("session {} has kept nothing but its baseline", self.tag))
            .hint(format!("run `ar log {}` to see the outcomes", self.tag))
    }

    /// The briefing of an agent for the next experiment, below 8 KB without the user's words. `is_called` is true if the loop
    /// has called the agent for it.
    ///
    /// # Errors
    ///
    /// The terms were changed after they were approved.
    pub fn brief(&self, is_called: bool) -> Result<String, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| no_session(&self.repo, &self.tag))?;
        if contract.imported {
            return Err(SessionError::ImportedSession(self.tag.to_string()));
        }
        refuse_changed(&self.repo, &self.tag, contract)?;
        let (ladder, calls, has_night) = match self.journal() {
            Some(Journal { ladder, calls, expenses, .. }) => (ladder, calls, expenses.last_night().is_some()),
            None => (LadderState::of_records(Some(contract), &self.history), Calls::default(), true),
        };
        let briefing = Briefing {
            contract,
            history: &self.history,
            experiment: self.history.next_id(),
            idle_calls: calls.idle(),
            last_call: calls.last(),
            memories: &self.memories(ladder.wants_new_direction()),
            directive: ladder.directive(),
            coverage: &covered_topics(&self.repo, contract, &self.history)?,
            found: &[],
            asked_again: None,
            reworked: None,
            others: &[],
            merging: None,
            proposals: &[],
            words: &waiting_messages(&self.repo, &self.tag).unwrap_or_default(),
            failed_log: &last_failed_log(&self.folder, &self.history),
            is_full: session_enough(cap_of_tries(contract, has_night), &self.history).is_some(),
        };
        Ok(agent::brief(&briefing, is_called))
    }

    /// The reported reason for the end of the last loop; absent while a loop is active or if there was none.
    pub fn ended(&self) -> Option<String> {
        self.journal()?.presence.ended().map(str::to_owned)
    }

    /// Returns whether the session is idle and its last loop ended in good order: neither killed, terminated nor detached from its
    /// run. Then only the user continues it. A session without a journal, such as an imported one, has no loop to continue.
    pub fn is_over(&self) -> bool {
        let is_idle = matches!(self.folder.owner(self.repo.git_dir()), Ok(None));
        let journal = Journal::read(&self.folder.state());
        is_idle && journal.is_ok_and(|read| read.is_none_or(|journal| journal.presence.is_known_to_be_over()))
    }

    /// The experiments after which the session was flagged for review.
    pub fn flagged(&self) -> Vec<ExperimentId> {
        let recorded = || LadderState::of_records(self.contract.as_ref(), &self.history);
        self.journal().map_or_else(recorded, |journal| journal.ladder).flagged().to_vec()
    }

    /// Returns whether changes wait for a train or for fresh runs while the session is idle, and whether any is more than a second
    /// look, whose discard has a record.
    pub fn idle_winners(&self) -> (bool, bool) {
        let is_idle = matches!(self.folder.owner(self.repo.git_dir()), Ok(None));
        let Some(journal) = self.journal().filter(|_| is_idle) else { return (false, false) };
        let confirming: Vec<bool> = journal.in_phase(Phase::Confirming).map(|it| it.head().is_second_look()).collect();
        let is_new = !journal.line.is_empty() || confirming.contains(&false);
        (is_new || !confirming.is_empty(), is_new)
    }

    /// The journal, as far as it can be read.
    pub(crate) fn journal(&self) -> Option<Journal> {
        Journal::read(&self.folder.state()).ok().flatten()
    }

    /// The lessons, findings and ideas for the next experiment, as far as they are readable.
    pub(crate) fn memories(&self, new_direction: bool) -> Memories {
        let files = Files::read(self.repo.main_worktree(), &self.folder.state(), |_, _| {});
        let draw = self.contract.as_ref().map(|contract| contract.draw).unwrap_or_default();
        memories(&self.tag, &self.history, self.history.next_id(), new_direction, draw, files)
    }

    /// The notes on these experiments, by number; those without one are left out.
    pub fn notes<'a>(
        &self,
        records: impl IntoIterator<Item = &'a Record> + Clone,
    ) -> Result<BTreeMap<ExperimentId, Vec<Note>>, SessionError> {
        let texts = Notes::new(&self.repo.refs, NOTES).on(records.clone().into_iter().map(|record| &record.commit))?;
        let read = |record: &Record| {
            let text = texts.get(&record.commit)?;
            Some((record.id, Note::read_all(text, &self.tag, record.id)))
        };
        Ok(records.into_iter().filter_map(read).filter(|(_, notes)| !notes.is_empty()).collect())
    }

    /// Adds a note to an experiment, also while a loop is at work on the session.
    pub fn add_note(&self, record: &Record, text: &str, clock: Clock) -> Result<(), SessionError> {
        SessionView::require_commit(record)?;
        let by = self.repo.committer_name()?;
        let line = Note::line(clock.now(), &self.tag, record.id, &by, text);
        Ok(Notes::new(&self.repo.refs, NOTES).add(&record.commit, &line)?)
    }

    /// Builds the report of the session.
    ///
    /// # Errors
    ///
    /// It has neither terms nor records.
    pub fn report(&self) -> Result<Report, SessionError> {
        let metric = self.contract.as_ref().map(|contract| (&contract.metric.name, contract.metric.direction));
        let recorded = || Some(&self.history.records().first()?.metric).map(|metric| (&metric.name, metric.direction));
        let (metric, direction) = metric.or_else(recorded).ok_or_else(|| no_session(&self.repo, &self.tag))?;
        let (tag, contract, history) = (self.tag.as_str(), self.contract.as_ref(), Arc::clone(&self.history));
        let report = Report::of_session(tag, (metric, direction), contract, history, self.facts());
        Ok(report.with_artifacts(|best| self.artifacts_of(best)))
    }

    /// The runs and verdicts of its hidden split, as JSON lines.
    ///
    /// # Errors
    ///
    /// It has none, or their file cannot be read.
    pub fn hidden_lines(&self) -> Result<String, SessionError> {
        let file = HiddenFile::new(&self.folder.state());
        let text = file.text()?;
        let none = || {
            refuse(CannotStart, format!("session {} has no hidden values", self.tag))
                .hint("see `ar run --help` for --holdout")
        };
        if text.is_empty() { Err(none().into()) } else { Ok(text) }
    }

    /// Facts about the session that its records lack.
    pub fn facts(&self) -> SessionFacts {
        let (layout, spent, is_idle, checks) = match self.journal() {
            Some(Journal { layout, expenses, attempts, checks, .. }) => {
                (layout, *expenses.spent(), attempts.is_empty(), checks)
            }
            None => (None, Spent::default(), false, Checks::default()),
        };
        let tip = || self.repo.refs.branch(&self.tag.branch_ref()).ok().flatten();
        SessionFacts {
            repository: self.repo.main_worktree().file_name().map(|name| name.to_string_lossy().into_owned()),
            flagged: self.flagged(),
            checks: checks.made().to_vec(),
            ended: self.ended(),
            agent_timeout: self.contract.as_ref().map(|contract| contract.agent_timeout),
            changed: self.history.records().iter().map(|record| self.changed(record)).collect(),
            elsewhere: self.elsewhere(),
            program: self.contract.as_ref().and_then(|contract| {
                let program = program_of(&contract.command, self.repo.worktree())?;
                Some(program.display().to_string())
            }),
            tip: if is_idle { tip() } else { None },
            layout,
            spent,
            has_reviewer: self.contract.as_ref().is_some_and(|contract| contract.reviewer.is_some()),
            saved: self.saved().unwrap_or_default(),
            hidden: Arc::clone(&self.hidden),
            seals_runs: self.contract.as_ref().is_some_and(Contract::decides_on_hidden),
        }
    }

    /// Baselines of other sessions that measured a kept commit of this session by the same command.
    pub(crate) fn elsewhere(&self) -> Vec<OtherBaseline> {
        let others = session_tags(&self.repo).unwrap_or_default();
        let baselines = others.iter().filter(|tag| **tag != self.tag).filter_map(|tag| {
            let object = self.repo.refs.record(&tag.record_ref(ExperimentId::BASELINE)).ok()??;
            parse_record(&object.name, &object.message).ok()
        });
        let kept = |record: &&Record| record.outcome == Outcome::Keep;
        let command = |record: &Record| record.runs.last().map(|run| run.command.clone());
        let is_same = |one: &Record, other: &Record| {
            one.commit == other.commit && one.metric.name == other.metric.name && command(one) == command(other)
        };
        baselines
            .filter(|baseline| self.history.records().iter().filter(kept).any(|record| is_same(record, baseline)))
            .filter(|baseline| baseline.metric.value.is_some())
            .map(OtherBaseline::of)
            .collect()
    }

    /// Number of saved commits with work of the user or of an interrupted call. Excludes commits that `ar` saved of
    /// experiments: their records and ideas name them.
    fn saved(&self) -> Option<usize> {
        let saved = self.repo.refs.refs_under(&format!("{}/saved", self.tag.ref_prefix())).ok()?;
        let refs = SessionRefs { repo: &self.repo, tag: &self.tag };
        let is_own = |commit: &str| refs.is_of_experiment(&CommitId::new(commit.to_owned())).unwrap_or(false);
        Some(saved.iter().filter(|(_, commit)| !is_own(commit)).count())
    }
}

/// The place of an experiment's artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedArtifacts {
    /// In this folder.
    In(PathBuf),
    /// Deleted or missing, with the reason.
    Gone(String),
}

impl SessionView {
    /// Finds the artifacts of an experiment. Returns `None` if it left none.
    pub fn artifacts(&self, record: &Record) -> Option<SavedArtifacts> {
        if record.proof.artifacts.is_empty() {
            return None;
        }
        let folder = self.folder.artifacts(record.id);
        if folder.is_dir() {
            return Some(SavedArtifacts::In(folder));
        }
        let dropped = self.folder.why_artifacts_dropped(record.id);
        Some(SavedArtifacts::Gone(dropped.unwrap_or_else(|| format!("{} is missing", folder.display()))))
    }

    /// The folder of an experiment's artifacts, if they are there, from the root of the main working tree.
    pub(crate) fn artifacts_of(&self, id: ExperimentId) -> Option<String> {
        let SavedArtifacts::In(folder) = self.artifacts(self.history.get(id)?)? else { return None };
        let folder = folder.strip_prefix(self.repo.main_worktree()).map_or(folder.as_path(), |inside| inside);
        Some(folder.display().to_string())
    }

    /// Copies the artifacts of an experiment into `dir`, and gives their new paths.
    ///
    /// # Errors
    ///
    /// It has none any more; something stands in their place already.
    pub fn restore_artifacts(&self, record: &Record, dir: &Path) -> Result<Vec<PathBuf>, SessionError> {
        let folder = match self.artifacts(record) {
            Some(SavedArtifacts::In(folder)) => folder,
            Some(SavedArtifacts::Gone(why)) => {
                return Err(refuse(CannotStart, format!("the artifacts of experiment {} are gone: {why}", record.id))
                    .hint("run `ar repro N` to run it again; raise --keep-artifacts to keep more of them")
                    .into());
            }
            None => {
                return Err(refuse(CannotStart, format!("{} has no artifacts", experiment_name(record.id)))
                    .hint("pass --artifact GLOB to `ar run` or `ar resume` to save files of the runs that it keeps")
                    .into());
            }
        };
        // A record may come from elsewhere.
        let is_inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let paths: Vec<&Path> = record.proof.artifacts.iter().map(|artifact| Path::new(&artifact.path)).collect();
        if let Some(outside) = paths.iter().find(|path| !is_inside(path)) {
            return Err(SessionError::ArtifactOutside { id: record.id, path: (*outside).to_owned() });
        }
        if let Some(taken) = paths.iter().map(|path| dir.join(path)).find(|to| fs::symlink_metadata(to).is_ok()) {
            return Err(refuse(CannotStart, format!("{} already exists", taken.display()))
                .hint("name an empty folder, or one that does not exist yet")
                .into());
        }
        let copy = |path: &&Path| {
            let (from, to) = (folder.join(path), dir.join(path));
            let copy = || {
                make_folder(to.parent().unwrap_or(dir))?;
                // A kill must not leave a partial file under the final name.
                let part = free_beside(&to, ".part");
                clone_file(&from, &part, |_| true)?;
                fs::rename(&part, &to)
            };
            copy().map_err(failed("copy", &from))?;
            Ok(to.clone())
        };
        paths.iter().map(copy).collect()
    }
}

/// The file of a research session whose `type` says which sessions are rated for the same.
const RESEARCH_TERMS: &str = "research.toml";

/// The largest such file that is read, in bytes.
const LARGEST_TERMS: u64 = 1 << 20;

impl SessionView {
    /// Rates the session, 0..1, also while a loop is active; the rating that it had before.
    ///
    /// # Errors
    ///
    /// Nothing is known of its terms, or the rating cannot be read or written.
    pub fn rate(&self, value: f64, clock: Clock) -> Result<Option<Rating>, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| self.no_contract())?;
        let rating = Rating { value, at: clock.now(), by: self.repo.committer_name()? };
        let before = rating_of(&self.tag, &contract.start, &read_ratings()?);
        let axes = match &contract.composite {
            Some(composite) => {
                let likeness = likeness(&self.repo, contract, composite)?;
                Some((likeness, axis_means(composite, self.history.records())))
            }
            None => None,
        };
        let line = RatedLine::new(self.repo.main_worktree(), &self.tag, &contract.start, rating, axes);
        if !add_rating(&line)? {
            return Err(refuse(CannotStart, "no home folder for your ratings")
                .hint("set HOME, or XDG_STATE_HOME to an absolute path")
                .into());
        }
        Ok(before)
    }

    /// The weights of the session's axes that the user's ratings speak for: of all sessions with the same axes and of the same
    /// type, in whatever repository.
    ///
    /// # Errors
    ///
    /// The session has no axes, or the ratings cannot be read.
    pub fn weigh(&self) -> Result<Weighed, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| self.no_contract())?;
        let no_axes = || {
            refuse(CannotStart, format!("session {} has no axes to weigh", self.tag)).hint(
                "name a session with a [composite], as in `ar report TAG --weights`; `ar rate` lists the sessions",
            )
        };
        let composite = contract.composite.clone().ok_or_else(no_axes)?;
        let own = likeness(&self.repo, contract, &composite)?;
        let mut elsewhere = read_ratings()?;
        let ratings = elsewhere.clone();
        let (mut rated, mut others, mut unrated, mut unread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for tag in session_tags(&self.repo)? {
            if let Ok(Some(contract)) = stored_contract(&self.repo, &tag) {
                elsewhere.retain(|line| !line.is_of(&tag, &contract.start));
            }
            match self.one_of(&tag, &own, &ratings) {
                Ok(One::Rated(session)) => rated.push(session),
                Ok(One::Unrated) => unrated.push(tag),
                Ok(One::Other(is_rated)) => others.extend(is_rated.then(|| tag.to_string())),
                Err(error) => unread.push((tag, with_causes(&error))),
            }
        }
        // A session of another repository counts as it stood when it was rated.
        for line in elsewhere {
            match &line.likeness {
                Some(likeness) if *likeness == own => {
                    rated.push(RatedSession { name: line.name(), rating: line.rating.value, means: line.means });
                }
                _ => others.push(line.name()),
            }
        }
        let weights = weigh(&composite, &rated);
        Ok(Weighed { composite, kind: own.kind, others, unrated, unread, weights })
    }

    fn one_of(&self, tag: &Tag, own: &Likeness, ratings: &[RatedLine]) -> Result<One, SessionError> {
        let repo = &self.repo;
        let Some(contract) = stored_contract(repo, tag)? else { return Ok(One::Other(false)) };
        let rating = rating_of(tag, &contract.start, ratings);
        let Some(composite) = &contract.composite else { return Ok(One::Other(rating.is_some())) };
        if likeness(repo, &contract, composite)? != *own {
            return Ok(One::Other(rating.is_some()));
        }
        let Some(rating) = rating else { return Ok(One::Unrated) };
        let means = axis_means(composite, read_history(repo, tag)?.records());
        Ok(One::Rated(RatedSession { name: tag.to_string(), rating: rating.value, means }))
    }

    fn no_contract(&self) -> SessionError {
        SessionError::NoContract(self.folder.root().to_owned())
    }
}

/// A session as seen from another one whose axes are weighed.
enum One {
    Rated(RatedSession),
    Unrated,
    /// It has other axes; true if it is rated.
    Other(bool),
}

/// The rating of a session; `None` if it has none, or if nothing is known of its terms.
///
/// # Errors
///
/// Its terms or the ratings cannot be read.
pub fn rating(repo: &Repo, tag: &Tag) -> Result<Option<Rating>, SessionError> {
    let contract = stored_contract(repo, tag)?;
    let ratings = read_ratings()?;
    Ok(contract.and_then(|contract| rating_of(tag, &contract.start, &ratings)))
}

fn rating_of(tag: &Tag, start: &CommitId, ratings: &[RatedLine]) -> Option<Rating> {
    ratings.iter().find(|line| line.is_of(tag, start)).map(|line| line.rating.clone())
}

fn likeness(repo: &Repo, contract: &Contract, composite: &Composite) -> Result<Likeness, SessionError> {
    Ok(Likeness {
        axes: composite.axes.iter().map(|(name, axis)| (name.clone(), axis.range)).collect(),
        kind: type_of(repo, &contract.start)?,
    })
}

/// The type of the question that a session began with; `None` where it is not one of research.
fn type_of(repo: &Repo, start: &CommitId) -> Result<Option<String>, SessionError> {
    #[derive(Deserialize)]
    struct Terms {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    let Stored::File(bytes) = repo.objects.read_at(start, Path::new(RESEARCH_TERMS), LARGEST_TERMS)? else {
        return Ok(None);
    };
    // The session's own commands report unreadable terms.
    let terms = str::from_utf8(&bytes).ok().and_then(|text| toml::from_str::<Terms>(text).ok());
    Ok(terms.map(|terms| terms.kind.unwrap_or_else(|| PRESETS[0].0.to_owned())))
}
