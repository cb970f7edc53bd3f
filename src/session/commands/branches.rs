//! Code and history that enter or leave a session: an experiment on a branch of its own, kept changes as a clean branch,
//! another tool's ledger, and the files that a new session begins with.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Map, json};

use crate::domain::{
    Clock, CommitId, Concurrency, Conditions, Contract, DiffStat, ExperimentId, FEWEST_DIGITS, Failure, Imported,
    MetricSource, MetricSpec, MetricValue, Note, Outcome, Proof, Provenance, RECORD_VERSION, Record, RecordedChange,
    ReviewVerdict, Tag, UserError, list, one_line, shell_word,
};
use crate::fs::{make_folder, read_regular};
use crate::git::{GitError, Head, HeadTarget, Merged, Notes, Repo};
use crate::ledger::{Ledger, Row};
use crate::rules::{kept_message, kept_steps, listed, squashed_message};
use crate::session::errors::{CannotStart, Damaged, SessionError, refuse};
use crate::session::files::{exclude_own, is_session, session_of_head};
use crate::session::handlers::SessionRefs;
use crate::session::store::{Interrupts, watch_programs, watch_programs_until};
use crate::session::view::NOTES;
use crate::session::{SessionView, branch_in_the_way, is_taken, new_tag, note_finalized};
use crate::state::{HiddenFile, SEE_DOCTOR, SessionFolder};

/// The branches of sessions stand below this.
const SESSION_BRANCHES: &str = "autoresearch/";

/// The branch and working tree that now contain an experiment's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The new branch, as git shows it.
    pub branch: String,
    /// The new working tree that it is checked out in, where one was asked for.
    pub worktree: Option<PathBuf>,
}

/// A clean branch of what a session kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finalized {
    /// The new branch, as git shows it.
    pub branch: String,
    /// The commit that it begins on: the one that the session started from.
    pub start: CommitId,
    /// Its commits with their subjects, oldest first.
    pub commits: Vec<(CommitId, String)>,
    /// The last keep in it, if no run had its tree.
    pub unmeasured: Option<ExperimentId>,
    /// The session that this one follows, and how many commits of the user's are between the two.
    pub follows: Option<(Tag, usize)>,
    /// True if its notes have hidden values.
    pub has_hidden: bool,
}

/// The contents chosen for a clean branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinalizeTerms {
    /// True to squash all keeps into one commit.
    pub squash: bool,
    /// The keeps that are left out.
    pub without: Vec<ExperimentId>,
    /// True to include keeps that the reviewer judged not earned.
    pub with_not_earned: bool,
}

impl SessionView {
    /// Puts an experiment's code on the new branch `branch`, `<tag>-<number>` unless said, and where `worktree` is given
    /// checks it out there, unless `interrupts` ask to stop meanwhile.
    ///
    /// # Errors
    ///
    /// When the branch or an entry at `worktree` already exists, or the branch would look like a session's.
    pub fn restore(
        &self,
        record: &Record,
        branch: Option<String>,
        worktree: Option<&Path>,
        interrupts: &Interrupts,
    ) -> Result<Restored, SessionError> {
        SessionView::require_commit(record)?;
        let branch = branch.unwrap_or_else(|| format!("{}-{}", self.tag, record.id));
        let left = if worktree.is_some() { self.left_branch(&branch, &record.commit)? } else { None };
        let full = left.clone().map_or_else(|| self.free_branch(&branch), Ok)?;
        let place = worktree.map(|dir| self.repo.place_for_worktree(dir)).transpose()?;
        if left.is_none() {
            let why = format!("branch: created from experiment {} of {}", record.id, self.tag);
            self.repo.refs.create_branch(&full, &record.commit, &why)?;
        }
        let Some(place) = place else { return Ok(Restored { branch, worktree: None }) };
        watch_programs_until(&self.repo, interrupts)?;
        match self.repo.add_worktree(&place, &HeadTarget::Branch(full.clone())) {
            Ok(made) => Ok(Restored { branch, worktree: Some(made.worktree().to_owned()) }),
            Err(error) => {
                if left.is_none() {
                    self.repo.refs.delete_branch(&full, &record.commit)?;
                }
                Err(error.into())
            }
        }
    }

