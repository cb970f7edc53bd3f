//! Watches the files and refs that only `ar` may change while an agent or a run is active, and restores them afterwards.
//!
//! Agents and runs have the user's rights, so `ar` cannot keep them from writing. It restores the former content from this
//! process's memory, keeps the changed one next to it, and reports that. If the former content is unknown or not `ar`'s to
//! restore, `ar` only reports the change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::SessionRefs;
use crate::domain::{Actor, Actors, CommitId, ExperimentId, Notice, Record, RowChanges, Tag, list};
use crate::fs::{FileStamp, free_beside, if_exists, is_irregular, move_away, move_irregular_away};
use crate::git::Repo;
use crate::ledger::{Entry, HeldRows, LedgerChanges};
use crate::rules::{History, RefChanges, compare_refs};
use crate::session::errors::SessionError;
use crate::session::files::{
    HeldSessions, IgnoredFiles, Others, OwnFolder, SESSIONS, is_odd_ref, other_records, readable_refs, tag_of,
};
use crate::session::store::{Detection, Expected, Notices, RUN_FILES, Stamps, Store, note_changed};
use crate::state::{EVENT_LOGS, MEMORY_FILES, Memory, SESSIONS_FOLDER, STATE_FILES, SessionFolder};

/// Files of git's by which an agent could hide a change from git, and from `ar`.
const HIDING: [&str; 3] = ["info/attributes", "info/exclude", "info/grafts"];

/// The folder of git's refs that replace objects by others.
const REPLACEMENTS: &str = "refs/replace";

/// Number of earlier runs, newest first, whose logs are named when they change.
const LOGS: usize = 50;

/// Limit on repairs of the rows in a row, while another process keeps changing them.
const ROW_TRIES: u32 = 5;

/// Brings refs to what this process itself has made of them since they were looked at.
fn take_on_written(refs: &mut Vec<(String, String)>, written: BTreeMap<String, Option<String>>) {
    refs.retain(|(name, _)| !written.contains_key(name));
    let is_below = |name: &str, folder| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let is_watched = |(name, _): &(String, String)| is_below(name, SESSIONS) || is_below(name, REPLACEMENTS);
    refs.extend(written.into_iter().filter_map(|(name, object)| Some((name, object?))).filter(is_watched));
    refs.sort();
}

fn watched_refs(repo: &Repo) -> Result<Vec<(String, String)>, SessionError> {
    let mut refs = readable_refs(repo, SESSIONS)?;
    refs.extend(readable_refs(repo, REPLACEMENTS)?);
    Ok(refs)
}

/// Moves files away that stand where git would open them and are no files.
pub(crate) fn move_odd(
    paths: Vec<PathBuf>,
    mut moved: Vec<PathBuf>,
    notices: &mut Notices,
) -> Result<(), SessionError> {
    for path in paths {
        moved.push(move_away(&path).map_err(|source| SessionError::Io { action: "move", path, source })?);
    }
    if !moved.is_empty() {
        notices.note(Notice::GitFilesMoved(moved));
    }
    Ok(())
}

