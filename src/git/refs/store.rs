//! Refs: reading, creating, moving and deleting them, and notes on commits, stored as by `git notes`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::lock::Marker;
use gix::lock::acquire::Fail;
use gix::note::plumbing::State;
use gix::refs::transaction::{PreviousValue, RefEdit};
use gix::refs::{FullName, Target};

use super::PackedRef;
use crate::crash;
use crate::domain::CommitId;
use crate::fs::{Unsynced, if_there};
use crate::git::{
    At, During, GitError, Objects, RefGuard, Result, TagObject, commit_id, identity, lock_path, object_id, parse_id,
    sync, with_gc_retry,
};

/// Checks a full ref name.
pub(in crate::git) fn full_name(name: &str) -> Result<FullName> {
    FullName::try_from(name).map_err(|source| GitError::NotFound { spec: name.to_owned(), source: Some(source.into()) })
}

/// The most tries to change or list refs.
pub(super) const TRIES: u32 = 5;

/// Longest wait for the lock of the packed refs: 1 s, as in git.
pub(super) const LOCK_WAIT: Fail = Fail::AfterDurationWithBackoff(Duration::from_secs(1));

/// Time for which `ar` retries on refs that another process locked. A git that deletes refs keeps their locks while it
/// waits up to 1 s for the lock of the packed refs, which this process may hold.
const PATIENCE: Duration = Duration::from_secs(4);

/// Pause between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// The refs of a repository: it alone moves branches, records and `HEAD`, and packs refs.
///
/// Refs are read anew by each call, the packed ones when their file has changed.
pub struct Refs {
    pub(super) gix: Rc<gix::Repository>,
    pub(in crate::git) objects: Rc<Objects>,
    /// Refs that this process changed since [`Refs::take_written`], each with the object that it leads to; `None` if
    /// deleted.
    written: Rc<RefCell<BTreeMap<String, Option<String>>>>,
}

impl Refs {
    /// The refs of a repository that lead to `objects`.
    pub(in crate::git) fn new(gix: Rc<gix::Repository>, objects: Rc<Objects>) -> Refs {
        Refs { gix, objects, written: Rc::default() }
    }

    /// The same refs as they are seen from a linked working tree, where `HEAD` is another one.
    pub(in crate::git) fn seen_from(&self, gix: Rc<gix::Repository>) -> Refs {
        Refs { gix, objects: Rc::clone(&self.objects), written: Rc::clone(&self.written) }
    }

    /// Returns the commit that a ref leads to, by the ref's full name.
    pub fn branch(&self, full: &str) -> Result<Option<CommitId>> {
        let name = full_name(full)?;
        if !self.gix.common_dir().join(full).exists() {
            self.refresh_packed_refs()?;
        }
        self.objects.read_in(&self.gix, |gix| {
            let found = gix.try_find_reference(name.as_ref()).during("reading a ref")?;
            let peeled = found.map(|mut found| found.peel_to_id().map(commit_id)).transpose();
            peeled.during("reading a ref")
        })
    }

    /// Returns whether a ref of that full name exists, whatever it leads to.
    pub fn has_ref(&self, full: &str) -> Result<bool> {
        if self.gix.common_dir().join(full).is_file() {
            return Ok(true);
        }
        self.refresh_packed_refs()?;
        Ok(self.gix.try_find_reference(full_name(full)?.as_ref()).during("reading a ref")?.is_some())
    }

    /// Creates a ref at `at`, with a reflog where git keeps one; [`GitError::RefExists`] when there is one.
    pub fn create_branch(&self, branch: &str, at: &CommitId, why: &str) -> Result<()> {
        if self.branch(branch)?.is_some() {
            return Err(GitError::RefExists(branch.to_owned()));
        }
        let edit = RefEdit::update(full_name(branch)?, object_id(at)?, PreviousValue::MustNotExist, why);
        self.edit_refs([edit])?;
        self.sync_ref(branch)
    }

    /// The full ref name of a branch; [`GitError::BranchName`] when git would refuse it, also for a start that reads as an
    /// option.
    pub fn branch_ref(&self, short: &str) -> Result<String> {
        let full = format!("refs/heads/{short}");
        match FullName::try_from(full.as_str()) {
            Ok(_) if !short.starts_with('-') && short != "HEAD" => Ok(full),
            _ => Err(GitError::BranchName(short.to_owned())),
        }
    }

