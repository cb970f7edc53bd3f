//! The git folder of one call of an agent: a repository of its own on the real objects, of which `ar` takes over what was
//! committed, and nothing else.
//!
//! This process never opens the folder as a repository once an agent had it, and the git program does so behind a wall: its
//! configuration, links, alternates and hooks are whatever the agent made of them.

mod config;
mod import;
mod make;

use std::path::{Path, PathBuf};

pub use import::CallCommits;

/// The git folder of one call of an agent.
///
/// The call sees it at the place of `.git`. Where that is a file, the call sees [`CallGit::link`] there instead. It is complete
/// but for the real objects, which the call sees read-only at [`CallGit::shared`].
#[derive(Debug, Clone)]
pub struct CallGit {
    folder: PathBuf,
}

impl CallGit {
    /// Names the folder, by an absolute path; creates nothing.
    pub fn at(folder: PathBuf) -> CallGit {
        CallGit { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The empty folder in it over which the real `objects` folder is mounted.
    pub fn shared(&self) -> PathBuf {
        // Git LFS finds its own files beside a folder of objects, at `lfs`.
        self.folder.join("shared/objects")
    }

    /// The file in it that leads to it, for a working tree whose `.git` is a file.
    pub fn link(&self) -> PathBuf {
        self.folder.join("dot-git")
    }
}
