//! The files on which git runs a filter of the configuration.

use gix::attrs::StateRef;
use gix::attrs::search::Outcome;
use gix::bstr::{BStr, BString};
use gix::worktree::Stack;

use crate::git::error::{During, Result};

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
