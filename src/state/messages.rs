//! The words of the user to a session: `messages.jsonl` in its folder, a line for each word and for each one dropped;
//! and requests of `ar stop`: `stop.json`, which the active loop renames to `stopping.json`, and the end of a loop as
//! its journal tells it.
//!
//! Several processes may append a word at the same time. Each line has a seal made with a key of the user's, so that a
//! line that an agent writes there does not pass for the user's. What became of a word is in the journal.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Journal, Owner, OwnerLock, SessionFolder, StateError, lines, user_folder};
use super::{RepairedLines, read_json, write_json};
use crate::domain::{ExperimentId, FORMAT_VERSION, Message, Phase, StopWhen, Tag};
use crate::fs::{create_folder, failed, read_at_most};
use crate::machine::Attempt;

/// The file of the key in the user's folder, and its length in bytes.
const KEY: &str = "key";

const KEY_BYTES: usize = 32;

/// The field of a line with its seal.
const SEAL: &str = "seal";

/// The delivery of a session's words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageMarks {
    /// The highest number of a word that is in the logs.
    heard: u32,
    /// The words that a finished call of the agent had.
    delivered: BTreeSet<u32>,
}

impl MessageMarks {
    /// Notes a word that is written to the logs. Returns whether it is new.
    pub fn hear(&mut self, id: u32) -> bool {
        let is_new = id > self.heard;
        self.heard = self.heard.max(id);
        is_new
    }

    /// The number of the newest word that was heard; 0 without one.
    pub fn newest(&self) -> u32 {
        self.heard
    }

    /// The highest number that a word had, which is never given again.
    pub fn last(&self) -> u32 {
        self.delivered.last().copied().unwrap_or(0).max(self.heard)
    }

    /// Notes that a finished call had these words.
    pub fn deliver(&mut self, messages: &[Message]) {
        self.delivered.extend(messages.iter().map(|word| word.id));
    }

    /// Returns whether a finished call had a word.
    pub fn is_delivered(&self, word: &Message) -> bool {
        self.delivered.contains(&word.id)
    }

    /// Returns whether a coming prompt has a word: each has the standing ones.
    pub fn is_coming(&self, word: &Message) -> bool {
        word.standing || !self.is_delivered(word)
    }
}

/// One line: a word, or without a text that the word of this number is dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct MessageLine {
    version: u32,
    id: u32,
    #[serde(with = "crate::domain::millis")]
    ts: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    standing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

/// The key that the user's own lines are sealed with.
#[derive(Debug, Clone)]
pub struct MessageKey(Vec<u8>);

impl MessageKey {
    /// Reads the user's key; `None` if there is none yet, or no home folder.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is too short.
    pub fn read() -> Result<Option<MessageKey>, StateError> {
        let Some(path) = user_folder().map(|folder| folder.join(KEY)) else { return Ok(None) };
        match read_at_most(&path, 4096) {
            Ok(key) if key.len() >= KEY_BYTES => Ok(Some(MessageKey(key))),
            Ok(_) => Err(StateError::NoKey { path, least: KEY_BYTES }),
            Err(error) if crate::fs::absent(&error) => Ok(None),
            Err(error) => Err(failed("read", &path)(error).into()),
        }
    }

