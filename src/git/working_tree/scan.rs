//! What may have changed in the working tree, by the own walk or by gix.

use std::sync::atomic::AtomicBool;

use gix::bstr::BStr;
use gix::dir::entry::{Kind, Status};
use gix::dir::walk::EmissionMode;
use gix::index::Entry;
use gix::status::index_worktree::Options;
use gix::status::plumbing::index_as_worktree::traits::{CompareBlobs, ReadData, SubmoduleStatus};
use gix::status::plumbing::index_as_worktree_with_renames::{Entry as Found, Recorder};

use super::odd::{self, OddFolders};
use super::tree::WorkingTree;
use super::walk::{Scan, walk};
use crate::fs::OWN_FOLDER;
use crate::git::error::{During, Result};
use crate::git::index::Staged;

/// Leaves all comparing to the caller, who reads each changed file once and keeps what it is.
#[derive(Clone)]
struct Suspect;

impl CompareBlobs for Suspect {
    type Output = ();

    fn compare_blobs<'a, 'b>(
        &mut self,
        _entry: &Entry,
        _size: u64,
        _data: impl ReadData<'a>,
        _buffer: &mut Vec<u8>,
    ) -> gix::Result<Option<()>> {
        Ok(Some(()))
    }
}

/// Submodules are left as they are.
#[derive(Clone)]
struct LeaveSubmodules;

impl SubmoduleStatus for LeaveSubmodules {
    type Output = ();

    fn status(&mut self, _entry: &Entry, _path: &BStr) -> gix::Result<Option<()>> {
        Ok(None)
    }
}

/// Walks over the tracked files, and over all others `with_untracked`.
pub(super) fn scan(tree: &WorkingTree, index: &Staged, with_untracked: bool) -> Result<Scan> {
    const WHAT: &str = "looking at the working tree";
    if let Some(scan) = walk(tree, index, with_untracked)? {
        return Ok(scan);
    }
    if with_untracked {
        refuse_odd_own_files(tree)?;
    }
    let dirwalk_options = match with_untracked {
        true => Some(tree.gix.dirwalk_options().during(WHAT)?.emit_untracked(EmissionMode::Matching)),
        false => None,
    };
    let mut found = Recorder::default();
    tree.gix
        .index_worktree_status(
            index,
            None::<&BStr>,
            &mut found,
            Suspect,
            LeaveSubmodules,
            &mut gix::progress::Discard,
            &AtomicBool::new(false),
            Options { sorting: None, dirwalk_options, rewrites: None, thread_limit: threads(index.entries().len()) },
        )
        .during(WHAT)?;
    let mut scan = Scan::default();
    for record in found.records {
        match record {
            Found::Modification { rela_path, .. } => scan.suspects.push(rela_path.to_owned()),
            Found::DirectoryContents { entry, .. } => match entry.disk_kind {
                _ if entry.status != Status::Untracked => {}
                Some(Kind::File | Kind::Symlink) => scan.untracked.push(entry.rela_path),
                Some(Kind::Repository) => scan.nested.push(entry.rela_path),
                _ => {}
            },
            Found::Rewrite { .. } => {}
        }
    }
    scan.suspects.sort();
    scan.suspects.dedup();
    scan.untracked.sort();
    scan.nested.sort();
    Ok(scan)
}

/// Refuses odd files in this program's own folder, where git walks into it.
fn refuse_odd_own_files(tree: &WorkingTree) -> Result<()> {
    let own = tree.root.join(OWN_FOLDER);
    if !own.is_dir() || tree.ignores_own()? {
        return Ok(());
    }
    odd::refuse(OddFolders { root: &tree.root, quiet: &tree.quiet_folders }.below(&own, || false))
}

/// How many threads look at so many files; as many as there are processors when absent. To start one costs as much as to look
/// at some hundred files.
fn threads(files: usize) -> Option<usize> {
    const FILES: usize = 1000;
    (files < FILES).then_some(1)
}
