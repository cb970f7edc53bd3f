//! Checks whether `ar` can work with the attribute files of a change.

use std::collections::BTreeSet;

use gix::bstr::{BString, ByteSlice};
use gix::index::State;
use gix::index::entry::Mode;
use gix::worktree::stack::state::attributes::Source;

use super::attributes::{is_attributes, refuse_encoding_in};
use super::files::{Files, OnDisk};
use super::filters::Chosen;
use super::snapshot::WhyLeftOut;
use super::tree::WorkingTree;
use super::walk::Scan;
use crate::git::error::{During, GitError, Result};
use crate::git::path::to_path;
use crate::git::programs::Program;

impl WorkingTree {
    /// The attribute files among those that were `found` to differ from the tree `base` with which files could not be checked
    /// out, or not as they are: any asks for a wide encoding, or all of them together for a filter that fails.
    pub(super) fn unusable_attributes(
        &self,
        base: gix::ObjectId,
        index: &State,
        found: BTreeSet<&BString>,
        scan: &Scan,
    ) -> Result<Vec<(BString, WhyLeftOut)>> {
        let files: Vec<&BString> = found.into_iter().filter(|path| is_attributes(path.as_bstr())).collect();
        let mut unusable = Vec::new();
        for path in &files {
            match refuse_encoding_in(&self.root, &to_path(path.as_ref())) {
                Err(GitError::WorkingTreeEncoding { .. }) => unusable.push(((*path).clone(), WhyLeftOut::Encoding)),
                checked => checked?,
            }
        }
        if unusable.is_empty() && !files.is_empty() && self.has_failing_filter(base, index, scan)? {
            unusable.extend(files.into_iter().map(|path| (path.clone(), WhyLeftOut::Attributes)));
        }
        Ok(unusable)
    }

    /// Returns whether a filter fails for a file that has another filter, or none, in `base`. Uses the current
    /// settings, because an agent may have made the filter.
    fn has_failing_filter(&self, base: gix::ObjectId, index: &State, scan: &Scan) -> Result<bool> {
        const WHAT: &str = "reading the configuration";
        let now = gix::open(&self.root).during(WHAT)?;
        let drivers = gix::filter::Pipeline::options(&now).during(WHAT)?.drivers;
        if drivers.is_empty() {
            return Ok(false);
        }
        let base = self.objects.read(|gix| gix.index_from_tree(&base).during("reading a tree"))?;
        let stack = now.attributes_only(index, Source::WorktreeThenIdMapping).during("reading attributes")?.detach();
        let before = self.gix.attributes_only(&base, Source::IdMapping).during("reading attributes")?.detach();
        let (mut new, mut old) = (Chosen::by(stack.clone()), Chosen::by(before));
        let mut files = Files::with(self, &now, stack, self.programs.call(Program::Filter))?;
        let tracked = index.entries().iter().filter(|entry| entry.mode != Mode::COMMIT);
        let tracked = tracked.map(|entry| entry.path(index));
        for path in tracked.chain(scan.untracked.iter().map(|path| path.as_bstr())) {
            let filter = new.filter(&now, path)?;
            let is_meant = filter.as_ref().is_some_and(|name| drivers.iter().any(|driver| driver.name == *name));
            if !is_meant || filter == old.filter(&self.gix, path)? {
                continue;
            }
            let works = match files.read(path, index) {
                Ok(OnDisk::File(content)) => files.as_checked_out(&content, path).map(drop),
                read => read.map(drop),
            };
            match works {
                Err(GitError::Filter { .. }) => return Ok(true),
                works => works?,
            }
        }
        Ok(false)
    }
}
