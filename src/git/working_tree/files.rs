//! Files of the working tree: reading them as git would store them, and writing them as git would check them out, through
//! the filters that the configuration and the attribute files name.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gix::attrs::StateRef;
use gix::attrs::search::Outcome;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::filter::plumbing::driver::apply::Delay;
use gix::filter::plumbing::pipeline::convert::{ToGitOutcome, ToWorktreeOutcome, to_worktree};
use gix::index::State;
use gix::index::entry::{Mode, Stage, Stat};
use gix::index::fs::Metadata;
use gix::objs::Kind;
use gix::worktree::Stack;
use gix::worktree::stack::state::attributes::Source;

use crate::fs::{if_there, in_writable_folder, read_regular};
use crate::git::path::{TEMPORARY, lstat, permissions, to_path};
use crate::git::{At, Call, During, GitError, PinnedFilters, Program, Result, Version, WorkingTree, path, stat_of};

/// The size in bytes up to which a file is read into memory and becomes part of a commit: 100 MiB, what GitHub accepts
/// in a push.
pub(super) const MAX_FILE_SIZE: u64 = 100 * 1024 * 1024;

/// The entry at a path of the working tree.
#[derive(Debug)]
pub(super) enum OnDisk {
    /// Nothing, or something below a symbolic link.
    Absent,
    /// A folder, socket or the like: nothing that git stores as a file.
    Other,
    /// A file or symbolic link.
    File(Content),
    /// A file of more than [`MAX_FILE_SIZE`] bytes, which is not read.
    Large(Large),
}

/// A file that is too large to be held in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Large {
    mode: Mode,
    /// Its size in bytes.
    pub(super) size: u64,
    /// Its stat data.
    pub(super) stat: Stat,
}

/// A file or symbolic link as git would store it.
#[derive(Debug)]
pub(super) struct Content {
    /// Its mode and the name of its blob, which need not be in the object database.
    pub(super) version: Version,
    /// The blob.
    pub(super) blob: Vec<u8>,
    /// The bytes on disk, where a filter makes the blob differ from them.
    raw: Option<Vec<u8>>,
    /// Its stat data from before the bytes were read.
    pub(super) stat: Stat,
}

/// A way into and out of the working tree, with the filters that the repository's attributes ask for.
pub(super) struct TreeFiles<'repo> {
    tree: &'repo WorkingTree,
    /// With the settings of the filters.
    gix: &'repo gix::Repository,
    pipeline: gix::filter::Pipeline<'repo>,
    capabilities: gix::fs::Capabilities,
    filters: Filters,
    /// True if files are read without filters.
    is_raw: bool,
    /// Behind the pipeline, which waits for its programs when it is dropped.
    call: Call,
}

impl Drop for TreeFiles<'_> {
    fn drop(&mut self) {
        if self.filters.were_used {
            // One that is refused does not run.
            let _ = self.call.begin();
        }
    }
}

