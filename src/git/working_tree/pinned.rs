//! Comparing and writing protected files, whatever happened to git's settings and attribute files since the session began.
//!
//! A filter may show git the old content of a changed file, or change a file at checkout. So neither current settings
//! nor uncommitted attribute files apply to protected files. Their bytes are those of the blob, unless attributes of
//! the session's first commit have them filtered. Then the settings of the session's start apply.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use gix::bstr::{BString, ByteSlice};
use gix::glob::pattern::Case;
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stat};
use gix::worktree::Stack;
use gix::worktree::stack::state::attributes::Source;
use serde::{Deserialize, Serialize};

use super::{ChosenFilters, OnDisk, Scan, TreeFiles, is_attributes, refuse_encoding_in};
use crate::domain::CommitId;
use crate::git::{During, Edits, GitError, Program, Result, WhyLeftOut, WorkingTree, to_git, to_path};

/// The settings of a driver, in `filter.<driver>`.
const OF_DRIVERS: [&str; 4] = ["clean", "smudge", "process", "required"];

/// The settings by which git converts line ends, with what holds where one is missing.
const OF_LINES: [(&str, &str); 3] = [("autocrlf", "false"), ("eol", "native"), ("safecrlf", "false")];

/// The settings by which git converts files, by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterSettings(BTreeMap<String, String>);

impl FilterSettings {
    pub(in crate::git) fn of(gix: &gix::Repository) -> FilterSettings {
        let config = gix.config_snapshot();
        let mut settings = BTreeMap::new();
        for section in config.plumbing().sections_by_name("filter").into_iter().flatten() {
            let Some(driver) = section.header().subsection_name() else { continue };
            for name in OF_DRIVERS {
                let key = format!("filter.{driver}.{name}");
                // One without a value is true.
                let value =
                    section.value_implicit(name).map(|value| value.map_or("true".into(), |value| value.to_string()));
                settings.extend(value.map(|value| (key, value)));
            }
        }
        for (name, _) in OF_LINES {
            let value = config.string(format!("core.{name}").as_str());
            settings.extend(value.map(|value| (format!("core.{name}"), value.to_string())));
        }
        FilterSettings(settings)
    }

    /// Has `gix` convert files by these settings and no others.
    pub(in crate::git) fn apply(&self, gix: &mut gix::Repository) -> Result<()> {
        const WHAT: &str = "setting up the filters";
        let mut config = gix.config_snapshot_mut();
        let drivers = config.sections_by_name("filter").into_iter().flatten();
        let drivers: Vec<Option<BString>> =
            drivers.map(|section| section.header().subsection_name().map(ToOwned::to_owned)).collect();
        for driver in drivers {
            config.remove_section("filter", driver.as_ref().map(|driver| driver.as_bstr()));
        }
        for (key, value) in &self.0 {
            if let Some((driver, name)) = key.strip_prefix("filter.").and_then(|key| key.rsplit_once('.')) {
                config
                    .set_raw_value_by("filter", Some(driver.as_bytes().as_bstr()), name, value.as_str())
                    .during(WHAT)?;
            }
        }
        for (name, default) in OF_LINES {
            let value = self.0.get(&format!("core.{name}")).map_or(default, String::as_str);
            config.set_raw_value_by("core", None::<&gix::bstr::BStr>, name, value).during(WHAT)?;
        }
        config.commit().during(WHAT)?;
        Ok(())
    }
}

/// The settings and attributes by which protected files are converted.
pub struct PinnedFilters {
    gix: gix::Repository,
    /// The attribute files of the session's first commit.
    attributes: State,
}

impl std::fmt::Debug for PinnedFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedFilters").finish_non_exhaustive()
    }
}

impl PinnedFilters {
    pub(super) fn gix(&self) -> &gix::Repository {
        &self.gix
    }