    /// Makes a new branch of what was kept, `<tag>-final` unless said: from the commit that the session started from, one
    /// commit for each kept experiment with its tree, or a single one with the last tree.
    ///
    /// # Errors
    ///
    /// When nothing was kept but the baseline, the kept experiments are no chain, or the reviewer judged one of them not
    /// earned. Also when the branch already exists or would look like a session's.
    pub fn finalize(
        &self,
        branch: Option<String>,
        wanted: &FinalizeTerms,
        clock: Clock,
    ) -> Result<Finalized, SessionError> {
        let branch = branch.unwrap_or_else(|| format!("{}-final", self.tag));
        let full = self.free_branch(&branch)?;
        let chain = self.kept_chain()?;
        let [baseline, kept @ ..] = chain.as_slice() else { return Err(self.nothing_kept().into()) };
        if let Some(id) = wanted.without.iter().find(|id| !kept.iter().any(|record| record.id == **id)) {
            return Err(self.not_kept(*id, "it cannot be left out").into());
        }
        let is_left_out = |record: &Record| wanted.without.contains(&record.id);
        let is_doubted = |record: &&&Record| {
            let verdict = record.proof.review.as_ref().map(|review| review.verdict);
            verdict == Some(ReviewVerdict::NotEarned) && !is_left_out(record)
        };
        let doubted: Vec<ExperimentId> = kept.iter().filter(is_doubted).map(|record| record.id).collect();
        if !doubted.is_empty() && !wanted.with_not_earned {
            return Err(not_earned(&self.tag, &doubted).into());
        }
        let follows = self.follows(&baseline.commit)?;
        let subject = |message: &str| message.lines().next().unwrap_or_default().to_owned();
        let Some(last) = kept.iter().rfind(|record| !is_left_out(record)) else {
            return Err(self.nothing_kept().into());
        };
        watch_programs(&self.repo, None)?;
        let start = baseline.commit.clone();
        let mut commits = Vec::new();
        let mut tip = start.clone();
        let replaced = self.history.replaced();
        let mut missing: Vec<ExperimentId> = Vec::new();
        // The left-out keeps that come before the last one included.
        let mut lacks: Vec<ExperimentId> = Vec::new();
        for (record, before) in kept_steps(&chain) {
            if is_left_out(record) {
                missing.push(record.id);
                continue;
            }
            lacks.clone_from(&missing);
            let replaced_by = replaced.get(&record.id).copied();
            let message = kept_message(&self.tag, record, before, replaced_by, &missing);
            tip = match missing.is_empty() {
                true => self.repo.objects.commit_tree_of(&record.commit, &tip, &message)?,
                false => self.commit_without(record, &tip, &message)?,
            };
            let by = replaced_by.map(|by| format!(" (replaced by {by})")).unwrap_or_default();
            commits.push((tip.clone(), subject(&message) + &by));
        }
        if wanted.squash {
            let chain: Vec<&Record> = chain.iter().copied().filter(|record| !is_left_out(record)).collect();
            let message = squashed_message(&self.tag, &chain, &lacks);
            commits = vec![(self.repo.objects.commit_tree_of(&tip, &start, &message)?, subject(&message))];
        }
        let has_hidden = self.note_hidden_values(kept, &commits, clock)?;
        let tip = commits.last().map_or(&start, |(commit, _)| commit);
        let why = format!("branch: what session {} kept", self.tag);
        self.repo.refs.create_branch(&full, tip, &why)?;
        // Without the note, `ar run` with slots goes on with the session.
        if let Some(incumbent) = chain.last() {
            let _ = note_finalized(&self.folder, &full, &incumbent.commit);
        }
        let unmeasured = (!lacks.is_empty()).then_some(last.id);
        Ok(Finalized { branch, start, commits, unmeasured, follows, has_hidden })
    }

