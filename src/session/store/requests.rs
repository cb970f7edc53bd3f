//! Words between the user and an active loop: requests to stop, by signals and by `ar stop`; `ar tell`, words to the
//! agents of a session; events that are not published yet, and problems that need the user.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep_until;

use super::Store;
use crate::domain::{
    Actors, Clock, Escalation, Event, ExperimentId, Message, Notice, Phase, StopReason, StopWhen, Tag, Trouble,
    bytes_text, count_of, cut, list, one_line, with_causes,
};
use crate::exec::next_tick;
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::machine::Attempt;
use crate::measure::PlainText;
use crate::report::{escalation_text, flag_text};
use crate::session::errors::{CannotStart, SessionError, Usage, refuse};
use crate::session::files::{is_driven, refuse_elsewhere};
use crate::state::{
    EscalationFiles, EventLog, HeardMessages, Journal, MessageFile, MessageKey, MessageMarks, RepairedLines,
    SessionFolder, StateError,
};

/// Poll interval for `ar stop` during a wait: about a second, in step with other polls.
const LOOK: Duration = Duration::from_millis(1024);

/// A request of the user to an active loop. Later variants are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Interrupt {
    /// Nothing.
    #[default]
    None,
    /// To finish the experiment that is open and then stop.
    AfterExperiment,
    /// To leave the run going and exit: the terminal is gone.
    Detach,
    /// To end the run, roll back and stop.
    Now,
}

impl From<StopWhen> for Interrupt {
    fn from(when: StopWhen) -> Self {
        match when {
            StopWhen::Experiment => Interrupt::AfterExperiment,
            StopWhen::Now => Interrupt::Now,
        }
    }
}

/// The one place where everything that is asked of a loop comes together. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct Interrupts {
    asked: watch::Sender<Interrupt>,
    /// True if SIGTERM was the first request to stop.
    terminated: Arc<AtomicBool>,
}

impl Interrupts {
    /// Asks for something; what is stronger and was asked before stays.
    pub fn ask(&self, interrupt: Interrupt) {
        self.raise(|_| interrupt);
    }

    /// Asks as Ctrl-C does: to stop after the experiment, and when something was asked before, to end its run.
    pub fn press(&self) {
        self.raise(|asked| if asked == Interrupt::None { Interrupt::AfterExperiment } else { Interrupt::Now });
    }

    /// Asks as SIGTERM does: to end the run and stop. An earlier request to stop remains the reason.
    pub fn terminate(&self) {
        let is_first = matches!(self.asked(), Interrupt::None | Interrupt::Detach);
        self.terminated.fetch_or(is_first, Ordering::Relaxed);
        self.ask(Interrupt::Now);
    }

    fn raise(&self, next: impl FnOnce(Interrupt) -> Interrupt) {
        self.asked.send_if_modified(|asked| {
            let next = next(*asked);
            let is_stronger = next > *asked;
            *asked = next.max(*asked);
            is_stronger
        });
    }

    /// Returns the strongest request so far.
    pub fn asked(&self) -> Interrupt {
        *self.asked.borrow()
    }

    /// Returns the strongest request so far, from signals and `ar stop`. If it is stronger than `told`, notes it in the
    /// store.
    pub(crate) fn poll(&self, store: &mut Store, told: Interrupt) -> Interrupt {
        let request = store.folder.receive_stop_request();
        if let Some(when) = request {
            self.ask(when.into());
        }
        let asked = self.asked();
        if asked > told {
            let (after, run) = match store.journal.tree_owner().is_one_of_many() {
                true => ("these runs", "them"),
                false => ("this experiment", "its run"),
            };
            match (asked, request) {
                (Interrupt::AfterExperiment, None) => store.note(Notice::StopsAfter { after, run }),
                (Interrupt::AfterExperiment, Some(_)) => {
                    store.note(Notice::StopsAfterAsAsked { after });
                }
                (Interrupt::Now, None) => store.note(Notice::StopsNow),
                (Interrupt::Now, Some(_)) => store.note(Notice::StopsNowAsAsked),
                // Nobody is there to be told.
                (Interrupt::Detach | Interrupt::None, _) => {}
            }
        }
        asked
    }

    /// Returns the stop reason of a loop that was asked to stop.
    pub(crate) fn reason(&self, folder: &SessionFolder) -> StopReason {
        let requested = folder.received_stop().is_some_and(|when| self.asked() == when.into());
        match !requested && self.terminated.load(Ordering::Relaxed) {
            true => StopReason::Terminated,
            false => StopReason::Interrupted { requested },
        }
    }

    /// Hears of what is asked from now on.
    pub(crate) fn listen(&self) -> Listener {
        Listener(self.asked.subscribe())
    }
}

