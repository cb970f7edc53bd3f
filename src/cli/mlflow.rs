//! Writes a session into a folder that MLflow opens: `ar export --to mlflow`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use autoresearch::domain::Record;
use autoresearch::report::{Artifacts, MlflowExperiment, mlflow_experiment};
use autoresearch::session::{SessionError, SessionView, exclude_pattern};

use super::error::CliError;

/// The size limit of a diff that is written beside a run, in bytes: 256 KiB.
const LARGEST_DIFF: usize = 256 * 1024;

/// The file by which MLflow recognises an experiment or a run. It is written last: a folder without it is unfinished.
const META: &str = "meta.yaml";

/// The result of an export to MLflow.
pub(super) struct MlflowExport {
    /// The store's folder, absolute.
    pub(super) root: PathBuf,
    /// The number of experiments that it wrote.
    pub(super) added: usize,
    /// The number of experiments that an earlier export wrote; they stay unchanged.
    pub(super) there: usize,
}

/// Writes the session into MLflow's file store in the folder `dir`, which may contain others. Runs that exist stay unchanged,
/// because people may have edited them; new experiments are added.
///
/// # Errors
///
/// The session has no experiment, another experiment in the folder has its name, or a file cannot be written.
pub(super) fn export(view: &SessionView, dir: &Path) -> Result<MlflowExport, CliError> {
    let baseline = view.history.baseline().ok_or_else(|| nothing_to_export(view))?;
    let failed = |source| SessionError::Io { action: "write", path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(failed)?;
    let root = dir.canonicalize().map_err(failed)?;
    // An active loop would otherwise take it for a part of its change.
    if let Some(pattern) = exclude_pattern(&root, view.repo.worktree()) {
        view.repo.exclude(&[&format!("{pattern}/")])?;
    }
    let uri = file_uri(&root);
    let experiment = mlflow_experiment(baseline, &uri);
    let folder = root.join(&experiment.id);
    if !folder.join(META).exists() {
        if let Some(other) = namesake(&root, &experiment).map_err(failed)? {
            let error = format!("MLflow already has another experiment named {}: {}", view.tag, other.display());
            return Err(CliError::new(error, Some("choose another folder with --output DIR".into())));
        }
        write_last(&folder, &experiment.meta).map_err(failed)?;
    }
    let notes = view.notes(view.history.records())?;
    let mut export = MlflowExport { root, added: 0, there: 0 };
    for record in view.history.records() {
        let place = folder.join(experiment.run_id(record.id));
        if place.join(META).exists() {
            export.there += 1;
            continue;
        }
        let run = experiment.run(record, notes.get(&record.id), &uri, artifacts(view, record)?);
        for part in ["metrics", "params", "tags", "artifacts"] {
            fs::create_dir_all(place.join(part)).map_err(failed)?;
        }
        for (path, content) in &run.files {
            fs::write(place.join(path), content).map_err(failed)?;
        }
        write_last(&place, &run.meta).map_err(failed)?;
        export.added += 1;
    }
    Ok(export)
}

fn nothing_to_export(view: &SessionView) -> CliError {
    let tag = &view.tag;
    let hint = format!("run `ar status {tag}` to see what is happening");
    CliError::new(format!("session {tag} has no experiment yet"), Some(hint))
}

/// The change of an experiment, where it is small, and the end of its log.
fn artifacts(view: &SessionView, record: &Record) -> Result<Artifacts, SessionError> {
    let found = [("diff.patch", view.diff(record)?), ("log_tail.txt", view.log_tail(record.id)?.into_bytes())];
    Ok(found.into_iter().filter(|(_, text)| !text.is_empty() && text.len() <= LARGEST_DIFF).collect())
}

/// Writes the file that completes a folder of MLflow's, atomically.
fn write_last(folder: &Path, meta: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let partial = folder.join(format!("{META}.partial"));
    fs::write(&partial, meta)?;
    fs::rename(&partial, folder.join(META))
}

/// The folder of another experiment of the same name, including those deleted in MLflow.
fn namesake(root: &Path, experiment: &MlflowExperiment) -> io::Result<Option<PathBuf>> {
    let deleted = fs::read_dir(root.join(".trash")).into_iter().flatten();
    for entry in fs::read_dir(root)?.chain(deleted) {
        let folder = entry?.path();
        let Ok(meta) = fs::read_to_string(folder.join(META)) else { continue };
        let is_its_name = |text: &str| text.trim().trim_matches(['\'', '"']) == experiment.name;
        if meta.lines().any(|line| line.strip_prefix("name:").is_some_and(is_its_name)) {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

/// The URI of a file.
fn file_uri(path: &Path) -> String {
    let escaped = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("file://{}", OsStr::as_bytes(path.as_os_str()).iter().map(escaped).collect::<String>())
}