    /// Notes on each commit of a finalized branch what the hidden split says of its changes; on the only one of a squashed branch, on
    /// all. Returns whether there was anything to note.
    fn note_hidden_values(
        &self,
        kept: &[&Record],
        commits: &[(CommitId, String)],
        clock: Clock,
    ) -> Result<bool, SessionError> {
        let hidden = HiddenFile::new(&self.folder.state()).read()?;
        let notes = Notes::new(&self.repo.refs, NOTES);
        for record in kept {
            let Some(verdict) = hidden.verdict_on(record) else { continue };
            let tree = self.repo.objects.tree_of(&record.commit)?;
            let is_its = |commit: &&CommitId| self.repo.objects.tree_of(commit).is_ok_and(|other| other == tree);
            let own =
                commits.iter().map(|(commit, _)| commit).find(is_its).or(commits.last().map(|(commit, _)| commit));
            if let Some(commit) = own {
                let text = format!("hidden split: {}", verdict.sentence());
                notes.add(commit, &Note::line(clock.now(), &self.tag, record.id, "ar", &text))?;
            }
        }
        Ok(!hidden.verdicts().is_empty())
    }

    /// The error for an experiment that was not kept, with what follows from that.
    pub(crate) fn not_kept(&self, id: ExperimentId, so: &str) -> UserError {
        let tag = &self.tag;
        refuse(CannotStart, format!("experiment {id} of session {tag} was not kept, so {so}"))
            .hint(format!("run `ar log {tag} --outcome keep` to see the keeps"))
    }

    /// The session whose branch this one began on, and how many commits of the user's are from its incumbent to `start`.
    fn follows(&self, start: &CommitId) -> Result<Option<(Tag, usize)>, SessionError> {
        let Some(follows) = self.contract.as_ref().and_then(|contract| contract.follows.as_ref()) else {
            return Ok(None);
        };
        Ok(Some((follows.tag.clone(), self.repo.objects.count_between(&follows.incumbent, start)?)))
    }

    /// Commits what an experiment changed onto a tree that lacks keeps before it.
    fn commit_without(&self, record: &Record, tip: &CommitId, message: &str) -> Result<CommitId, SessionError> {
        let objects = &self.repo.objects;
        match objects.merge(&record.base, tip, &record.commit)? {
            Merged::Tree(tree) => Ok(objects.commit_merged(&tree, tip, message)?),
            Merged::Conflicts(paths) => {
                let (id, tag, paths) = (record.id, &self.tag, list(&paths));
                let text = format!("experiment {id} of session {tag} builds on what is left out: {paths}");
                Err(refuse(CannotStart, text).hint(format!("leave it out as well, with --without {id}")).into())
            }
        }
    }

    /// The baseline and the kept experiments, each made on the one before.
    pub(super) fn kept_chain(&self) -> Result<Vec<&Record>, SessionError> {
        let kept =
            self.history.records().iter().filter(|record| record.id.is_baseline() || record.outcome == Outcome::Keep);
        let chain: Vec<&Record> = kept.collect();
        chain.iter().try_for_each(|record| SessionView::require_commit(record))?;
        match chain.windows(2).find(|pair| pair[1].base != pair[0].commit) {
            Some(pair) => Err(no_chain(&self.tag, [pair[0].id, pair[1].id], pair[1].origin.imported.is_some()).into()),
            None => Ok(chain),
        }
    }

    /// The full ref name of a branch that is at `commit` already and checked out nowhere, as a call leaves it that was killed
    /// before it made the working tree.
    ///
    /// # Errors
    ///
    /// It is checked out in another working tree, which may be half made.
    fn left_branch(&self, branch: &str, commit: &CommitId) -> Result<Option<String>, SessionError> {
        let full = self.repo.refs.branch_ref(branch)?;
        let is_here = matches!(self.repo.refs.head()?, Head::Branch { name, .. } if name == full);
        if is_here || full.starts_with(&format!("refs/heads/{SESSION_BRANCHES}")) || !self.repo.refs.has_ref(&full)? {
            return Ok(None);
        }
        if self.repo.refs.branch(&full)?.as_ref() != Some(commit) {
            return Ok(None);
        }
        match self.repo.refs.checked_out_elsewhere(&full)? {
            Some(worktree) => Err(restored_already(branch, &worktree).into()),
            None => Ok(Some(full)),
        }
    }