    /// A branch that keeps another one from being made, as git stores a branch `a` as the file and `a/b` in the folder `a`.
    pub fn branch_in_the_way(&self, short: &str) -> Result<Option<String>> {
        for (slash, _) in short.match_indices('/') {
            if self.branch(&self.branch_ref(&short[..slash])?)?.is_some() {
                return Ok(Some(short[..slash].to_owned()));
            }
        }
        let below = self.refs_under(&self.branch_ref(short)?)?;
        Ok(below.first().map(|(name, _)| name.trim_start_matches("refs/heads/").to_owned()))
    }

    /// Gives the unborn branch that `HEAD` is on its first commit, with a line in both reflogs.
    pub(in crate::git) fn create_through_head(&self, branch: FullName, at: ObjectId, why: &str) -> Result<()> {
        let edit = RefEdit::update(full_name("HEAD")?, at, PreviousValue::MustNotExist, why).with_deref(true);
        self.edit_refs([edit])?;
        self.sync_ref(&branch.as_bstr().to_string())
    }

    /// Deletes a ref that stands at `at`; [`GitError::RefMoved`] when it stands elsewhere.
    pub fn delete_branch(&self, branch: &str, at: &CommitId) -> Result<()> {
        self.delete(branch, Some(at))
    }

    /// Moves a branch from one commit to another, forwards or back, with a line in its reflog, and in that of `HEAD`
    /// when it is on the branch. [`GitError::RefMoved`] when the branch does not stand at `from`.
    pub fn advance(&self, branch: &str, from: &CommitId, to: &CommitId, why: &str) -> Result<()> {
        let on_branch = self.head_branch()?.as_deref() == Some(branch);
        let name = full_name(if on_branch { "HEAD" } else { branch })?;
        let expected = PreviousValue::MustExistAndMatch(Target::Object(object_id(from)?));
        let edit = RefEdit::update(name, object_id(to)?, expected, why).with_deref(on_branch);
        // A lost race for the ref is told from any other failure.
        self.edit_refs([edit]).map_err(|err| self.expect(branch, Some(from)).err().unwrap_or(err))?;
        self.sync_ref(branch)
    }

    /// The commit that a revision names: a hash or the start of one, a ref, `HEAD~1` …
    pub fn resolve(&self, spec: &str) -> Result<CommitId> {
        let not_found = |source: gix::Error| GitError::NotFound { spec: spec.to_owned(), source: Some(source.into()) };
        self.objects.read(|gix| {
            let id = gix.rev_parse_single(spec).map_err(not_found)?;
            let commit = id.object().and_then(|object| object.peel_to_commit()).map_err(not_found)?;
            Ok(commit_id(commit.id))
        })
    }

    /// Writes an annotated tag on `commit` under the new ref `refname`, as the committer. When this returns, object
    /// and ref are on disk. [`GitError::RefExists`] when the ref is there, whatever it names.
    pub fn write_record(&self, refname: &str, commit: &CommitId, message: &str) -> Result<()> {
        let (tag, unsynced) = self.prepare_record(refname, commit, message, None)?;
        sync::now(unsynced)?;
        self.place_record(refname, &tag, None)
    }

    /// Does the first half of [`Refs::write_record`]: writes the tag, and gives it in hexadecimal with what is to be synced
    /// before [`Refs::place_record`]. The ref must be a new one, unless the tag `replaces` another one.
    pub fn prepare_record(
        &self,
        refname: &str,
        commit: &CommitId,
        message: &str,
        replaces: Option<&str>,
    ) -> Result<(String, Unsynced)> {
        if replaces.is_none() && self.ref_object(refname)?.is_some() {
            return Err(GitError::RefExists(refname.to_owned()));
        }
        let id = self.objects.write_tag(refname, commit, message)?;
        Ok((id.to_string(), self.objects.unsynced([id])))
    }

    /// Does the second half: makes the ref lead to the tag, which is on the disk, unless it does. The ref must be a new one, or
    /// lead to the object that the tag `replaces`.
    pub fn place_record(&self, refname: &str, tag: &str, replaces: Option<&str>) -> Result<()> {
        crash::point("git.tag_written");
        let previous = match replaces {
            Some(old) => PreviousValue::ExistingMustMatch(parse_id(old)?.into()),
            None => PreviousValue::MustNotExist,
        };
        if self.ref_object(refname)?.as_deref() != Some(tag) {
            self.edit_refs([RefEdit::update(full_name(refname)?, parse_id(tag)?, previous, "")])?;
        }
        self.sync_ref(refname)
    }

