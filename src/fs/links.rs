//! Links in one working tree to files and folders of another one, and whether those were written to.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::absent;
use super::names::move_away;

/// Maximum number of files and folders behind links to check for writes.
const MOST: usize = 10_000;

/// Links `links`, relative to both, from `tree` to what is in `main`, and makes the folders above them. A link that stands there
/// and leads elsewhere is replaced. Anything else in the way, also a link on the way there, is moved to a free name beside it,
/// which is returned. Does nothing where all is as it should be.
pub fn make_links(main: &Path, tree: &Path, links: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    for link in links {
        let mut folder = tree.to_owned();
        for part in link.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(there) if there.is_dir() => continue,
                Ok(_) => moved.push(move_away(&folder)?),
                Err(error) if absent(&error) => {}
                Err(error) => return Err(error),
            }
            fs::create_dir(&folder)?;
        }
        let (target, place) = (main.join(link), tree.join(link));
        match fs::symlink_metadata(&place) {
            Ok(there) if !there.is_symlink() => moved.push(move_away(&place)?),
            Ok(_) if fs::read_link(&place)? == target => continue,
            Ok(_) => fs::remove_file(&place)?,
            Err(error) if absent(&error) => {}
            Err(error) => return Err(error),
        }
        symlink(target, place)?;
    }
    Ok(moved)
}

/// Returns whether `link`, relative to both, leads from `tree` to what is in `main`, as [`make_links`] makes it.
pub fn is_made(main: &Path, tree: &Path, link: &Path) -> bool {
    fs::read_link(tree.join(link)).is_ok_and(|target| target == main.join(link))
}

/// Lists those of `links` in `main` behind which something was written or removed after `since`. Checks at most 10,000 files
/// and folders. Ignores bytecode, which Python writes whenever it likes, and links that lead further.
pub fn written_to(main: &Path, links: &[PathBuf], since: SystemTime) -> Vec<PathBuf> {
    let mut left = MOST;
    links.iter().filter(|link| is_newer(&main.join(link), since, &mut left)).cloned().collect()
}

fn is_newer(path: &Path, since: SystemTime, left: &mut usize) -> bool {
    let is_newer = |meta: &fs::Metadata| meta.modified().is_ok_and(|at| at > since);
    // The path itself may be a link, to a disk for data.
    let Ok(meta) = fs::metadata(path) else { return false };
    if !meta.is_dir() {
        return is_newer(&meta);
    }
    let mut folders = vec![(path.to_owned(), meta)];
    while let Some((folder, meta)) = folders.pop() {
        let mut has_bytecode = false;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let Ok(meta) = entry.metadata() else { continue };
            if entry.file_name() == "__pycache__" {
                has_bytecode = true;
            } else if meta.is_dir() {
                folders.push((entry.path(), meta));
            } else if meta.is_file() && is_newer(&meta) {
                return true;
            }
        }
        if !has_bytecode && is_newer(&meta) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn links_are_made_anew_and_what_stands_in_the_way_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let (main, tree) = (folder.path().join("main"), folder.path().join("tree"));
        fs::create_dir_all(main.join("sets/a")).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(main.join("w.bin"), "w").unwrap();
        let links = ["sets/a", "w.bin"].map(PathBuf::from);
        let lead_to_main = || links.iter().all(|link| is_made(&main, &tree, link));
        assert_eq!(make_links(&main, &tree, &links).unwrap(), Vec::<PathBuf>::new());
        assert!(lead_to_main());
        assert_eq!(make_links(&main, &tree, &links).unwrap(), Vec::<PathBuf>::new(), "nothing is to do");

        // A link elsewhere is nobody's data; a file is.
        fs::remove_file(tree.join("sets/a")).unwrap();
        symlink("/tmp", tree.join("sets/a")).unwrap();
        fs::remove_file(tree.join("w.bin")).unwrap();
        fs::write(tree.join("w.bin"), "another").unwrap();
        assert_eq!(make_links(&main, &tree, &links).unwrap(), [tree.join("w.bin.replaced")]);
        assert!(lead_to_main());
        assert_eq!(fs::read_to_string(tree.join("w.bin.replaced")).unwrap(), "another");

        // Through a link on the way they would be made in another folder.
        fs::remove_dir_all(tree.join("sets")).unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), tree.join("sets")).unwrap();
        assert_eq!(make_links(&main, &tree, &links).unwrap(), [tree.join("sets.replaced")]);
        assert!(lead_to_main());
        assert_eq!(fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn links_behind_which_something_was_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path();
        let (before, since) =
            (SystemTime::now() - Duration::from_secs(7200), SystemTime::now() - Duration::from_secs(3600));
        let age = |path: &str| File::open(main.join(path)).unwrap().set_modified(before).unwrap();
        for path in ["old/sub", "new/sub", "env/pkg/__pycache__", "gone", "real"] {
            fs::create_dir_all(main.join(path)).unwrap();
        }
        for path in ["old/sub/x", "new/sub/x", "env/pkg/__pycache__/x.pyc", "real/x", "file", "fresh"] {
            fs::write(main.join(path), "x").unwrap();
        }
        symlink(main.join("real"), main.join("disk")).unwrap();
        symlink(main.join("fresh"), main.join("old/link")).unwrap();
        let folders = ["old/sub", "old", "new/sub", "new", "env", "real"];
        ["old/sub/x", "file"].iter().chain(&folders).for_each(|path| age(path));
        let links = ["old", "new", "env", "gone", "disk", "file", "fresh", "missing"].map(PathBuf::from);
        let expected = ["new", "gone", "disk", "fresh"].map(PathBuf::from);
        assert_eq!(written_to(main, &links, since), expected);
    }
}