/// Says which files were restored, each with the path of the version found there.
fn note_restored(restored: Vec<(PathBuf, Option<PathBuf>)>, who: &Actors, notices: &mut Notices) {
    let (mut deleted, mut back, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (path, aside) in restored {
        if aside.is_some() { &mut back } else { &mut deleted }.push(path);
        kept.extend(aside);
    }
    if !deleted.is_empty() {
        notices.note(format!("restored ar's files deleted while {who} active: {}", list(&deleted)));
    }
    if !back.is_empty() {
        notices.note(Notice::FilesPutRight { who: who.clone(), paths: back, kept });
    }
}

impl Detection {
    /// Compares the refs at the beginning of the watch with those of `now`. Returns those to restore, and those that were made
    /// or moved in other sessions while these were active.
    fn ref_changes(&self, of: SessionRefs<'_>, now: &[(String, String)]) -> (RefChanges, Vec<(Tag, String)>) {
        let RefChanges { mut foreign, mut moved, mut gone } = compare_refs(&self.refs, now);
        let mut nobodys: BTreeMap<Tag, bool> = BTreeMap::new();
        let mut of_another = |name: &str| {
            let tag = tag_of(name).filter(|tag| tag != of.tag)?;
            let is_nobodys = nobodys.entry(tag.clone()).or_insert_with(|| self.sessions.was_nobodys(of.repo, &tag));
            (!*is_nobodys).then_some(tag)
        };
        let names = foreign.iter().map(|(name, _)| name).chain(moved.iter().map(|(name, ..)| name));
        let of_others = names.filter_map(|name| Some((of_another(name)?, name.clone()))).collect();
        foreign.retain(|(name, _)| of_another(name).is_none());
        moved.retain(|(name, ..)| of_another(name).is_none());
        gone.retain(|(name, _)| of_another(name).is_none());
        (RefChanges { foreign, moved, gone }, of_others)
    }

    /// The refs that were made or moved since the watch began, and not by a session that somebody is at work on.
    pub(crate) fn made_up_refs(&self, of: SessionRefs<'_>) -> Result<BTreeSet<String>, SessionError> {
        let RefChanges { foreign, moved, .. } = self.ref_changes(of, &watched_refs(of.repo)?).0;
        Ok(foreign.into_iter().map(|(name, _)| name).chain(moved.into_iter().map(|(name, ..)| name)).collect())
    }

    /// Puts the refs right, those of records too. Gives the refs that are there then, sorted by name.
    fn restore_refs(
        &self,
        of: SessionRefs<'_>,
        history: &History,
        who: &Actors,
        notices: &mut Notices,
    ) -> Result<Vec<(String, String)>, SessionError> {
        let mut there = watched_refs(of.repo)?;
        let (RefChanges { foreign, moved, gone }, of_others) = self.ref_changes(of, &there);
        for (tag, name) in of_others {
            if is_odd_ref(of.repo, &tag, &name)? {
                notices.note(format!(
                    "left the ref {name}, which is not a record and was created or moved while {who} active: \
                     another process holds that session"
                ));
            }
        }
        for (name, object) in foreign {
            of.drop_foreign(&name, history)?;
            there.retain(|(known, _)| *known != name);
            notices.note(format!("removed the ref {name}, created at {} while {who} active", &object[..8]));
        }
        for (name, was, object) in moved {
            if !of.restore(&name, &was, history)? {
                // Its object is gone: a record is made anew.
                there.retain(|(known, _)| *known != name);
            }
            notices.note(format!("restored the ref {name}, moved to {} while {who} active", &object[..8]));
        }
        let mut back = Vec::new();
        for (name, was) in gone {
            if of.repo.refs.put_ref(&name, &was)? {
                there.push((name.clone(), was));
                back.push(name);
            }
        }
        if !back.is_empty() {
            notices.note(format!("restored ar's refs deleted while {who} active: {}", back.join(", ")));
            there.sort();
        }
        let missing = of.write_missing(history, &there)?;
        if !missing.is_empty() {
            notices.note(format!("restored deleted refs of records: {}", missing.join(", ")));
        }
        Ok(there)
    }
}

impl Expected {
    /// The files that are named when they change: git's settings and hooks, those apart that it never runs, what a run that
    /// is to come will leave, and the logs of earlier runs.
    fn stamps(&self, repo: &Repo, folder: &SessionFolder, history: &History) -> Stamps {
        let git = repo.common_dir();
        let hooks = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten().map(|entry| entry.path());
        let hooks = hooks.filter(|hook| hook.extension() != Some("sample".as_ref()));
        let coming = self.coming().map(|id| folder.run(id)).flat_map(|run| RUN_FILES.map(|name| run.join(name)));
        let earlier = history.records().iter().rev().map(|record| record.id);
        let earlier = earlier.filter(|id| self.at_work.iter().all(|(_, open)| open != id)).take(LOGS);
        let logs = earlier.flat_map(|id| ["run.log", "run.log.gz"].map(|name| folder.run(id).join(name)));
        let settings = ["config", "config.worktree"].iter().map(|name| git.join(name));
        let all = settings.chain(hooks).chain(coming).chain(logs);
        all.filter_map(|path| FileStamp::of(&path).map(|stamp| (path, stamp))).collect()
    }

    /// Puts the state files back that somebody changed since the watch began, and git's files that hide changes.
    pub(crate) fn restore_files(&mut self, notices: &mut Notices) -> Result<(), SessionError> {
        if self.watch.is_some() {
            note_restored(self.files.restore(|_| true)?, &self.actors(), notices);
        }
        Ok(())
    }

    /// Puts git's own files back that are no files any more, and a HEAD that names nothing; moves other pipes in git's folder
    /// away.
    pub(crate) fn restore_git_files(&mut self, repo: &Repo, notices: &mut Notices) -> Result<(), SessionError> {
        let torn = repo.refs.torn_head();
        let is_torn = |path: &Path| torn.as_ref().is_some_and(|torn| torn.path == path);
        let is_watched = self.watch.is_some();
        let restored = self.git.restore(|path| is_watched && is_irregular(path) || is_torn(path))?;
        let mut moved: Vec<PathBuf> = restored.into_iter().filter_map(|(_, kept)| kept).collect();
        // Nothing better is known of it than what its log says.
        if let Some(torn) = repo.refs.torn_head()
            && let Some(at) = repo.refs.logged_head()?
        {
            moved.push(repo.refs.repair_head(&torn, &at)?);
        }
        move_odd(repo.odd_git_files(), moved, notices)
    }

    /// Puts the folder of all sessions back where somebody put a link in its place.
    fn undo_link(&self, notices: &mut Notices) -> Result<(), SessionError> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let failed = |source| SessionError::Io { action: "move", path: SESSIONS_FOLDER.into(), source };
        if let Some(found) = watch.own.restore().map_err(failed)? {
            notices.note(Notice::SessionsRestored { who: self.actors(), found });
        }
        Ok(())
    }

    /// Says which of the files changed that are left as they are.
    fn name_changed(
        &mut self,
        watch: &Detection,
        repo: &Repo,
        folder: &SessionFolder,
        history: &History,
        notices: &mut Notices,
    ) {
        let now = self.stamps(repo, folder, history);
        let paths: BTreeSet<&PathBuf> = now.keys().chain(watch.stamps.keys()).collect();
        let changed = paths.into_iter().filter(|path| now.get(*path) != watch.stamps.get(*path)).cloned();
        let runs: Vec<PathBuf> = self.at_work.iter().map(|(_, id)| folder.run(*id)).collect();
        let (coming, others): (Vec<_>, Vec<_>) = changed.partition(|path| runs.iter().any(|run| path.starts_with(run)));
        let (mut logs, git): (Vec<_>, Vec<_>) = others.into_iter().partition(|path| path.starts_with(folder.runs()));
        // Those of runs that ended meanwhile are new; the oldest one is watched no more. `ar` compresses and drops logs.
        let is_kept = |log: &PathBuf| {
            log.exists() || ["run.log.gz", "logs.dropped"].iter().all(|name| !log.with_file_name(name).exists())
        };
        let is_changed = |log: &PathBuf| watch.stamps.get(log).is_some_and(|known| FileStamp::of(log) != Some(*known));
        logs.retain(|log| is_changed(log) && is_kept(log));
        let who = self.actors();
        note_changed("moved away files that already existed where the next run writes", &who, coming, notices);
        note_changed("logs of earlier runs were changed", &who, logs, notices);
        note_changed("git's own settings changed, left as they are", &who, git, notices);
        let programs = repo.programs().refuse_changed(&watch.programs);
        if !programs.is_empty() {
            notices.note(format!(
                "found programs of git's configuration changed while {who} active: {}; this `ar` does not start them again",
                list(&programs)
            ));
        }
        for (effect, keys) in watch.settings.changed(&repo.watched_settings()) {
            notices.note(Notice::SettingsChanged { when: format!("while {who} active"), keys, effect: effect.into() });
        }
    }

    /// Keeps rows that are taken out of results.tsv with the other files of the open experiment; gives the file.
    fn keep_rows(&self, folder: &SessionFolder, rows: &[String]) -> Result<PathBuf, SessionError> {
        let id = self.at_work.last().map_or(ExperimentId::BASELINE, |(_, id)| *id);
        let path = folder.run(id).join("rows.tsv");
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let write = || {
            move_irregular_away(&path)?;
            File::options().create(true).append(true).open(&path)?.write_all(text.as_bytes())
        };
        write().map_err(|source| SessionError::Io { action: "write", path: path.clone(), source })?;
        Ok(path)
    }
}