    /// Returns the source of a path's attributes: those of the commit alone.
    pub(super) fn stack(&self, tree: &WorkingTree) -> Result<Stack> {
        const WHAT: &str = "reading attributes";
        let mut collection = gix::attrs::search::MetadataCollection::default();
        let mut buffer = Vec::new();
        let none = std::iter::empty::<PathBuf>();
        let built_in = gix::attrs::Search::new_globals(none, &mut buffer, &mut collection).during(WHAT)?;
        let attributes = gix::worktree::stack::state::Attributes::new(built_in, None, Source::IdMapping, collection);
        let state = gix::worktree::stack::State::AttributesStack(attributes);
        let folds = self.gix.filesystem_options().during(WHAT)?.ignore_case;
        let case = if folds { Case::Fold } else { Case::Sensitive };
        let named = state.id_mappings_from_index(&self.attributes, self.attributes.path_backing(), case);
        Ok(Stack::new(&tree.root, state, case, buffer, named))
    }
}

impl WorkingTree {
    /// The settings by which files are converted here.
    pub fn filter_settings(&self) -> FilterSettings {
        FilterSettings::of(&self.gix)
    }

    /// Pins the attributes that the files `attributes` of `commit` give, and these settings.
    pub fn pin_filters(
        &self,
        commit: &CommitId,
        attributes: &[PathBuf],
        settings: &FilterSettings,
    ) -> Result<PinnedFilters> {
        let mut gix = (*self.gix).clone();
        settings.apply(&mut gix)?;
        let tree = self.objects.tree_id(commit)?;
        let mut state = State::new(gix.object_hash());
        for path in attributes {
            let path = to_git(path)?;
            if let Some((mode, id)) = self.objects.version_in(tree, path.as_ref())? {
                state.dangerously_push_entry(Stat::default(), id, Flags::empty(), mode, path.as_ref());
            }
        }
        state.sort_entries();
        Ok(PinnedFilters { gix, attributes: state })
    }

    /// Those of `paths` that are not in the working tree as `commit` has them: changed, gone, or a link in their place.
    /// Their content is read, whatever the index says of their times.
    pub fn differing(&self, commit: &CommitId, paths: &[PathBuf], filters: &PinnedFilters) -> Result<Vec<PathBuf>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.objects.tree_id(commit)?;
        let staged = self.index.read()?;
        let mut files = TreeFiles::pinned(self, filters)?;
        let mut differing = Vec::new();
        for native in paths {
            let path = to_git(native)?;
            if files.version(path.as_ref(), &staged)? != self.objects.version_in(tree, path.as_ref())? {
                differing.push(native.clone());
            }
        }
        Ok(differing)
    }

    /// Writes `paths` as `commit` has them, in working tree and index. Their present content is lost.
    pub fn write_as_pinned(&self, commit: &CommitId, paths: &[PathBuf], filters: &PinnedFilters) -> Result<()> {
        let tree = self.objects.tree_id(commit)?;
        let lock = self.index.lock()?;
        let mut staged = self.index.own()?;
        let mut files = TreeFiles::pinned(self, filters)?;
        let mut edits = Edits::default();
        for native in paths {
            let path = to_git(native)?;
            if let Some(version) = self.objects.version_in(tree, path.as_ref())? {
                let stat = files.write(path.as_ref(), version)?;
                edits.set.insert(path, (version, stat));
            }
        }
        drop(files);
        let fresh: Vec<BString> = edits.set.keys().cloned().collect();
        let known = staged.tree();
        staged.apply(edits, known.filter(|known| *known == tree));
        self.index.write(&lock, staged, &fresh)
    }
}

/// Returns whether a path, relative to the working tree, is that of an attribute file.
pub fn names_attributes(path: &std::path::Path) -> bool {
    to_git(path).is_ok_and(|path| is_attributes(path.as_ref()))
}

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
        let (mut new, mut old) = (ChosenFilters::by(stack.clone()), ChosenFilters::by(before));
        let mut files = TreeFiles::with(self, &now, stack, self.programs.call(Program::Filter))?;
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
