//! What nobody but `ar` may change while an agent or a run is at work: looked at before, and put right after.
//!
//! Agents and runs have the user's rights, so nothing keeps them from writing. What they wrote is undone from what this
//! process holds, kept beside it, and named; where that is not known or not `ar`'s to undo, it is named alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{SessionError, list};
use super::learning::HeldMemories;
use super::open::Session;
use super::reading::{read_history, session_tags};
use super::running::RUN_FILES;
use crate::domain::{CommitId, Event, Phase, Record, count_of};
use crate::ledger::{HeldRows, Since};
use crate::rules::{NEWEST_KEPT, RefChanges, compare_refs};
use crate::state::{EVENT_LOGS, FileStamp, Held, Mended, STATE_FILES};

/// Files of git's by which an agent could hide a change from git, and from `ar`.
const HIDING: [&str; 3] = ["info/attributes", "info/exclude", "info/grafts"];

/// Where git keeps the objects that stand for others.
const REPLACEMENTS: &str = "refs/replace";

/// The size in bytes up to which the newest log is put back.
const HELD_LOG: u64 = 1024 * 1024;

/// What was there before an agent or a run began.
#[derive(Debug)]
pub(super) struct Watch {
    /// Who is at work.
    pub(super) who: &'static str,
    /// The experiment that is open.
    id: u32,
    files: Held,
    /// Git's own files, which are put back only where they are no files any more.
    pub(super) git: Held,
    pub(super) memories: HeldMemories,
    rows: Option<HeldRows>,
    refs: Vec<(String, String)>,
    /// Files that are named when they change, and left as they are.
    stamps: Stamps,
}

/// Files that are there, with what the file system says of each.
type Stamps = BTreeMap<PathBuf, FileStamp>;