    /// Returns the full ref name of a branch that can be created and belongs to no session.
    pub(super) fn free_branch(&self, branch: &str) -> Result<String, SessionError> {
        let full = self.repo.refs.branch_ref(branch)?;
        let is_session = branch.strip_prefix(SESSION_BRANCHES).is_some_and(|tag| tag.parse::<Tag>().is_ok());
        if is_session || full == self.tag.branch_ref() {
            let text = format!("branch {branch} belongs to a session or is named like one");
            return Err(refuse(CannotStart, text).hint("name another one with --branch").into());
        }
        if self.repo.refs.has_ref(&full)? {
            return Err(SessionError::BranchTaken(branch.to_owned()));
        }
        match self.repo.refs.branch_in_the_way(branch)? {
            Some(blocking) => Err(branch_in_the_way(branch, &blocking).into()),
            None => Ok(full),
        }
    }
}

/// The error for a branch to restore to that another working tree has checked out.
fn restored_already(branch: &str, worktree: &Path) -> UserError {
    refuse(CannotStart, format!("branch {branch} already exists, checked out in {}", worktree.display())).hint(format!(
        "name another one with --branch; if an earlier invocation was killed and left it unfinished, run `git worktree \
         remove --force {}` and retry",
        shell_word(worktree)
    ))
}

/// The error for keeps that the reviewer judged not earned.
fn not_earned(tag: &Tag, ids: &[ExperimentId]) -> UserError {
    let without: String = ids.iter().map(|id| format!(" --without {id}")).collect();
    let first = ids.first().copied().unwrap_or(ExperimentId::BASELINE);
    refuse(CannotStart, format!("the reviewer calls what was kept not earned: {}", listed(ids))).hint(format!(
        "run `ar finalize {tag}{without}` to leave them out, or `ar finalize {tag} --with-not-earned` to include them; \
         `ar show {first} --tag {tag}` prints the reason"
    ))
}

/// The error for a keep that was not made on the one before it.
fn no_chain(tag: &Tag, [before, id]: [ExperimentId; 2], is_imported: bool) -> UserError {
    // Another tool may have merged, or amended what it kept.
    if is_imported {
        let text = format!(
            "the kept experiments of session {tag} do not form a chain: experiment {id} is not based on experiment {before}"
        );
        return refuse(CannotStart, text).hint(format!("extract one of them with `ar restore {id} --tag {tag}`"));
    }
    let text = format!(
        "experiment {id} of session {tag} was kept but is not based on experiment {before}, the keep before it"
    );
    refuse(Damaged, text).hint(SEE_DOCTOR)
}

/// Name of the metric if the ledger has none.
const UNNAMED: &str = "value";

/// A session that can be made of a ledger; nothing has been written yet.
#[derive(Debug)]
pub struct Import {
    repo: Repo,
    tag: Tag,
    start: CommitId,
    records: Vec<Record>,
}

impl Import {
    /// Makes records of a ledger's rows, in their order; the first one is the baseline. `file` is how the ledger was named.
    ///
    /// # Errors
    ///
    /// There is no row, no commit in the repository, or something of a session `tag`.
    pub fn new(dir: &Path, ledger: &Ledger, file: &Path, tag: Option<Tag>, clock: Clock) -> Result<Self, SessionError> {
        let repo = Repo::discover(dir)?;
        let tag = new_tag(&repo, tag, clock)?;
        if is_taken(&repo, &tag)? || !repo.refs.refs_under(&tag.ref_prefix())?.is_empty() {
            return Err(refuse(CannotStart, format!("session {tag} already exists, or parts of it remain"))
                .hint("name another one with --tag")
                .into());
        }
        let rows = ledger.outcomes();
        let Some((first, _)) = rows.first() else {
            return Err(refuse(CannotStart, format!("no row of {} can be imported", file.display()))
                .hint(format!("run `ar log --ledger {}` to see what can be read", shell_word(file)))
                .into());
        };
        let head = match repo.refs.head()? {
            Head::Branch { commit, .. } | Head::Detached { commit } => commit,
            Head::Unborn { name } => return Err(GitError::Unborn(name).into()),
        };
        let metric = MetricSpec {
            name: ledger.metric.clone().unwrap_or_else(|| UNNAMED.to_owned()),
            direction: ledger.direction,
            source: MetricSource::default(),
        };
        let file = file.display().to_string();
        let find = repo.objects.commits_starting();
        let (now, known) = (clock.now(), BTreeMap::new());
        let mut maker = Maker { repo: &repo, find: &find, tag: &tag, metric: &metric, file, now, known };
        let start = maker.commit(first).unwrap_or(head);
        let made = (0..)
            .map(ExperimentId::from)
            .zip(&rows)
            .map(|(id, (row, outcome))| maker.record(id, row, *outcome, &start));
        let mut records = made.collect::<Result<Vec<_>, _>>()?;
        drop(find);
        let terms = Contract::new(tag.clone(), metric, String::new(), start.clone(), clock.now());
        if let Some(baseline) = records.first_mut() {
            baseline.unknown_fields.insert("contract".into(), json!(Contract { imported: true, ..terms }));
        }
        Ok(Import { repo, tag, start, records })
    }

