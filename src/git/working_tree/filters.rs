//! The files on which git runs a filter of the configuration.

use std::path::PathBuf;

use gix::attrs::StateRef;
use gix::attrs::search::Outcome;
use gix::bstr::{BStr, BString};
use gix::worktree::Stack;
use gix::worktree::stack::state::attributes::Source;

use super::tree::WorkingTree;
use crate::git::error::{During, Result};
use crate::git::path::to_path;

/// A filter of the configuration that has to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredFilter {
    name: BString,
    /// Its command lines.
    pub lines: Vec<String>,
}

impl WorkingTree {
    /// The filters of the configuration without which git refuses to convert a file.
    pub fn required_filters(&self) -> Result<Vec<RequiredFilter>> {
        let drivers = gix::filter::Pipeline::options(&self.gix).during("reading the configuration")?.drivers;
        let required = drivers.into_iter().filter(|driver| driver.required).map(|driver| {
            let either = || driver.clean.into_iter().chain(driver.smudge).collect();
            let lines: Vec<BString> = driver.process.map_or_else(either, |line| vec![line]);
            RequiredFilter { name: driver.name, lines: lines.iter().map(ToString::to_string).collect() }
        });
        Ok(required.collect())
    }

    /// The first tracked file to which attributes give a filter.
    pub fn file_of_filter(&self, filter: &RequiredFilter) -> Result<Option<PathBuf>> {
        const WHAT: &str = "reading attributes";
        let index = self.index.read()?;
        let stack = self.gix.attributes_only(&index, Source::WorktreeThenIdMapping).during(WHAT)?.detach();
        let mut chosen = Chosen::by(stack);
        for entry in index.entries() {
            if chosen.filter(&self.gix, entry.path(&index))?.as_ref() == Some(&filter.name) {
                return Ok(Some(to_path(entry.path(&index))));
            }
        }
        Ok(None)
    }
}

/// The filters and attributes that decide whether a filter runs on a path.
#[derive(Default)]
pub(super) struct Filters {
    /// Nothing where none is configured.
    configured: Option<Configured>,
    /// Set once a filter applied to any path.
    pub(super) were_used: bool,
}

struct Configured {
    names: Vec<BString>,
    attributes: Stack,
    found: Outcome,
}

impl Filters {
    /// The filters that are configured, for the paths to which `attributes` gives them.
    pub(super) fn new(gix: &gix::Repository, attributes: &Stack) -> Result<Filters> {
        let drivers = gix::filter::Pipeline::options(gix).during("reading the configuration")?.drivers;
        let names: Vec<BString> = drivers.into_iter().map(|driver| driver.name).collect();
        let configured = (!names.is_empty()).then(|| Configured {
            names,
            found: attributes.selected_attribute_matches(["filter"]),
            attributes: attributes.clone(),
        });
        Ok(Filters { configured, were_used: false })
    }

    /// Returns whether a filter runs on the file at `relative`.
    pub(super) fn is_used_for(&mut self, gix: &gix::Repository, relative: &BStr) -> Result<bool> {
        let Some(Configured { names, attributes, found }) = &mut self.configured else { return Ok(false) };
        let at = attributes.at_entry(relative, None, &gix.objects).during("reading attributes")?;
        at.matching_attributes(found);
        let is_used = found.iter_selected().any(|matched| match matched.assignment.state {
            StateRef::Value(name) => names.iter().any(|known| name.as_bstr() == known),
            _ => false,
        });
        self.were_used |= is_used;
        Ok(is_used)
    }
}

/// The filters that attributes give to files.
pub(super) struct Chosen {
    attributes: Stack,
    found: Outcome,
}

impl Chosen {
    pub(super) fn by(attributes: Stack) -> Chosen {
        Chosen { found: attributes.selected_attribute_matches(["filter"]), attributes }
    }

    /// The name of a file's filter, if it has one.
    pub(super) fn filter(&mut self, gix: &gix::Repository, path: &BStr) -> Result<Option<BString>> {
        let at = self.attributes.at_entry(path, None, &gix.objects).during("reading attributes")?;
        at.matching_attributes(&mut self.found);
        let names = self.found.iter_selected().filter_map(|matched| match matched.assignment.state {
            StateRef::Value(name) => Some(name.as_bstr().to_owned()),
            _ => None,
        });
        Ok(names.last())
    }
}
