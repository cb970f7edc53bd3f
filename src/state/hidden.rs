//! The file of what agents must not read while a session can go on: runs with their hidden values, and the verdicts by them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::StateError;
use super::lines::{add_durably, content, valid, versioned};
use crate::domain::FORMAT_VERSION;
use crate::fs::{create_folder, failed, if_exists, write_atomic};
use crate::rules::{HiddenBook, HiddenEntry};

/// The file of hidden values in the state folder.
pub const HIDDEN: &str = "hidden.jsonl";

/// The empty file in the state folder that jobs see in place of hidden files.
const EMPTY: &str = "empty";

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct HiddenLine {
    version: u32,
    #[serde(flatten)]
    entry: HiddenEntry,
}

/// The hidden values of the session with this state folder.
#[derive(Debug, Clone)]
pub struct HiddenFile {
    path: PathBuf,
    empty: PathBuf,
}

impl HiddenFile {
    /// Names the file; creates nothing.
    pub fn new(state: &Path) -> HiddenFile {
        HiddenFile { path: state.join(HIDDEN), empty: state.join(EMPTY) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The empty file that jobs see in its place.
    pub fn empty(&self) -> &Path {
        &self.empty
    }

    /// Creates the empty file where it is missing, or where another process has filled it.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn create_empty(&self) -> Result<(), StateError> {
        match fs::symlink_metadata(&self.empty) {
            Ok(meta) if meta.is_file() && meta.len() == 0 => Ok(()),
            _ => Ok(write_atomic(&self.empty, b"")?),
        }
    }

    /// Creates both files where they are missing: a wall covers only what is there.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub fn create(&self) -> Result<(), StateError> {
        create_folder(self.path.parent().unwrap_or(&self.path))?;
        self.create_empty()?;
        let is_there = if_exists(fs::symlink_metadata(&self.path)).map_err(failed("look at", &self.path))?.is_some();
        Ok(if is_there { Ok(()) } else { write_atomic(&self.path, b"") }?)
    }

    /// All that it has; empty where there is no file. Torn lines are left out.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a newer program wrote it.
    pub fn read(&self) -> Result<HiddenBook, StateError> {
        let content = content(&self.path)?;
        let (lines, _) = valid(&content, |line| versioned::<HiddenLine>(&self.path, line))?;
        Ok(lines.into_iter().map(|line| line.entry).collect())
    }

    /// Its text; empty where there is no file.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn text(&self) -> Result<String, StateError> {
        Ok(String::from_utf8_lossy(&content(&self.path)?).into_owned())
    }

    /// Adds an entry, which is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn add(&self, entry: &HiddenEntry) -> Result<(), StateError> {
        add_durably(&self.path, &HiddenLine { version: FORMAT_VERSION, entry: entry.clone() })
    }
}