    /// The object that a ref leads to, in hexadecimal; nothing when there is no such ref.
    pub fn ref_object(&self, refname: &str) -> Result<Option<String>> {
        let name = full_name(refname)?;
        let found = self.gix.try_find_reference(name.as_ref()).during("reading a ref")?;
        Ok(found.and_then(|reference| reference.target().try_id().map(|id| id.to_string())))
    }

    /// Writes many records as [`Refs::write_record`] writes one, each as ref, commit and message: all of them, or none.
    /// [`GitError::RefExists`] where one of the refs is there, or one that git could not have beside it.
    pub fn write_records(&self, records: &[(String, CommitId, String)]) -> Result<()> {
        let (ids, kept) = self.objects.write_tags(records)?;
        crash::point("git.tag_written");
        let tags: Vec<PackedRef> = records
            .iter()
            .zip(ids)
            .map(|((name, commit, _), id)| PackedRef {
                name: name.clone(),
                object: id.to_string(),
                tagged: Some(commit.clone()),
            })
            .collect();
        self.place_packed(&tags)?;
        self.written.borrow_mut().extend(tags.into_iter().map(|tag| (tag.name, Some(tag.object))));
        crash::point("git.ref_moved");
        drop(kept);
        Ok(())
    }

    /// The annotated tag under a ref; nothing when there is no such ref, or it names something else.
    pub fn record(&self, refname: &str) -> Result<Option<TagObject>> {
        match self.ref_object(refname)? {
            Some(id) => self.objects.tag_object(refname, &id),
            None => Ok(None),
        }
    }

    /// Makes a ref lead to an object, whatever it leads to now. Returns whether the repository has the object.
    pub fn put_ref(&self, refname: &str, object: &str) -> Result<bool> {
        let id = parse_id(object)?;
        if !self.objects.has(id) {
            return Ok(false);
        }
        self.edit_refs([RefEdit::update(full_name(refname)?, id, PreviousValue::Any, "")])?;
        self.sync_ref(refname)?;
        Ok(true)
    }

    /// Writes an annotated tag on `commit` and makes the ref `refname` lead to it, whatever it leads to now.
    pub fn rewrite_record(&self, refname: &str, commit: &CommitId, message: &str) -> Result<()> {
        let id = self.objects.write_tag(refname, commit, message)?;
        self.objects.sync([id])?;
        self.edit_refs([RefEdit::update(full_name(refname)?, id, PreviousValue::Any, "")])?;
        self.sync_ref(refname)
    }

    /// Deletes a ref, whatever it leads to, if it exists.
    pub fn drop_ref(&self, refname: &str) -> Result<()> {
        if !self.has_ref(refname)? {
            // Somebody else may have deleted what this process wrote.
            self.written.borrow_mut().insert(refname.to_owned(), None);
            return Ok(());
        }
        self.delete(refname, None)
    }

    /// Deletes a ref with its reflog, whatever it leads to without `expected`. Locks the ref and the packed refs before it
    /// reads them, as git does. gix reads the packed refs first, so it would undo what another process packs in between.
    fn delete(&self, refname: &str, expected: Option<&CommitId>) -> Result<()> {
        const WHAT: &str = "deleting a ref";
        let name = full_name(refname)?;
        let common = self.gix.common_dir();
        let files = [refname, "packed-refs"].map(|name| common.join(name));
        let _guard = RefGuard::begin(self.gix.git_dir(), &files.each_ref().map(|file| lock_path(file)))?;
        crash::point("git.locks_named");
        let lock = |file| {
            let lock = || Marker::acquire_to_hold_resource(file, LOCK_WAIT, Some(common.to_owned()), 0);
            with_gc_retry(lock).during(WHAT)
        };
        let _locks = (lock(&files[0])?, lock(&files[1])?);
        if expected.is_some() {
            self.expect(refname, expected)?;
        }
        self.forget_packed(&name)?;
        for file in [&files[0], &common.join("logs").join(refname)] {
            if_there(fs::remove_file(file)).at("removing", file)?;
        }
        self.written.borrow_mut().insert(refname.to_owned(), None);
        crash::point("git.ref_moved");
        // Git may have pruned objects that only this ref led to, and that a working tree is still on.
        self.objects.rewrite_lost(false)?;
        self.sync_ref(refname)
    }

