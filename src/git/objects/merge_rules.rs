//! The rules for merging a file: its attributes, and the drivers that are programs.

use std::iter::empty;
use std::path::PathBuf;

use gix::ObjectId;
use gix::attrs::search::{MetadataCollection, Outcome};
use gix::attrs::{Search, StateRef};
use gix::bstr::{BStr, BString};
use gix::glob::pattern::Case;
use gix::index::State;
use gix::worktree::Stack;
use gix::worktree::stack;
use gix::worktree::stack::state::Attributes;
use gix::worktree::stack::state::attributes::Source;

use crate::git::error::{During, Result};

const WHAT: &str = "reading attributes";

/// The way to merge the lines of a file that both sides changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    /// Reports a conflict if both sides changed the same lines.
    Text,
    /// Takes the lines of both sides if they changed the same ones.
    Union,
    /// Does not merge: the file is taken for binary, or a program would have to merge it.
    None,
}

/// The attributes and drivers that decide how files are merged.
pub(super) struct MergeRules {
    /// The attributes of the repository's `info/attributes`, which go first, and those of a tree.
    attributes: [(Stack, Outcome); 2],
    /// The names of drivers that are programs.
    programs: Vec<BString>,
}

impl MergeRules {
    /// The rules that hold for a merge into `tree`. The user's own attributes are left out.
    pub(super) fn read(gix: &gix::Repository, tree: ObjectId) -> Result<MergeRules> {
        let index = gix.index_from_tree(&tree).during(WHAT)?;
        let attributes = [attributes(gix, &State::new(gix.object_hash()))?, attributes(gix, &index)?];
        let config = gix.config_snapshot();
        let sections = config.plumbing().sections_by_name("merge").into_iter().flatten();
        let programs = sections.filter_map(|section| section.header().subsection_name().map(ToOwned::to_owned));
        Ok(MergeRules { attributes, programs: programs.collect() })
    }

    /// Returns the driver that merges the file at `path`.
    pub(super) fn driver(&mut self, gix: &gix::Repository, path: &BStr) -> Result<Driver> {
        for (stack, found) in &mut self.attributes {
            stack.at_path(path, None, &gix.objects).during(WHAT)?.matching_attributes(found);
            let Some(matched) = found.iter_selected().next() else { continue };
            return Ok(match matched.assignment.state {
                StateRef::Unspecified => continue,
                StateRef::Set => Driver::Text,
                StateRef::Unset => Driver::None,
                StateRef::Value(name) if self.programs.iter().any(|program| name.as_bstr() == program) => Driver::None,
                StateRef::Value(name) if name.as_bstr() == "binary" => Driver::None,
                StateRef::Value(name) if name.as_bstr() == "union" => Driver::Union,
                StateRef::Value(_) => Driver::Text,
            });
        }
        Ok(Driver::Text)
    }
}

/// The attribute `merge` as `info/attributes` and the attribute files in `index` set it.
fn attributes(gix: &gix::Repository, index: &State) -> Result<(Stack, Outcome)> {
    let (mut buffer, mut collection) = (Vec::new(), MetadataCollection::default());
    // Only git's own macros, such as `binary`.
    let globals = Search::new_globals(empty::<PathBuf>(), &mut buffer, &mut collection).during(WHAT)?;
    let info = gix.common_dir().join("info").join("attributes");
    let attributes = Attributes::new(globals, Some(info), Source::IdMapping, collection);
    let state = stack::State::AttributesStack(attributes);
    let files = state.id_mappings_from_index(index, index.path_backing(), Case::Sensitive);
    let root = gix.workdir().unwrap_or_else(|| gix.git_dir());
    let stack = Stack::new(root, state, Case::Sensitive, buffer, files);
    let found = stack.selected_attribute_matches(["merge"]);
    Ok((stack, found))
}
