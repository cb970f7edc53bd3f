//! Files that may hold the metric: the newest one of a pattern, and those that a run wrote.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::fs::read_at_most;
use crate::measure::place_of;
use crate::rules::glob;
use crate::session::files::is_own;

/// Limits of a search: files and folders seen, folders deep, and bytes of a file to read.
const MOST: usize = 20_000;
const DEEPEST: usize = 8;
const LARGEST: u64 = 8 << 20;

/// Names of files that may hold a metric end so.
const ENDS: [&str; 5] = ["csv", "tsv", "json", "jsonl", "ndjson"];

/// Returns whether a metric file's path is a pattern.
pub(crate) fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// The file at a path below `root`; of a pattern, the newest one of those that it names.
pub(crate) fn newest_file(root: &Path, path: &Path) -> PathBuf {
    let exact = root.join(path);
    let pattern = glob(&path.to_string_lossy()).ok().filter(|_| is_pattern(path) && !exact.exists());
    let Some(pattern) = pattern.map(|pattern| pattern.compile_matcher()) else { return exact };
    let start: PathBuf = path.components().take_while(|part| !is_pattern(Path::new(part))).collect();
    let files = files_below(root, &start).into_iter().filter(|(file, _)| pattern.is_match(file));
    let newest = files.max_by_key(|(file, meta)| (modified(meta), file.clone()));
    newest.map_or(exact, |(file, _)| root.join(file))
}

/// A file below `root`, written since a run began, that has a number of this name, and its place there.
pub(crate) fn file_with(root: &Path, name: &str, since: SystemTime) -> Option<(PathBuf, String)> {
    let is_readable = |file: &Path| file.extension().is_some_and(|end| ENDS.iter().any(|known| end == *known));
    let mut files = files_below(root, Path::new(""));
    let may_have_it = |file: &Path| is_readable(file) && !is_own(file);
    files.retain(|(file, meta)| may_have_it(file) && meta.len() <= LARGEST && modified(meta) >= Some(since));
    files.sort_by_cached_key(|(file, _)| (file.components().count(), file.clone()));
    files.into_iter().find_map(|(file, _)| {
        let text = read_at_most(&root.join(&file), LARGEST).ok()?;
        Some((file.clone(), place_of(&file, &text, name)?))
    })
}

fn modified(meta: &Metadata) -> Option<SystemTime> {
    meta.modified().ok()
}

/// The regular files below a folder, relative to `root`; hidden ones and those behind links are left out.
fn files_below(root: &Path, start: &Path) -> Vec<(PathBuf, Metadata)> {
    let (mut folders, mut files, mut seen) = (vec![start.to_owned()], Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            seen += 1;
            let Some(meta) = entry.metadata().ok().filter(|_| seen <= MOST) else { continue };
            let path = folder.join(entry.file_name());
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if meta.is_dir() && path.components().count() <= DEEPEST {
                folders.push(path);
            } else if meta.is_file() {
                files.push((path, meta));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    /// Writes a file this many seconds after the epoch.
    fn write(root: &Path, file: &str, text: &str, seconds: u64) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn the_newest_file_of_a_pattern_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (file, seconds) in [("out/b/m.csv", 5), ("out/a/m.csv", 9), ("out/c/m.csv", 7), ("out/c/d/m.csv", 11)] {
            write(root, file, "", seconds);
        }
        let newest = |pattern: &str| newest_file(root, Path::new(pattern)).strip_prefix(root).unwrap().to_owned();
        assert_eq!(newest("out/*/m.csv"), Path::new("out/a/m.csv"));
        assert_eq!(newest("out/**/m.csv"), Path::new("out/c/d/m.csv"));
        assert_eq!(newest("out/?/d/*.csv"), Path::new("out/c/d/m.csv"));
        assert_eq!(newest("out/*.csv"), Path::new("out/*.csv"), "no file");
        assert_eq!(newest("out/b/m.csv"), Path::new("out/b/m.csv"));
    }

    #[test]
    fn a_file_with_the_number_is_found_if_the_run_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "old.csv", "loss\n1\n", 5);
        write(root, "a/deep.csv", "epoch,loss\n1,2\n", 20);
        write(root, "m.json", "{\"eval\": {\"loss\": 1}}", 20);
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        assert_eq!(file_with(root, "loss", since), Some(("m.json".into(), "/eval/loss".into())));
        fs::remove_file(root.join("m.json")).unwrap();
        assert_eq!(file_with(root, "loss", since), Some(("a/deep.csv".into(), String::new())));
        assert_eq!(file_with(root, "acc", since), None);
    }
}
