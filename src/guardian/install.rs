//! Plans the steps that install or remove the guard.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strum::VariantArray;

use super::program::{guardian_folder, home};
use super::scheduler::{Scheduler, crontab, ends_at_logout, launchd_domain, launchd_domains};
use super::service::{Service, one_line};
use super::service_error::ServiceError;
use super::steps::Step;
use super::{cron, launchd, systemd, wanted};
use crate::domain::{Resident, duration_text};

/// The steps of an installation or a removal, with what the user has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// Notes on the state after these steps, a sentence each.
    pub notes: Vec<String>,
    /// The next command to type, if there is one.
    pub hint: Option<String>,
}

/// The folders that files are written to.
struct Places {
    home: Option<PathBuf>,
    config: Option<PathBuf>,
    guard: PathBuf,
}

impl Places {
    fn find() -> Result<Places, ServiceError> {
        let home = home();
        let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = config.or_else(|| home.as_ref().map(|home| home.join(".config")));
        Ok(Places { home, config, guard: guardian_folder()? })
    }
}

/// Plans the installation of the resident guard, and of a patrol at the interval `every` with these `arguments` of
/// `ar guard`. Changes nothing.
///
/// # Errors
///
/// The home folder or a scheduler is missing, or the crontab cannot be read.
pub fn plan_install(arguments: &[String], every: Duration, resident: &Resident) -> Result<Plan, ServiceError> {
    let places = Places::find()?;
    let service = Service::of(arguments, every)?;
    let scheduler = Scheduler::find()?;
    let mut steps = Vec::new();
    for other in Scheduler::VARIANTS.iter().filter(|other| **other != scheduler) {
        steps.extend(removal(*other, &places));
    }
    let mut notes = Vec::new();
    let (mut interval, mut hint) = (every, None);
    match scheduler {
        Scheduler::Systemd => {
            steps.extend(with_systemd(&service, &places)?);
            hint = ends_at_logout().then(|| {
                "run `loginctl enable-linger`, or systemd ends the guard and its loops when you log out".to_owned()
            });
        }
        Scheduler::Cron => {
            interval = cron::schedule(every).1;
            steps.extend(with_cron(&service, &places)?);
        }
        Scheduler::Launchd => steps.extend(with_launchd(&service, &places)?),
    }
    steps.push(Step::Want(resident.clone()));
    notes.push(format!(
        "a patrol comes every {}; the resident guard {}",
        duration_text(interval),
        super::resident::settings_text(resident)
    ));
    notes.push("patrols get PATH and the folders of your environment, but no keys from it".to_owned());
    notes.push("`ar guard --uninstall` removes all of this".to_owned());
    Ok(Plan { steps, notes, hint })
}

/// Plans the removal of all that an installation left, and the end of the resident guard. Changes nothing.
///
/// # Errors
///
/// There is no home folder.
pub fn plan_uninstall() -> Result<Plan, ServiceError> {
    let places = Places::find()?;
    let mut steps: Vec<Step> = Scheduler::VARIANTS.iter().flat_map(|scheduler| removal(*scheduler, &places)).collect();
    let wanted = wanted::file(&places.guard);
    let mut notes = Vec::new();
    if is_there(&wanted) {
        steps.push(Step::Remove(wanted));
        notes.push("the resident guard ends when it wakes the next time".to_owned());
    }
    if steps.is_empty() {
        notes.push("no guard is installed".to_owned());
    }
    Ok(Plan { steps, notes, hint: None })
}

/// Returns the way in which the guard is installed, as its files show.
pub(super) fn installed() -> Result<Option<&'static str>, ServiceError> {
    let places = Places::find()?;
    let found =
        Scheduler::VARIANTS.iter().find(|scheduler| files(**scheduler, &places).iter().any(|path| is_there(path)));
    Ok(found.map(|scheduler| match scheduler {
        Scheduler::Launchd => "a job of launchd",
        Scheduler::Systemd => "a timer of systemd",
        Scheduler::Cron => "a line of your crontab",
    }))
}

