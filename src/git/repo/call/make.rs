//! Making the git folder of a call.

use std::borrow::Cow;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;

use super::CallGit;
use super::config::copy_config;
use crate::domain::CommitId;
use crate::fs::{if_exists, is_odd, make_folder, move_away, read_at_most, read_regular, remove_all};
use crate::git::error::{At, During, Result};
use crate::git::objects::identity;
use crate::git::path::{quote, to_git, to_path};
use crate::git::refs::{CopiedRefs, HeadTarget};
use crate::git::repo::Repo;

/// The largest file of git's that is copied, in bytes.
const LARGEST: u64 = 64 << 20;

/// The deepest folder of hooks below another one.
const DEEPEST: u32 = 8;

/// Folders that a git folder has.
const FOLDERS: [&str; 6] = ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "logs"];

/// Files that all working trees share, and files of one of them.
const COMMON: [&str; 4] = ["info/attributes", "info/exclude", "info/grafts", "shallow"];
const OWN: [&str; 3] = ["info/sparse-checkout", "ORIG_HEAD", "FETCH_HEAD"];

impl Repo {
    /// Makes the git folder of a call in this working tree, with a detached `HEAD` at `base`, and with index, refs,
    /// configuration and hooks as they are now. Removes what an earlier call left there.
    ///
    /// Syncs nothing: whoever starts a call makes it anew.
    pub fn make_call_git(&self, call: &CallGit, base: &CommitId) -> Result<()> {
        clear(call.folder())?;
        for folder in FOLDERS.map(|name| call.folder.join(name)).into_iter().chain([call.shared()]) {
            make_folder(&folder).at("making the folder", &folder)?;
        }
        for (_, folder) in self.also_shared(call, call.folder()) {
            make_folder(&folder).at("making the folder", &folder)?;
        }
        write(&call.folder.join("objects/info/alternates"), &self.alternates(call)?)?;
        let common = self.plain_common_dir();
        for (from, names) in [(common.as_path(), &COMMON[..]), (self.git_dir(), &OWN)] {
            for name in names {
                copy(&from.join(name), &call.folder.join(name))?;
            }
        }
        self.copy_hooks(call)?;
        copy_config(&common, &common.join("config"), &call.folder.join("config"))?;
        copy_config(&common, &self.git_dir().join("config.worktree"), &call.folder.join("config.worktree"))?;
        self.copy_refs(call)?;
        if let Some(index) = self.index.whole_bytes()? {
            write(&call.folder.join("index"), &index)?;
        }
        write(&call.folder.join("logs/HEAD"), &self.first_line(base)?)?;
        write(&call.link(), &[b"gitdir: ", call.folder.as_os_str().as_bytes(), b"\n"].concat())?;
        write(&call.folder.join("HEAD"), format!("{base}\n").as_bytes())
    }

    /// Folders besides the objects that a call may read: each with its place in the call, where git sees the call's folder at
    /// `git`. The files of submodules and of Git LFS.
    pub fn also_shared(&self, call: &CallGit, git: &Path) -> Vec<(PathBuf, PathBuf)> {
        let lfs = call.shared().with_file_name("lfs");
        let modules = self.git_dir().join("modules");
        let all = [(modules, git.join("modules")), (self.plain_common_dir().join("lfs"), lfs)];
        all.into_iter().filter(|(real, _)| real.is_dir()).collect()
    }

    /// The folder that all working trees share, without the way through the folder of a linked one.
    fn plain_common_dir(&self) -> PathBuf {
        plain(self.common_dir())
    }

    /// The folders in which git finds objects: the real ones, and those on which they rest. Git takes a relative one there for
    /// one relative to the place at which it sees the real ones.
    fn alternates(&self, call: &CallGit) -> Result<Vec<u8>> {
        const WHAT: &str = "reading the alternates of the objects";
        let objects = self.plain_common_dir().join("objects");
        let file = objects.join("info/alternates");
        let more = if_exists(read_regular(&file)).at("reading", &file)?.unwrap_or_default();
        let more = gix::odb::alternate::parse(&more).during(WHAT)?;
        let mut text = Vec::new();
        for folder in [call.shared()].into_iter().chain(more.into_iter().map(|folder| plain(&objects.join(folder)))) {
            let folder = to_git(&folder)?;
            let folder = if folder.contains(&b'\n') { quote(folder.as_bstr(), true) } else { folder };
            text.extend_from_slice(&folder);
            text.push(b'\n');
        }
        Ok(text)
    }

