//! Decides where the experiments of a session are made and run: in place, or in slots and seats outside the user's
//! working tree. Detects beforehand what would make runs in linked working trees measure the wrong code.

use std::path::{Path, PathBuf};
use std::{env, fs};

use super::{Drive, layout_before};
use crate::domain::{
    Asked, Cluster, Contract, Engine, ExecutorName, ExperimentId, Layout, MetricSource, Tag, UserError, count_of,
    duration_text, list, shell_word,
};
use crate::exec::{gpu_inventory, is_in_path};
use crate::fs::read_at_most;
use crate::git::{Changes, Head, Repo};
use crate::rules::{
    GpuSlot, JOB_START, candidates, editable_path, entries_into, gpu_plan, is_package, looks_in_tree, named_files,
    paths_into, says_where, slurm_limit, slurm_refused, syncs_environment, within,
};
use crate::session::errors::{CannotStart, SessionError, Usage, refuse};
use crate::session::files::{is_driven, is_own, read_history, session_tags};
use crate::state::{Journal, SESSIONS_FOLDER, SessionFolder};

/// The slots of a session, and what is told of them.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    /// The slots and seats; absent *in place*.
    pub(crate) layout: Option<Layout>,
    /// The GPUs of each slot; empty where GPUs are not divided among them.
    pub(crate) gpus: Vec<GpuSlot>,
    pub(crate) notices: Vec<String>,
}

/// Applies the settings that are asked for to the layout of before. Refuses `flags` without effect; variables and a settings
/// file may have more than a session uses.
pub(crate) fn layout_of(asked: &Asked, flags: &Asked, before: Option<&Layout>) -> Result<Option<Layout>, UserError> {
    let needs = |key: &str, what: &str| refuse(Usage, format!("--{key} is for a session {what}"));
    let layout = asked.layout(before);
    let cluster = layout.as_ref().and_then(|layout| layout.cluster.as_ref());
    let executor = cluster.map_or(ExecutorName::Local, |cluster| cluster.engine.name());
    if asked.executor == Some(ExecutorName::Commands) && executor != ExecutorName::Commands {
        return Err(refuse(Usage, "ar.toml has no table [executor] with the commands of an engine").hint(
            "write it with the keys submit, states and cancel, or use --executor slurm; docs/guide/cluster.md explains them",
        ));
    }
    let of_slurm = flags.sbatch.as_ref().filter(|_| executor != ExecutorName::Slurm).map(|_| "sbatch");
    let of_engine = flags.lost_after.filter(|_| cluster.is_none()).map(|_| "lost-after");
    if let Some(key) = of_slurm.or(of_engine) {
        return Err(needs(key, "whose runs are executed elsewhere").hint("add --executor slurm"));
    }
    let divides_gpus = flags.gpus_per_run.is_some() || layout.as_ref().is_some_and(|layout| layout.gpus.is_some());
    if cluster.is_some() && divides_gpus {
        let place = match executor {
            ExecutorName::Slurm => format!("--sbatch: --sbatch \"--gpus={}\"", asked.gpus_per_run.unwrap_or(1)),
            _ => "[executor.resources] of ar.toml".to_owned(),
        };
        let text =
            format!("--gpus and --gpus-per-run divide the GPUs of this machine, and runs are executed by {executor}");
        return Err(refuse(Usage, text).hint(format!("omit --gpus and --gpus-per-run, and ask for GPUs in {place}")));
    }
    let is_here = |(key, _): &(&str, Asked)| *key == "executor" && executor == ExecutorName::Local;
    if let (None, Some((key, _))) = (&layout, flags.of_layout().find(|setting| !is_here(setting))) {
        return Err(needs(key, "with slots").hint("add --slots N, --gpus all or --ahead N"));
    }
    if layout.as_ref().is_some_and(|layout| layout.gpus.is_none()) {
        let of_gpus = |(key, _): &(&str, Asked)| *key == "gpus-per-run";
        if let Some((key, _)) = flags.of_layout().find(of_gpus) {
            return Err(needs(key, "that divides GPUs among its slots").hint("add --gpus all"));
        }
    }
    Ok(layout)
}

