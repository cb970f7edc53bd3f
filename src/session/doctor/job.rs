//! The engine of runs, and a short trial job that reports what it sees of this host's files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};

use tempfile::TempDir;
use tokio::time::sleep;

use super::facts::{Facts, finding_of};
use crate::domain::{
    Area, Asked, Cluster, ExecutorName, Finding, Layout, Sandbox, Tag, duration_text, ended_text, shell_word,
    span_text, with_causes,
};
use crate::exec::{ExecError, Executor, Exit, Job, JobFiles, Running, Ticket, find_builder, host_name};
use crate::fs::{age, make_folder, read_at_most, remove_all};
use crate::git::Repo;
use crate::session::errors::SessionError;
use crate::session::files::{exclude_own, find_session, session_of_head, stored_contract};
use crate::session::plan::layout_of;
use crate::session::store::{Interrupt, Interrupts};
use crate::state::{Journal, SESSIONS_FOLDER, SessionFolder};

/// The job's name.
const NAME: &str = "trial";

/// Time limit of the job.
const LIMIT: Duration = Duration::from_secs(90);

/// Longest time between start and visible end of the job: file systems of clusters may show files a minute late.
const PATIENCE: Duration = Duration::from_secs(240);

/// Time for the engine to end a job.
const ENDING: Duration = Duration::from_secs(30);

/// Poll interval.
const LOOK: Duration = Duration::from_millis(256);

/// The start of the names of folders for the job. None is the tag of a session.
const PREFIX: &str = ".ar-trial-";

/// The age from which on such a folder was left behind: the job may wait in a queue.
const LEFT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The largest answer of the job that is read, in bytes.
const LARGEST: u64 = 64 << 10;

/// Says what it sees, a line for each fact.
const SCRIPT: &str = r#"echo "seen=$(cat seen 2>/dev/null)"
[ -d "$AR_TRIAL_TREE" ] && echo tree=yes
echo "version=$("$AR_TRIAL_PROGRAM" --version 2>/dev/null | head -n 1)"
if [ -x "$AR_TRIAL_WALL" ]; then
    if "$AR_TRIAL_WALL" --unshare-user --dev-bind / / true 2>/dev/null; then echo wall=yes; else echo wall=no; fi
fi
echo over=yes
"#;

/// Says what executes the runs, if that is not this machine, and which jobs go on there without a supervisor.
pub(crate) fn inspect(sessions: &[Facts], asked: &Asked) -> Vec<Finding> {
    let finding = |layout: Option<&Layout>| {
        let engine = layout?.cluster.as_ref()?.engine.name();
        let what = format!("`{engine}` executes runs; `ar doctor --job` tests it with a short job");
        Some(Finding::ok(Area::Executor, what))
    };
    if sessions.is_empty() {
        return finding(asked.layout(None).as_ref()).into_iter().collect();
    }
    let of_session = |facts: &Facts| {
        let engine = facts.known_journal().and_then(|journal| finding(journal.layout.as_ref()));
        engine.into_iter().chain(unsupervised(facts)).map(|finding| finding.of(&facts.tag)).collect::<Vec<_>>()
    };
    sessions.iter().flat_map(of_session).collect()
}

/// The jobs that their engine has, but whose supervisors are gone, as after a kill of all processes of a step.
fn unsupervised(facts: &Facts) -> Vec<Finding> {
    let finding = |ticket: Ticket| {
        let (engine, id) = (ticket.cluster.engine.name(), ticket.id.unwrap_or_default());
        let who = if facts.holder.is_some() { "the loop".to_owned() } else { format!("`ar resume {}`", facts.tag) };
        let now = match engine {
            ExecutorName::Slurm => format!("; `scontrol requeue {id}` does so now"),
            _ => String::new(),
        };
        let what = format!("job {id} of `{engine}`, {}, did not end, but its supervisor is gone", ticket.token);
        let hint = format!("{who} cancels it after its time limit, and has its run started again{now}");
        Finding::warning(Area::Executor, what).hint(hint)
    };
    Executor::of_any().unsupervised(&facts.folder.runs()).map(finding).collect()
}