impl<'repo> TreeFiles<'repo> {
    /// For reading: attributes are those of the working tree.
    pub(super) fn to_read(tree: &'repo WorkingTree, index: &State) -> Result<TreeFiles<'repo>> {
        TreeFiles::new(tree, index, Source::WorktreeThenIdMapping)
    }

    /// For writing what `index` names: attributes are those that it names.
    pub(super) fn to_write(tree: &'repo WorkingTree, index: &State) -> Result<TreeFiles<'repo>> {
        TreeFiles::new(tree, index, Source::IdMappingThenWorktree)
    }

    fn new(tree: &'repo WorkingTree, index: &State, source: Source) -> Result<TreeFiles<'repo>> {
        const WHAT: &str = "preparing the filters";
        let call = tree.objects.programs.call(Program::Filter);
        let stack = tree.gix.attributes_only(index, source).during(WHAT)?.detach();
        TreeFiles::with(tree, &tree.converting, stack, call)
    }

    /// For reading with the attributes of `index` alone, whatever attribute files are in the working tree.
    pub(super) fn by_index(tree: &'repo WorkingTree, index: &State) -> Result<TreeFiles<'repo>> {
        TreeFiles::new(tree, index, Source::IdMapping)
    }

    /// For protected files: settings and attributes are those that are pinned.
    pub(super) fn pinned(tree: &'repo WorkingTree, pinned: &'repo PinnedFilters) -> Result<TreeFiles<'repo>> {
        let call = tree.objects.programs.call(Program::Filter);
        TreeFiles::with(tree, &pinned.gix, pinned.stack(tree)?, call)
    }

    /// With other settings and attributes than those of the repository as it was opened.
    pub(super) fn with(
        tree: &'repo WorkingTree,
        gix: &'repo gix::Repository,
        stack: Stack,
        call: Call,
    ) -> Result<TreeFiles<'repo>> {
        const WHAT: &str = "preparing the filters";
        let filters = Filters::new(gix, &stack)?;
        let pipeline = gix::filter::Pipeline::new(gix, stack).during(WHAT)?;
        let capabilities = tree.gix.filesystem_options().during(WHAT)?;
        Ok(TreeFiles { tree, gix, pipeline, capabilities, filters, is_raw: false, call })
    }

    /// Returns the version that git would store for the entry at `relative`: its raw bytes if a filter fails, `None` if
    /// git does not store it.
    pub(super) fn version(&mut self, relative: &BStr, index: &State) -> Result<Option<Version>> {
        Ok(match self.read_somehow(relative, index)? {
            OnDisk::File(content) => Some(content.version),
            OnDisk::Large(large) => Some(self.large_version(relative, &large, index)?),
            OnDisk::Absent | OnDisk::Other => None,
        })
    }

    /// Reads what stands at `relative`, unless it is a large file.
    pub(super) fn read(&mut self, relative: &BStr, index: &State) -> Result<OnDisk> {
        let root = &self.tree.root;
        let Some(meta) = lstat(root, relative)? else { return Ok(OnDisk::Absent) };
        let native = to_path(relative);
        let full = root.join(&native);
        let tracked = index.entry_by_path(relative).map(|entry| entry.mode);
        let (mode, blob, raw) = if meta.is_symlink() {
            let target = if_there(fs::read_link(&full)).at("reading", &full)?;
            let Some(target) = target else { return Ok(OnDisk::Absent) };
            (Mode::SYMLINK, path::to_git(&target)?.into(), None)
        } else if meta.is_file() {
            let mode = match tracked {
                Some(Mode::SYMLINK) if !self.capabilities.symlink => Mode::SYMLINK,
                Some(mode @ (Mode::FILE | Mode::FILE_EXECUTABLE)) if !self.capabilities.executable_bit => mode,
                _ if self.capabilities.executable_bit && meta.is_executable() => Mode::FILE_EXECUTABLE,
                _ => Mode::FILE,
            };
            if meta.len() > MAX_FILE_SIZE {
                return Ok(OnDisk::Large(Large { mode, size: meta.len(), stat: stat_of(&meta) }));
            }
            let raw = if_there(fs::read(&full)).at("reading", &full)?;
            let Some(raw) = raw else { return Ok(OnDisk::Absent) };
            let filtered = if mode == Mode::SYMLINK || self.is_raw {
                None
            } else {
                self.watched(relative, |files| files.clean(&raw, &native, index))?
            };
            match filtered {
                Some(blob) => (mode, blob, Some(raw)),
                None => (mode, raw, None),
            }
        } else {
            return Ok(OnDisk::Other);
        };
        let id = gix::objs::compute_hash(self.tree.gix.object_hash(), Kind::Blob, &blob).during("hashing a file")?;
        Ok(OnDisk::File(Content { version: (mode, id), blob, raw, stat: stat_of(&meta) }))
    }

    /// Reads what stands at `relative`; where its filter fails, the bytes are those on disk. Gives a file that the user may
    /// not read the permissions of a checkout.
    pub(super) fn read_somehow(&mut self, relative: &BStr, index: &State) -> Result<OnDisk> {
        match self.read(relative, index) {
            Err(error) if error.is_unreadable() => {
                let is_executable =
                    index.entry_by_path(relative).is_some_and(|entry| entry.mode == Mode::FILE_EXECUTABLE);
                let full = self.tree.root.join(to_path(relative));
                fs::set_permissions(&full, permissions(is_executable)).at("reading", &full)?;
                self.read(relative, index)
            }
            Err(GitError::Filter { .. }) => {
                self.is_raw = true;
                let read = self.read(relative, index);
                self.is_raw = false;
                read
            }
            read => read,
        }
    }

    /// Returns whether a filter runs on the file at `relative`.
    pub(super) fn has_filter(&mut self, relative: &BStr) -> Result<bool> {
        self.filters.is_used_for(self.gix, relative)
    }

    /// Returns the version that git would store for a large file, as far as known without a filter. If its stat data
    /// are unchanged, that is the index's version; else that of its raw bytes.
    pub(super) fn large_version(&self, relative: &BStr, large: &Large, index: &State) -> Result<Version> {
        const WHAT: &str = "hashing a large file";
        let compare = self.tree.gix.stat_options().during("reading the configuration")?;
        if let Some(entry) = index.entry_by_path_and_stage(relative, Stage::Unconflicted)
            && entry.mode == large.mode
            && entry.stat.matches(&large.stat, compare)
        {
            return Ok((entry.mode, entry.id));
        }
        let (hash, size) = (self.tree.gix.object_hash(), large.size);
        let (progress, interrupted) = (&mut gix::progress::Discard, &AtomicBool::new(false));
        let mut stream = self.stream(relative, size)?;
        let id = gix::objs::compute_stream_hash(hash, Kind::Blob, &mut stream, size, progress, interrupted);
        Ok((large.mode, id.during(WHAT)?))
    }

    /// Writes a large file to the repository in constant memory. No filter is applied: the blob is the file's bytes.
    pub(super) fn store_large(&self, relative: &BStr, large: &Large) -> Result<Version> {
        let mut stream = self.stream(relative, large.size)?;
        Ok((large.mode, self.tree.objects.write_stream(large.size, &mut stream)?))
    }

    /// Exactly `size` bytes of a file, with zeros in place of what is cut off while it is read: a blob names its size
    /// before its content.
    fn stream(&self, relative: &BStr, size: u64) -> Result<impl Read> {
        let full = self.tree.root.join(to_path(relative));
        let file = fs::File::open(&full).at("reading", &full)?;
        Ok(file.chain(std::io::repeat(0)).take(size))
    }

    /// Does the work of a file's filter under the watchdog, where the file has one.
    fn watched<T>(&mut self, relative: &BStr, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let is_filtered = self.filters.is_used_for(self.gix, relative)?;
        let begun = if is_filtered { self.call.begin() } else { Ok(()) };
        let done = begun.and_then(|()| work(self));
        let done = if is_filtered { self.call.check(done) } else { done };
        done.map_err(|error| error.of_filter(&to_path(relative)))
    }

    fn clean(&mut self, raw: &[u8], native: &Path, index: &State) -> Result<Option<Vec<u8>>> {
        const WHAT: &str = "filtering a file for git";
        Ok(match self.pipeline.convert_to_git(raw, native, index).during(WHAT)? {
            ToGitOutcome::Unchanged(_) => None,
            ToGitOutcome::Buffer(blob) => Some(blob.to_vec()),
            ToGitOutcome::Process(mut stream) => {
                let mut blob = Vec::new();
                stream.read_to_end(&mut blob).at("filtering", native)?;
                Some(blob)
            }
        })
    }

    /// Returns the bytes that a checkout writes for a blob.
    fn smudge(&mut self, blob: &[u8], relative: &BStr) -> Result<Vec<u8>> {
        self.watched(relative, |files| files.smudged(blob, relative))
    }

    fn smudged(&mut self, blob: &[u8], relative: &BStr) -> Result<Vec<u8>> {
        const WHAT: &str = "filtering a file for the working tree";
        let options = to_worktree::Options { can_delay: Delay::Forbid, ..Default::default() };
        Ok(match self.pipeline.convert_to_worktree(blob, relative, options).during(WHAT)? {
            ToWorktreeOutcome::Unchanged(bytes) | ToWorktreeOutcome::Buffer(bytes) => bytes.to_vec(),
            ToWorktreeOutcome::Process(stream) => {
                let mut bytes = Vec::new();
                let mut stream = ToWorktreeOutcome::Process(stream);
                stream.read_to_end(&mut bytes).at("filtering", &to_path(relative))?;
                bytes
            }
        })
    }

    /// Returns whether the bytes on disk are those that a checkout of their blob writes.
    pub(super) fn as_checked_out(&mut self, content: &Content, relative: &BStr) -> Result<bool> {
        if content.version.0 == Mode::SYMLINK {
            return Ok(true);
        }
        let raw = content.raw.as_deref().unwrap_or(&content.blob);
        Ok(self.smudge(&content.blob, relative)? == raw)
    }

    /// Checks out one file: a new one takes the place of the old one at once, so that a hard link to the old one, or a
    /// program running from it, is not written through. Folders on the way are made, whatever else is on the way goes.
    pub(super) fn write(&mut self, relative: &BStr, (mode, id): Version) -> Result<Stat> {
        let native = to_path(relative);
        let full = self.tree.root.join(&native);
        self.make_parents(&native)?;
        if mode == Mode::COMMIT {
            fs::create_dir_all(&full).at("making the folder", &full)?;
            return Ok(Stat::default());
        }
        let blob = self.tree.objects.blob(id)?;
        let bytes = if mode == Mode::SYMLINK { blob } else { self.smudge(&blob, relative)? };
        let symlink = mode == Mode::SYMLINK && self.capabilities.symlink;
        let place = |dir: &Path| -> std::io::Result<()> {
            let mut builder = tempfile::Builder::new();
            builder.prefix(TEMPORARY);
            if symlink {
                let target = to_path(bytes.as_bstr());
                let link = builder.make_in(dir, |temporary| std::os::unix::fs::symlink(&target, temporary))?;
                return link.into_temp_path().persist(&full).map_err(|err| err.error);
            }
            let mut file = builder.permissions(permissions(mode == Mode::FILE_EXECUTABLE)).tempfile_in(dir)?;
            file.write_all(&bytes)?;
            file.persist(&full).map(drop).map_err(|err| err.error)
        };
        let placed = in_writable_folder(&full, || match place(self.tree.gix.git_dir()) {
            Err(err) if err.kind() == ErrorKind::CrossesDevices => place(full.parent().unwrap_or(&self.tree.root)),
            placed => placed,
        });
        placed.at("writing", &full)?;
        Ok(stat_of(&Metadata::from_path_no_follow(&full).at("reading", &full)?))
    }

    /// Makes real folders of all parents of a path.
    fn make_parents(&self, native: &Path) -> Result<()> {
        let mut dir: PathBuf = self.tree.root.clone();
        for part in native.parent().into_iter().flat_map(Path::components) {
            dir.push(part);
            match if_there(fs::symlink_metadata(&dir)).at("reading", &dir)? {
                Some(meta) if meta.is_dir() => continue,
                Some(_) => in_writable_folder(&dir, || fs::remove_file(&dir)).at("removing", &dir)?,
                None => {}
            }
            in_writable_folder(&dir, || fs::create_dir(&dir)).at("making the folder", &dir)?;
        }
        Ok(())
    }
}

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
        let mut chosen = ChosenFilters::by(stack);
        for entry in index.entries() {
            if chosen.filter(&self.gix, entry.path(&index))?.as_ref() == Some(&filter.name) {
                return Ok(Some(to_path(entry.path(&index))));
            }
        }
        Ok(None)
    }
}