impl Placing {
    /// Refuses what does not work beside the user's working tree, and gives each slot its GPUs.
    pub(crate) fn new(
        layout: Option<Layout>,
        asked: &Asked,
        before: Option<&Layout>,
        tag: &Tag,
        drive: Drive,
    ) -> Result<Placing, SessionError> {
        let Some(mut layout) = layout else { return Ok(Placing::default()) };
        match drive {
            Drive::WorkingTree { .. } => {
                return Err(refuse(Usage, "`ar try` works in place only, not with slots")
                    .hint(format!(
                        "hand the change in as an idea with `ar idea add`, let an agent of the loop make it: `ar run --tag \
                         {tag} --agent COMMAND`, or begin a session in place: `ar run --tag NAME --agent none`"
                    ))
                    .into());
            }
            Drive::Loop { adopt: true, .. } => {
                return Err(refuse(CannotStart, "--adopt works in place only, not with slots")
                    .hint("commit the change first, or omit --adopt and describe it with `ar idea add`")
                    .into());
            }
            Drive::Loop { adopt: false, .. } => {}
            // Nothing is run.
            Drive::Ending => return Ok(Placing { layout: Some(layout), ..Placing::default() }),
        }
        let Some(choice) = &layout.gpus else { return Ok(Placing { layout: Some(layout), ..Placing::default() }) };
        let per_run = layout.gpus_per_run as usize;
        let plan = gpu_plan(&gpu_inventory(), |name| env::var(name).ok(), choice, per_run)?;
        let mut gpus = plan.slots;
        let there = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
        let is_divided_anew = before.is_none() || asked.gpus.is_some() || asked.gpus_per_run.is_some();
        if asked.slots.is_none() && is_divided_anew {
            layout.slots = there;
            if before.is_none() && asked.ahead.is_none() {
                layout.ahead = Layout::of(there).ahead;
            }
        }
        if layout.slots > there {
            let text = format!("there are GPUs for {}, not {}", count_of(there, "slot"), layout.slots);
            return Err(refuse(CannotStart, text)
                .hint(format!("pass --slots {there}, choose more GPUs with --gpus, or lower --gpus-per-run"))
                .into());
        }
        gpus.truncate(layout.slots as usize);
        let unused: Vec<String> = plan.unused.iter().map(ToString::to_string).collect();
        let notice = format!("left unused, too few for a run: {}", unused.join(", "));
        let notices = (!unused.is_empty()).then_some(notice).into_iter().collect();
        Ok(Placing { layout: Some(layout), gpus, notices })
    }
}

/// Refuses `ar try` in a session with slots, in a new session without a name beside one, and beside a loop on slots. A `resume`
/// finishes what was begun before that loop.
pub(crate) fn refuse_beside_slots(repo: &Repo, tag: Option<&Tag>, resume: bool) -> Result<(), SessionError> {
    for other in session_tags(repo)?.into_iter().filter(|other| layout_before(repo, other).is_some()) {
        let folder = SessionFolder::new(repo.main_worktree(), &other);
        // The code that needs an unreadable lock reports it.
        let is_active = is_driven(repo, &folder).unwrap_or(false);
        let is_meant = tag.is_none_or(|tag| *tag == other);
        if is_meant || is_active && !resume {
            let (does, first) = match is_active {
                true => ("is measuring on slots", format!("stop the loop with `ar stop {other}` and then run")),
                false => ("has slots", "run".to_owned()),
            };
            return Err(refuse(Usage, format!("`ar try` works in place only, and session {other} {does}"))
                .hint(format!(
                    "run `ar idea add TEXT` to hand the change in as an idea, or {first} `ar try --tag NAME` \
                     to begin another session in place"
                ))
                .into());
        }
    }
    Ok(())
}