/// Has one short job executed by what executes the runs of the session that `tag` names, else of that of HEAD's branch, else by what
/// `asked` names for a new one, else of the session that a command without a tag means. Waits at most `wait` for its start, and first
/// tells `announce` so. `None` after an interrupt: the job is cancelled.
///
/// # Errors
///
/// The repository cannot be read.
pub async fn examine_job(
    dir: &Path,
    tag: Option<&Tag>,
    asked: &Asked,
    wait: Duration,
    interrupts: &Interrupts,
    announce: &mut dyn FnMut(&str),
) -> Result<Option<Vec<Finding>>, SessionError> {
    // Another part reports a repository that cannot be opened.
    let Ok(repo) = Repo::discover(dir) else { return Ok(Some(Vec::new())) };
    let (layout, sandbox) = match wanted(&repo, tag, asked) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(Some(vec![finding_of(Area::Executor, &error)])),
    };
    let Some(cluster) = layout.and_then(|layout| layout.cluster) else {
        let what = "runs are executed on this machine, so there is no job to test";
        let hint = "set `executor` in ar.toml before a session begins, or omit --job";
        return Ok(Some(vec![Finding::error(Area::Executor, what).hint(hint)]));
    };
    let own = repo.main_worktree().join(SESSIONS_FOLDER);
    let is_new = !own.exists();
    let found = match make_folder(&own) {
        Ok(()) => {
            exclude_own(&repo, &[])?;
            JobTrial { repo: &repo, cluster: &cluster, sandbox, wait, interrupts }.run(&own, tag, announce).await
        }
        Err(source) => Err(unable(&own, source)),
    };
    if is_new {
        // It stays if a session began meanwhile.
        let _ = fs::remove_dir(&own);
    }
    Ok(match found {
        Ok(found) => found,
        Err(error) => Some(vec![finding(&cluster, &error)]),
    })
}

/// The layout of the session that is meant, and the walls that it wants.
fn wanted(repo: &Repo, tag: Option<&Tag>, asked: &Asked) -> Result<(Option<Layout>, Sandbox), SessionError> {
    let head = || Ok::<_, SessionError>(session_of_head(&repo.refs.head()?));
    let named = tag.cloned().map_or_else(head, |tag| Ok(Some(tag)))?;
    let of_new = match named {
        None => layout_of(asked, &Asked::default(), None)?.filter(|layout| layout.cluster.is_some()),
        Some(_) => None,
    };
    let session = match &of_new {
        Some(_) => None,
        None => named.or_else(|| find_session(repo, None).ok()),
    };
    let Some(tag) = session else { return Ok((of_new, asked.sandbox.unwrap_or_default())) };
    let journal = Journal::read(&SessionFolder::new(repo.main_worktree(), &tag).state())?;
    let sandbox = stored_contract(repo, &tag)?.map_or_else(Sandbox::default, |contract| contract.sandbox);
    Ok((journal.and_then(|journal| journal.layout), sandbox))
}

fn unable(path: &Path, source: io::Error) -> ExecError {
    ExecError::File { path: path.to_owned(), source }
}

/// A job that is to say what it sees.
struct JobTrial<'a> {
    repo: &'a Repo,
    cluster: &'a Cluster,
    sandbox: Sandbox,
    wait: Duration,
    interrupts: &'a Interrupts,
}

/// Makes the folder of the job in `above`, which is removed with the result. Removes such folders that killed processes left.
fn trial_folder(above: &Path) -> io::Result<TempDir> {
    for entry in fs::read_dir(above)?.flatten() {
        let is_trial = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_left = || entry.file_type().is_ok_and(|kind| kind.is_dir()) && age(&entry.path()) >= Some(LEFT);
        if is_trial && is_left() {
            // One that cannot be removed is in nobody's way.
            let _ = remove_all(&entry.path());
        }
    }
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(above)
}

