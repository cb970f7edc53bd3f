//! Files that change while a run is active, and what becomes of its number.

use std::path::{Path, PathBuf};

use crate::domain::{Failure, FailureClass, list};

/// The files that changed while a run was active.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disturbance {
    /// Tracked files and the metric file.
    pub changed: Vec<PathBuf>,
    /// Protected files, also those that were changed back.
    pub touched: Vec<PathBuf>,
}

impl Disturbance {
    /// Leaves out files that do not count.
    pub fn without(mut self, is_exempt: impl Fn(&Path) -> bool) -> Disturbance {
        self.touched.retain(|path| !is_exempt(path));
        self.changed.retain(|path| !is_exempt(path));
        self
    }

    /// All of them, each once.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.changed.iter().chain(&self.touched).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// The failure in the place of the number, if there are any.
    pub fn failure(&self) -> Option<Failure> {
        let changed = self.paths();
        if changed.is_empty() {
            return None;
        }
        Some(match self.touched.is_empty() {
            true => Failure::new(FailureClass::Changed, changed_text(&changed)),
            false => Failure::new(
                FailureClass::Protected,
                format!("{} while the run was active, and changed back", were_changed(&self.touched)),
            ),
        })
    }
}

/// Says which files changed during a run.
pub fn changed_text(changed: &[PathBuf]) -> String {
    format!("{} changed while it ran", list(changed))
}

fn were_changed(paths: &[PathBuf]) -> String {
    format!("{} {} changed", list(paths), if paths.len() == 1 { "was" } else { "were" })
}