    fn copy_refs(&self, call: &CallGit) -> Result<()> {
        let CopiedRefs { packed, symbolic } = self.refs.copied()?;
        write(&call.folder.join("packed-refs"), &packed)?;
        for (name, to) in symbolic {
            let file = call.folder.join(to_path(name.as_bstr()));
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).at("making the folder", folder)?;
            }
            write(&file, format!("ref: {}\n", to.as_bstr()).as_bytes())?;
        }
        Ok(())
    }

    /// Copies the hooks, also those in another folder of git's that the configuration names.
    fn copy_hooks(&self, call: &CallGit) -> Result<()> {
        let common = self.plain_common_dir();
        let hooks = common.join("hooks");
        copy_folder(&hooks, &call.folder.join("hooks"), DEEPEST)?;
        let Some(named) = self.gix.config_snapshot().string("core.hooksPath") else { return Ok(()) };
        let named = plain(&self.worktree().join(to_path(named.as_bstr())));
        match named.strip_prefix(&common) {
            Ok(inside) if named != hooks => copy_folder(&named, &call.folder.join(inside), DEEPEST),
            _ => Ok(()),
        }
    }

    /// The first line of the log of `HEAD`: by it `HEAD@{1}` is the base after one commit, and `git switch -` finds the branch.
    fn first_line(&self, base: &CommitId) -> Result<Vec<u8>> {
        let from = match self.refs.head_if_sound()? {
            Some(head) => head.target(),
            None => HeadTarget::Detached(base.clone()),
        };
        let mut line = format!("{base} {base} ").into_bytes();
        identity(&self.gix)?.committer.write_to(&mut line).during("writing the log of HEAD")?;
        line.extend_from_slice(format!("\tcheckout: moving from {from} to {base}\n").as_bytes());
        Ok(line)
    }
}

/// Removes the folder of an earlier call; moves it away where processes of that call still write to it.
fn clear(folder: &Path) -> Result<()> {
    match remove_all(folder) {
        Err(_) if folder.symlink_metadata().is_ok() => move_away(folder).map(drop).at("moving", folder),
        removed => removed.at("removing", folder),
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).at("writing", path)
}

/// Copies a file of git's; nothing if it is missing, no file or too large.
fn copy(from: &Path, to: &Path) -> Result<()> {
    match read_at_most(from, LARGEST) {
        Ok(content) => write(to, &content),
        Err(_) => Ok(()),
    }
}

/// Copies the programs in a folder, but for examples. A link to a file becomes a file, and one to a folder stays a link.
fn copy_folder(from: &Path, to: &Path, deepest: u32) -> Result<()> {
    let Some(entries) = if_exists(fs::read_dir(from)).at("reading", from)? else { return Ok(()) };
    make_folder(to).at("making the folder", to)?;
    for entry in entries {
        let entry = entry.at("reading", from)?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().at("reading", &path)?;
        if path.extension() == Some("sample".as_ref()) {
            continue;
        } else if kind.is_dir() {
            if deepest > 0 {
                copy_folder(&path, &to, deepest - 1)?;
            }
        } else if path.is_dir() {
            symlink(path.canonicalize().at("reading", &path)?, &to).at("writing", &to)?;
        } else if !is_odd(&path) {
            // A link that leads nowhere is none.
            if_exists(fs::copy(&path, &to)).at("writing", &to)?;
        }
    }
    Ok(())
}

/// A path without `..` where that changes nothing.
pub(super) fn plain(path: &Path) -> PathBuf {
    gix::path::normalize(Cow::Borrowed(path), Path::new("")).map_or_else(|| path.to_owned(), Cow::into_owned)
}