impl JobTrial<'_> {
    async fn run(
        &self,
        own: &Path,
        tag: Option<&Tag>,
        announce: &mut dyn FnMut(&str),
    ) -> Result<Option<Vec<Finding>>, ExecError> {
        let engine = self.cluster.engine.name();
        let folder = trial_folder(own).map_err(|source| unable(own, source))?;
        let folder = folder.path();
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ar"));
        let wall = find_builder(&[self.repo.main_worktree()]).ok().filter(|_| self.sandbox != Sandbox::Off);
        let nonce = folder.to_string_lossy();
        let written = folder.join("seen");
        fs::write(&written, nonce.as_bytes()).map_err(|source| unable(&written, source))?;
        let executor = Executor::for_runs(Some(self.cluster));
        let mut running = executor.start(&self.job(folder, tag, &program, wall.as_deref()))?;
        announce(&format!(
            "waiting up to {} for a job of `{engine}` to start; Ctrl-C cancels it",
            duration_text(self.wait)
        ));
        let is_interrupted = || self.interrupts.asked() != Interrupt::None;
        let (begun, mut is_started, mut stopped) = (Instant::now(), false, None::<Instant>);
        let ended = loop {
            tokio::select! {
                ended = running.wait() => break Some(ended),
                () = sleep(LOOK) => {}
            }
            executor.news().iter().for_each(|news| announce(news));
            is_started |= JobFiles::named(folder, NAME).started.is_file();
            let limit = if is_started { self.wait + PATIENCE } else { self.wait };
            match stopped {
                Some(stopped) if stopped.elapsed() >= ENDING => break None,
                Some(_) => {}
                None if begun.elapsed() >= limit || is_interrupted() => {
                    running.stop()?;
                    stopped = Some(Instant::now());
                }
                None => {}
            }
        };
        match ended {
            // It may have ended by itself just before.
            Some(Ok(exit)) if !exit.stopped => {
                Ok(Some(self.findings(&exit, folder, &nonce, (&program, wall.as_deref()))))
            }
            _ if stopped.is_some() && is_interrupted() => Ok(None),
            Some(Err(error)) if stopped.is_none() => Err(error),
            ended => Ok(Some(vec![self.unanswered(is_started, stopped.is_some(), &running, ended.is_some())])),
        }
    }

    fn job(&self, folder: &Path, tag: Option<&Tag>, program: &Path, wall: Option<&Path>) -> Job {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut env = vec![
            ("AR_EXPERIMENT", "doctor".to_owned()),
            ("AR_TRIAL_TREE", text(self.repo.main_worktree())),
            ("AR_TRIAL_PROGRAM", text(program)),
        ];
        env.extend(tag.map(|tag| ("AR_TAG", tag.to_string())));
        env.extend(wall.map(|wall| ("AR_TRIAL_WALL", text(wall))));
        Job {
            name: NAME.to_owned(),
            command: SCRIPT.to_owned(),
            cwd: folder.to_owned(),
            folder: folder.to_owned(),
            log: folder.join("trial.log"),
            env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            timeout: LIMIT,
            grace: Duration::from_secs(5),
            tied: true,
            ..Job::default()
        }
    }

    /// The finding about a job that did not start in time, or whose end was not seen.
    fn unanswered(&self, is_started: bool, is_stopped: bool, running: &Running, is_cancelled: bool) -> Finding {
        let engine = self.cluster.engine.name();
        let mut what = match (is_started, is_stopped) {
            (_, false) => format!("a job of `{engine}` was cancelled by another process"),
            (false, true) => format!("no job of `{engine}` started within {}", duration_text(self.wait)),
            (true, true) => format!("a job of `{engine}` started, but its end was not seen here"),
        };
        if !is_cancelled {
            let why = running.engine_away().map(|(_, why)| format!(": {why}")).unwrap_or_default();
            what += &format!("; `ar` could not confirm that it was cancelled{why}");
        }
        let queue = match engine {
            ExecutorName::Slurm => "see `squeue --me` and `sinfo` for what jobs wait for",
            _ => "see the queue of the engine for what jobs wait for",
        };
        let hint = match is_started {
            false => format!("{queue}, or wait longer: ar doctor --job --wait 1h"),
            true => "check that all nodes mount the same file system, and repeat the command".to_owned(),
        };
        Finding::error(Area::Executor, what).hint(hint)
    }

    /// The findings about a job that ended.
    fn findings(
        &self,
        exit: &Exit,
        folder: &Path,
        nonce: &str,
        (program, wall): (&Path, Option<&Path>),
    ) -> Vec<Finding> {
        let engine = self.cluster.engine.name();
        let host = &exit.host;
        let said = read_at_most(&folder.join("trial.log"), LARGEST).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let facts: BTreeMap<&str, &str> = said.lines().filter_map(|line| line.split_once('=')).collect();
        let fact = |name: &str| facts.get(name).copied();
        let error = |what: String, hint: String| Finding::error(Area::Executor, what).hint(hint);
        let ok = |what: String| Finding::ok(Area::Executor, what);
        let here = if *host == host_name() { ", which is this host" } else { "" };
        let queued = span_text(exit.queued.unwrap_or_default());
        let mut found = vec![ok(format!("a job of `{engine}` ran on {host}{here} after {queued} in the queue"))];
        if fact("over").is_none() {
            let ended = ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds);
            let hint =
                format!("log in to {host}, and check that `sh` works in {}", shell_word(self.repo.main_worktree()));
            found.push(error(format!("the job on {host} did not get to its end: {ended}"), hint));
            return found;
        }
        let share = "put the repository on a file system that all nodes mount at the same path".to_owned();
        if fact("seen") != Some(nonce) {
            found.push(error(
                format!("the job on {host} did not see a file that was written here before"),
                share.clone(),
            ));
        }
        if fact("tree").is_none() {
            let tree = self.repo.main_worktree();
            found.push(error(format!("the working tree {} does not exist on {host}", tree.display()), share));
        }
        let there = fact("version").unwrap_or_default();
        match version_of(program) {
            Some(here) if here != there => {
                let there = if there.is_empty() { "does not start" } else { there };
                let what = format!("{} on {host}: {there}; here: {here}", program.display());
                found.push(error(what, "install the same `ar` at the same path on all nodes".to_owned()));
            }
            _ => found.push(ok(format!("`ar` on {host} is the same version as here"))),
        }
        found.extend(wall.map(|wall| self.wall(wall, host, fact("wall"))));
        found
    }

    /// The finding about walls where the job ran.
    fn wall(&self, builder: &Path, host: &str, fact: Option<&str>) -> Finding {
        let builder = builder.display();
        match fact {
            Some("yes") => Finding::ok(Area::Executor, format!("runs on {host} can have walls")),
            Some(_) => {
                Finding::error(Area::Executor, format!("`{builder}` does not work on {host}, so runs there fail"))
                    .hint(format!("run `{builder} --unshare-user --dev-bind / / true` there, or pass --sandbox off"))
            }
            None => {
                let what = format!("`{builder}` does not exist on {host}, so runs there have no walls");
                match self.sandbox {
                    Sandbox::Require => Finding::warning(Area::Executor, what).hint("install bubblewrap on all nodes"),
                    _ => Finding::ok(Area::Executor, what),
                }
            }
        }
    }
}

/// The printed version of a program.
fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// The finding about a job that was not executed.
fn finding(cluster: &Cluster, error: &ExecError) -> Finding {
    let engine = cluster.engine.name();
    let (what, hint) = match error {
        ExecError::Lost { detail, .. } => {
            let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ar"));
            let hint =
                format!("check that all nodes have this `ar` as {}, and the repository's path", shell_word(&program));
            (format!("a job of `{engine}` {detail}"), Some(hint))
        }
        ExecError::Command { detail, .. } => {
            (format!("a job of `{engine}` could not start its command: {detail}"), None)
        }
        ExecError::Evicted { .. } => {
            (format!("`{engine}` ended the job, for a reason of its own"), Some("repeat the command".to_owned()))
        }
        error => (with_causes(error), error.hint()),
    };
    Finding { hint, ..Finding::error(Area::Executor, what) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_later_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - LEFT - Duration::from_secs(60);
        for name in [".ar-trial-old", ".ar-trial-new", "session"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "").unwrap();
            if name != ".ar-trial-new" {
                File::open(&path).unwrap().set_modified(old).unwrap();
            }
        }
        drop(trial_folder(folder.path()).unwrap());
        assert!(!folder.path().join(".ar-trial-old").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