    /// The session.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Its experiments.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Writes the records. A kill leaves all of them or none.
    ///
    /// # Errors
    ///
    /// Another process is active in the working tree or on such a session, or the repository cannot be written.
    pub fn write(&self) -> Result<(), SessionError> {
        // Hold the session's lock while creating its refs: without it, they would count as made up by an agent.
        exclude_own(&self.repo, &[])?;
        let folder = SessionFolder::new(self.repo.main_worktree(), &self.tag);
        folder.create()?;
        let _lock = folder.lock(self.repo.git_dir(), true)?;
        SessionRefs { repo: &self.repo, tag: &self.tag }.write_all(&self.records, &self.start)
    }
}

/// Makes records of rows.
struct Maker<'a> {
    repo: &'a Repo,
    /// Finds a commit by the start of its name.
    find: &'a dyn Fn(&str) -> Option<CommitId>,
    tag: &'a Tag,
    metric: &'a MetricSpec,
    file: String,
    /// The time of the import, recorded as the time of each experiment because the ledger has none.
    now: Timestamp,
    /// The commits that cells were found to name.
    known: BTreeMap<String, Option<CommitId>>,
}

impl Maker<'_> {
    /// The commit that a row's cell names by its hash or the start of that. A word such as HEAD named another one then.
    fn commit(&mut self, row: &Row) -> Option<CommitId> {
        let digits = row.commit.as_deref()?.trim().to_ascii_lowercase();
        if digits.len() < FEWEST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.known.entry(digits).or_insert_with_key(|digits| (self.find)(digits)).clone()
    }

    /// The parent of a commit. It may be beyond what a shallow clone has.
    fn base(&self, commit: &CommitId) -> Result<Option<CommitId>, SessionError> {
        let objects = &self.repo.objects;
        Ok(objects.parents(commit)?.into_iter().next().filter(|parent| objects.has_commit(parent)))
    }

    fn record(
        &mut self,
        id: ExperimentId,
        row: &Row,
        outcome: Outcome,
        start: &CommitId,
    ) -> Result<Record, SessionError> {
        let found = self.commit(row);
        let commit_known = found.is_some();
        let commit = found.unwrap_or_else(|| CommitId::unknown(start));
        let base = if commit_known && !id.is_baseline() { self.base(&commit)? } else { None };
        let diff = match &base {
            Some(base) => self.repo.objects.diff(base, &commit)?.stat(),
            None => DiffStat::default(),
        };
        let status = row.status.to_string();
        let problem = row.problem.as_deref().map(|problem| format!("; {problem}")).unwrap_or_default();
        let value = row.value.as_ref();
        let reason = format!("imported: line {} of {} counts as {status}{problem}", row.line, one_line(&self.file));
        let commit_text = row.commit.as_deref().map(str::to_owned);
        let imported = Imported { file: self.file.clone(), line: row.line.into(), status, commit_text, commit_known };
        Ok(Record {
            version: RECORD_VERSION,
            id,
            sequence: Some(id.number()),
            tag: self.tag.clone(),
            base: base.unwrap_or_else(|| commit.clone()),
            commit,
            description: one_line(&row.description),
            direction: None,
            outcome,
            failure: row.failure.map(|class| Failure::new(class, "")),
            reason,
            metric: MetricValue::of(self.metric, value),
            metrics: value.iter().map(|number| (self.metric.name.clone(), number.value)).collect(),
            memory_gb: row.memory_gb,
            runs: Vec::new(),
            proof: Proof::default(),
            change: RecordedChange { diff, ..RecordedChange::default() },
            origin: Provenance {
                started: self.now,
                finished: self.now,
                imported: Some(imported),
                ..Provenance::default()
            },
            conditions: Conditions::default(),
            units: BTreeMap::new(),
            unmet_limits: Vec::new(),
            outside_cause: None,
            beside: Concurrency::default(),
            unknown_fields: Map::new(),
        })
    }
}