    /// Carries out changes of refs as the committer. Somebody who packs refs meanwhile takes their files away, and what was
    /// read of the packed ones before is old: then it is tried again.
    pub(in crate::git) fn edit_refs(&self, edits: impl IntoIterator<Item = RefEdit>) -> Result<()> {
        let committer = identity(&self.gix)?.committer;
        let mut time = gix::date::parse::TimeBuf::default();
        let committer = committer.to_ref(&mut time);
        let edits: Vec<RefEdit> = edits.into_iter().collect();
        let begun = Instant::now();
        for tries in 1.. {
            let locks = self.locks_of(&edits)?;
            let _guard = RefGuard::begin(self.gix.git_dir(), &locks)?;
            crash::point("git.locks_named");
            match self.gix.edit_references_as(edits.clone(), Some(committer)) {
                Ok(_) => break,
                Err(err)
                    if tries >= TRIES && (begun.elapsed() > PATIENCE || locks.iter().all(|lock| !lock.exists())) =>
                {
                    return Err(err).during("updating refs");
                }
                Err(_) => {
                    sleep(PAUSE);
                    self.refresh_packed_refs()?;
                }
            }
        }
        self.written.borrow_mut().extend(edits.iter().filter(|edit| !edit.deref).map(|edit| {
            let object = edit.change.new_value().and_then(|target| target.try_id().map(|id| id.to_string()));
            (edit.name.as_bstr().to_string(), object)
        }));
        crash::point("git.ref_moved");
        // Git may have pruned the objects before the refs led to them.
        self.objects.rewrite_lost(false)
    }

    /// Takes the refs that this process changed since the last call, by full name. Each comes with the object that it
    /// leads to, in hexadecimal; `None` for a deleted one.
    pub fn take_written(&self) -> BTreeMap<String, Option<String>> {
        self.written.take()
    }

    /// Forgets what was read of the packed refs: a ref whose file is gone may have been packed in the same moment.
    pub(super) fn refresh_packed_refs(&self) -> Result<()> {
        if !self.gix.common_dir().join("packed-refs").exists() {
            return Ok(());
        }
        self.gix.refs.force_refresh_packed_buffer().during("reading the packed refs")
    }

    /// The lock files that a change of refs makes.
    fn locks_of(&self, edits: &[RefEdit]) -> Result<Vec<PathBuf>> {
        let lock = |name: &str| {
            let folder = if name == "HEAD" { self.gix.git_dir() } else { self.gix.common_dir() };
            folder.join(format!("{name}.lock"))
        };
        // Packed refs are locked for whatever has to be looked up or removed there.
        let mut locks = vec![lock("packed-refs")];
        for edit in edits {
            locks.push(lock(&edit.name.as_bstr().to_str_lossy()));
            if edit.deref
                && let Some(branch) = self.head_branch()?
            {
                locks.push(lock(&branch));
            }
        }
        Ok(locks)
    }

    fn expect(&self, name: &str, expected: Option<&CommitId>) -> Result<()> {
        let found = self.branch(name)?;
        if found.as_ref() == expected {
            return Ok(());
        }
        Err(GitError::RefMoved { name: name.to_owned(), expected: expected.cloned(), found })
    }

    /// Syncs a ref's file and the folders above it, a branch perhaps later. `HEAD` is the working tree's own. If a
    /// process has packed the refs meanwhile, syncs the file of packed refs; folders may be missing.
    pub(in crate::git) fn sync_ref(&self, name: &str) -> Result<()> {
        let root = if name == "HEAD" { self.gix.git_dir() } else { self.gix.common_dir() };
        let path: PathBuf = root.join(name);
        let mut unsynced = Unsynced::default();
        if !path.exists() {
            unsynced.add(self.gix.common_dir().join("packed-refs"));
            unsynced.add(self.gix.common_dir());
        }
        if let Some(dir) = path.parent() {
            self.objects.syncs.add_folder(&mut unsynced, dir.to_owned(), root);
        }
        unsynced.add(path);
        if name.starts_with("refs/heads/") { self.objects.syncs.soon(unsynced) } else { sync::now(unsynced) }
    }
}

