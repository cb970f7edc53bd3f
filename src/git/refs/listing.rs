//! Where refs are: those that have a file of their own, and those that are packed in one. Listing them, and packing those of
//! records.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use gix::bstr::ByteSlice;
use gix::lock::Marker;
use gix::lock::acquire::Fail;

use super::guard::RefGuard;
use super::store::{LOCK_WAIT, PAUSE, Refs, TRIES};
use crate::domain::CommitId;
use crate::fs::{FileStamp, read_regular};
use crate::git::error::{At, During, Result};
use crate::git::lock_file::lock_path;
use crate::git::sync::{self, replace_file};

/// The first line of packed refs in which each annotated tag is followed by the object that it is on, as git writes it.
const HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";

/// The word in it that says so; a file without it, of a git before 2012, is left to git.
const FULLY_PEELED: &str = " fully-peeled ";

/// A ref that has a file of its own.
struct Loose {
    path: PathBuf,
    name: String,
    object: String,
}

impl Refs {
    /// All refs below `prefix` with the objects that they name, sorted by name. Somebody who packs refs meanwhile moves them
    /// from where is still to be looked to where was looked already: then they are listed anew.
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

    /// What the file system says of the packed refs: changes whenever they are packed.
    fn packed_stamp(&self) -> Option<FileStamp> {
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

    /// Packs the refs of annotated tags directly below `prefix` as `git pack-refs` does: they are in the file of packed refs,
    /// durably, before their own files go. A ref that somebody has locked or moves meanwhile keeps its file. Gives how many
    /// were packed.
    pub fn pack_refs(&self, prefix: &str) -> Result<usize> {
        let loose = self.loose_tags(prefix)?;
        if loose.is_empty() {
            return Ok(0);
        }
        let packed = self.gix.common_dir().join("packed-refs");
        let is_known = |content: Vec<u8>| content.lines().next().is_none_or(|first| first.contains_str(FULLY_PEELED));
        if !read_regular(&packed).map_or(true, is_known) {
            return Ok(0);
        }
        let mut locks = vec![lock_path(&packed)];
        locks.extend(loose.iter().map(|(loose, _)| lock_path(&loose.path)));
        let _guard = RefGuard::begin(self.gix.git_dir(), &locks)?;
        {
            let _lock =
                Marker::acquire_to_hold_resource(&packed, LOCK_WAIT, None, 0).during("locking the packed refs")?;
            replace_file(&packed, &self.packed_with(&loose)?)?;
        }
        let mut count = 0;
        for (Loose { path, object, .. }, _) in &loose {
            let Ok(_lock) = Marker::acquire_to_hold_resource(path, Fail::Immediately, None, 0) else {
                continue;
            };
            if read_regular(path).is_ok_and(|content| content.trim_ascii() == object.as_bytes()) {
                fs::remove_file(path).at("removing", path)?;
                count += 1;
            }
        }
        self.refresh_packed_refs()?;
        sync::folder(&self.gix.common_dir().join(prefix))?;
        Ok(count)
    }

    /// The refs directly below `prefix` that have a file and lead to an annotated tag, with the commit that it is on.
    fn loose_tags(&self, prefix: &str) -> Result<Vec<(Loose, CommitId)>> {
        let folder = self.gix.common_dir().join(prefix);
        let entries = match fs::read_dir(&folder) {
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at("reading", &folder)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.at("reading", &folder)?;
            let (path, name) = (entry.path(), entry.file_name());
            let is_ref = entry.file_type().is_ok_and(|kind| kind.is_file()) && path.extension().is_none();
            let Some(name) = name.to_str().filter(|_| is_ref) else { continue };
            let Ok(content) = read_regular(&path) else { continue };
            let object = String::from_utf8_lossy(content.trim_ascii()).into_owned();
            found.push(Loose { name: format!("{prefix}/{name}"), path, object });
        }
        let refs: Vec<_> = found.iter().map(|loose| (loose.name.clone(), loose.object.clone())).collect();
        let commits = self.objects.each_tag(&refs, |_, tag| tag.ok().flatten().map(|tag| tag.commit));
        Ok(found.into_iter().zip(commits).filter_map(|(loose, commit)| Some((loose, commit?))).collect())
    }

    /// The content of the file of packed refs with more refs among them.
    fn packed_with(&self, loose: &[(Loose, CommitId)]) -> Result<Vec<u8>> {
        const WHAT: &str = "reading the packed refs";
        self.refresh_packed_refs()?;
        let mut lines: BTreeMap<Vec<u8>, (String, Option<String>)> = BTreeMap::new();
        if let Some(packed) = self.gix.refs.open_packed_buffer().during(WHAT)? {
            for found in packed.iter().during(WHAT)? {
                let found = found.during(WHAT)?;
                let on = found.object.is_some().then(|| found.object().to_string());
                lines.insert(found.name.as_bstr().to_vec(), (found.target().to_string(), on));
            }
        }
        for (Loose { name, object, .. }, commit) in loose {
            lines.insert(name.clone().into_bytes(), (object.clone(), Some(commit.to_string())));
        }
        let mut text = HEADER.to_vec();
        for (name, (object, on)) in lines {
            text.extend_from_slice(object.as_bytes());
            text.push(b' ');
            text.extend_from_slice(&name);
            text.push(b'\n');
            if let Some(on) = on {
                text.extend_from_slice(format!("^{on}\n").as_bytes());
            }
        }
        Ok(text)
    }
}
