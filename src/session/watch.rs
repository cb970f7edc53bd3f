//! What nobody but `ar` may change while an agent or a run is at work: looked at before, and put right after.
//!
//! Agents and runs have the user's rights, so nothing keeps them from writing. What they wrote is undone from what this
//! process holds, kept beside it, and named; where that is not known or not `ar`'s to undo, it is named alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::SessionError;
use super::expected::{Stamps, Watch};
use super::ignored::IgnoredFiles;
use super::jobs::RUN_FILES;
use super::others::{HeldSessions, Others, is_odd_ref, other_records, tag_of};
use super::own_folder::OwnFolder;
use super::reading::{SESSIONS, readable_refs};
use super::store::Store;
use crate::domain::{Actor, Actors, CommitId, ExperimentId, Notice, Record, RowChanges, Tag};
use crate::fs::{FileStamp, move_odd_away};
use crate::ledger::{HeldRows, Since};
use crate::rules::{NEWEST_KEPT, RefChanges, compare_refs};
use crate::state::{EVENT_LOGS, Mended, SESSIONS_FOLDER, STATE_FILES};

/// Files of git's by which an agent could hide a change from git, and from `ar`.
const HIDING: [&str; 3] = ["info/attributes", "info/exclude", "info/grafts"];

/// Where git keeps the objects that stand for others.
const REPLACEMENTS: &str = "refs/replace";

/// The size in bytes up to which the newest log is put back.
const HELD_LOG: u64 = 1024 * 1024;

/// How many logs of earlier runs are looked at whenever somebody was at work, the newest ones; all of them when a loop begins
/// and when it ends.
const LOGS: usize = 50;

/// How often in a row the rows are put right that somebody goes on to change.
const ROW_TRIES: u32 = 5;

/// Brings refs to what this process itself has made of them since they were looked at.
fn take_on_written(refs: &mut Vec<(String, String)>, written: BTreeMap<String, Option<String>>) {
    refs.retain(|(name, _)| !written.contains_key(name));
    let is_below = |name: &str, folder| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let is_watched = |(name, _): &(String, String)| is_below(name, SESSIONS) || is_below(name, REPLACEMENTS);
    refs.extend(written.into_iter().filter_map(|(name, object)| Some((name, object?))).filter(is_watched));
    refs.sort();
}

/// Whether a log is gone because it was compressed or dropped.
fn is_looked_after(log: &Path) -> bool {
    !log.exists() && ["run.log.gz", "logs.dropped"].iter().any(|name| log.with_file_name(name).exists())
}

impl Store {
    /// Notes that `who` is at work on experiment `id`, and what must be there meanwhile. From here on this process tells what it
    /// writes itself from what others do.
    pub(super) fn begin_watch(&mut self, who: Actor, id: ExperimentId) -> Result<(), SessionError> {
        self.heal()?;
        self.note_activity();
        self.expected.at_work.push((who, id));
        let stamps = self.stamps();
        match &mut self.expected.watch {
            // What others change meanwhile is found when the first of those at work ends.
            Some(watch) => stamps.into_iter().for_each(|(path, stamp)| _ = watch.stamps.entry(path).or_insert(stamp)),
            None => self.hold()?,
        }
        Ok(())
    }

    /// Notes that nobody is at work on experiment `id` any more. Puts right what somebody changed meanwhile, and says so. Gives
    /// how many rows were taken out of results.tsv.
    pub(super) fn end_watch(&mut self, id: ExperimentId) -> Result<u32, SessionError> {
        self.put_odd_files_right()?;
        self.undo_link()?;
        self.heal()?;
        let rows = self.put_right()?;
        self.expected.at_work.retain(|(_, open)| *open != id);
        match self.expected.at_work.is_empty() {
            true => (self.expected.seen.rows, self.expected.seen.refs) = (None, None),
            false => self.hold()?,
        }
        Ok(rows)
    }

    /// Takes what was durably done as all that was, as after a kill.
    pub(super) fn begin_anew(&mut self) -> Result<(), SessionError> {
        self.forget_unwritten();
        let at_work: Vec<ExperimentId> = self.expected.at_work.iter().map(|(_, id)| *id).collect();
        at_work.into_iter().try_for_each(|id| self.end_watch(id).map(drop))
    }

