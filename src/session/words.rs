//! `ar tell`: what the user says to the agents of a session, by another process, and how the session hears it.

use std::collections::BTreeMap;

use strum::EnumProperty;

use super::error::SessionError;
use super::shared::Shared;
use super::store::Store;
use crate::crash;
use crate::domain::{Clock, Event, ExperimentId, Notice, Phase, Tag, Word, bytes_text, cut, one_line, with_causes};
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::measure::PlainText;
use crate::state::{Heard, Journal, SessionFolder, WordFile, WordKey, WordLine, WordMarks, words_of};

/// The longest text of a word, in bytes.
const LONGEST: usize = 1 << 20;

/// The most characters of a word in an event.
const SHOWN: usize = 500;

/// The reason why a word cannot be added or dropped.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum WordError {
    #[error("the text is empty")]
    #[strum(props(hint = "write what the agent must know, as in `ar tell \"keep the batch size\"`"))]
    Empty,
    #[error("the text has {}, more than the limit of {}", bytes_text(*.0 as u64), bytes_text(LONGEST as u64))]
    #[strum(props(hint = "put it into a file that the agent can read, and name that file"))]
    TooLong(usize),
    #[error("session {tag} has no word {id}")]
    #[strum(props(hint = "run `ar tell --list` to see them"))]
    NoWord { tag: Tag, id: u32 },
    #[error("no home folder for the key that marks a word as yours")]
    #[strum(props(hint = "set HOME, or XDG_STATE_HOME to an absolute path"))]
    NoHome,
}

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
pub(super) struct HeardWords {
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
    pub(super) fn claim(&mut self, id: ExperimentId, journal: &Journal) -> Vec<Word> {
        let proposing: Vec<ExperimentId> = journal.in_phase(Phase::Proposing).map(|open| open.id).collect();
        self.claims.retain(|_, of| proposing.contains(of));
        let mut words = self.coming(journal);
        words.retain(|word| word.standing || self.claims.get(&word.id).is_none_or(|of| *of == id));
        self.claims.extend(words.iter().map(|word| (word.id, id)));
        words
    }

    /// The words that a coming prompt has.
    pub(super) fn coming(&self, journal: &Journal) -> Vec<Word> {
        let mut words = self.all();
        words.retain(|word| journal.words.is_coming(word));
        words
    }

    /// Returns whether there are undelivered words.
    pub(super) fn are_waiting(&self, journal: &Journal) -> bool {
        self.all().iter().any(|word| !journal.words.is_delivered(word))
    }
}

/// Hears what the user has said since the last time, and notes what is to be told. Puts the file right where somebody
/// else wrote to it. Returns whether anything is to be told.
pub(super) fn note_words(store: &mut Store) -> bool {
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

/// Returns a test for words that the session hears from now on.
pub(super) fn newer_words<'s>(shared: &'s Shared<'_>) -> impl Fn() -> bool + 's {
    let newest = || shared.store().journal.words.newest();
    let before = newest();
    move || newest() != before
}

/// Hears what the user has said, and tells and notes what is new.
pub(super) fn hear_words(shared: &Shared<'_>) -> Result<(), SessionError> {
    let is_new = note_words(&mut shared.store());
    if is_new {
        shared.tell()?;
        crash::point("words.heard");
        shared.store().write_journal()?;
    }
    Ok(())
}
