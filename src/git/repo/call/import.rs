//! Taking over what a call did with git.

use std::path::Path;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::Kind;
use gix::refs::FullNameRef;

use super::CallGit;
use crate::domain::CommitId;
use crate::git::beneath::UntrustedFolder;
use crate::git::error::Result;
use crate::git::index::untrusted_entries;
use crate::git::objects::{Import, UntrustedObjects};
use crate::git::path::{commit_id, object_id, to_path};
use crate::git::refs::{LARGEST_LOG, committed_in};
use crate::git::repo::Repo;

/// The most commits in the log of `HEAD` that are looked at, from its end.
const MOST: usize = 100;

/// The most refs on the way from `HEAD` to a commit.
const DEEPEST: u32 = 5;

/// The largest file of a ref, of packed refs, and of an index that is read, in bytes.
const LARGEST_REF: u64 = 4096;
const LARGEST_PACKED: u64 = 64 << 20;
const LARGEST_INDEX: u64 = 256 << 20;

/// The commits of a call, all of them in the repository now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCommits {
    /// The commit that `HEAD` leads to. If it is not whole, the nearest of its first ancestors that is and that the call made;
    /// else the base.
    pub tip: CommitId,
    /// The commits made by `git commit`, the oldest first, also those that were reset; at most the last 100.
    pub logged: Vec<CommitId>,
}

impl Repo {
    /// Takes over the commits of a call, which began at `base`, and its index. Nothing leads to the commits afterwards; refs,
    /// configuration and hooks of the call stay behind, and so does an index that is damaged or names files that are missing.
    ///
    /// When this returns, the commits are on the disk with all that belongs to them.
    ///
    /// # Errors
    ///
    /// The repository cannot be read or written. The content of the call's folder is no error, whatever it is.
    pub fn import_call_git(&self, call: &CallGit, base: &CommitId) -> Result<CallCommits> {
        let mut commits = CallCommits { tip: base.clone(), logged: Vec::new() };
        let Ok(folder) = UntrustedFolder::open(call.folder()) else { return Ok(commits) };
        let from = UntrustedObjects::of(folder);
        let mut import = Import::new(&self.objects, &from);
        let log = from.folder().read(Path::new("logs/HEAD"), LARGEST_LOG).unwrap_or_default();
        let mut logged = committed_in(&log);
        logged.drain(..logged.len().saturating_sub(MOST));
        for commit in logged {
            if let Ok(id) = object_id(&commit)
                && import.take(id, Kind::Commit)?
            {
                commits.logged.push(commit);
            }
        }
        if let Some(tip) = head_of(from.folder())
            && let Some(whole) = import.take_commit(tip)?
        {
            commits.tip = commit_id(whole);
        }
        let bytes = from.folder().read(Path::new("index"), LARGEST_INDEX).unwrap_or_default();
        let is_ours = self.index.bytes().is_ok_and(|own| own == bytes);
        let entries = if is_ours { None } else { untrusted_entries(&bytes) };
        let new = entries.as_deref().map(|entries| self.index.new_among(entries)).transpose()?.flatten();
        let mut is_whole = new.is_some();
        for file in new.into_iter().flatten().filter_map(|entry| entry.file()) {
            is_whole = is_whole && import.take(file, Kind::Blob)?;
        }
        import.finish()?;
        match entries {
            Some(entries) if is_whole => self.index.take_over(&entries)?,
            _ => {}
        }
        Ok(commits)
    }
}

/// The object that `HEAD` leads to.
fn head_of(folder: &UntrustedFolder) -> Option<ObjectId> {
    let mut content = folder.read(Path::new("HEAD"), LARGEST_REF).ok()?;
    for _ in 0..DEEPEST {
        let text = content.trim_ascii();
        let Some(name) = text.strip_prefix(b"ref:") else { return ObjectId::from_hex(text).ok() };
        let name = name.trim_ascii().as_bstr();
        let is_ref = name.starts_with(b"refs/") && <&FullNameRef>::try_from(name).is_ok();
        let file = Some(to_path(name)).filter(|_| is_ref)?;
        content = match folder.read(&file, LARGEST_REF) {
            Ok(content) => content,
            Err(_) => return packed_ref(folder, name),
        };
    }
    None
}

fn packed_ref(folder: &UntrustedFolder, name: &[u8]) -> Option<ObjectId> {
    let packed = folder.read(Path::new("packed-refs"), LARGEST_PACKED).ok()?;
    let line = packed.lines().find(|line| line.get(40..).and_then(|rest| rest.strip_prefix(b" ")) == Some(name))?;
    ObjectId::from_hex(line.get(..40)?).ok()
}