/// Refuses what Slurm cannot run here: jobs that it would end before their runs reach their own time limit, and any without its
/// commands.
pub(crate) fn refuse_without_slurm(layout: Option<&Layout>, contract: &Contract) -> Result<(), UserError> {
    let Some(Cluster { engine: Engine::Slurm { sbatch }, .. }) = layout.and_then(|layout| layout.cluster.as_ref())
    else {
        return Ok(());
    };
    if let Some(option) = slurm_refused(sbatch) {
        let text = format!("{option} in --sbatch makes of a run what is not one job of this cluster");
        return Err(refuse(Usage, text).hint("omit it"));
    }
    let needed = contract.timeout + contract.grace + JOB_START;
    let by_variable = || slurm_limit(&format!("--time={}", env::var("SBATCH_TIMELIMIT").ok()?));
    match slurm_limit(sbatch).or_else(by_variable).filter(|limit| *limit < needed) {
        Some(limit) => Err(refuse(
            Usage,
            format!(
                "a job may take {}, but a run up to {}, with its grace and a minute to start",
                duration_text(limit),
                duration_text(needed)
            ),
        )
        .hint(format!("raise --time in --sbatch to {} or more, or lower --timeout", needed.as_secs().div_ceil(60)))),
        None => match ["sbatch", "squeue", "scancel"].into_iter().find(|program| !is_in_path(program)) {
            Some(program) => Err(refuse(CannotStart, format!("Slurm's command {program} is not in the PATH"))
                .hint("run `ar` on a host from which `sbatch` works")),
            None => Ok(()),
        },
    }
}

/// A layout and the GPUs of its slots, as lines for a person.
pub(crate) fn layout_lines(layout: Option<&Layout>, gpus: &[GpuSlot]) -> Vec<String> {
    let of_slot = |(slot, gpus): (usize, &GpuSlot)| {
        let names: Vec<String> = gpus.gpus.iter().map(ToString::to_string).collect();
        format!("slot {slot:<5}{}, {}", gpus.model(), names.join(", "))
    };
    layout.into_iter().flat_map(Layout::lines).chain(gpus.iter().enumerate().map(of_slot)).collect()
}

/// Refuses to go on beside the user's working tree from where an experiment is open in it, or while it has the session's
/// branch checked out, which moves with each keep; not where the working tree goes home first.
pub(crate) fn refuse_in_the_way(
    repo: &Repo,
    contract: &Contract,
    head: &Head,
    open_in_place: Option<ExperimentId>,
    goes_home: bool,
) -> Result<(), SessionError> {
    let tag = &contract.tag;
    if let Some(id) = open_in_place {
        let text = format!(
            "experiment {id} of session {tag} is still open in this working tree, where the session has no slots"
        );
        return Err(refuse(CannotStart, text)
            .hint(format!(
                "run `ar resume {tag}` without these flags to continue it, or `ar stop {tag} --now` to save its change and \
                 close it"
            ))
            .into());
    }
    match head {
        Head::Branch { name, .. } if *name == tag.branch_ref() && !goes_home => {
            let from = contract.home().0.and_then(|name| Some((name, name.strip_prefix("refs/heads/")?)));
            let hint = match from {
                Some((full, short)) if repo.refs.branch(full)?.is_some() => {
                    match repo.refs.checked_out_elsewhere(full)? {
                        Some(worktree) => format!(
                            "as {short} is checked out in {}, run `git switch --detach`, then `ar run --tag {tag}` with the \
                             same flags",
                            shell_word(&worktree)
                        ),
                        None => format!("git switch {}", shell_word(short.as_ref())),
                    }
                }
                _ => "git switch --detach".into(),
            };
            let branch = tag.branch();
            let text = format!(
                "this working tree has branch {branch} checked out, which moves with each keep of a session with slots"
            );
            Err(refuse(CannotStart, text).hint(hint).into())
        }
        _ => Ok(()),
    }
}

