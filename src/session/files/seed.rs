//! Whether the repository's code takes the seed of a run.

use std::path::Path;

use super::{PROGRAM, SETTINGS_FILE};
use crate::fs::read_at_most;
use crate::git::Repo;

/// The variable with the seed of a run.
pub(crate) const SEED: &str = "AR_SEED";

/// How a Python script takes it.
pub const SEED_LINE: &str = "seed = int(os.environ.get(\"AR_SEED\", 1))";

/// The most bytes of a file that are looked through: code is shorter.
const LARGEST: u64 = 1 << 20;

/// The most files that are looked through.
const MOST: usize = 10_000;

/// Returns whether a tracked file names the seed's variable, but for those that only tell of it. True if there are too many
/// files to say.
pub fn names_seed(repo: &Repo) -> bool {
    let Ok(Some(head)) = repo.refs.head_if_sound() else { return true };
    let Some(Ok(files)) = head.commit().map(|commit| repo.objects.files_at(commit, |_| true)) else { return true };
    let tells = |path: &Path| [PROGRAM, SETTINGS_FILE].iter().any(|name| path == Path::new(name));
    let names = |path: &Path| {
        let text = read_at_most(&repo.worktree().join(path), LARGEST).unwrap_or_default();
        text.windows(SEED.len()).any(|part| part == SEED.as_bytes())
    };
    files.len() > MOST || files.iter().any(|path| !tells(path) && names(path))
}