/// The filters and attributes that decide whether a filter runs on a path.
pub(super) struct Filters {
    /// The names of the filters that are configured.
    names: Vec<BString>,
    chosen: ChosenFilters,
    /// Set once a filter applied to any path.
    pub(super) were_used: bool,
}

impl Filters {
    /// The filters that are configured, for the paths to which `attributes` gives them.
    pub(super) fn new(gix: &gix::Repository, attributes: &Stack) -> Result<Filters> {
        let drivers = gix::filter::Pipeline::options(gix).during("reading the configuration")?.drivers;
        let names = drivers.into_iter().map(|driver| driver.name).collect();
        Ok(Filters { names, chosen: ChosenFilters::by(attributes.clone()), were_used: false })
    }

    /// Returns whether a filter runs on the file at `relative`.
    pub(super) fn is_used_for(&mut self, gix: &gix::Repository, relative: &BStr) -> Result<bool> {
        if self.names.is_empty() {
            return Ok(false);
        }
        let is_used = self.chosen.filter(gix, relative)?.is_some_and(|name| self.names.contains(&name));
        self.were_used |= is_used;
        Ok(is_used)
    }
}

/// The filters that attributes give to files.
pub(super) struct ChosenFilters {
    attributes: Stack,
    found: Outcome,
}

