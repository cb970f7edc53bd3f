//! `ar init --skill` and `--mcp`: instructions for agents that drive by themselves.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use autoresearch::agent::{Edit, MCP_FILE, NotOurs, Skill, mcp_entry};
use autoresearch::domain::{list, shell_word};
use autoresearch::fs::{create_folder, folder_of, read_regular, write_atomic};
use autoresearch::git::Repo;
use autoresearch::session::session_checked_out;

use super::args::InitArgs;
use super::error::CliError;
use super::output;
use super::settings::SETTINGS_FILE;
use crate::archiver;

/// One file with instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Skill(Skill),
    Mcp,
}

/// What the command was asked to write.
#[derive(Debug)]
pub(super) struct Instructions {
    targets: Vec<Target>,
}

/// One file, and what is to become of it.
struct Planned {
    target: Target,
    /// The file behind links.
    path: PathBuf,
    exists: bool,
    edit: Edit,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Skill(skill) => skill.path(),
            Target::Mcp => MCP_FILE,
        }
    }
}

impl Instructions {
    /// Reads the flags. `None` where settings are asked for instead; `flags` are those for settings.
    pub(super) fn of(args: &InitArgs, flags: &[String]) -> Result<Option<Instructions>, CliError> {
        let mut targets: Vec<Target> = Vec::new();
        let wanted = args.skills.iter().map(|skill| Target::Skill(*skill)).chain(args.mcp.then_some(Target::Mcp));
        for target in wanted {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        match (targets.is_empty(), flags) {
            (true, _) => Ok(None),
            (false, []) => Ok(Some(Instructions { targets })),
            (false, flags) => {
                let error = format!("--skill and --mcp write no settings, but {} was given", flags.join(", "));
                Err(CliError::usage(error, "set them by a call of `ar init` without --skill and --mcp"))
            }
        }
    }

    /// Examines all files first, so that an error leaves each as it is.
    pub(super) fn apply(&self, repo: &Repo) -> Result<ExitCode, CliError> {
        let root = repo.worktree().canonicalize().unwrap_or_else(|_| repo.worktree().to_owned());
        let planned = self.targets.iter().map(|target| Self::plan(*target, &root)).collect::<Result<Vec<_>, _>>()?;
        let mut changed = Vec::new();
        for planned in &planned {
            if planned.apply()? {
                changed.push(PathBuf::from(planned.target.name()));
            }
        }
        if let Some(session) = session_checked_out(repo).filter(|_| !changed.is_empty()) {
            let branch = session.tag.branch();
            output::note(&format!(
                "note: {branch} is checked out, and its next experiment would contain this change; commit it on your own branch"
            ));
        } else if !changed.is_empty() {
            let settings = "then set the terms with `ar init --metric NAME --cmd COMMAND`";
            let then = if root.join(SETTINGS_FILE).exists() { String::new() } else { format!("; {settings}") };
            output::line(&format!("next: look at {}, and commit the change{then}", list(&changed)));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn plan(target: Target, root: &Path) -> Result<Planned, CliError> {
        let name = target.name();
        let path = resolve(root, name)?;
        let found = match read_regular(&path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", name, &path, &error)),
        };
        let edit = match target {
            Target::Skill(skill) => skill.install(found.as_deref()),
            Target::Mcp => mcp_entry(found.as_deref(), if archiver::is_shadowed() { "autoresearch" } else { "ar" }),
        };
        let edit = edit.map_err(|error: NotOurs| {
            let hint = error.hint(name);
            CliError::new(format!("{name} {error}"), Some(hint))
        })?;
        Ok(Planned { target, path, exists: found.is_some(), edit })
    }
}

impl Planned {
    /// Carries it out and prints it. Returns whether a byte changed.
    fn apply(&self) -> Result<bool, CliError> {
        let name = self.target.name();
        let Edit::Write(content) = &self.edit else {
            output::line(&format!("unchanged: {name}"));
            return Ok(false);
        };
        create_folder(folder_of(&self.path))
            .and_then(|()| write_atomic(&self.path, content))
            .map_err(|error| failed("write", name, &self.path, &error.source))?;
        output::line(&format!("{} {name}", if self.exists { "updated" } else { "wrote" }));
        Ok(true)
    }
}

/// The file that a name in the repository leads to.
fn resolve(root: &Path, name: &str) -> Result<PathBuf, CliError> {
    let named = root.join(name);
    let existing = named.ancestors().find(|path| path.is_symlink() || path.exists()).unwrap_or(root);
    let rest = named.strip_prefix(existing).unwrap_or(Path::new(""));
    let real = existing.canonicalize().map_err(|error| {
        let hint = format!("remove the link {name}, or create the file that it leads to");
        CliError::new(format!("cannot follow {}: {error}", existing.display()), Some(hint))
    })?;
    let path = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    // What git keeps is no file of the working tree.
    let is_gits = path.strip_prefix(root).is_ok_and(|inside| inside.starts_with(".git"));
    if !path.starts_with(root) || is_gits {
        let hint = format!("replace the link by a file or folder of this repository: {name}");
        return Err(CliError::new(format!("{name} leads out of the working tree, to {}", path.display()), Some(hint)));
    }
    Ok(path)
}

fn failed(action: &str, name: &str, path: &Path, error: &std::io::Error) -> CliError {
    let folder = || folder_of(path).ancestors().find(|folder| folder.exists()).unwrap_or(path);
    let hint = match error.kind() {
        ErrorKind::PermissionDenied if action == "read" => {
            Some(format!("make it readable: chmod u+r {}", shell_word(path)))
        }
        ErrorKind::PermissionDenied => Some(format!("make the folder writable: chmod u+w {}", shell_word(folder()))),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists | ErrorKind::IsADirectory => {
            Some(format!("move away what stands in the way of {name}"))
        }
        _ => None,
    };
    CliError::new(format!("cannot {action} {name}: {error}"), hint)
}