/// The most tries to add a note while other processes add theirs.
const NOTE_TRIES: u32 = 50;

/// The notes under one ref: `git log --notes=NAME` shows them, `git notes --ref=NAME` reads and edits them.
pub struct Notes<'a> {
    refs: &'a Refs,
    name: &'a str,
}

impl<'a> Notes<'a> {
    /// The notes under the ref `name`.
    pub fn new(refs: &'a Refs, name: &'a str) -> Notes<'a> {
        Notes { refs, name }
    }

    /// The notes on these commits, of those that have one.
    pub fn on<'c>(&self, commits: impl IntoIterator<Item = &'c CommitId>) -> Result<BTreeMap<CommitId, String>> {
        const WHAT: &str = "reading notes";
        let mut found = BTreeMap::new();
        let Some(tip) = self.tip()? else { return Ok(found) };
        let mut state = self.at(Some(tip))?;
        for commit in commits {
            if let Some(id) = state.get(&object_id(commit)?, &self.refs.gix).during(WHAT)? {
                let text = self.refs.objects.blob(id)?.to_str_lossy().into_owned();
                found.insert(commit.clone(), text);
            }
        }
        Ok(found)
    }

    /// Adds a line at the end of the note on a commit, and keeps lines that other processes add at the same moment.
    /// When this returns, the note is on disk.
    pub fn add(&self, commit: &CommitId, line: &str) -> Result<()> {
        self.edit(commit, |mut text| {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
            text
        })
    }

    /// Changes the note on a commit, which is empty where there is none. When somebody else changes notes in the same moment,
    /// `change` is called again with what is there then. When this returns, the note is on disk.
    pub fn edit(&self, commit: &CommitId, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<()> {
        const WHAT: &str = "writing a note";
        let object = object_id(commit)?;
        for tries in 1.. {
            let tip = self.tip()?;
            let mut state = self.at(tip)?;
            let text = match state.get(&object, &self.refs.gix).during(WHAT)? {
                Some(known) => self.refs.objects.blob(known)?,
                None => Vec::new(),
            };
            let text = change(text);
            let gix = self.refs.objects.writing_through();
            let blob = gix.write_blob(&text).during(WHAT)?.detach();
            let tree = state.replace(object, blob, &gix).during(WHAT)?.tree;
            let message = format!("ar note on {}", commit.short(12));
            let noted = self.refs.objects.write_commit(tree, tip.into_iter().collect(), &message, false)?;
            self.refs.objects.sync(self.trees_of(tree)?.into_iter().chain([blob, tree, noted]))?;
            let before = match tip {
                Some(tip) => PreviousValue::MustExistAndMatch(Target::Object(tip)),
                None => PreviousValue::MustNotExist,
            };
            match self.refs.edit_refs([RefEdit::update(full_name(self.name)?, noted, before, "notes: added by ar")]) {
                Err(_) if tries < NOTE_TRIES && self.tip()? != tip => {}
                edited => return edited.and_then(|()| self.refs.sync_ref(self.name)),
            }
        }
        Ok(())
    }

    fn tip(&self) -> Result<Option<ObjectId>> {
        self.refs.branch(self.name)?.map(|tip| parse_id(tip.as_str())).transpose()
    }

    fn at(&self, tip: Option<ObjectId>) -> Result<State> {
        const WHAT: &str = "reading notes";
        self.refs.objects.read(|gix| {
            let tree = match tip {
                Some(tip) => gix.find_commit(tip).during(WHAT)?.tree_id().during(WHAT)?.detach(),
                None => gix.empty_tree().id,
            };
            State::new(tree, gix).during(WHAT)
        })
    }

    /// The trees directly below a tree: the folders of many notes.
    fn trees_of(&self, tree: ObjectId) -> Result<Vec<ObjectId>> {
        self.refs.objects.read(|gix| {
            let tree = gix.find_tree(tree).during("reading notes")?;
            let entries = tree.iter().filter_map(Result::ok);
            Ok(entries.filter(|entry| entry.mode().is_tree()).map(|entry| entry.object_id()).collect())
        })
    }
}