impl Store {
    /// Notes that `who` is at work on experiment `id`, and what must be there meanwhile. From here on this process tells what it
    /// writes itself from what others do.
    pub(crate) fn begin_detection(&mut self, who: Actor, id: ExperimentId) -> Result<(), SessionError> {
        self.heal()?;
        self.note_activity();
        self.expected.at_work.push((who, id));
        let Some(mut watch) = self.expected.watch.take() else { return self.hold() };
        // When the first active job ends, `ar` finds the foreign changes since the watch began.
        for (path, stamp) in self.expected.stamps(&self.repo, &self.folder, &self.history) {
            watch.stamps.entry(path).or_insert(stamp);
        }
        self.expected.watch = Some(watch);
        Ok(())
    }

    /// Notes the end of a job of experiment `id`. Puts right what somebody changed meanwhile, and says so. Gives
    /// how many rows were taken out of results.tsv.
    pub(crate) fn end_detection(&mut self, id: ExperimentId) -> Result<u32, SessionError> {
        self.expected.undo_link(&mut self.notices)?;
        self.heal()?;
        let odd = self.repo.working_tree.odd_worktree_files(Some(&self.tip()));
        move_odd(odd, Vec::new(), &mut self.notices)?;
        let rows = self.restore()?;
        let ended = self.expected.at_work.iter().position(|(_, open)| *open == id);
        ended.into_iter().for_each(|place| _ = self.expected.at_work.remove(place));
        match self.expected.at_work.is_empty() {
            true => (self.expected.rows, self.expected.refs) = (None, None),
            false => self.hold()?,
        }
        Ok(rows)
    }

