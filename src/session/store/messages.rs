//! `ar tell`: what the user says to the agents of a session, by another process, and how the session hears it.

use std::collections::BTreeMap;

use super::writer::Store;
use crate::domain::{Clock, Event, ExperimentId, Message, Notice, Phase, Tag, cut, one_line, with_causes};
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::measure::PlainText;
use crate::session::errors::{LONGEST, MessageError, SessionError};
use crate::session::files::is_driven;
use crate::state::{HeardMessages, Journal, MessageFile, MessageKey, MessageMarks, RepairedLines, SessionFolder};

/// The most characters of a word in an event.
const SHOWN: usize = 500;

/// A word that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Its number.
    pub id: u32,
    /// True if an active process of the session will read it.
    pub is_active: bool,
}

/// Says something to the agents of a session, also while it is active: to the next one, or `standing` to all. It is on
/// disk when this returns.
///
/// # Errors
///
/// [`MessageError`]; the file cannot be written.
pub fn tell(repo: &Repo, tag: &Tag, text: &str, standing: bool, clock: Clock) -> Result<Told, SessionError> {
    if text.len() > LONGEST {
        return Err(MessageError::TooLong(text.len()).into());
    }
    let mut plain = PlainText::default();
    let mut bytes = plain.push(text.as_bytes());
    bytes.extend(plain.finish());
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if text.is_empty() {
        return Err(MessageError::Empty.into());
    }
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let key = MessageKey::read_or_make()?.ok_or(MessageError::NoHome)?;
    // A number that the journal has as delivered is never given again.
    let id = MessageFile::new(&folder, tag).add(&key, marks(&folder).last(), (text, standing), clock.now())?;
    Ok(Told { id, is_active: is_driven(repo, &folder)? })
}

/// The words of a session that a coming prompt has: those that no call had yet, and the standing ones.
///
/// # Errors
///
/// They cannot be read.
pub fn waiting_messages(repo: &Repo, tag: &Tag) -> Result<Vec<Message>, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let mut messages = MessageFile::new(&folder, tag).messages()?;
    let marks = marks(&folder);
    messages.retain(|word| marks.is_coming(word));
    Ok(messages)
}

/// Drops a word of a session; returns it.
///
/// # Errors
///
/// [`MessageError::NoWord`] if no coming prompt has it; the file cannot be written.
pub fn drop_message(repo: &Repo, tag: &Tag, id: u32, clock: Clock) -> Result<Message, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let no_word = || MessageError::NoWord { tag: tag.clone(), id };
    if !waiting_messages(repo, tag)?.iter().any(|word| word.id == id) {
        return Err(no_word().into());
    }
    let key = MessageKey::read_or_make()?.ok_or(MessageError::NoHome)?;
    let dropped = MessageFile::new(&folder, tag).drop_message(&key, id, clock.now())?;
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
        let proposing: Vec<ExperimentId> = journal.in_phase(Phase::Proposing).map(|open| open.id).collect();
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
                store.note(Notice::WordsRemoved { count: removed, found });
            }
            if restored {
                store.note(Notice::WordsRestored);
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