/// Refuses to go on *in place* with a session whose slots were lost with its journal, as the slots in its records tell.
pub(crate) fn refuse_lost(repo: &Repo, tag: Option<&Tag>, journal: Option<&Journal>) -> Result<(), SessionError> {
    if let Some(tag) = tag
        && Journal::is_lost(journal)
        && read_history(repo, tag)?.records().iter().any(|record| record.beside.slot.is_some())
    {
        let text = format!("session {tag} has slots, but its journal, which says how many, was lost");
        return Err(refuse(CannotStart, text)
            .hint(format!("pass them again: `ar resume {tag} --slots N`, with --gpus and --link as before"))
            .into());
    }
    Ok(())
}

/// Refuses to work in a working tree of a slot or a seat.
pub(crate) fn refuse_own_tree(repo: &Repo) -> Result<(), UserError> {
    let root = repo.worktree();
    if !root.starts_with(repo.main_worktree().join(SESSIONS_FOLDER)) {
        return Ok(());
    }
    Err(refuse(CannotStart, format!("{} is a working tree of ar's", root.display()))
        .hint("go to the repository's main working tree: cd \"$(git rev-parse --git-common-dir)/..\""))
}

/// Names the sessions with slots that nobody is at work on and that have open attempts: as HEAD is not on their branch, they
/// are not continued without a name.
pub(crate) fn unfinished_beside(repo: &Repo) -> Result<Vec<String>, SessionError> {
    let is_unfinished = |tag: &Tag| {
        let folder = SessionFolder::new(repo.main_worktree(), tag);
        // The code that needs this journal reports read errors.
        let journal = Journal::read(&folder.state()).ok().flatten();
        journal.as_ref().is_some_and(Journal::is_unfinished_beside) && matches!(folder.owner(repo.git_dir()), Ok(None))
    };
    let unfinished = session_tags(repo)?.into_iter().filter(is_unfinished);
    Ok(unfinished.map(|tag| format!("session {tag} is not finished; run `ar resume {tag}` to continue it")).collect())
}

/// Names uncommitted changes, which no experiment has.
pub(crate) fn dirty_notice(changes: &Changes) -> Option<String> {
    let dirty = changes.tracked_paths();
    (!dirty.is_empty())
        .then(|| format!("experiments start from the commit, without uncommitted changes: {}", list(&dirty)))
}

/// The largest file in bytes that is read for where a package is.
const LARGEST: u64 = 1 << 20;

/// The folder of `uv`'s environment in a project, unless [`UV_ENVIRONMENT`] is set.
const VENV: &str = ".venv";

const UV_ENVIRONMENT: &str = "UV_PROJECT_ENVIRONMENT";

/// A session that is to run in linked working trees, and what it finds on this machine.
pub(crate) struct Surveyed<'a> {
    repo: &'a Repo,
    contract: &'a Contract,
    layout: &'a Layout,
    /// The root whose files are linked.
    main: &'a Path,
    /// All names of the user's working trees.
    roots: Vec<PathBuf>,
}