impl Session<'_> {
    /// Looks at all that `who` may not change; from here on this process tells what it writes itself from what others do.
    pub(super) fn begin_watch(&mut self, who: &'static str, id: u32) -> Result<(), SessionError> {
        self.heal()?;
        let state = STATE_FILES.iter().map(|name| self.folder.state().join(name));
        let logs = EVENT_LOGS.iter().map(|name| self.folder.logs().join(name));
        let hiding = HIDING.iter().map(|name| self.repo.common_dir().join(name));
        let newest = self.newest_log().filter(|log| fs::metadata(log).is_ok_and(|meta| meta.len() <= HELD_LOG));
        self.watch = Some(Watch {
            who,
            id,
            memories: self.hold_memories(),
            git: Held::take(self.repo.own_files()),
            files: Held::take(state.chain(logs).chain(hiding).chain(newest)),
            rows: self.ledger.hold()?,
            refs: self.watched_refs()?,
            stamps: self.stamps(id),
        });
        Ok(())
    }

    /// Puts right what somebody changed meanwhile, and says so.
    pub(super) fn end_watch(&mut self) -> Result<(), SessionError> {
        let said = self.put_odd_files_right()?;
        self.heal()?;
        for detail in said {
            self.emit(Event::Notice { detail })?;
        }
        let Some(watch) = self.watch.take() else { return Ok(()) };
        self.put_memories_back(watch.who, &watch.memories)?;
        self.put_refs_right(&watch)?;
        if let Some(rows) = &watch.rows {
            self.put_rows_right(&watch, rows)?;
        }
        self.name_changed(&watch)
    }

    /// Puts those files of `ar`'s back that are `meant` and that somebody changed since the watch began; gives what is to be
    /// said about that.
    pub(super) fn put_files_right(&mut self, meant: impl Fn(&Path) -> bool) -> Result<Vec<String>, SessionError> {
        let Some(watch) = &mut self.watch else { return Ok(Vec::new()) };
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
        let while_at_work = format!("while {} was at work", watch.who);
        let mut said = Vec::new();
        if !deleted.is_empty() {
            said.push(format!("files of ar's were deleted {while_at_work}, put back: {}", list(&deleted)));
        }
        if !back.is_empty() {
            let (back, kept) = (list(&back), list(&kept));
            said.push(format!(
                "files of ar's were changed {while_at_work}, put back: {back}; what was found is {kept}"
            ));
        }
        if !left.is_empty() {
            said.push(format!("files of ar's were changed {while_at_work}, too large to be put back: {}", list(&left)));
        }
        Ok(said)
    }

    /// Takes what this process wrote itself, in the file or folder `path`, as what is there.
    pub(super) fn watch_again(&mut self, path: &Path) {
        if let Some(watch) = &mut self.watch {
            watch.files.take_again(path);
        }
    }

    fn put_refs_right(&mut self, watch: &Watch) -> Result<(), SessionError> {
        let RefChanges { foreign, moved, gone } = compare_refs(&watch.refs, &self.watched_refs()?);
        let while_at_work = format!("while {} was at work", watch.who);
        for (name, object) in &foreign {
            self.keep_target(name)?;
            self.repo.drop_ref(name)?;
            let detail = format!("the ref {name} was made {while_at_work}, at {}; it is taken away", &object[..8]);
            self.emit(Event::Notice { detail })?;
        }
        for (name, was, now) in &moved {
            self.keep_target(name)?;
            if !self.repo.put_ref(name, was)? {
                // Its object is gone: a record is made anew.
                self.repo.drop_ref(name)?;
            }
            let detail = format!("the ref {name} was moved {while_at_work}, to {}; it is put back", &now[..8]);
            self.emit(Event::Notice { detail })?;
        }
        let mut back = Vec::new();
        for (name, was) in &gone {
            if self.repo.put_ref(name, was)? {
                back.push(name.as_str());
            }
        }
        if !back.is_empty() {
            let detail = format!("refs of ar's were deleted {while_at_work}; they are put back: {}", back.join(", "));
            self.emit(Event::Notice { detail })?;
        }
        Ok(())
    }

    /// Keeps the commit that a ref leads to, which is no longer to lead there, if it leads to one.
    fn keep_target(&self, name: &str) -> Result<(), SessionError> {
        if let Ok(Some(commit)) = self.repo.branch(name)
            && self.repo.has_commit(&commit)
            && self.history.records().iter().all(|record| record.commit != commit)
        {
            self.repo.save_commit(&self.save_as(&commit), &commit)?;
        }
        Ok(())
    }

    fn put_rows_right(&mut self, watch: &Watch, held: &HeldRows) -> Result<(), SessionError> {
        // A commit that an agent made itself becomes that of the experiment.
        let (open, branch) = (self.journal.open.as_ref(), self.contract.tag.branch_ref());
        let mut commits: Vec<CommitId> = open.and_then(|open| open.commit.clone()).into_iter().collect();
        commits.extend(self.repo.branch(&branch).ok().flatten());
        commits.extend(self.repo.head()?.commit().cloned());
        let (mut trouble, repo, metric) = (None, &self.repo, &self.contract.metric.name);
        let records = || {
            let mut records: Vec<Record> = Vec::new();
            let read = session_tags(repo).and_then(|tags| {
                tags.iter().try_for_each(|tag| {
                    records.extend(read_history(repo, tag)?.records().iter().cloned());
                    Ok(())
                })
            });
            trouble = read.err();
            records.retain(|record| record.metric.name == *metric);
            records
        };
        let mended = self.ledger.mend_since(held, records, &commits)?;
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        let Some((Since { lost, false_rows, foreign, reordered }, kept)) = mended else { return Ok(()) };
        let rows = |count: usize| count_of(u32::try_from(count).unwrap_or(u32::MAX), "row");
        let mut what = Vec::new();
        if lost > 0 {
            what.push(format!("{} changed or gone, put back", rows(lost)));
        }
        if false_rows > 0 {
            what.push(format!("{} that no experiment has, taken out", rows(false_rows)));
        }
        if reordered {
            what.push("rows in another order, put back".to_owned());
        }
        if foreign > 0 {
            what.push(format!("{} of others added, left there", rows(foreign)));
        }
        let kept = kept.map_or(String::new(), |kept| format!("; what it was is {}", kept.display()));
        let detail = format!("results.tsv was changed while {} was at work: {}{kept}", watch.who, what.join(", "));
        self.emit(Event::Notice { detail })
    }

    /// Says which of the files changed that are left as they are.
    fn name_changed(&mut self, watch: &Watch) -> Result<(), SessionError> {
        let now = self.stamps(watch.id);
        let mut changed: Vec<PathBuf> = Vec::new();
        for path in now.keys().chain(watch.stamps.keys()) {
            let is_kept = || path.file_name() == Some("run.log".as_ref()) && is_looked_after(path);
            if now.get(path) != watch.stamps.get(path) && !changed.contains(path) && !is_kept() {
                changed.push(path.clone());
            }
        }
        changed.retain(|path| !is_compressed(path, &watch.stamps));
        let (coming, changed): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|path| path.starts_with(self.folder.run(watch.id)));
        let (git, logs): (Vec<_>, Vec<_>) = changed.into_iter().partition(|path| !path.starts_with(self.folder.root()));
        for (what, paths) in [
            ("what the run to come leaves was there before it, and does not count", coming),
            ("logs of earlier runs were changed", logs),
            ("git's own settings were changed, and are left so", git),
        ] {
            if !paths.is_empty() {
                let detail = format!("{what}, while {} was at work: {}", watch.who, list(&paths));
                self.emit(Event::Notice { detail })?;
            }
        }
        Ok(())
    }

    fn watched_refs(&self) -> Result<Vec<(String, String)>, SessionError> {
        let mut refs = Vec::new();
        for prefix in [self.contract.tag.ref_prefix().as_str(), REPLACEMENTS] {
            // One that names nothing keeps the others from being listed; to look for it takes a second reading.
            let listed = self.repo.refs_under(prefix).or_else(|_| self.repo.readable_refs_under(prefix))?;
            refs.extend(listed);
        }
        Ok(refs)
    }

    /// The log of the newest experiment that has one, of those whose logs are not dropped.
    fn newest_log(&self) -> Option<PathBuf> {
        let logs = self.history.records().iter().rev().map(|record| self.folder.run(record.id).join("run.log"));
        logs.take(NEWEST_KEPT).find(|log| log.is_file())
    }

    /// The files that are named when they change: git's settings and hooks, the logs of the runs that are over, and what
    /// the run of experiment `id` is to leave.
    fn stamps(&self, id: u32) -> Stamps {
        let git = self.repo.common_dir();
        let hooks = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = self.history.records().iter().filter(|record| record.id != id).flat_map(|record| {
            let folder = self.folder.run(record.id);
            ["run.log", "run.log.gz"].map(|name| folder.join(name))
        });
        let coming = RUN_FILES.iter().map(|name| self.folder.run(id).join(name));
        let all = ["config", "config.worktree"].iter().map(|name| git.join(name)).chain(hooks).chain(logs);
        let coming = coming.filter(|_| self.watches_run_to_come());
        all.chain(coming).filter_map(|path| FileStamp::of(&path).map(|stamp| (path, stamp))).collect()
    }

    /// Whether the run of the open experiment is yet to come: an agent is at work.
    fn watches_run_to_come(&self) -> bool {
        self.journal.phase == Phase::Proposing
    }
}

/// Whether a log is gone because it was compressed or dropped.
fn is_looked_after(log: &Path) -> bool {
    !log.exists() && ["run.log.gz", "logs.dropped"].iter().any(|name| log.with_file_name(name).exists())
}

/// Whether a compressed log was made of one that was there, or was dropped.
fn is_compressed(path: &Path, before: &Stamps) -> bool {
    path.file_name() == Some("run.log.gz".as_ref())
        && match before.contains_key(path) {
            true => !path.exists() && path.with_file_name("logs.dropped").exists(),
            false => before.contains_key(&path.with_file_name("run.log")),
        }
}