/// Wakes a wait when it should look at [`Interrupts::poll`].
pub(crate) struct Listener(watch::Receiver<Interrupt>);

impl Listener {
    /// Comes back when a signal asks for something; with no signal never.
    pub(crate) async fn signal(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Comes back when a signal asks for something, or when it is time to look whether `ar stop` was called.
    pub(crate) async fn signal_or_look(&mut self) {
        tokio::select! {
            () = self.signal() => {}
            () = sleep_until(next_tick(LOOK)) => {}
        }
    }
}

/// The most characters of a word in an event.
const SHOWN: usize = 500;

/// A word that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentMessage {
    /// Its number.
    pub id: u32,
    /// True if an active process of the session will read it.
    pub is_active: bool,
}

/// The longest text of a word, in bytes.
const LONGEST: u64 = 1 << 20;

/// Says something to the agents of a session, also while it is active: to the next one, or `standing` to all. It is on
/// disk when this returns.
///
/// # Errors
///
/// The text is empty or too long, there is no home folder for the user's key, or the file cannot be written.
pub fn tell(repo: &Repo, tag: &Tag, text: &str, standing: bool, clock: Clock) -> Result<SentMessage, SessionError> {
    let length = text.len() as u64;
    if length > LONGEST {
        let text = format!("the text has {}, more than the limit of {}", bytes_text(length), bytes_text(LONGEST));
        return Err(refuse(Usage, text).hint("put it into a file that the agent can read, and name that file").into());
    }
    let mut plain = PlainText::default();
    let mut bytes = plain.push(text.as_bytes());
    bytes.extend(plain.finish());
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if text.is_empty() {
        return Err(refuse(Usage, "the text is empty")
            .hint("write what the agent must know, as in `ar tell \"keep the batch size\"`")
            .into());
    }
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let key = own_key()?;
    // A number that the journal has as delivered is never given again.
    let id = MessageFile::new(&folder, tag).add(&key, marks(&folder).last(), (text, standing), clock.now())?;
    Ok(SentMessage { id, is_active: is_driven(repo, &folder)? })
}

/// The user's key, made if there is none.
fn own_key() -> Result<MessageKey, SessionError> {
    let no_home = || refuse(CannotStart, "no home folder for the key that marks a word as yours");
    let key = MessageKey::read_or_make()?;
    Ok(key.ok_or_else(|| no_home().hint("set HOME, or XDG_STATE_HOME to an absolute path"))?)
}

/// The words of a session that a coming prompt has: those that no call had yet, and the standing ones.
///
/// # Errors
///
/// They cannot be read.
pub fn waiting_messages(repo: &Repo, tag: &Tag) -> Result<Vec<Message>, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let mut messages = MessageFile::new(&folder, tag).messages()?;
    let marks = marks(&folder);
    messages.retain(|word| marks.is_coming(word));
    Ok(messages)
}

/// Drops a word of a session; returns it.
///
/// # Errors
///
/// No coming prompt has it, or the file cannot be written.
pub fn drop_message(repo: &Repo, tag: &Tag, id: u32, clock: Clock) -> Result<Message, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let no_word =
        || refuse(CannotStart, format!("session {tag} has no word {id}")).hint("run `ar tell --list` to see them");
    if !waiting_messages(repo, tag)?.iter().any(|word| word.id == id) {
        return Err(no_word().into());
    }
    let dropped = MessageFile::new(&folder, tag).drop_message(&own_key()?, id, clock.now())?;
    Ok(dropped.ok_or_else(no_word)?)
}

/// The journal's marks for words; none if it is unreadable.
fn marks(folder: &SessionFolder) -> MessageMarks {
    Journal::read(&folder.state()).ok().flatten().map(|journal| journal.messages).unwrap_or_default()
}

/// The words of the user as an open session has heard them.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessages {
    /// The file when it was last looked at; absent before the first look.
    looked: Option<Option<FileStamp>>,
    heard: HeardMessages,
    /// Which experiment's call was given a word that no finished call had.
    claims: BTreeMap<u32, ExperimentId>,
}

impl ReceivedMessages {
    /// The words for the prompt of the next call for this experiment. Those that only one prompt has are given to no call
    /// for another experiment, as long as an agent proposes that one.
    pub(crate) fn claim(&mut self, id: ExperimentId, journal: &Journal) -> Vec<Message> {
        let proposing: Vec<ExperimentId> = journal.in_phase(Phase::Proposing).map(Attempt::id).collect();
        self.claims.retain(|_, of| proposing.contains(of));
        let mut messages = self.coming(journal);
        messages.retain(|word| word.standing || self.claims.get(&word.id).is_none_or(|of| *of == id));
        self.claims.extend(messages.iter().map(|word| (word.id, id)));
        messages
    }