impl<'a> Surveyed<'a> {
    /// `layout` has links as [`plain_links`] gives them.
    pub(crate) fn new(repo: &'a Repo, contract: &'a Contract, layout: &'a Layout) -> Surveyed<'a> {
        let main = repo.main_worktree();
        let roots = names_of(&[main.to_owned(), repo.worktree().to_owned()], env::var_os("PWD").map(PathBuf::from));
        Surveyed { repo, contract, layout, main, roots }
    }

    /// Refuses what would measure the wrong code.
    pub(crate) fn refuse(&self) -> Result<(), SessionError> {
        let submodules = self.repo.objects.submodules_at(&self.contract.start)?;
        if !submodules.is_empty() {
            return Err(refuse(CannotStart, format!("slots would lack the submodules: {}", list(&submodules)))
                .hint("omit --slots, --gpus and --ahead to work in place, or make the files part of the repository")
                .into());
        }
        self.refuse_metric_file()?;
        for (what, line) in self.lines() {
            self.refuse_line(what, line)?;
        }
        // With the tree's own code first it does not matter what comes later.
        if !self.lines().all(|(_, line)| looks_in_tree(line)) {
            let path = env::var("PYTHONPATH").unwrap_or_default();
            if let Some(entry) = entries_into(&path, &self.roots).first() {
                let entry = entry.display();
                let text = format!(
                    "PYTHONPATH has {entry}, so runs would import from this working tree instead of their slot's"
                );
                return Err(refuse(CannotStart, text)
                    .hint("unset it, and write what runs need into the command: --cmd \"PYTHONPATH=src python ...\"")
                    .into());
            }
            for environment in self.environments() {
                self.refuse_editable(&environment)?;
            }
        }
        Ok(self.refuse_shared_by_uv()?)
    }

    /// Names what runs may miss in the working trees of slots.
    pub(crate) fn notice(&self) -> Result<Option<String>, SessionError> {
        let lines: Vec<&str> = self.lines().map(|(_, line)| line).collect();
        let is_no_link = |path: &PathBuf| is_own(path) || path.ends_with("__pycache__");
        let ignored: Vec<PathBuf> =
            self.repo.working_tree.ignored()?.into_iter().filter(|path| !is_no_link(path)).collect();
        let mut found = candidates(&ignored, &lines, &self.layout.links, |path| is_environment(&self.main.join(path)));
        if lines.iter().all(|line| syncs_environment(line)) {
            // Each slot gets one of its own.
            found.retain(|path| !is_environment(&self.main.join(path)));
        }
        let flags: Vec<String> = found.iter().take(5).map(|path| format!("--link {}", shell_word(path))).collect();
        Ok((!found.is_empty()).then(|| {
            format!(
                "ignored files are missing in the slots: {}; link what runs need: {}",
                list(&found),
                flags.join(" ")
            )
        }))
    }

    /// Returns whether a link leads to an environment.
    pub(crate) fn has_linked_environment(&self) -> bool {
        !self.linked_environments().is_empty()
    }

    fn lines(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let guards = self.contract.guards.iter().map(|guard| ("guard", guard.as_str()));
        std::iter::once(("command", self.contract.command.as_str())).chain(guards)
    }

    fn is_behind_link(&self, path: &Path) -> bool {
        self.layout.links.iter().any(|link| path.starts_with(link))
    }

    fn refuse_metric_file(&self) -> Result<(), UserError> {
        let MetricSource::File { path, .. } = &self.contract.metric.source else { return Ok(()) };
        let is_shared = match within(Path::new(path)) {
            Some(path) => self.is_behind_link(&path),
            None => self.layout.slots > 1,
        };
        if !is_shared {
            return Ok(());
        }
        Err(refuse(CannotStart, format!("the metric file {} would be the same one for all slots", path.display()))
            .hint("have the command write it in the working tree that it runs in, not behind a --link"))
    }

    fn refuse_line(&self, what: &str, line: &str) -> Result<(), SessionError> {
        let home = env::var("HOME").ok();
        if let Some(path) = paths_into(line, &self.roots, home.as_deref()).into_iter().next() {
            let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(&path);
            let word = shell_word(relative);
            let hint = if relative.as_os_str().is_empty() {
                "omit the path: commands run in the root of the slot's working tree".to_owned()
            } else if self.is_behind_link(relative) || self.repo.objects.is_in(&self.contract.start, relative)? {
                format!("write it relative to the repository's root, as {word}")
            } else {
                format!("write it relative to the repository's root, as {word}, and add --link {word}")
            };
            let path = path.display();
            let text = format!("the {what} names {path}, so it would use this working tree instead of its slot's");
            return Err(refuse(CannotStart, text).hint(hint).into());
        }
        let program = line
            .split_whitespace()
            .find(|word| !word.contains('='))
            .filter(|word| word.contains('/'))
            .map(PathBuf::from);
        let scripts = named_files(line).into_iter().filter(|file| file.is_script).map(|file| file.path);
        for path in program.into_iter().chain(scripts).filter_map(|path| within(&path)) {
            let is_only_here = !self.is_behind_link(&path) && fs::metadata(self.main.join(&path)).is_ok();
            if is_only_here && !self.repo.objects.is_in(&self.contract.start, &path)? {
                let ignored = self.repo.working_tree.ignored()?;
                let hint = match ignored.into_iter().find(|ignored| path.starts_with(ignored)) {
                    Some(link) => format!("add --link {}", shell_word(&link)),
                    None => format!("add --link {0}, or commit {0}", shell_word(&path)),
                };
                let path = path.display();
                let text = format!("the {what} needs {path}, which slots would lack: it is not in the commit");
                return Err(refuse(CannotStart, text).hint(hint).into());
            }
        }
        Ok(())
    }

    /// The environments behind links: a link may also lead to a folder of them.
    fn linked_environments(&self) -> Vec<PathBuf> {
        let links = self.layout.links.iter().map(|link| self.main.join(link));
        let with_children = links.flat_map(|link| {
            let children = fs::read_dir(&link).into_iter().flatten().flatten().map(|entry| entry.path());
            std::iter::once(link.clone()).chain(children.take(100)).collect::<Vec<_>>()
        });
        with_children.filter(|path| is_environment(path)).collect()
    }

    /// The environments that runs may use: those that are linked, and those that they find by variables or in `PATH`.
    fn environments(&self) -> Vec<PathBuf> {
        let mut all = self.linked_environments();
        let variable = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        all.extend(variable(UV_ENVIRONMENT));
        if self.lines().all(|(_, line)| syncs_environment(line)) {
            return all;
        }
        all.extend(["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONUSERBASE"].into_iter().filter_map(variable));
        all.extend(variable("HOME").map(|home| home.join(".local")));
        let path = env::var_os("PATH").unwrap_or_default();
        let pythons = ["python3", "python"].into_iter().filter_map(|name| {
            env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
        });
        let named = self.lines().flat_map(|(_, line)| line.split_whitespace()).map(Path::new);
        let is_python =
            |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
        let named = named.filter(|word| word.is_absolute()).filter(is_python).map(Path::to_owned);
        all.extend(pythons.chain(named).filter_map(|program| Some(program.parent()?.parent()?.to_owned())));
        let mut seen = Vec::new();
        all.retain(|path| {
            let is_new = !seen.contains(path);
            seen.push(path.clone());
            is_new
        });
        all
    }

    /// Refuses an environment with an editable install from the user's working tree: runs would import from there.
    fn refuse_editable(&self, environment: &Path) -> Result<(), UserError> {
        let linked = self.layout.links.iter().map(|link| self.main.join(link));
        let not_code: Vec<PathBuf> = linked.chain([environment.to_owned()]).collect();
        let is_code = |path: &PathBuf| !not_code.iter().any(|place| path.starts_with(place));
        for folder in packages_of(environment) {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let (name, path) = (name.to_string_lossy(), entry.path());
                let targets = if says_where(&name) {
                    let text = text_of(&path);
                    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                    lines.flat_map(|line| paths_into(line, &self.roots, None)).collect()
                } else if name.ends_with(".dist-info") {
                    let editable = editable_path(&text_of(&path.join("direct_url.json")));
                    let is_ours = |path: &PathBuf| self.roots.iter().any(|root| path.starts_with(root));
                    editable.filter(is_ours).into_iter().collect()
                } else {
                    Vec::new()
                };
                if let Some(target) = targets.into_iter().find(is_code) {
                    // Without the link, only `uv` creates an environment by itself.
                    let syncs = self.lines().any(|(_, line)| syncs_environment(line));
                    let mut links = self.layout.links.iter();
                    let link = links.find(|link| syncs && environment.starts_with(self.main.join(link)));
                    let own = |link: &PathBuf| {
                        format!("omit --link {} and let each slot make its own, or ", shell_word(link))
                    };
                    let omit = link.map(own).unwrap_or_default();
                    let (file, target) = (path.display(), target.display());
                    let text = format!("{file} makes runs import from {target} instead of their slot's working tree");
                    return Err(refuse(CannotStart, text).hint(format!(
                        "{omit}have the command find the slot's code first: --cmd \"PYTHONPATH=src python ...\""
                    )));
                }
            }
        }
        Ok(())
    }

