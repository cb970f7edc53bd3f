//! `run.log` in the root of the working tree: a link to the log of the newest run.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::crash;
use crate::domain::Notice;
use crate::fs::{free_name, standing};
use crate::session::errors::SessionError;
use crate::state::SessionFolder;

/// Points `<root>/run.log` at `log`. Moves a file of the user to `run.log.before`, as the returned notice reports, or leaves it
/// alone if git tracks it.
pub(crate) fn point_run_log(
    root: &Path,
    tracked: bool,
    log: &Path,
    folder: &SessionFolder,
) -> Result<Option<Notice>, SessionError> {
    let link = root.join("run.log");
    if tracked {
        return Ok(None);
    }
    let mut notice = None;
    match fs::symlink_metadata(&link) {
        Ok(meta) if meta.is_symlink() && is_ours(&link) => {}
        Ok(_) => {
            let kept = free_name(&root.join("run.log.before"));
            fs::rename(&link, &kept).map_err(|source| SessionError::Io {
                action: "move",
                path: link.clone(),
                source,
            })?;
            notice = Some(Notice::RunLogMoved(kept));
        }
        Err(_) => {}
    }
    let target = log.strip_prefix(root).unwrap_or(log);
    let fresh = folder.root().join("run.log.link");
    let point = |fresh: &Path| {
        crate::session::files::remove_file(fresh).map_err(std::io::Error::other)?;
        crash::point("running.log_unlinked");
        symlink(target, fresh)?;
        fs::rename(fresh, &link)
    };
    let pointed = match standing(&fresh, || point(&fresh)) {
        // The session's folder is on another file system. Git ignores a file of this name too.
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            point(&root.join("run.log.before-link")).and_then(|()| fs::remove_file(&fresh))
        }
        pointed => pointed,
    };
    pointed.map_err(|source| SessionError::Io { action: "link", path: link.clone(), source })?;
    Ok(notice)
}

/// Returns whether a link leads to a log in one of `ar`'s run folders.
fn is_ours(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| {
        target.file_name().is_some_and(|name| name == "run.log")
            && target.components().any(|part| part.as_os_str() == ".autoresearch")
    })
}
