//! Reads beside a `git gc`, which moves objects from pack to pack.
//!
//! An open store of gix knows the packs that it listed last, and can miss an object that is in a pack of a moment later. So a
//! read that misses an object is repeated in a store opened afresh. While packs change, that is repeated, too.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use gix::odb::Handle;

use super::store::Objects;
use crate::git::error::{During, Result};

/// The first pause before a read is repeated, each further one being twice as long, and all of them together.
const FIRST: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(2);

impl Objects {
    /// Reads objects through gix, again in a store opened afresh where it misses one.
    pub(in crate::git) fn read<T>(&self, read: impl Fn(&gix::Repository) -> Result<T>) -> Result<T> {
        read_of_repository(&self.gix, read)
    }
}

/// Reads objects of a repository. If the store misses one, reads again in a fresh store. Objects in the memory of the first
/// store stay there.
pub(in crate::git) fn read_of_repository<T>(
    gix: &gix::Repository,
    read: impl Fn(&gix::Repository) -> Result<T>,
) -> Result<T> {
    let afresh = || {
        let mut afresh = gix::Repository::clone(gix);
        *afresh.objects = open_afresh(&gix.objects)?;
        Ok(afresh)
    };
    persistently(&place(&gix.objects), gix, afresh, read)
}

/// Does the same with a store alone.
pub(super) fn read_of_store<T>(store: &Handle, read: impl FnMut(&Handle) -> Result<T>) -> Result<T> {
    persistently(&place(store), store, || open_afresh(store), read)
}

/// The folder of a store. A linked working tree's path to it leads through the folder of the tree under `.git/worktrees`, which
/// an agent may delete.
fn place(store: &Handle) -> PathBuf {
    let path = store.store_ref().path();
    gix::path::normalize(Cow::Borrowed(path), Path::new("")).map_or_else(|| path.to_owned(), Cow::into_owned)
}

fn open_afresh(store: &Handle) -> Result<Handle> {
    let hash = store.store_ref().object_hash();
    let mut afresh = gix::odb::at(place(store), hash).during("opening the objects of the repository")?;
    afresh.ignore_replacements = store.ignore_replacements;
    Ok(afresh)
}

/// Reads in `known`, and after a miss in what `afresh` opens, until the packs stayed the same meanwhile or time is up.
fn persistently<S, T>(
    objects: &Path,
    known: &S,
    afresh: impl Fn() -> Result<S>,
    mut read: impl FnMut(&S) -> Result<T>,
) -> Result<T> {
    let mut found = read(known);
    let (mut pause, mut waited) = (FIRST, Duration::ZERO);
    while found.as_ref().is_err_and(|error| error.is_miss()) {
        let before = packs(objects);
        found = read(&afresh()?);
        if waited >= PATIENCE || (before.is_some() && before == packs(objects)) {
            break;
        }
        sleep(pause);
        (pause, waited) = (pause * 2, waited + pause);
    }
    found
}

/// The names and times of all packs.
fn packs(objects: &Path) -> Option<Vec<(OsString, SystemTime)>> {
    let entries = fs::read_dir(objects.join("pack")).ok()?;
    let mut packs: Vec<_> = entries
        .map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?.modified()?))))
        .collect::<Result<_, _>>()
        .ok()?;
    packs.sort();
    Some(packs)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::persistently;
    use crate::git::error::{During, Result};

    fn miss() -> Result<()> {
        Err(gix::error::not_found("an object")).during("reading")
    }

    #[test]
    fn a_miss_is_repeated_afresh_while_packs_change_and_only_then() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pack")).unwrap();
        let reads = Cell::new(0);
        let replaced = |until: u32| {
            reads.set(0);
            persistently(
                dir.path(),
                &false,
                || Ok(true),
                |is_afresh| {
                    reads.set(reads.get() + 1);
                    assert_eq!(*is_afresh, reads.get() > 1);
                    if reads.get() <= until {
                        fs::write(dir.path().join("pack").join(format!("{}.pack", reads.get())), "").unwrap();
                    }
                    if reads.get() > 4 { Ok(()) } else { miss() }
                },
            )
        };
        assert!(replaced(5).is_ok(), "found once packs were replaced");
        assert_eq!(reads.get(), 5);
        assert!(replaced(0).is_err(), "missing for good");
        assert_eq!(reads.get(), 2, "without a pause");
        reads.set(0);
        let other = persistently(
            dir.path(),
            &(),
            || Ok(()),
            |()| {
                reads.set(reads.get() + 1);
                Err::<(), _>(std::io::Error::other("other")).during("reading")
            },
        );
        assert!(other.is_err());
        assert_eq!(reads.get(), 1, "another failure is no miss");
    }
}