impl ChosenFilters {
    pub(super) fn by(attributes: Stack) -> ChosenFilters {
        ChosenFilters { found: attributes.selected_attribute_matches(["filter"]), attributes }
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

/// Refuses a repository whose attribute files ask for a working tree in UTF-16 or UTF-32: gix 0.90 writes such
/// files as UTF-8. Only the tracked `.gitattributes` and `info/attributes` are read.
pub(in crate::git) fn refuse_encodings(root: &Path, common_dir: &Path, index: &State) -> Result<()> {
    let mut tracked = index.entries().iter().map(|entry| entry.path(index)).filter(|path| is_attributes(path));
    tracked.try_for_each(|path| refuse_encoding_in(root, &to_path(path)))?;
    check(&common_dir.join("info").join("attributes"), Path::new("info/attributes"))
}

/// The same for one attribute file of the working tree.
pub(super) fn refuse_encoding_in(root: &Path, relative: &Path) -> Result<()> {
    check(&root.join(relative), relative)
}

/// Returns whether a path is that of an attribute file.
pub(super) fn is_attributes(path: &BStr) -> bool {
    path == ".gitattributes" || path.ends_with(b"/.gitattributes")
}

fn check(file: &Path, shown: &Path) -> Result<()> {
    let content = match read_regular(file) {
        Ok(content) => content,
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput) => {
            return Ok(());
        }
        Err(err) => return Err(err).at("reading", file),
    };
    match wide_encoding(&content) {
        Some(value) => Err(GitError::WorkingTreeEncoding { file: shown.to_owned(), value }),
        None => Ok(()),
    }
}

/// The first attribute of `content` that asks for UTF-16 or UTF-32, in any spelling.
fn wide_encoding(content: &[u8]) -> Option<String> {
    let words = content.lines().filter(|line| !line.trim_start().starts_with(b"#")).flat_map(|line| line.fields());
    words.map(|word| word.to_str_lossy()).find_map(|word| {
        let encoding = word.strip_prefix("working-tree-encoding=")?.to_ascii_lowercase().replace(['-', '_'], "");
        (encoding.starts_with("utf16") || encoding.starts_with("utf32") || encoding.starts_with("ucs"))
            .then(|| word.into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::wide_encoding;

    #[test]
    fn finds_wide_encodings_in_any_spelling() {
        let attribute = "working-tree-encoding=";
        for bad in ["UTF-16", "utf16le", "UTF-16LE-BOM", "UTF-32", "UCS-2"] {
            assert!(wide_encoding(format!("*.txt text\n*.rc text {attribute}{bad}\n").as_bytes()).is_some(), "{bad}");
        }
        assert_eq!(wide_encoding(b"# *.rc working-tree-encoding=UTF-16\n*.c working-tree-encoding=latin1\n"), None);
    }
}
