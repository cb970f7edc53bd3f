//! `autoresearch-lessons.md`: the lessons of all sessions of a repository. Only `ar` writes entries, from sessions in
//! several working trees; the text of others in it stays.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::lesson_text::LessonText;
use super::{StateError, lines};
use crate::crash;
use crate::domain::Lesson;
use crate::fs::{failed, if_exists, open_regular, replace_through};
use crate::rules::fold;

/// The file's name, in the repository's root.
pub const LESSONS: &str = "autoresearch-lessons.md";

/// The largest file, in bytes: fifty entries take about thirty thousand, and the rest is for notes.
const LARGEST: u64 = 1 << 20;

/// The file.
#[derive(Debug, Clone)]
pub struct LessonFile {
    path: PathBuf,
}

impl LessonFile {
    /// Names the file of a repository, given its main worktree.
    pub fn new(main_worktree: &Path) -> Self {
        LessonFile { path: main_worktree.join(LESSONS) }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `ar`'s own entries, in order; empty if there is no file.
    ///
    /// # Errors
    ///
    /// It is not a regular file, larger than 1 MiB, or cannot be read.
    pub fn read(&self) -> Result<Vec<Lesson>, StateError> {
        Ok(LessonText::parse(&self.content()?).lessons().into_iter().cloned().collect())
    }

    /// The file's bytes; empty if there is no file. See [`read`](Self::read).
    pub fn content(&self) -> Result<Vec<u8>, StateError> {
        match self.refuse_odd()? {
            true => {
                let read = open_regular(&self.path).and_then(|mut file| bytes_of(&mut file));
                Ok(read.map_err(failed("read", &self.path))?)
            }
            false => Ok(Vec::new()),
        }
    }

    /// Adds an entry at the end unless it exists, and merges old ones, except those of `spared` sessions. Temporary files
    /// are in `folder`. Everything is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The file is not a regular file, is read-only, cannot be written, or another process locks it for too long.
    pub fn add(
        &self,
        lesson: Lesson,
        spared: impl Fn(&str) -> bool,
        now: Timestamp,
        folder: &Path,
    ) -> Result<(), StateError> {
        let mut file = self.open_locked()?;
        crash::point("lessons.locked");
        let mut text = LessonText::parse(&bytes_of(&mut file).map_err(failed("read", &self.path))?);
        if text.has(&lesson) {
            return Ok(());
        }
        text.add(lesson);
        let folds = fold(&text.lessons(), spared, now);
        text.fold(folds);
        Ok(replace_through(folder, &self.path, &text.bytes())?)
    }

    /// Restores `content` if the file was deleted or emptied; returns whether it did.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn restore(&self, content: &[u8], folder: &Path) -> Result<bool, StateError> {
        if content.trim_ascii().is_empty() {
            return Ok(false);
        }
        let mut file = self.open_locked()?;
        let is_empty = bytes_of(&mut file).map_err(failed("read", &self.path))?.trim_ascii().is_empty();
        if is_empty {
            replace_through(folder, &self.path, content)?;
        }
        Ok(is_empty)
    }

    fn open_locked(&self) -> Result<File, StateError> {
        self.refuse_odd()?;
        lines::lock(&self.path)
    }

    /// Fails unless the path is free or a writable regular file; returns whether there is one. A link could lead
    /// anywhere.
    fn refuse_odd(&self) -> Result<bool, StateError> {
        let refuse = |why: &str| Err(failed("use", &self.path)(io::Error::other(why)).into());
        match if_exists(fs::symlink_metadata(&self.path)).map_err(failed("read", &self.path))? {
            None => Ok(false),
            Some(meta) if !meta.is_file() => refuse("it is not a regular file"),
            Some(meta) if meta.len() > LARGEST => refuse("it is larger than 1 MiB"),
            Some(meta) if meta.permissions().readonly() => refuse("it is read-only"),
            Some(_) => Ok(true),
        }
    }
}

fn bytes_of(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}
