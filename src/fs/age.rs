//! The age of a file by the clock of its file system, which may be that of another machine.

use std::path::Path;
use std::time::Duration;

use super::write::folder_of;

/// The time since the last change of the file at `path`, by the clock of its file system: that of a file without a name, made
/// beside it for this moment. Zero if the change lies in the future. `None` if there is no file, or none can be made.
pub fn age(path: &Path) -> Option<Duration> {
    let changed = std::fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    let now = tempfile::tempfile_in(folder_of(path)).and_then(|file| file.metadata()?.modified()).ok()?;
    Some(now.duration_since(changed).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_age_is_that_of_the_content_and_never_below_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(age(&path), None);
        fs::write(&path, "x").unwrap();
        let change = |time| File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        change(SystemTime::now() - Duration::from_secs(600));
        let found = age(&path).unwrap().as_secs();
        assert!((599..660).contains(&found), "{found}");
        change(SystemTime::now() + Duration::from_secs(600));
        assert_eq!(age(&path), Some(Duration::ZERO));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