    /// Looks at all that nobody at work may change.
    fn hold(&mut self) -> Result<(), SessionError> {
        self.look_at_logs();
        let (files, git) = (std::mem::take(&mut self.expected.seen.files), std::mem::take(&mut self.expected.seen.git));
        let state = STATE_FILES.iter().map(|name| self.folder.state().join(name));
        let logs = EVENT_LOGS.iter().map(|name| self.folder.logs().join(name));
        let hiding = HIDING.iter().map(|name| self.repo.common_dir().join(name));
        let newest = self.newest_log().filter(|log| fs::metadata(log).is_ok_and(|meta| meta.len() <= HELD_LOG));
        let has_agent = self.expected.coming().next().is_some();
        let refs = match self.expected.seen.refs.take() {
            Some(mut refs) => {
                take_on_written(&mut refs, self.repo.refs.take_written());
                refs
            }
            None => {
                let refs = self.watched_refs()?;
                // What was written before is among the refs that were looked at.
                self.repo.refs.take_written();
                refs
            }
        };
        self.expected.watch = Some(Watch {
            memories: self.hold_memories(),
            git: git.take_on(self.repo.own_files()),
            // Of linked working trees no run has what an agent leaves there.
            ignored: if has_agent && !self.journal.home().is_disposable() {
                Some(IgnoredFiles::look(&self.repo)?)
            } else {
                None
            },
            own: OwnFolder::look(self.repo.main_worktree().join(SESSIONS_FOLDER)),
            files: files.take_on(state.chain(logs).chain(hiding).chain(newest)),
            rows: match self.expected.seen.rows.take() {
                Some(rows) => Some(rows),
                None => self.ledger.hold()?,
            },
            sessions: HeldSessions::look(&self.repo),
            refs,
            stamps: self.stamps(),
            settings: self.repo.watched_settings(),
        });
        Ok(())
    }

    /// Puts right what somebody changed since the last look, and says so. Gives how many rows were taken out of results.tsv.
    fn put_right(&mut self) -> Result<u32, SessionError> {
        let Some(mut watch) = self.expected.watch.take() else { return Ok(0) };
        take_on_written(&mut watch.refs, self.repo.refs.take_written());
        self.put_memories_back(&watch.memories)?;
        let refs = self.put_refs_right(&watch)?;
        let missing = self.refs().write_missing(&self.history, &refs)?;
        if !missing.is_empty() {
            self.say(Notice::RecordsRestored(missing));
        }
        self.expected.seen.refs = Some(refs);
        let mut rows = 0;
        if let Some(held) = &watch.rows {
            for tries in 1..=ROW_TRIES {
                // What others write while this looks is for the next look to find.
                self.expected.seen.rows = self.ledger.hold()?;
                match self.put_rows_right(held, tries > 1)? {
                    Some(count) => rows += count,
                    None => break,
                }
                self.expected.seen.rows = None;
            }
        }
        self.name_changed(&watch);
        if let Some(ignored) = &watch.ignored {
            let changed = ignored.changed(&self.repo)?;
            self.journal.calls.note_ignored(changed);
        }
        (self.expected.seen.files, self.expected.seen.git) = (watch.files, watch.git);
        Ok(rows)
    }

