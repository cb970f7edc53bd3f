//! The configuration of a call: that of the repository, as far as it means the same in another folder.

use std::fs;
use std::path::Path;

use gix::bstr::{BString, ByteSlice};
use gix::config::File;
use gix::config::file::Metadata;

use super::make::plain;
use crate::fs::read_regular;
use crate::git::error::{At, During, Result};
use crate::git::path::{to_git, to_path};

const WHAT: &str = "copying git's configuration";

/// The most files that include each other; git has the same limit.
const DEEPEST: u32 = 10;

/// Settings for a complete folder beside its working tree. A monitor of files started in a call would outlive it.
const OWN: &[u8] = b"\n[core]\n\tbare = false\n\tfsmonitor = false\n\tsplitIndex = false\n";

/// Copies a configuration file of the git folder `common`, and those in that folder that it includes. Relative paths of
/// included files become absolute. `core.worktree` goes: the working tree is where it is found.
pub(super) fn copy_config(common: &Path, from: &Path, to: &Path) -> Result<()> {
    if let Some(mut bytes) = copied(common, from, to, DEEPEST)? {
        bytes.extend_from_slice(OWN);
        fs::write(to, bytes).at("writing", to)?;
    }
    Ok(())
}

/// The copy of a configuration file of the folder `common` whose own copy is the folder of `to`; `None` if it is missing
/// or unreadable. Copies those that it includes.
fn copied(common: &Path, from: &Path, to: &Path, deepest: u32) -> Result<Option<Vec<u8>>> {
    let Ok(bytes) = read_regular(from) else { return Ok(None) };
    // Git itself cannot read such a file either, and says so.
    let Ok(mut file) = File::from_bytes_no_includes(&bytes, Metadata::default(), Default::default()) else {
        return Ok(Some(bytes));
    };
    let folder = from.parent().unwrap_or(Path::new("/"));
    let ids: Vec<_> = file.sections_and_ids().map(|(_, id)| id).collect();
    for id in ids {
        let Some(mut section) = file.section_mut_by_id(id) else { continue };
        let name = section.header().name().to_str_lossy().to_ascii_lowercase();
        if name == "core" {
            while section.remove("worktree").is_some() {}
        } else if name == "include" || name == "includeif" {
            let paths = section.values("path");
            while section.remove("path").is_some() {}
            for path in paths {
                let path = included(common, folder, path, to, deepest)?;
                section.push("path", path.as_bstr()).during(WHAT)?;
            }
        }
    }
    Ok(Some(file.to_bstring().into()))
}

/// The path of an included file, absolute. One in the folder `common` is copied, as the call sees its own folder there.
fn included(common: &Path, folder: &Path, path: BString, to: &Path, deepest: u32) -> Result<BString> {
    if path.starts_with(b"~") || path.starts_with(b"%(prefix)") {
        return Ok(path);
    }
    let place = plain(&folder.join(to_path(path.as_bstr())));
    if let Ok(inside) = place.strip_prefix(common)
        && deepest > 0
    {
        let copy = to.with_file_name(inside);
        if !copy.exists()
            && let Some(bytes) = copied(common, &place, to, deepest - 1)?
        {
            let above = copy.parent().unwrap_or(&copy);
            fs::create_dir_all(above).at("making the folder", above)?;
            fs::write(&copy, bytes).at("writing", &copy)?;
        }
    }
    to_git(&place)
}