    /// Writes memory files that others changed from the records, and names event logs that others changed. Event logs that are no
    /// files any more, or have a second name, are moved away.
    pub(crate) fn restore_memory(&mut self) -> Result<(), SessionError> {
        let changed = self.expected.changed_memory();
        if changed.is_empty() {
            return Ok(());
        }
        let (who, folder) = (self.expected.actors(), self.folder.logs());
        let failed = |path: &Path, source| SessionError::Io { action: "move", path: path.to_owned(), source };
        let (logs, memory): (Vec<_>, Vec<_>) = changed.into_iter().partition(|path| path.starts_with(&folder));
        let mut restored = Vec::new();
        for path in memory {
            let aside = free_beside(&path, ".rewritten");
            let moved = if_exists(fs::rename(&path, &aside)).map_err(|source| failed(&path, source))?;
            restored.push((path, moved.map(|()| aside)));
        }
        for log in &logs {
            move_irregular_away(log).map_err(|source| failed(log, source))?;
        }
        Memory::new(&self.folder.state()).create(Some(&self.contract), &self.history)?;
        self.expected.expect_again(self.folder.root());
        note_restored(restored, &who, &mut self.notices);
        note_changed("event logs were changed", &who, logs, &mut self.notices);
        Ok(())
    }

    /// Puts the row of an amended record in the place of its former one. What others at work changed is put right before that.
    pub(crate) fn replace_row(&mut self, record: &Record) -> Result<(), SessionError> {
        let is_watched = self.expected.watch.is_some();
        if is_watched {
            self.restore()?;
            self.expected.rows = None;
        }
        self.ledger.replace(&record.commit, &Entry::of(record), &self.folder.state())?;
        if is_watched { self.hold() } else { Ok(()) }
    }

    /// Takes what was durably done as all that was, as after a kill.
    pub(crate) fn begin_anew(&mut self) -> Result<(), SessionError> {
        self.forget_unwritten();
        let at_work: Vec<ExperimentId> = self.expected.at_work.iter().map(|(_, id)| *id).collect();
        at_work.into_iter().try_for_each(|id| self.end_detection(id).map(drop))
    }

    /// Looks at all that nobody at work may change.
    fn hold(&mut self) -> Result<(), SessionError> {
        let memories = self.held_memories();
        let Store { repo, folder, history, expected, .. } = self;
        let state = STATE_FILES.iter().map(|name| folder.state().join(name));
        let hiding = HIDING.iter().map(|name| repo.common_dir().join(name));
        let logs = EVENT_LOGS.iter().map(|name| folder.logs().join(name));
        let memory = MEMORY_FILES.iter().map(|name| folder.state().join(name)).chain(logs);
        let has_agent = expected.coming().next().is_some();
        let refs = match expected.refs.take() {
            Some(mut refs) => {
                take_on_written(&mut refs, repo.refs.take_written());
                refs
            }
            None => {
                let refs = watched_refs(repo)?;
                // The refs read just now include earlier writes.
                repo.refs.take_written();
                refs
            }
        };
        expected.git.learn(repo.own_files());
        expected.files.learn(state.chain(hiding));
        expected.memory = memory.map(|path| (path.clone(), FileStamp::of(&path))).collect();
        expected.watch = Some(Detection {
            memories,
            // Runs never see the files that an agent leaves in a linked working tree.
            ignored: if has_agent && !self.journal.tree_owner().is_disposable() {
                Some(IgnoredFiles::look(repo)?)
            } else {
                None
            },
            own: OwnFolder::look(repo.main_worktree().join(SESSIONS_FOLDER)),
            rows: match expected.rows.take() {
                Some(rows) => rows,
                None => self.ledger.hold()?,
            },
            sessions: HeldSessions::look(repo),
            refs,
            stamps: expected.stamps(repo, folder, history),
            settings: repo.watched_settings(),
            programs: repo.programs().files(),
        });
        Ok(())
    }