    /// Refuses one environment of `uv` for several trees of a package: each run would install it anew, from its own tree.
    fn refuse_shared_by_uv(&self) -> Result<(), UserError> {
        let is_shared = match env::var_os(UV_ENVIRONMENT).filter(|value| !value.is_empty()) {
            Some(path) => {
                Path::new(&path).is_absolute()
                    || within(Path::new(&path)).is_some_and(|path| self.is_behind_link(&path))
            }
            None => self.is_behind_link(Path::new(VENV)),
        };
        let syncs = self.lines().any(|(_, line)| syncs_environment(line));
        let no_sync = env::var_os("UV_NO_SYNC").is_some_and(|value| !value.is_empty());
        if is_shared && syncs && !no_sync && is_package(&text_of(&self.main.join("pyproject.toml"))) {
            let text = "`uv` would install this project into the one environment of all slots, from each slot in turn";
            return Err(refuse(CannotStart, text).hint(
                "omit --link .venv and unset UV_PROJECT_ENVIRONMENT, so that each slot gets an environment, or write \
                 `uv run --no-sync`",
            ));
        }
        Ok(())
    }
}

/// Checks the links of a layout, and gives them without what a path does not need.
pub(crate) fn plain_links(repo: &Repo, contract: &Contract, links: &[PathBuf]) -> Result<Vec<PathBuf>, SessionError> {
    let main = repo.main_worktree();
    let mut plain: Vec<PathBuf> = Vec::new();
    for path in links {
        if let (true, Ok(relative)) = (path.is_absolute(), path.strip_prefix(main)) {
            let text = format!("--link takes a path relative to the repository's root, not {}", path.display());
            return Err(refuse(Usage, text).hint(format!("write --link {}", shell_word(relative))).into());
        }
        let Some(link) = within(path) else {
            return Err(SessionError::NotInWorktree { path: path.clone(), root: main.to_owned() });
        };
        if is_own(&link) || link.starts_with(".git") {
            let text = format!("cannot link {}: it belongs to git or ar", link.display());
            return Err(refuse(Usage, text).hint("omit that --link").into());
        }
        if fs::metadata(main.join(&link)).is_err() {
            return Err(SessionError::NothingToLink(link));
        }
        if repo.objects.is_in(&contract.start, &link)? {
            return Err(SessionError::LinkedAlready(link));
        }
        for folder in link.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            if main.join(folder).is_symlink() && repo.objects.is_in(&contract.start, folder)? {
                return Err(behind_link(&link, folder).into());
            }
        }
        plain.push(link);
    }
    plain.sort();
    plain.dedup();
    if let Some(pair) = plain.windows(2).find(|pair| pair[1].starts_with(&pair[0])) {
        return Err(behind_link(&pair[1], &pair[0]).into());
    }
    Ok(plain)
}