    /// Puts those files of `ar`'s back that are `meant` and that somebody changed since the watch began.
    pub(super) fn put_files_right(&mut self, meant: impl Fn(&Path) -> bool) -> Result<(), SessionError> {
        let who = self.expected.actors();
        let Some(watch) = &mut self.expected.watch else { return Ok(()) };
        let (mut deleted, mut back, mut kept, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for mended in watch.files.put_back(meant)? {
            match mended {
                Mended::Deleted(path) => deleted.push(path),
                Mended::PutBack(path, aside) => {
                    back.push(path);
                    kept.push(aside);
                }
                Mended::Left(path) => left.push(path),
            }
        }
        if let Some(logs) = &mut self.expected.seen.logs {
            // A log that is as it was is not named a second time.
            for path in deleted.iter().chain(&back) {
                if let (Some(seen), Some(now)) = (logs.get_mut(path), FileStamp::of(path)) {
                    *seen = now;
                }
            }
        }
        if !deleted.is_empty() {
            self.say(Notice::FilesRestored { who: who.clone(), paths: deleted });
        }
        if !back.is_empty() {
            self.say(Notice::FilesPutRight { who: who.clone(), paths: back, kept });
        }
        if !left.is_empty() {
            self.say(Notice::FilesTooLarge { who, paths: left });
        }
        Ok(())
    }

    /// Gives the refs that are there then, sorted by name.
    fn put_refs_right(&mut self, watch: &Watch) -> Result<Vec<(String, String)>, SessionError> {
        let mut there = self.watched_refs()?;
        let (RefChanges { foreign, moved, gone }, of_others) = self.ref_changes(watch, &there);
        let who = self.expected.actors();
        for (tag, name) in of_others {
            if is_odd_ref(&self.repo, &tag, &name)? {
                self.say(Notice::RefLeft { who: who.clone(), name });
            }
        }
        for (name, object) in foreign {
            self.refs().keep_target(&name, &self.history)?;
            self.repo.refs.drop_ref(&name)?;
            there.retain(|(known, _)| *known != name);
            self.say(Notice::RefRemoved { who: who.clone(), name, object });
        }
        for (name, was, object) in moved {
            self.refs().keep_target(&name, &self.history)?;
            if !self.repo.refs.put_ref(&name, &was)? {
                // Its object is gone: a record is made anew.
                self.repo.refs.drop_ref(&name)?;
                there.retain(|(known, _)| *known != name);
            }
            self.say(Notice::RefRestored { who: who.clone(), name, object });
        }
        let mut back = Vec::new();
        for (name, was) in gone {
            if self.repo.refs.put_ref(&name, &was)? {
                there.push((name.clone(), was));
                back.push(name);
            }
        }
        if !back.is_empty() {
            self.say(Notice::RefsRestored { who, names: back });
            there.sort();
        }
        Ok(there)
    }

    /// What became of the refs from when the watch began to what they are `now`: those that are to be put right, and those
    /// made or moved of sessions that somebody was at work on.
    fn ref_changes(&self, watch: &Watch, now: &[(String, String)]) -> (RefChanges, Vec<(Tag, String)>) {
        let RefChanges { mut foreign, mut moved, mut gone } = compare_refs(&watch.refs, now);
        let mut nobodys: BTreeMap<Tag, bool> = BTreeMap::new();
        let mut of_another = |name: &str| {
            let tag = tag_of(name).filter(|tag| *tag != self.contract.tag)?;
            let is_nobodys = nobodys.entry(tag.clone()).or_insert_with(|| watch.sessions.was_nobodys(&self.repo, &tag));
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
    pub(super) fn made_up_refs(&self, watch: &Watch) -> Result<BTreeSet<String>, SessionError> {
        let RefChanges { foreign, moved, .. } = self.ref_changes(watch, &self.watched_refs()?).0;
        Ok(foreign.into_iter().map(|(name, _)| name).chain(moved.into_iter().map(|(name, ..)| name)).collect())
    }

    /// Takes out what the agent wrote into results.tsv, and what nobody may write there; gives how many rows. `None` where
    /// nothing had to be put right. Rows that stay are told unless this looks `again`.
    fn put_rows_right(&mut self, held: &HeldRows, again: bool) -> Result<Option<u32>, SessionError> {
        // A commit that an agent made itself becomes that of the experiment.
        let open = self.journal.open_attempts().filter_map(|open| open.commit.clone());
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
        let mended =
            self.ledger.mend_since(held, records, &commits, !self.expected.is_called(), &self.folder.state())?;
        for trouble in others?.troubles {
            self.say_once(trouble);
        }
        let Some((Since { lost, false_rows, foreign, reordered }, mut kept)) = mended else { return Ok(None) };
        if kept.is_none() && !false_rows.is_empty() {
            kept = Some(self.keep_rows(&false_rows)?);
        }
        let count = u32::try_from(false_rows.len()).unwrap_or(u32::MAX);
        let was_changed = count > 0 || lost > 0 || reordered;
        if again && !was_changed {
            return Ok(None);
        }
        if was_changed {
            // Rows that came after those that were held went with the file if somebody deleted it.
            self.put_rows_back()?;
        }
        let what = RowChanges { lost, removed: false_rows, reordered, foreign };
        self.say(Notice::RowsPutRight { who: self.expected.actors(), what, kept });
        Ok(was_changed.then_some(count))
    }

    /// Keeps rows that are taken out of results.tsv with the other files of the open experiment; gives the file.
    fn keep_rows(&self, rows: &[String]) -> Result<PathBuf, SessionError> {
        let id = self.expected.at_work.last().map_or(ExperimentId::BASELINE, |(_, id)| *id);
        let path = self.folder.run(id).join("rows.tsv");
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let write = || {
            move_odd_away(&path)?;
            File::options().create(true).append(true).open(&path)?.write_all(text.as_bytes())
        };
        write().map_err(|source| SessionError::Io { action: "write", path: path.clone(), source })?;
        Ok(path)
    }

    /// Says which of the files changed that are left as they are.
    fn name_changed(&mut self, watch: &Watch) {
        let now = self.stamps();
        let paths: BTreeSet<&PathBuf> = now.keys().chain(watch.stamps.keys()).collect();
        let changed = paths.into_iter().filter(|path| now.get(*path) != watch.stamps.get(*path)).cloned();
        let runs: Vec<PathBuf> = self.expected.at_work.iter().map(|(_, id)| self.folder.run(*id)).collect();
        let (coming, git): (Vec<_>, Vec<_>) = changed.partition(|path| runs.iter().any(|run| path.starts_with(run)));
        let who = self.expected.actors();
        self.say_changed("moved away files that already existed where the next run writes", who.clone(), coming);
        self.name_changed_logs(who.clone(), LOGS);
        self.say_changed("git's own settings changed, left as they are", who.clone(), git);
        for (effect, keys) in watch.settings.changed(&self.repo.watched_settings()) {
            self.say(Notice::SettingsChanged { when: format!("while {who} active"), keys, effect: effect.into() });
        }
    }

    fn say_changed(&mut self, what: &'static str, who: Actors, paths: Vec<PathBuf>) {
        if !paths.is_empty() {
            self.say(Notice::Changed { what, who, paths });
        }
    }

    /// Looks at those logs of earlier runs that were not looked at yet: all of them the first time, then the newest.
    pub(super) fn look_at_logs(&mut self) {
        let (mut logs, count) = match self.expected.seen.logs.take() {
            Some(logs) => (logs, LOGS),
            None => (Stamps::new(), usize::MAX),
        };
        for paths in self.logs_of_earlier(count) {
            if paths.iter().all(|path| !logs.contains_key(path)) {
                logs.extend(paths.into_iter().filter_map(|path| FileStamp::of(&path).map(|stamp| (path, stamp))));
            }
        }
        self.expected.seen.logs = Some(logs);
    }

    /// Forgets what logs of earlier runs looked like, as long as nobody is at work: a person may have changed them.
    pub(super) fn forget_logs(&mut self) {
        if self.expected.at_work.is_empty() {
            self.expected.seen.logs = None;
        }
    }

    /// Says of all logs of earlier runs which have changed, where they were looked at.
    pub(super) fn name_all_changed_logs(&mut self) {
        if self.expected.seen.logs.is_some() {
            // That of the last run was not there when somebody was at work.
            self.look_at_logs();
        }
        self.name_changed_logs(Actor::Ar.into(), usize::MAX);
    }

    /// Says which of the newest logs of runs that are over have changed since they were looked at.
    fn name_changed_logs(&mut self, who: Actors, newest: usize) {
        let Some(mut logs) = self.expected.seen.logs.take() else { return };
        let mut changed = Vec::new();
        for [plain, compressed] in self.logs_of_earlier(newest) {
            let (was, now) = (logs.get(&plain).copied(), FileStamp::of(&plain));
            let was_compressed = logs.get(&compressed).copied();
            // A plain log that is still there was not compressed.
            let is_looked_for = now.is_none() || was_compressed.is_some();
            let now_compressed = if is_looked_for { FileStamp::of(&compressed) } else { None };
            if now != was && !(now.is_none() && is_looked_after(&plain)) {
                changed.push(plain.clone());
            }
            let is_dropped = || now_compressed.is_none() && compressed.with_file_name("logs.dropped").exists();
            let is_known = if was_compressed.is_some() { is_dropped() } else { was.is_some() };
            if now_compressed != was_compressed && !is_known {
                changed.push(compressed.clone());
            }
            for (path, stamp) in [(plain, now), (compressed, now_compressed)] {
                match stamp {
                    Some(stamp) => logs.insert(path, stamp),
                    None => logs.remove(&path),
                };
            }
        }
        self.expected.seen.logs = Some(logs);
        changed.sort();
        self.say_changed("logs of earlier runs were changed", who, changed);
    }

    /// The logs of the newest runs that are over, plain and compressed.
    fn logs_of_earlier(&self, newest: usize) -> Vec<[PathBuf; 2]> {
        let earlier =
            self.history.records().iter().rev().filter(|record| !self.expected.is_open(record.id)).take(newest);
        let logs = earlier.map(|record| ["run.log", "run.log.gz"].map(|name| self.folder.run(record.id).join(name)));
        logs.collect()
    }

    fn watched_refs(&self) -> Result<Vec<(String, String)>, SessionError> {
        let mut refs = Vec::new();
        for prefix in [SESSIONS, REPLACEMENTS] {
            refs.extend(readable_refs(&self.repo, prefix)?);
        }
        Ok(refs)
    }

    /// The log of the newest experiment that has one, of those whose logs are not dropped.
    fn newest_log(&self) -> Option<PathBuf> {
        let logs = self.history.records().iter().rev().map(|record| self.folder.run(record.id).join("run.log"));
        logs.take(NEWEST_KEPT).find(|log| log.is_file())
    }

    /// The files that are named when they change: git's settings and hooks, those apart that it never runs, and what a run that
    /// is to come will leave.
    fn stamps(&self) -> Stamps {
        let git = self.repo.common_dir();
        let hooks = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten().map(|entry| entry.path());
        let hooks = hooks.filter(|hook| hook.extension() != Some("sample".as_ref()));
        let runs = self.expected.coming().map(|id| self.folder.run(id));
        let coming = runs.flat_map(|run| RUN_FILES.map(|name| run.join(name)));
        let all = ["config", "config.worktree"].iter().map(|name| git.join(name)).chain(hooks);
        all.chain(coming).filter_map(|path| FileStamp::of(&path).map(|stamp| (path, stamp))).collect()
    }
}
