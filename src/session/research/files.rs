//! The files that are scored: as a working tree has them, or, in a run, as the commit has them that the run measures. Settings of
//! git and filters can make a working tree show what no commit has.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::domain::{CommitId, bytes_text};
use crate::fs::{absent, read_at_most};
use crate::git::{Repo, Stored};
use crate::rules::LARGEST_ADDED;
use crate::score::{Catalogue, Library, Problem, source_id};
use crate::session::errors::SessionError;

/// The largest artifact and the largest source, in bytes: what a change may add, and several books.
pub(crate) const LARGEST_TEXT: u64 = LARGEST_ADDED;

/// The files of a commit or of the working tree.
pub(crate) struct ResearchFiles<'a> {
    repo: &'a Repo,
    /// The commit that they are read from; absent for the working tree.
    commit: Option<CommitId>,
}

impl<'a> ResearchFiles<'a> {
    /// The files of a commit, or of the working tree.
    pub(crate) fn new(repo: &'a Repo, commit: Option<CommitId>) -> Self {
        ResearchFiles { repo, commit }
    }

    /// The folder in which commands about them are started.
    pub(crate) fn root(&self) -> &Path {
        self.repo.worktree()
    }

    /// Reads a file that is no link.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(commit) = &self.commit else { return read_file(&self.root().join(path)) };
        match self.repo.objects.read_at(commit, path, LARGEST_TEXT).map_err(io::Error::other)? {
            Stored::File(bytes) => Ok(bytes),
            Stored::Missing => Err(ErrorKind::NotFound.into()),
            Stored::NoFile => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
            Stored::TooLarge(size) => Err(too_large(size)),
        }
    }

    /// Reads the sources below a folder, one after the other, and looks for quotations in them.
    pub(crate) fn sources<'q>(
        &self,
        folder: &Path,
        quotations: impl IntoIterator<Item = &'q str>,
    ) -> Result<(Catalogue, Library), SessionError> {
        self.sources_named(folder, quotations, |_| true)
    }

    /// The same of the sources whose ids are asked for.
    pub(crate) fn sources_named<'q>(
        &self,
        folder: &Path,
        quotations: impl IntoIterator<Item = &'q str>,
        is_asked: impl Fn(&str) -> bool,
    ) -> Result<(Catalogue, Library), SessionError> {
        let mut problems = Vec::new();
        let files = match &self.commit {
            Some(commit) => {
                let all = self.repo.objects.files_below(commit, folder)?;
                all.into_iter().filter(|path| source_id(path).is_some()).map(|path| (path, None)).collect()
            }
            None => self.files(folder, &mut problems)?,
        };
        let catalogue = Catalogue::of(files.keys().cloned());
        let mut library = Library::new(&catalogue, quotations);
        library.problems.extend(problems);
        for (id, path) in catalogue.files.iter().filter(|(id, _)| is_asked(id)) {
            match (files.get(path).copied().flatten(), self.read(path)) {
                (Some(why), _) => library.leave_out(id, path, why),
                (None, Ok(bytes)) => library.add(id, path, &bytes),
                (None, Err(error)) if error.kind() == ErrorKind::FileTooLarge => {
                    library.leave_out(id, path, format!("{error}; store excerpts"));
                }
                (None, Err(error)) => library.leave_out(id, path, format!("it cannot be read: {error}")),
            }
        }
        Ok((catalogue, library))
    }

    /// The files of the working tree below a folder, each with the reason why no commit would have it as a source, if there is
    /// one.
    fn files(
        &self,
        folder: &Path,
        problems: &mut Vec<Problem>,
    ) -> Result<BTreeMap<PathBuf, Option<&'static str>>, SessionError> {
        let root = self.root();
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        if fs::symlink_metadata(root.join(folder)).is_ok_and(|there| there.is_symlink()) {
            let what = "the folder is a link, so no commit has what is in it";
            problems.push(Problem::at(&folder.to_string_lossy(), 1, what));
            folders.clear();
        }
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(root.join(&folder)) {
                Err(error) if absent(&error) => continue,
                Err(error) => {
                    let what = format!("the folder cannot be read: {error}");
                    problems.push(Problem::at(&folder.to_string_lossy(), 1, what));
                    continue;
                }
                Ok(entries) => entries,
            };
            for entry in entries.flatten() {
                let path = folder.join(entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    folders.push(path);
                } else if source_id(&path).is_some() {
                    let why = match kind.is_file() {
                        false => Some("it is not a regular file"),
                        true if self.repo.working_tree.is_ignored(&path)? => {
                            Some("git ignores it, so no commit has it")
                        }
                        true => None,
                    };
                    files.insert(path, why);
                }
            }
        }
        Ok(files)
    }
}

/// Reads a file of the disk that is no link.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a link"));
    }
    if meta.len() > LARGEST_TEXT {
        return Err(too_large(meta.len()));
    }
    read_at_most(path, LARGEST_TEXT)
}

fn too_large(size: u64) -> io::Error {
    let (size, most) = (bytes_text(size), bytes_text(LARGEST_TEXT));
    io::Error::new(ErrorKind::FileTooLarge, format!("it has {size}, and at most {most} are read"))
}