fn behind_link(path: &Path, link: &Path) -> UserError {
    let (named, link) = (path.display(), link.display());
    refuse(CannotStart, format!("cannot link {named}: {link} is a link in each slot's working tree itself"))
        .hint(format!("omit --link {}", shell_word(path)))
}

/// All names of working trees: as git has them, without links, and as the shell came there.
fn names_of(trees: &[PathBuf], pwd: Option<PathBuf>) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for tree in trees {
        let real = tree.canonicalize().unwrap_or_else(|_| tree.clone());
        let by_shell = pwd.as_ref().and_then(|pwd| {
            let below = pwd.canonicalize().ok()?;
            let below = below.strip_prefix(&real).ok()?.components().count();
            pwd.ancestors()
                .nth(below)
                .filter(|root| root.canonicalize().is_ok_and(|path| path == real))
                .map(Path::to_owned)
        });
        names.extend([tree.clone(), real].into_iter().chain(by_shell));
    }
    names.sort();
    names.dedup();
    names
}

/// Returns whether a folder is an environment with its own packages.
fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file() || folder.join("conda-meta").is_dir() || folder.ends_with("site-packages")
}

/// The folders of installed packages in an environment.
fn packages_of(environment: &Path) -> Vec<PathBuf> {
    if environment.ends_with("site-packages") {
        return vec![environment.to_owned()];
    }
    let libraries = ["lib", "lib64"].map(|name| environment.join(name));
    let versions = libraries.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let versions = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    let mut folders: Vec<PathBuf> = versions
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)))
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&read_at_most(path, LARGEST).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::domain::{Gpu, GpuChoice};

    #[test]
    fn the_gpus_of_each_slot_are_shown() {
        let gpu = |index: u32| Gpu {
            index,
            uuid: format!("GPU-{index}"),
            model: "NVIDIA H100".into(),
            memory: None,
            parent: None,
        };
        let machine: Vec<Gpu> = (0..4).map(gpu).collect();
        let plan = gpu_plan(&machine, |_| None, &GpuChoice::All, 2).unwrap();
        let layout = Layout { gpus: Some(GpuChoice::All), gpus_per_run: 2, ..Layout::of(2) };
        let lines = [
            "slots     2, 2 proposals ahead",
            "GPUs      all, 2 a run",
            "slot 0    NVIDIA H100, GPU 0 (GPU-0), GPU 1 (GPU-1)",
            "slot 1    NVIDIA H100, GPU 2 (GPU-2), GPU 3 (GPU-3)",
        ];
        assert_eq!(layout_lines(Some(&layout), &plan.slots), lines);
        assert!(layout_lines(None, &[]).is_empty());
    }

    #[test]
    fn a_working_tree_has_the_names_by_which_a_shell_came_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("disk/repo/sub")).unwrap();
        symlink(root.join("disk"), root.join("home")).unwrap();
        let tree = root.join("disk/repo");
        let names = |pwd: &str| names_of(std::slice::from_ref(&tree), Some(root.join(pwd)));
        assert_eq!(names("home/repo/sub"), [tree.clone(), root.join("home/repo")]);
        assert_eq!(names("home/repo"), [tree.clone(), root.join("home/repo")]);
        assert_eq!(names("home"), std::slice::from_ref(&tree));
        assert_eq!(names("missing"), std::slice::from_ref(&tree));
    }

    #[test]
    fn packages_are_found_in_environments_of_all_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["venv/lib/python3.12/site-packages", "venv/lib/other", "usr/lib/python3/dist-packages"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        symlink("lib", root.join("venv/lib64")).unwrap();
        let packages = root.join("venv/lib/python3.12/site-packages");
        assert_eq!(packages_of(&root.join("venv")), std::slice::from_ref(&packages));
        assert_eq!(packages_of(&packages), std::slice::from_ref(&packages));
        assert_eq!(packages_of(&root.join("usr")), [root.join("usr/lib/python3/dist-packages")]);
        assert_eq!(packages_of(&root.join("missing")), Vec::<PathBuf>::new());
        fs::write(root.join("venv/pyvenv.cfg"), "").unwrap();
        assert!(is_environment(&root.join("venv")) && is_environment(&packages) && !is_environment(&root.join("usr")));
    }
}