/// The files of the guard for one scheduler.
fn files(scheduler: Scheduler, places: &Places) -> Vec<PathBuf> {
    match scheduler {
        Scheduler::Launchd => places.home.iter().map(|home| launchd::file(home)).collect(),
        Scheduler::Systemd => {
            let units = |config: &PathBuf| {
                let folder = systemd::folder(config);
                [systemd::wants_link(config), folder.join(systemd::TIMER), folder.join(systemd::SERVICE)]
            };
            places.config.iter().flat_map(units).collect()
        }
        Scheduler::Cron => vec![places.guard.join(cron::SCRIPT)],
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Lists the steps that remove the guard from one scheduler; none if it is not installed.
fn removal(scheduler: Scheduler, places: &Places) -> Vec<Step> {
    let there: Vec<PathBuf> = files(scheduler, places).into_iter().filter(|path| is_there(path)).collect();
    let mut steps = Vec::new();
    match scheduler {
        Scheduler::Systemd if !there.is_empty() => {
            steps.push(Step::try_run(&["systemctl", "--user", "disable", "--now", systemd::TIMER]));
        }
        Scheduler::Launchd if !there.is_empty() => steps.extend(booted_out()),
        Scheduler::Cron => {
            // A user who may not have a crontab has no line in it.
            let crontab = crontab().unwrap_or_default();
            let content = cron::without_line(&crontab);
            if content != crontab {
                steps.push(Step::Crontab { content, line: None });
            }
        }
        _ => {}
    }
    let is_systemd = scheduler == Scheduler::Systemd && !there.is_empty();
    steps.extend(there.into_iter().map(Step::Remove));
    if is_systemd {
        steps.push(Step::try_run(&["systemctl", "--user", "daemon-reload"]));
    }
    steps
}

fn booted_out() -> [Step; 2] {
    launchd_domains().map(|domain| Step::try_run(&["launchctl", "bootout", &format!("{domain}/{}", launchd::LABEL)]))
}

fn with_systemd(service: &Service, places: &Places) -> Result<Vec<Step>, ServiceError> {
    let folder = systemd::folder(places.config.as_ref().ok_or(ServiceError::NoHome)?);
    Ok(vec![
        Step::Write { path: folder.join(systemd::SERVICE), content: systemd::service_unit(service) },
        Step::Write { path: folder.join(systemd::TIMER), content: systemd::timer_unit(service) },
        Step::run(&["systemctl", "--user", "daemon-reload"]),
        Step::run(&["systemctl", "--user", "enable", systemd::TIMER]),
        Step::run(&["systemctl", "--user", "restart", systemd::TIMER]),
    ])
}

fn with_cron(service: &Service, places: &Places) -> Result<Vec<Step>, ServiceError> {
    let text = |name: &str| one_line("the path of your state folder", places.guard.join(name).into_os_string());
    let line = cron::line(&text(cron::SCRIPT)?, service.every);
    let content = cron::with_line(&crontab()?, &line);
    let script = cron::script(service, &text("patrol.log")?);
    Ok(vec![
        Step::Write { path: places.guard.join(cron::SCRIPT), content: script },
        Step::Crontab { content, line: Some(line) },
    ])
}

fn with_launchd(service: &Service, places: &Places) -> Result<Vec<Step>, ServiceError> {
    let path = launchd::file(places.home.as_ref().ok_or(ServiceError::NoHome)?);
    let text = one_line("the path of your home folder", path.clone().into_os_string())?;
    let errors = one_line("the path of your state folder", places.guard.join("patrol.log").into_os_string())?;
    let mut steps = vec![Step::Write { path, content: launchd::property_list(service, &errors) }];
    // launchd opens that file itself.
    steps.extend(booted_out());
    steps.push(Step::run(&["launchctl", "bootstrap", &launchd_domain(), &text]));
    Ok(steps)
}
