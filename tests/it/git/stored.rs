//! What a commit has at a path.

use std::path::{Path, PathBuf};

use autoresearch::git::Stored;

use super::{head, open};
use crate::support::TestRepo;

#[test]
fn a_commit_is_read_path_by_path() {
    let repo = TestRepo::new();
    repo.write("sources/a.md", "text\n");
    repo.write("sources/sub/b.md", "text\n");
    repo.symlink("a.md", "sources/link.md");
    repo.commit_all("sources");
    repo.write("sources/a.md", "changed since\n");
    let (git, commit) = (open(&repo), head(&repo));
    let read = |path: &str, limit| git.objects.read_at(&commit, Path::new(path), limit).unwrap();
    assert_eq!(read("sources/a.md", 5), Stored::File(b"text\n".to_vec()));
    assert_eq!(read("sources/a.md", 4), Stored::TooLarge(5));
    assert_eq!([read("sources/link.md", 9), read("sources", 9)], [Stored::NoFile, Stored::NoFile]);
    assert_eq!([read("none", 9), read("sources/a.md/x", 9)], [Stored::Missing, Stored::Missing]);
    let below = |path: &str| git.objects.files_below(&commit, Path::new(path)).unwrap();
    assert_eq!(below("sources"), ["sources/a.md", "sources/sub/b.md"].map(PathBuf::from));
    assert_eq!([below("none"), below("README.md")], [Vec::<PathBuf>::new(), Vec::new()]);
    let name = |path: &str| git.objects.name_at(&commit, Path::new(path)).unwrap();
    assert_eq!(name("sources/a.md"), Some(repo.git(["rev-parse", "HEAD:sources/a.md"])));
    assert_eq!(name("sources/a.md"), name("sources/sub/b.md"));
    assert_eq!((name("sources"), name("none")), (Some(repo.git(["rev-parse", "HEAD:sources"])), None));
}