    /// Puts right what somebody changed since the last look, and says so. Gives how many rows were taken out of results.tsv.
    fn restore(&mut self) -> Result<u32, SessionError> {
        self.restore_memories()?;
        let Some(mut watch) = self.expected.watch.take() else { return Ok(0) };
        take_on_written(&mut watch.refs, self.repo.refs.take_written());
        let who = self.expected.actors();
        let of = SessionRefs { repo: &self.repo, tag: &self.contract.tag };
        self.expected.refs = Some(watch.restore_refs(of, &self.history, &who, &mut self.notices)?);
        let mut rows = 0;
        for tries in 1..=ROW_TRIES {
            // The next repair finds rows that are written during this one.
            self.expected.rows = Some(self.ledger.hold()?);
            match self.restore_rows(&watch.rows, tries > 1)? {
                Some(count) => rows += count,
                None => break,
            }
            self.expected.rows = None;
        }
        self.expected.name_changed(&watch, &self.repo, &self.folder, &self.history, &mut self.notices);
        if let Some(ignored) = &watch.ignored {
            self.journal.calls.note_ignored(ignored.changed(&self.repo)?);
        }
        Ok(rows)
    }

    /// Takes out what the agent or the baseline wrote into results.tsv, and what nobody may write there; gives how many rows.
    /// `None` where nothing had to be put right. Rows that stay are told unless this looks `again`.
    fn restore_rows(&mut self, held: &HeldRows, again: bool) -> Result<Option<u32>, SessionError> {
        // A commit that an agent made itself becomes that of the experiment.
        let open = self.journal.attempts().filter_map(|open| open.commit().cloned());
        let branch = self.repo.refs.branch(&self.contract.tag.branch_ref()).ok().flatten();
        let mut commits: Vec<CommitId> = open.chain(branch).collect();
        commits.extend(self.repo.refs.head_if_sound()?.and_then(|head| head.commit().cloned()));
        let (mut others, repo, contract) = (Ok(Others::default()), &self.repo, &self.contract);
        let own = self.history.records();
        let records = || {
            others = other_records(repo, &contract.tag);
            let others = others.iter_mut().flat_map(|others| others.sessions.drain(..));
            let mut records: Vec<Record> = others.flat_map(|(_, records)| records).chain(own.iter().cloned()).collect();
            records.retain(|record| record.metric.name == contract.metric.name);
            records
        };
        let mended = self.ledger.repair_since(
            held,
            records,
            &commits,
            !self.expected.removes_rows(),
            (&contract.tag, &self.folder.state()),
        )?;
        others?.troubles.into_iter().for_each(|trouble| self.notices.note_once(trouble));
        let Some((LedgerChanges { lost, false_rows, foreign, reordered }, mut kept)) = mended else { return Ok(None) };
        if kept.is_none() && !false_rows.is_empty() {
            kept = Some(self.expected.keep_rows(&self.folder, &false_rows)?);
        }
        let count = u32::try_from(false_rows.len()).unwrap_or(u32::MAX);
        let was_changed = count > 0 || lost > 0 || reordered;
        if again && !was_changed {
            return Ok(None);
        }
        if was_changed {
            // Rows that came after those that were held went with the file if somebody deleted it.
            self.ensure_rows()?;
        }
        let what = RowChanges { lost, removed: false_rows, reordered, foreign };
        self.note(Notice::RowsPutRight { file: self.ledger.name(), who: self.expected.actors(), what, kept });
        Ok(was_changed.then_some(count))
    }
}