    /// The words that a coming prompt has.
    pub(crate) fn coming(&self, journal: &Journal) -> Vec<Message> {
        self.heard.messages.iter().filter(|word| journal.messages.is_coming(word)).cloned().collect()
    }

    /// Returns whether there are undelivered words.
    pub(crate) fn are_waiting(&self, journal: &Journal) -> bool {
        self.heard.messages.iter().any(|word| !journal.messages.is_delivered(word))
    }
}

/// Hears what the user has said since the last time, and notes what is to be told. Puts the file right where somebody
/// else wrote to it. Returns whether anything is to be told.
pub(crate) fn receive_messages(store: &mut Store) -> bool {
    let file = MessageFile::new(&store.folder, &store.contract.tag);
    let stamp = FileStamp::of(file.path());
    if store.rolled_back || store.messages.looked == Some(stamp) || stamp.is_none() && store.messages.heard.is_none() {
        return false;
    }
    store.messages.looked = Some(stamp);
    match file.hear(&mut store.messages.heard) {
        Ok(RepairedLines { removed, restored, copy, .. }) => {
            if let Some(found) = copy {
                store.note(format!(
                    "removed {} that ar tell did not write from words.jsonl; the file found is {}",
                    count_of(removed, "line"),
                    found.display()
                ));
            }
            if restored {
                store.note("restored words of the user's, deleted from words.jsonl");
            }
        }
        Err(error) => store.note_once(Notice::MemoryUnread { what: "words", why: with_causes(&error) }),
    }
    let mut messages = store.messages.heard.messages.clone();
    messages.retain(|word| store.journal.messages.hear(word.id));
    for word in messages {
        store.note(Event::Told { id: word.id, text: cut(&one_line(&word.text), SHOWN), standing: word.standing });
    }
    store.notices.is_any()
}

/// Events of the store and the workspace that are not yet reported.
#[derive(Default)]
pub(crate) struct Notices {
    events: Vec<Event>,
    /// Problems that were noted once and do not affect the loop.
    troubles: Vec<Notice>,
}

impl Notices {
    /// Notes what is to be told.
    pub(crate) fn note(&mut self, what: impl Into<Event>) {
        self.events.push(what.into());
    }

    /// Notes a problem that does not affect the loop, once instead of before each experiment.
    pub(crate) fn note_once(&mut self, trouble: impl Into<Notice>) {
        let trouble = trouble.into();
        if !self.troubles.contains(&trouble) {
            self.troubles.push(trouble.clone());
            self.note(trouble);
        }
    }

    /// Notes the first notice of its kind only.
    pub(crate) fn note_first(&mut self, notice: Notice) {
        if !self.troubles.iter().any(|known| discriminant(known) == discriminant(&notice)) {
            self.note_once(notice);
        }
    }

    /// Gives what is to be told, in order.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns whether there are events to report.
    pub(crate) fn is_any(&self) -> bool {
        !self.events.is_empty()
    }

    /// Says that artifacts could not be settled, if so.
    pub(crate) fn or_unsettled(&mut self, id: ExperimentId, settled: Result<(), StateError>) {
        if let Err(error) = settled {
            self.note_once(Notice::ArtifactsUnsettled { id, why: with_causes(&error) });
        }
    }

    /// The outcome of a write that the night does not depend on. For want of room it is done again later, with the rest of its
    /// step.
    pub(crate) fn or_unrecorded<T>(&mut self, written: Result<T, StateError>) -> Result<Option<T>, SessionError> {
        match written.map_err(SessionError::from) {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.is_disk_full() => Err(error),
            Err(error) => {
                self.note_once(format!("lessons or ideas are not recorded: {}", with_causes(&error)));
                Ok(None)
            }
        }
    }
}

/// Says which files changed, if any.
pub(crate) fn note_changed(what: &'static str, who: &Actors, paths: Vec<PathBuf>, notices: &mut Notices) {
    if !paths.is_empty() {
        notices.note(format!("{what}, while {who} active: {}", list(&paths)));
    }
}

/// Notes that the session waits for no answer any more, and what is to be told; gives what it waited for.
pub(crate) fn close_escalation(store: &mut Store, why: &'static str) -> Option<Trouble> {
    let kind = store.journal.escalation.end()?;
    remove_report(&store.folder);
    store.note(Event::EscalationOver { kind, why });
    Some(kind)
}

/// Forgets what the session could not solve, now that something came of it.
pub(crate) fn forget_escalation(store: &mut Store) {
    if let Some(kind) = store.journal.escalation.solve() {
        remove_report(&store.folder);
        store.note(Event::EscalationOver { kind, why: "an experiment was recorded" });
    }
}

