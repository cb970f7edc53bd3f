//! Finds other processes that may use git in a repository.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Programs that write git's files themselves, beside those with `git` in their name.
const OTHERS: [&str; 5] = ["jj", "tig", "gh", "hub", "sl"];

/// Returns whether a process of this user may hold one of `files`, which are git's locks. Such a process has it open,
/// or is a git that runs in one of `folders`. Assumes so if the system does not tell.
pub fn may_be_held(files: &[PathBuf], folders: &[PathBuf]) -> bool {
    let Ok(me) = fs::metadata("/proc/self") else { return true };
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let others = processes.flatten().map(|entry| entry.path()).filter(|path| {
        let pid = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u32>().ok());
        pid.is_some_and(|pid| pid != std::process::id())
            && fs::metadata(path).is_ok_and(|process| process.uid() == me.uid())
    });
    others.into_iter().any(|process| is_git_in(&process, folders) || has_open(&process, files))
}

fn is_git_in(process: &Path, folders: &[PathBuf]) -> bool {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let name = name.trim();
    (name.contains("git") || OTHERS.contains(&name))
        && fs::read_link(process.join("cwd")).is_ok_and(|cwd| folders.iter().any(|folder| cwd.starts_with(folder)))
}

fn has_open(process: &Path, files: &[PathBuf]) -> bool {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|file| files.contains(&file))
}
