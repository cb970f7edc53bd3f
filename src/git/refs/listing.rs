//! Refs in files of their own, and refs packed in one file: listing all, and packing those of records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use gix::bstr::ByteSlice;
use gix::lock::Marker;
use gix::lock::acquire::Fail;
use gix::refs::{FullName, Target};

use super::{LOCK_WAIT, PAUSE, TRIES};
use crate::crash;
use crate::domain::CommitId;
use crate::fs::{FileStamp, if_exists, read_regular};
use crate::git::{At, During, GitError, RefGuard, Refs, Result, lock_path, replace_file, sync};

/// The first line of packed refs in which each annotated tag is followed by the object that it is on, as git writes it.
const HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";

/// The word in it that says so; a file without it, of a git before 2012, is left to git.
const FULLY_PEELED: &str = " fully-peeled ";

/// The first line where it is not known of each tag whether that object follows.
const PLAIN_HEADER: &[u8] = b"# pack-refs with: sorted \n";

/// A ref to be packed.
pub(super) struct PackedRef {
    pub(super) name: String,
    /// The object that it leads to, in hexadecimal.
    pub(super) object: String,
    /// The commit that an annotated tag is on.
    pub(super) tagged: Option<CommitId>,
}

/// Refs that belong to one working tree alone.
const OF_ONE_TREE: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// All refs of a repository, for another git folder.
pub(in crate::git) struct CopiedRefs {
    /// Those that name objects, as the file of packed refs has them.
    pub(in crate::git) packed: Vec<u8>,
    /// Those that name another ref, each with that one.
    pub(in crate::git) symbolic: Vec<(FullName, FullName)>,
}

/// The packed refs by name.
type PackedLines = BTreeMap<Vec<u8>, (String, Option<String>)>;

impl Refs {
    /// Lists all refs below `prefix` with the objects that they name, sorted by name. Lists them again if a process packed
    /// refs meanwhile, because a ref may have moved out of sight.
    pub fn refs_under(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        for _ in 1..TRIES {
            let before = self.packed_stamp();
            let listed = self.list_refs(prefix);
            if listed.is_ok() && self.packed_stamp() == before {
                return listed;
            }
            std::thread::sleep(PAUSE);
        }
        self.list_refs(prefix)
    }

    /// Returns the stamp of the packed refs, which changes whenever they are packed.
    pub(super) fn packed_stamp(&self) -> Option<FileStamp> {
        // It may be a link to the file of another repository.
        fs::metadata(self.gix.common_dir().join("packed-refs")).ok().as_ref().map(FileStamp::from_metadata)
    }