/// Notes that the session waits for no answer any more, as it stops. Whoever stopped it has seen what it could not solve;
/// where its time is over, the report stays, and says so.
pub(crate) fn end_wait(store: &mut Store, reason: &StopReason) {
    if let StopReason::Interrupted { .. } = reason {
        remove_flag_report(store);
    }
    let Some(escalation) = store.journal.escalation.stop(reason) else { return };
    if let StopReason::Interrupted { .. } = reason {
        return remove_report(&store.folder);
    }
    let report = write_report(&store.folder, store.repo.worktree(), &escalation);
    store.note(Notice::StillEscalated { escalation, report });
}

/// Notes what the session cannot solve outside of its folder, as the journal cannot be written.
pub(crate) fn note_escalation(store: &Store) {
    if let Some(open) = store.journal.escalation.last() {
        EscalationFiles::of(&store.folder).note(open, store.now());
    }
}

/// Forgets what the session could not solve. Of a loop that was killed while it waited for an answer it stays known, as
/// the next one may meet it again; an outage still goes on.
pub(crate) fn forget_solved(store: &mut Store) {
    let Journal { escalation, presence, .. } = &mut store.journal;
    if !escalation.reopen(presence.was_killed()) {
        remove_report(&store.folder);
    }
}

/// Writes the report of a flag; gives where it is.
pub(crate) fn write_flag_report(store: &mut Store, why: &str) -> Option<PathBuf> {
    let (tag, root) = (&store.contract.tag, store.repo.worktree());
    let text = flag_text(tag, root, (why, store.now()), &store.history, store.journal.ladder.told());
    // The journal has the flag, and the event tells of it.
    EscalationFiles::of(&store.folder).write_flag_report(&text)
}

/// Removes the report of a flag: a keep answers it.
pub(crate) fn remove_flag_report(store: &mut Store) {
    EscalationFiles::of(&store.folder).remove_flag_report();
}

/// Writes the report, and gives where it is; `root` is the working tree.
pub(crate) fn write_report(folder: &SessionFolder, root: &Path, escalation: &Escalation) -> Option<PathBuf> {
    EscalationFiles::of(folder).write_report(&escalation_text(folder.tag(), root, escalation))
}

/// Returns whether a report to the user exists.
fn is_reported(folder: &SessionFolder) -> bool {
    let files = EscalationFiles::of(folder);
    files.report().is_some() || files.has_flag_report()
}

/// Removes all reports: the user has seen them; the logs have the same.
pub(crate) fn remove_reports(folder: &SessionFolder) {
    remove_report(folder);
    EscalationFiles::of(folder).remove_flag_report();
}

/// Notes in the journal of an idle session that the user stopped it for this `reason`, and has seen all reports. Leaves a missing or
/// unparsable journal alone.
///
/// # Errors
///
/// It cannot be written.
pub(crate) fn end_idle(
    folder: &SessionFolder,
    git_dir: &Path,
    clock: Clock,
    reason: &StopReason,
) -> Result<(), SessionError> {
    let is_open = |journal: &Journal| journal.is_to_be_ended() || is_reported(folder);
    let unfinished = || folder.journal().ok().flatten().filter(is_open);
    let Some(found) = unfinished() else { return Ok(()) };
    let _lock = match folder.lock(git_dir, found.tree_owner().has_user()) {
        Ok(lock) => lock,
        // The process that holds it now started later.
        Err(StateError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    refuse_elsewhere(folder, false)?;
    let Some(mut journal) = unfinished() else { return Ok(()) };
    journal.count_absence(clock.now());
    if journal.end_by_user(reason) {
        EventLog::new(&folder.logs()).stopped_by_user(clock.now(), reason)?;
    }
    journal.write(&folder.state(), clock.now())?;
    remove_reports(folder);
    Ok(())
}

/// Removes the report of what is over; the logs have it.
pub(crate) fn remove_report(folder: &SessionFolder) {
    EscalationFiles::of(folder).remove();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lifts_what_is_stronger() {
        let interrupts = Interrupts::default();
        let asked = || interrupts.asked();
        interrupts.ask(Interrupt::AfterExperiment);
        interrupts.ask(Interrupt::AfterExperiment);
        assert_eq!(asked(), Interrupt::AfterExperiment);
        interrupts.press();
        assert_eq!(asked(), Interrupt::Now);
        interrupts.ask(Interrupt::Detach);
        interrupts.ask(Interrupt::AfterExperiment);
        assert_eq!(asked(), Interrupt::Now);
    }
}