    /// Reads the user's key, and makes one if there is none; `None` without a home folder.
    ///
    /// # Errors
    ///
    /// It cannot be read or written, or is too short.
    pub fn read_or_make() -> Result<Option<MessageKey>, StateError> {
        let Some(folder) = user_folder() else { return Ok(None) };
        if let Some(key) = MessageKey::read()? {
            return Ok(Some(key));
        }
        create_folder(&folder)?;
        let path = folder.join(KEY);
        let make = || -> io::Result<()> {
            let mut key = [0; KEY_BYTES];
            fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
            // Readable by the user alone.
            let mut file = tempfile::NamedTempFile::new_in(&folder)?;
            file.write_all(&key)?;
            file.as_file().sync_all()?;
            // Another process may have made one meanwhile: then that one counts.
            let made = file.persist_noclobber(&path).map(drop).map_err(|error| error.error);
            made.or_else(|error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
            fs::File::open(&folder)?.sync_all()
        };
        make().map_err(failed("write", &path))?;
        MessageKey::read()
    }

    /// The seal of a line of this session, given without its seal: a hash that nobody can make without the key.
    fn seal(&self, tag: &Tag, line: &Value) -> String {
        let text = format!("{tag}\n{line}");
        let hash = |text: &[u8]| Sha256::new().chain_update(&self.0).chain_update(text).finalize();
        // Hashed twice, so that no text can be appended to a sealed one.
        hash(&hash(text.as_bytes())).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The words among some lines that are not dropped, in their order. A line that is there twice counts once.
fn messages_of(lines: &[MessageLine]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for line in lines {
        let is_dropped = || lines.iter().any(|other| other.id == line.id && other.text.is_none());
        let is_known = |messages: &[Message]| messages.iter().any(|word| word.id == line.id);
        if let Some(text) = line.text.clone()
            && !is_known(&messages)
            && !is_dropped()
        {
            messages.push(Message { id: line.id, text, standing: line.standing });
        }
    }
    messages
}

/// The words of a session as it has heard them.
#[derive(Debug, Default)]
pub struct HeardMessages {
    /// The words that are not dropped, in their order.
    pub messages: Vec<Message>,
    content: Vec<u8>,
}

impl HeardMessages {
    /// Returns whether no line was heard.
    pub fn is_none(&self) -> bool {
        self.content.is_empty()
    }
}

/// The file.
#[derive(Debug, Clone)]
pub struct MessageFile {
    path: PathBuf,
    tag: Tag,
}

impl MessageFile {
    /// Names the file of a session.
    pub fn new(folder: &SessionFolder, tag: &Tag) -> Self {
        MessageFile { path: folder.root().join("words.jsonl"), tag: tag.clone() }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The words that are not dropped, in their order; lines of others are left out.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a newer version of `ar` wrote it.
    pub fn messages(&self) -> Result<Vec<Message>, StateError> {
        Ok(messages_of(&self.read(MessageKey::read()?.as_ref())?.0))
    }

    /// Adds a word, with a number above `after`. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, is from a newer version, or another process locks it for too long.
    pub fn add(
        &self,
        key: &MessageKey,
        after: u32,
        (text, standing): (&str, bool),
        now: Timestamp,
    ) -> Result<u32, StateError> {
        let _lock = lines::lock(&self.path)?;
        let last = self.read(Some(key))?.0.iter().map(|line| line.id).max().unwrap_or(0);
        let id = last.max(after).saturating_add(1);
        self.append(key, id, Some((text, standing)), now)?;
        Ok(id)
    }

    /// Drops the word of this number; returns it, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn drop_message(&self, key: &MessageKey, id: u32, now: Timestamp) -> Result<Option<Message>, StateError> {
        let _lock = lines::lock(&self.path)?;
        let messages = messages_of(&self.read(Some(key))?.0);
        let Some(word) = messages.into_iter().find(|word| word.id == id) else { return Ok(None) };
        self.append(key, id, None, now)?;
        Ok(Some(word))
    }

    /// Reads the file, removes lines of others, and restores those that `heard` has and that are missing. What it held is
    /// kept beside it.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn hear(&self, heard: &mut HeardMessages) -> Result<RepairedLines, StateError> {
        let key = MessageKey::read()?;
        let repaired = lines::repair(&self.path, &heard.content, |line| self.unsealed(line, key.as_ref()))?;
        let (lines, _) = self.parse(&repaired.content, key.as_ref())?;
        *heard = HeardMessages { messages: messages_of(&lines), content: repaired.content.clone() };
        Ok(repaired)
    }

    fn read(&self, key: Option<&MessageKey>) -> Result<(Vec<MessageLine>, usize), StateError> {
        self.parse(&lines::content(&self.path)?, key)
    }

    /// The lines of the user, in their order, and the number of foreign ones.
    fn parse(&self, content: &[u8], key: Option<&MessageKey>) -> Result<(Vec<MessageLine>, usize), StateError> {
        lines::valid(content, |line| self.unsealed(line, key))
    }

    /// A line that has the user's seal for this session.
    fn unsealed(&self, text: &[u8], key: Option<&MessageKey>) -> Result<Option<MessageLine>, StateError> {
        let unsealed = || {
            let mut line: Value = serde_json::from_slice(text).ok()?;
            let seal = line.as_object_mut()?.remove(SEAL)?;
            (seal == key?.seal(&self.tag, &line)).then_some(())
        };
        unsealed().map_or(Ok(None), |()| lines::versioned(&self.path, text))
    }

    fn append(&self, key: &MessageKey, id: u32, word: Option<(&str, bool)>, now: Timestamp) -> Result<(), StateError> {
        let (text, standing) = word.map_or((None, false), |(text, standing)| (Some(text.to_owned()), standing));
        // As the file has it, without what is finer than a millisecond.
        let ts = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        let json = |source| StateError::Json { path: self.path.clone(), source };
        let mut line = MessageLine { version: FORMAT_VERSION, id, ts, text, standing, seal: None };
        line.seal = Some(key.seal(&self.tag, &serde_json::to_value(&line).map_err(json)?));
        lines::add_durably(&self.path, &line)
    }
}

/// The largest valid request, in bytes: ten times one with the longest tag.
const LARGEST: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct StopRequest {
    version: u32,
    when: StopWhen,
    #[serde(with = "crate::domain::millis")]
    asked: Timestamp,
    /// The addressee, by its own description.
    to: Option<String>,
}

impl SessionFolder {
    /// Asks `owner`, which holds the session, to stop. A stronger waiting request stays.
    pub fn ask_to_stop(&self, when: StopWhen, asked: Timestamp, owner: &Owner) -> Result<(), StateError> {
        if self.stop_request() >= Some(when) && self.stop_request_is_to(&owner.said) {
            return Ok(());
        }
        // The folder may have been deleted while the loop is active.
        fs::create_dir_all(self.root()).map_err(failed("create", self.root()))?;
        write_json(
            &self.stop_path(),
            &StopRequest { version: FORMAT_VERSION, when, asked, to: Some(owner.said.clone()) },
        )
    }

    /// The request that no loop has received yet. An invalid one counts as the milder one, so `touch stop.json` works.
    pub fn stop_request(&self) -> Option<StopWhen> {
        request_in(&self.stop_path())
    }

    /// The strongest request that the active loop received.
    pub fn received_stop(&self) -> Option<StopWhen> {
        request_in(&self.received_path())
    }

    /// The request to the active loop, received or not.
    pub fn stopping(&self) -> Option<StopWhen> {
        // This order misses no request that is received meanwhile.
        self.stop_request().max(self.received_stop())
    }

    /// Receives the request: renames its file, or removes it if a request as strong was received before. The requester sees
    /// that it is gone. A rename needs no disk space.
    pub fn receive_stop_request(&self) -> Option<StopWhen> {
        let request = self.stop_request()?;
        let is_renamed =
            self.received_stop() < Some(request) && fs::rename(self.stop_path(), self.received_path()).is_ok();
        if !is_renamed {
            self.take_stop_request();
        }
        Some(request)
    }

    /// Removes the request.
    pub fn take_stop_request(&self) {
        // A request that cannot be removed counts as received.
        let _ = fs::remove_file(self.stop_path());
    }

    /// Removes requests received before `lock` held the session, and a waiting one for another process, which is gone.
    pub fn drop_old_stop_request(&self, lock: &OwnerLock) {
        let _ = fs::remove_file(self.received_path());
        if !self.stop_request_is_to(lock.said()) {
            self.take_stop_request();
        }
    }

    fn stop_request_is_to(&self, owner: &str) -> bool {
        let request = read_json::<StopRequest>(&self.stop_path()).ok().flatten();
        request.is_some_and(|request| request.to.as_deref() == Some(owner))
    }

    fn stop_path(&self) -> PathBuf {
        self.root().join("stop.json")
    }

    fn received_path(&self) -> PathBuf {
        self.root().join("stopping.json")
    }
}

fn request_in(path: &Path) -> Option<StopWhen> {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > LARGEST) {
        return Some(StopWhen::Experiment);
    }
    match read_json::<StopRequest>(path) {
        Ok(None) | Err(StateError::File(_)) => None,
        Ok(Some(request)) => Some(request.when),
        Err(_) => Some(StopWhen::Experiment),
    }
}

/// The open attempts of a loop that was asked to stop, by their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopping {
    /// *In place*: these are finished and recorded.
    After(Vec<ExperimentId>),
    /// With slots.
    Beside(StoppingBeside),
}

