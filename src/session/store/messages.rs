//! `ar tell`: what the user says to the agents of a session, by another process, and how the session hears it.

use std::collections::BTreeMap;

use super::state::Store;
use crate::domain::{Clock, Event, ExperimentId, Notice, Phase, Tag, Word, cut, one_line, with_causes};
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::measure::PlainText;
use crate::session::errors::LONGEST;
use crate::session::errors::{SessionError, WordError};
use crate::state::{Heard, Journal, SessionFolder, WordFile, WordKey, WordLine, WordMarks, words_of};

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
/// [`WordError`]; the file cannot be written.
pub fn tell(repo: &Repo, tag: &Tag, text: &str, standing: bool, clock: Clock) -> Result<Told, SessionError> {
    if text.len() > LONGEST {
        return Err(WordError::TooLong(text.len()).into());
    }
    let mut plain = PlainText::default();
    let mut bytes = plain.push(text.as_bytes());
    bytes.extend(plain.finish());
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if text.is_empty() {
        return Err(WordError::Empty.into());
    }
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let key = WordKey::read_or_make()?.ok_or(WordError::NoHome)?;
    // A number that the journal has as delivered is never given again.
    let id = WordFile::new(&folder, tag).add(&key, marks(&folder).last(), (text, standing), clock.now())?;
    Ok(Told { id, is_active: folder.owner(repo.git_dir())?.is_some() })
}

/// The words of a session that a coming prompt has: those that no call had yet, and the standing ones.
///
/// # Errors
///
/// They cannot be read.
pub fn waiting_words(repo: &Repo, tag: &Tag) -> Result<Vec<Word>, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let mut words = WordFile::new(&folder, tag).words()?;
    let marks = marks(&folder);
    words.retain(|word| marks.is_coming(word));
    Ok(words)
}

/// Drops a word of a session; returns it.
///
/// # Errors
///
/// [`WordError::NoWord`] if no coming prompt has it; the file cannot be written.
pub fn drop_word(repo: &Repo, tag: &Tag, id: u32, clock: Clock) -> Result<Word, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let no_word = || WordError::NoWord { tag: tag.clone(), id };
    if !waiting_words(repo, tag)?.iter().any(|word| word.id == id) {
        return Err(no_word().into());
    }
    let key = WordKey::read_or_make()?.ok_or(WordError::NoHome)?;
    let dropped = WordFile::new(&folder, tag).drop_word(&key, id, clock.now())?;
    Ok(dropped.ok_or_else(no_word)?)
}

/// The journal's marks for words; none if it is unreadable.
fn marks(folder: &SessionFolder) -> WordMarks {
    Journal::read(&folder.state()).ok().flatten().map(|journal| journal.words).unwrap_or_default()
}

/// The words of the user as an open session has heard them.
#[derive(Debug, Default)]
pub(crate) struct HeardWords {
    /// The file when it was last looked at; absent before the first look.
    looked: Option<Option<FileStamp>>,
    lines: Vec<WordLine>,
    /// Which experiment's call was given a word that no finished call had.
    claims: BTreeMap<u32, ExperimentId>,
}

impl HeardWords {
    fn all(&self) -> Vec<Word> {
        words_of(&self.lines)
    }

    /// The words for the prompt of the next call for this experiment. Those that only one prompt has are given to no call
    /// for another experiment, as long as an agent proposes that one.
    pub(crate) fn claim(&mut self, id: ExperimentId, journal: &Journal) -> Vec<Word> {
        let proposing: Vec<ExperimentId> = journal.in_phase(Phase::Proposing).map(|open| open.id).collect();
        self.claims.retain(|_, of| proposing.contains(of));
        let mut words = self.coming(journal);
        words.retain(|word| word.standing || self.claims.get(&word.id).is_none_or(|of| *of == id));
        self.claims.extend(words.iter().map(|word| (word.id, id)));
        words
    }

    /// The words that a coming prompt has.
    pub(crate) fn coming(&self, journal: &Journal) -> Vec<Word> {
        let mut words = self.all();
        words.retain(|word| journal.words.is_coming(word));
        words
    }

    /// Returns whether there are undelivered words.
    pub(crate) fn are_waiting(&self, journal: &Journal) -> bool {
        self.all().iter().any(|word| !journal.words.is_delivered(word))
    }
}

/// Hears what the user has said since the last time, and notes what is to be told. Puts the file right where somebody
/// else wrote to it. Returns whether anything is to be told.
pub(crate) fn note_words(store: &mut Store) -> bool {
    let file = WordFile::new(&store.folder, &store.contract.tag);
    let stamp = FileStamp::of(file.path());
    if store.taken_back || store.words.looked == Some(stamp) || stamp.is_none() && store.words.lines.is_empty() {
        return false;
    }
    store.words.looked = Some(stamp);
    match file.hear(&store.words.lines) {
        Ok(Heard { lines, foreign, restored, found }) => {
            if let Some(found) = found {
                store.say(Notice::WordsRemoved { count: foreign, found });
            }
            if restored {
                store.say(Notice::WordsRestored);
            }
            store.words.lines = lines;
        }
        Err(error) => store.say_once(Notice::MemoryUnread { what: "words", why: with_causes(&error) }),
    }
    let mut words = store.words.all();
    words.retain(|word| store.journal.words.hear(word.id));
    for word in words {
        store.say(Event::Told { id: word.id, text: cut(&one_line(&word.text), SHOWN), standing: word.standing });
    }
    store.said.is_any()
}
