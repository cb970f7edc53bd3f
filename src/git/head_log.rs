//! The log of HEAD: what was committed meanwhile, also where it was reset again.

use std::fs;
use std::path::PathBuf;

use super::Repo;
use crate::domain::CommitId;
use crate::fs::read_at_most;

/// How large the log may be, in bytes; of a larger one nothing is read.
const LARGEST: u64 = 64 << 20;

impl Repo {
    /// How many bytes the log of HEAD has.
    pub fn head_log_size(&self) -> u64 {
        fs::metadata(self.head_log()).map_or(0, |meta| meta.len())
    }

    /// The commits that were made since the log had `from` bytes and that exist, the oldest first: by `git commit`, and not by
    /// a merge or a rebase. None where there is no log, or it was rewritten.
    pub fn commits_logged(&self, from: u64) -> Vec<CommitId> {
        let Ok(log) = read_at_most(&self.head_log(), LARGEST) else { return Vec::new() };
        let new = usize::try_from(from).ok().and_then(|from| log.get(from..)).unwrap_or_default();
        let text = String::from_utf8_lossy(new);
        let commits = text.lines().filter_map(|line| {
            // OLD NEW NAME <EMAIL> TIME ZONE, a tab, and what was done.
            let (change, action) = line.split_once('\t')?;
            let is_commit = action.starts_with("commit: ") || action.starts_with("commit (amend): ");
            let new = change.split(' ').nth(1).filter(|_| is_commit)?;
            (new.len() >= 40 && new.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| CommitId::new(new))
        });
        commits.filter(|commit| self.has_commit(commit)).collect()
    }

    fn head_log(&self) -> PathBuf {
        self.git_dir().join("logs/HEAD")
    }
}
