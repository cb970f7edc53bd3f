//! Repositories that are made once in a test process, and copied for each test.

use std::fs::{self, Permissions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::TestRepo;

/// What there is at a path.
#[derive(Debug)]
enum Content {
    Folder,
    File(Vec<u8>, Permissions),
    Link(PathBuf),
}

/// The files of a repository, in memory: no folder of a template is left behind at the end of the process.
#[derive(Debug)]
pub(crate) struct Template(OnceLock<Vec<(PathBuf, Content)>>);

impl Template {
    pub(crate) const fn new() -> Template {
        Template(OnceLock::new())
    }

    /// A copy of the repository that `make` makes the first time. The index knows its files as unchanged.
    pub(crate) fn copy(&self, make: impl FnOnce() -> TestRepo) -> TestRepo {
        let contents = self.0.get_or_init(|| {
            let (repo, mut contents) = (make(), Vec::new());
            read(&repo.path(), Path::new(""), &mut contents);
            contents
        });
        let repo = TestRepo::bare();
        let root = repo.path();
        for (path, content) in contents {
            let path = root.join(path);
            match content {
                Content::Folder => fs::create_dir(path).unwrap(),
                Content::Link(target) => symlink(target, path).unwrap(),
                Content::File(bytes, permissions) => {
                    fs::write(&path, bytes).unwrap();
                    fs::set_permissions(path, permissions.clone()).unwrap();
                }
            }
        }
        if repo.exists(".git/index") {
            // A copy has other inodes and times.
            repo.git(["update-index", "-q", "--refresh"]);
        }
        repo
    }
}

/// Notes everything below a folder, each folder before what is in it. Samples of hooks do nothing.
fn read(root: &Path, folder: &Path, contents: &mut Vec<(PathBuf, Content)>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let (path, meta) = (folder.join(entry.file_name()), entry.metadata().unwrap());
        if meta.is_dir() {
            contents.push((path.clone(), Content::Folder));
            read(root, &path, contents);
        } else if meta.is_symlink() {
            contents.push((path, Content::Link(fs::read_link(entry.path()).unwrap())));
        } else if path.extension().is_none_or(|extension| extension != "sample") {
            contents.push((path, Content::File(fs::read(entry.path()).unwrap(), meta.permissions())));
        }
    }
}
