//! The repository that `ar demo` makes: a tiny language model in `sh` and `awk`, and a scripted agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::SessionError;
use crate::domain::Asked;
use crate::git::Repo;

/// The metric that the example lowers.
const DEMO_METRIC: &str = "val_bpb";
/// Its measuring command.
const DEMO_COMMAND: &str = "sh train.sh";
/// How many experiments its agent has ideas for.
const DEMO_EXPERIMENTS: u32 = 10;

const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../fixtures/demo/README.md")),
    ("agent.sh", include_str!("../../fixtures/demo/agent.sh")),
    ("prepare.sh", include_str!("../../fixtures/demo/prepare.sh")),
    ("program.md", include_str!("../../fixtures/demo/program.md")),
    ("train.sh", include_str!("../../fixtures/demo/train.sh")),
    ("data/input.txt", include_str!("../../fixtures/demo/data/input.txt")),
];

/// Makes the example in `dir`, which must be absent or empty, with everything in it committed.
pub fn create_demo(dir: &Path) -> Result<Repo, SessionError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| SessionError::Io { action, path, source }
    };
    fs::create_dir_all(dir).map_err(failed("create", dir))?;
    if fs::read_dir(dir).map_err(failed("read", dir))?.next().is_some() {
        return Err(SessionError::NotEmpty(dir.to_owned()));
    }
    for (name, content) in FILES {
        let path = dir.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fs::write(&path, content).map_err(failed("write", &path))?;
        if name.ends_with(".sh") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed("change", &path))?;
        }
    }
    let repo = Repo::init(dir)?;
    repo.commit_first("a tiny language model of one short text")?;
    Ok(repo)
}

/// The terms of the example's session.
pub fn demo_terms() -> Asked {
    Asked {
        metric: Some(DEMO_METRIC.into()),
        command: Some(DEMO_COMMAND.into()),
        agent: Some("./agent.sh".into()),
        max_experiments: Some(DEMO_EXPERIMENTS),
        ..Asked::default()
    }
}