/// Writes new files, each with its path and content, and commits them alone, on HEAD's branch. A file that is there with the same
/// content is left as it is. Returns whether there was something to commit.
///
/// # Errors
///
/// HEAD is on the branch of a session, tracked files are changed, a file is there with other content, or git ignores one.
pub fn commit_new_files(repo: &Repo, files: &[(PathBuf, String)], message: &str) -> Result<bool, SessionError> {
    if let Some(tag) = session_of_head(&repo.refs.head()?)
        && is_session(repo, &tag)?
    {
        let text = format!("the current branch is that of session {tag}, which moves it by itself");
        return Err(refuse(CannotStart, text)
            .hint("switch to another branch first, as in: git switch -c research main")
            .into());
    }
    let changes = repo.working_tree.changes()?;
    if !changes.tracked.is_empty() {
        let text = format!("the working tree has uncommitted changes: {}", list(&changes.tracked_paths()));
        return Err(refuse(CannotStart, text).hint("commit or stash them first, or begin in an empty folder").into());
    }
    let mut known = changes.untracked;
    let mut there = Vec::new();
    for (path, content) in files {
        if repo.working_tree.is_ignored(path)? {
            return Err(refuse(CannotStart, format!("git ignores {}, so no commit would have it", path.display()))
                .hint("run `git check-ignore --verbose FILE` to see which line of which file says so")
                .into());
        }
        match read_regular(&repo.worktree().join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(found) if found == content.as_bytes() => there.push(path.as_path()),
            _ => {
                return Err(refuse(CannotStart, format!("{} already exists", path.display()))
                    .hint("begin in an empty folder, or on a branch without it: git switch --orphan research")
                    .into());
            }
        }
    }
    for (path, content) in files.iter().filter(|(path, _)| !there.contains(&path.as_path())) {
        let full = repo.worktree().join(path);
        let failed = |source| SessionError::Io { action: "write", path: full.clone(), source };
        make_folder(full.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        fs::write(&full, content).map_err(failed)?;
    }
    watch_programs(repo, None)?;
    there.into_iter().for_each(|path| known.forget(path));
    let before = repo.refs.head()?;
    let commit = repo.commit_new(message, &known)?;
    Ok(before.commit() != Some(&commit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_taken_out_is_refused_with_a_way_out() {
        let tag: Tag = "t".parse().unwrap();
        let chain = |is_imported| no_chain(&tag, [3.into(), 4.into()], is_imported);
        for (error, kind, text, hint) in [
            (
                restored_already("best", Path::new("a b/c")),
                CannotStart,
                "branch best already exists, checked out in a b/c",
                "name another one with --branch; if an earlier invocation was killed and left it unfinished, run `git \
                 worktree remove --force 'a b/c'` and retry",
            ),
            (
                not_earned(&tag, &[3.into(), 4.into()]),
                CannotStart,
                "the reviewer calls what was kept not earned: 3 and 4",
                "run `ar finalize t --without 3 --without 4` to leave them out, or `ar finalize t --with-not-earned` to \
                 include them; `ar show 3 --tag t` prints the reason",
            ),
            (
                chain(true),
                CannotStart,
                "the kept experiments of session t do not form a chain: experiment 4 is not based on experiment 3",
                "extract one of them with `ar restore 4 --tag t`",
            ),
            (
                chain(false),
                Damaged,
                "experiment 4 of session t was kept but is not based on experiment 3, the keep before it",
                "run `ar doctor` to see the damage and the fix",
            ),
        ] {
            assert_eq!((error.kind, error.to_string().as_str(), error.hint.as_deref()), (kind, text, Some(hint)));
        }
    }
}
