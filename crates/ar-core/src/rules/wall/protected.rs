//! The protected paths of a tree as few mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The most files that are mounted one by one. 50 mounts cost 11 ms a job and 500 cost 0.4 s, measured with bubblewrap 0.8;
/// but in a folder that is mounted as a whole, a job cannot make files either.
const MOST_FILES: usize = 40;

/// The most mounts for protected files. `bwrap` takes time that grows with the square of their number, and at most 9,000
/// arguments, three a mount.
const MOST_MOUNTS: usize = 200;

/// The paths that protect `protected`, the files of a tree, when `all` are the files that it has: the files themselves, or
/// where these are many, folders in which there is nothing else, the largest first. What is left over after 200 paths has no
/// mount.
pub fn protected_mounts<'a>(
    protected: impl IntoIterator<Item = &'a PathBuf>,
    all: impl IntoIterator<Item = &'a PathBuf>,
) -> Vec<PathBuf> {
    let mut paths: BTreeSet<PathBuf> = protected.into_iter().cloned().collect();
    if paths.len() <= MOST_FILES {
        return paths.into_iter().collect();
    }
    let mut open = BTreeSet::new();
    for path in all.into_iter().filter(|path| !paths.contains(*path)) {
        open.extend(path.ancestors().skip(1).map(Path::to_owned));
    }
    open.insert(PathBuf::new());
    let mut closed: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in &paths {
        // The topmost folder in which all is protected.
        let top = path.ancestors().skip(1).take_while(|above| !open.contains(*above)).last();
        if let Some(top) = top {
            *closed.entry(top.to_owned()).or_default() += 1;
        }
    }
    let mut by_size: Vec<(usize, PathBuf)> = closed.into_iter().map(|(folder, count)| (count, folder)).collect();
    by_size.sort();
    while let Some((_, folder)) = by_size.pop().filter(|_| paths.len() > MOST_FILES) {
        paths.retain(|path| !path.starts_with(&folder));
        paths.insert(folder);
    }
    paths.into_iter().take(MOST_MOUNTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(folder: &str, count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| Path::new(folder).join(format!("{number:03}"))).collect()
    }

    #[test]
    fn few_files_stay_files() {
        let few = paths("eval", MOST_FILES);
        assert_eq!(protected_mounts(&few, &few), few);
    }

    #[test]
    fn many_files_become_folders_in_which_nothing_else_is_tracked() {
        let (data, eval, mixed) = (paths("data/deep", 300), paths("eval", 20), paths("src/lib", 10));
        let protected: Vec<PathBuf> = [data, eval.clone(), mixed.clone()].concat();
        let all = [protected.clone(), vec!["src/lib/train.py".into(), "train.py".into()]].concat();
        let expected: Vec<PathBuf> = [vec!["data".into()], eval, mixed].concat();
        assert_eq!(protected_mounts(&protected, &all), expected);
    }

    #[test]
    fn a_root_full_of_protected_files_stays_open() {
        let protected = paths("", 1000);
        assert_eq!(protected_mounts(&protected, &protected).len(), MOST_MOUNTS);
    }
}