/// The open attempts of a loop with slots that was asked to stop, by their end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoppingBeside {
    /// Those whose runs finish first and are recorded.
    pub runs: Vec<ExperimentId>,
    /// Those whose agents finish first, and those that wait for a slot: their proposals are kept and not run.
    pub proposals: Vec<ExperimentId>,
    /// Set if the proposals stay ready for the queue of a cluster.
    pub stay_ready: bool,
    /// Those that beat their own base and wait until the session continues.
    pub winners: Vec<ExperimentId>,
    /// Set if a run of merged winners finishes first.
    pub train: bool,
}

impl Journal {
    /// Returns whether an engine executes the session's runs.
    pub fn is_on_cluster(&self) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.cluster.is_some())
    }

    /// Returns how the open attempts end if the loop is asked to stop after them.
    pub fn stopping(&self) -> Stopping {
        match self.tree_owner().is_one_of_many() {
            true => Stopping::Beside(self.stopping_beside()),
            false => Stopping::After(self.last_experiments()),
        }
    }

    fn stopping_beside(&self) -> StoppingBeside {
        let mut stopping = StoppingBeside { stay_ready: self.is_on_cluster(), ..StoppingBeside::default() };
        for attempt in self.attempts() {
            let id = attempt.id();
            match attempt.phase() {
                _ if attempt.trial().is_some() => stopping.train = true,
                Phase::Proposing | Phase::Committing => stopping.proposals.push(id),
                Phase::Waiting => stopping.winners.push(id),
                Phase::Running
                | Phase::Guarding
                | Phase::Confirming
                | Phase::Reviewing
                | Phase::Recording
                | Phase::Settling => {
                    stopping.runs.push(id);
                }
                Phase::Idle | Phase::Checking => {}
            }
        }
        stopping
    }

    /// The experiments after which a loop *in place* stops: a baseline that a change waits for is measured for that change's
    /// sake.
    fn last_experiments(&self) -> Vec<ExperimentId> {
        if self.tree.aside().is_some() {
            return vec![ExperimentId::BASELINE.next()];
        }
        let open = self.attempts().filter(|attempt| !matches!(attempt, Attempt::Rerun(_)));
        open.map(Attempt::id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::{CommitId, Layout};
    use crate::machine::{AttemptHead, Draft, Made, Origin};
    use crate::rules::{Trial, sample};
    use crate::state::Aside;

    fn file(folder: &Path) -> MessageFile {
        let tag: Tag = "t".parse().unwrap();
        MessageFile::new(&SessionFolder::new(folder, &tag), &tag)
    }

    #[test]
    fn only_lines_with_the_users_seal_for_this_session_are_words() {
        let folder = tempfile::tempdir().unwrap();
        let (file, key, other) = (file(folder.path()), MessageKey(vec![7; KEY_BYTES]), MessageKey(vec![8; KEY_BYTES]));
        let now: Timestamp = "2026-11-20T22:00:00.123456Z".parse().unwrap();
        let messages = |key: &MessageKey| messages_of(&file.read(Some(key)).unwrap().0);
        assert_eq!(file.add(&key, 0, ("halve the rate\nsoon", false), now).unwrap(), 1);
        assert_eq!(file.add(&key, 4, ("keep it small", true), now).unwrap(), 5);
        assert_eq!(messages(&key).iter().map(|word| word.id).collect::<Vec<_>>(), [1, 5]);
        assert_eq!((messages(&other), file.read(None).unwrap().1), (vec![], 2));

        let text = fs::read_to_string(file.path()).unwrap();
        let forged = text.replace("halve", "raise");
        fs::write(file.path(), format!("{text}{text}{forged}torn")).unwrap();
        assert_eq!(file.read(Some(&key)).unwrap().1, 2, "the changed line and the torn one");
        assert_eq!(messages(&key).len(), 2, "a copy counts once");
        let of_another = MessageFile { tag: "u".parse().unwrap(), ..file.clone() };
        assert_eq!(of_another.read(Some(&key)).unwrap().0.len(), 0);

        assert_eq!(file.drop_message(&key, 5, now).unwrap().unwrap().text, "keep it small");
        assert_eq!(file.drop_message(&key, 5, now).unwrap(), None);
        assert_eq!(messages(&key).len(), 1);
    }

    #[test]
    fn a_request_to_who_has_the_session_outlives_its_opening_and_one_to_another_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SessionFolder::new(dir.path(), &"t".parse().unwrap());
        folder.create().unwrap();
        let lock = folder.lock(dir.path(), true).unwrap();
        let owner = folder.owner(dir.path()).unwrap().unwrap();
        let another = Owner { said: "process 1 with session t".to_owned(), since: None };
        for (to, left) in [(&owner, Some(StopWhen::Now)), (&another, None)] {
            folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, to).unwrap();
            folder.drop_old_stop_request(&lock);
            assert_eq!(folder.stop_request(), left, "{to:?}");
        }
        // A request that waits for another process is not the same.
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &another).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.stop_request(), Some(StopWhen::Experiment));
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &owner).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.receive_stop_request(), Some(StopWhen::Now));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        // A milder request that comes later changes nothing; the next process that opens the session has no request.
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.receive_stop_request(), Some(StopWhen::Experiment));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        folder.drop_old_stop_request(&lock);
        assert_eq!(folder.stopping(), None);
    }

    fn head(id: u32) -> AttemptHead {
        AttemptHead::new(id.into(), CommitId::new("a".repeat(40)), Timestamp::UNIX_EPOCH)
    }

    fn draft(head: AttemptHead) -> Draft {
        Draft::new(Made { head, ..Made::default() }, sample::record(serde_json::json!({"value": "1.0"})))
    }

    fn journal(open: Vec<Attempt>) -> Journal {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        open.into_iter().for_each(|attempt| journal.enter(attempt));
        journal
    }

    #[test]
    fn in_place_the_loop_stops_after_what_is_open_or_waits_for_the_baseline() {
        let made = |id| Made { head: head(id), ..Made::default() };
        let mut journal = journal(vec![Attempt::Run(made(3)), Attempt::Rerun(made(4))]);
        assert_eq!(journal.stopping(), Stopping::After(vec![3.into()]));
        journal.tree.set_aside(Aside {
            commit: CommitId::new("b".repeat(40)),
            description: String::new(),
            direction: None,
            proposal: serde_json::Map::new(),
            reference: String::new(),
        });
        assert_eq!(journal.stopping(), Stopping::After(vec![1.into()]));
    }

    #[test]
    fn with_slots_each_step_ends_in_its_way() {
        let open = |guarded: AttemptHead| {
            let ready = Attempt::Ready(Made { head: head(4), ..Made::default() });
            let open =
                vec![Attempt::Call(head(3)), ready, Attempt::Winner(draft(head(5))), Attempt::Guard(draft(guarded))];
            Journal { layout: Some(Layout::of(2)), ..journal(open) }
        };
        let steps = StoppingBeside {
            runs: vec![6.into()],
            proposals: vec![3.into(), 4.into()],
            stay_ready: false,
            winners: vec![5.into()],
            train: false,
        };
        assert_eq!(open(head(6)).stopping(), Stopping::Beside(steps.clone()));
        let origin = Origin::Trial { trial: Trial::Afresh(5.into()), chain: Vec::new() };
        let journal = open(AttemptHead { origin, ..head(6) });
        assert_eq!(journal.stopping(), Stopping::Beside(StoppingBeside { runs: Vec::new(), train: true, ..steps }));
    }
}