    fn list_refs(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        const WHAT: &str = "listing refs";
        self.refresh_packed_refs()?;
        let prefix = format!("{}/", prefix.trim_end_matches('/'));
        let mut found = Vec::new();
        for reference in self.gix.references().during(WHAT)?.prefixed(prefix.as_str()).during(WHAT)? {
            let reference = reference.during(WHAT)?;
            if let Some(object) = reference.target().try_id() {
                found.push((reference.name().as_bstr().to_string(), object.to_string()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Packs the refs directly below these `prefixes` as `git pack-refs` does: they are in the file of packed refs, durably,
    /// before their own files go. A ref that somebody has locked or moves meanwhile keeps its file, and so does one whose object
    /// is missing. Gives how many were packed.
    pub fn pack_refs(&self, prefixes: &[String]) -> Result<usize> {
        let mut loose = Vec::new();
        for prefix in prefixes {
            loose.extend(self.loose_refs(prefix)?);
        }
        if loose.is_empty() || !self.is_fully_peeled() {
            return Ok(0);
        }
        let packed = self.gix.common_dir().join("packed-refs");
        let files: Vec<PathBuf> = loose.iter().map(|it| self.gix.common_dir().join(&it.name)).collect();
        let locks: Vec<PathBuf> = [&packed].into_iter().chain(&files).map(|file| lock_path(file)).collect();
        let _guard = RefGuard::begin(self.gix.git_dir(), &locks)?;
        {
            let _lock =
                Marker::acquire_to_hold_resource(&packed, LOCK_WAIT, None, 0).during("locking the packed refs")?;
            replace_file(&packed, &packed_text(self.packed_lines()?, &loose, HEADER))?;
        }
        let mut count = 0;
        for (path, PackedRef { object, .. }) in files.iter().zip(&loose) {
            let Ok(_lock) = Marker::acquire_to_hold_resource(path, Fail::Immediately, None, 0) else {
                continue;
            };
            if read_regular(path).is_ok_and(|content| content.trim_ascii() == object.as_bytes()) {
                fs::remove_file(path).at("removing", path)?;
                count += 1;
            }
        }
        self.refresh_packed_refs()?;
        for folder in files.iter().filter_map(|file| file.parent()).collect::<BTreeSet<_>>() {
            sync::folder(folder)?;
        }
        Ok(count)
    }

    /// The refs directly below `prefix` that have a file and lead to an object.
    fn loose_refs(&self, prefix: &str) -> Result<Vec<PackedRef>> {
        let folder = self.gix.common_dir().join(prefix);
        let Some(entries) = if_exists(fs::read_dir(&folder)).at("reading", &folder)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.at("reading", &folder)?;
            let (path, name) = (entry.path(), entry.file_name());
            let is_ref = entry.file_type().is_ok_and(|kind| kind.is_file()) && path.extension().is_none();
            let Some(name) = name.to_str().filter(|_| is_ref) else { continue };
            let Ok(content) = read_regular(&path) else { continue };
            let object = String::from_utf8_lossy(content.trim_ascii()).into_owned();
            found.push((format!("{prefix}/{name}"), object));
        }
        let tagged = self.objects.each_tag(&found, |_, tag| tag.map(|tag| tag.map(|tag| tag.commit)));
        let found = found.into_iter().zip(tagged);
        Ok(found
            .filter_map(|((name, object), tagged)| Some(PackedRef { name, object, tagged: tagged.ok()? }))
            .collect())
    }

    /// Adds new refs of one folder to the file of packed refs, by one rename: all of them are there, or none is.
    pub(super) fn place_packed(&self, tags: &[PackedRef]) -> Result<()> {
        let Some(first) = tags.first() else { return Ok(()) };
        for (slash, _) in first.name.match_indices('/').skip(1) {
            if self.has_ref(&first.name[..slash])? {
                return Err(GitError::RefExists(first.name[..slash].to_owned()));
            }
        }
        let packed = self.gix.common_dir().join("packed-refs");
        let _guard = RefGuard::begin(self.gix.git_dir(), &[lock_path(&packed)])?;
        crash::point("git.locks_named");
        let _lock = Marker::acquire_to_hold_resource(&packed, LOCK_WAIT, None, 0).during("locking the packed refs")?;
        let lines = self.packed_lines()?;
        let is_there = |tag: &&PackedRef| {
            lines.contains_key(tag.name.as_bytes()) || self.gix.common_dir().join(&tag.name).is_file()
        };
        if let Some(tag) = tags.iter().find(is_there) {
            return Err(GitError::RefExists(tag.name.clone()));
        }
        self.write_packed(lines, tags)
    }

    /// Removes a ref from the file of packed refs, whose lock the caller has.
    pub(super) fn forget_packed(&self, name: &FullName) -> Result<()> {
        const WHAT: &str = "reading the packed refs";
        self.refresh_packed_refs()?;
        let packed = self.gix.refs.open_packed_buffer().during(WHAT)?;
        // Most refs that go have a file alone, and a long session has thousands of packed ones.
        let Some(packed) = packed else { return Ok(()) };
        if packed.try_find(name.as_ref()).during(WHAT)?.is_none() {
            return Ok(());
        }
        let mut lines = self.packed_lines()?;
        lines.remove(name.as_bstr().as_bytes());
        self.write_packed(lines, &[])
    }

    fn write_packed(&self, lines: PackedLines, tags: &[PackedRef]) -> Result<()> {
        let header = if self.is_fully_peeled() { HEADER } else { PLAIN_HEADER };
        replace_file(&self.gix.common_dir().join("packed-refs"), &packed_text(lines, tags, header))?;
        self.refresh_packed_refs()
    }

    /// Copies all refs but those of one working tree and those whose files name nothing.
    pub(in crate::git) fn copied(&self) -> Result<CopiedRefs> {
        const WHAT: &str = "copying refs";
        let (mut loose, mut symbolic) = (Vec::new(), Vec::new());
        for reference in self.gix.refs.loose_iter().during(WHAT)?.flatten() {
            match reference.target {
                Target::Symbolic(to) => symbolic.push((reference.name, to)),
                Target::Object(id) => loose.push((reference.name.as_bstr().to_vec(), (id.to_string(), None))),
            }
        }
        // Afterwards, as a process may pack one meanwhile.
        let mut lines = self.packed_lines()?;
        lines.extend(loose);
        lines.retain(|name, _| OF_ONE_TREE.iter().all(|prefix| !name.starts_with(prefix.as_bytes())));
        Ok(CopiedRefs { packed: packed_text(lines, &[], PLAIN_HEADER), symbolic })
    }

    /// Returns whether each annotated tag among the packed refs is known to be followed by the object that it is on.
    fn is_fully_peeled(&self) -> bool {
        let is_known = |content: Vec<u8>| content.lines().next().is_none_or(|first| first.contains_str(FULLY_PEELED));
        read_regular(&self.gix.common_dir().join("packed-refs")).map_or(true, is_known)
    }

    /// The packed refs by name, each with its object, and with what that one is on if that is known.
    pub(super) fn packed_lines(&self) -> Result<PackedLines> {
        const WHAT: &str = "reading the packed refs";
        self.refresh_packed_refs()?;
        let mut lines = PackedLines::new();
        if let Some(packed) = self.gix.refs.open_packed_buffer().during(WHAT)? {
            for found in packed.iter().during(WHAT)? {
                let found = found.during(WHAT)?;
                let on = found.object.is_some().then(|| found.object().to_string());
                lines.insert(found.name.as_bstr().to_vec(), (found.target().to_string(), on));
            }
        }
        Ok(lines)
    }
}

/// The content of the file of packed refs with more refs among them.
fn packed_text(mut lines: PackedLines, more: &[PackedRef], header: &[u8]) -> Vec<u8> {
    for PackedRef { name, object, tagged } in more {
        lines.insert(name.clone().into_bytes(), (object.clone(), tagged.as_ref().map(ToString::to_string)));
    }
    let mut text = header.to_vec();
    for (name, (object, on)) in lines {
        text.extend_from_slice(object.as_bytes());
        text.push(b' ');
        text.extend_from_slice(&name);
        text.push(b'\n');
        if let Some(on) = on {
            text.extend_from_slice(format!("^{on}\n").as_bytes());
        }
    }
    text
}
