//! The receivers of events: the observer, the event logs, and the command of `--on-event`, which runs beside the loop and
//! cannot disturb it.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::domain::{Alert, AlertKind, Clock, Contract, Event, Notice, USER, duration_text, exact_time, with_causes};
use crate::exec::{Executor, Exit, Job};
use crate::fs::{move_irregular_away, write_atomic};
use crate::rules::{History, alerts};
use crate::session::errors::SessionError;
use crate::session::files::{folder_with_space, has_space};
use crate::session::store::{Interrupt, Interrupts, Listener, Store};
use crate::state::{EventLog, Level};

/// A callback that receives the loop's events.
pub type Observer<'a> = Box<dyn FnMut(&Event) + 'a>;

/// All receivers of events. Only this type sends events to them.
pub(crate) struct Events<'a> {
    observer: Observer<'a>,
    pub(crate) log: EventLog,
    hooks: Hooks,
    /// The strongest interrupt that was told.
    pub(crate) told: Interrupt,
}

impl<'a> Events<'a> {
    /// Tells `observer`, and writes to `log`.
    pub(crate) fn new(observer: Observer<'a>, log: EventLog) -> Self {
        Events { observer, log, hooks: Hooks::default(), told: Interrupt::None }
    }

    /// Tells what happened in the session of `store`, whose folder must be whole.
    pub(crate) fn emit(&mut self, event: &Event, store: &Store) -> Result<(), SessionError> {
        let told = self.publish(event, store);
        self.hooks.alert(event, &store.into());
        self.publish_hook_trouble(store);
        told
    }

    fn publish(&mut self, event: &Event, store: &Store) -> Result<(), SessionError> {
        (self.observer)(event);
        let (level, decision) = match event {
            Event::RunProgress { .. } => return Ok(()),
            Event::ChangesSaved { .. }
            | Event::EnvironmentChanged { .. }
            | Event::Notice(
                Notice::BaselineTainted { .. }
                | Notice::BestDiffers { .. }
                | Notice::BestFails { .. }
                | Notice::Drifts { .. },
            ) => (Level::Warn, false),
            Event::Outage { .. } | Event::Escalated { .. } => (Level::Warn, true),
            Event::ExperimentFinished { .. }
            | Event::CalledAgain { .. }
            | Event::Directed { .. }
            | Event::Flagged { .. }
            | Event::OutageOver { .. }
            | Event::EscalationOver { .. }
            | Event::Sleep { .. }
            | Event::Told { .. }
            | Event::SessionStopped { .. } => (Level::Info, true),
            _ => (Level::Info, false),
        };
        let now = store.now();
        let detail = event_detail(event);
        self.log.work(now, level, event.into(), &detail)?;
        if decision {
            let source = if matches!(event, Event::Told { .. }) { USER } else { "rules" };
            self.log.decision(now, source, event.into(), &detail)?;
        }
        Ok(())
    }

    /// Waits until the command of `--on-event` was told of all that happened. A signal ends each of its waits.
    pub(crate) async fn finish_alerts(&mut self, interrupts: &Interrupts, clock: Clock) {
        self.hooks.finish(interrupts.listen(), clock).await;
    }

    /// Returns whether a problem with the command of `--on-event` is not yet logged.
    pub(crate) fn has_hook_trouble(&self) -> bool {
        self.hooks.has_trouble()
    }

    /// Logs problems with the command of `--on-event`. Ignores errors: a lost alert, or a lost line about it, does no harm.
    pub(crate) fn publish_hook_trouble(&mut self, store: &Store) {
        if let Some(event) = self.hooks.note_trouble(&self.log) {
            let _ = self.publish(&event, store);
        }
    }
}

/// An event for the logs: without its name, and a record cut down to what a line of a log is read for.
pub(crate) fn event_detail(event: &Event) -> Value {
    if let Event::ExperimentFinished { record, doubt, .. } = event {
        return json!({
            "experiment": record.id,
            "commit": record.commit,
            "outcome": record.outcome,
            "value": record.metric.value,
            "failure": record.failure.as_ref().map(|failure| failure.class),
            "reason": record.reason,
            "doubt": doubt,
        });
    }
    let mut value = json!(event);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("event");
    }
    value
}

/// Name of the job.
const HOOK: &str = "hook";

/// Time limit for one call, until its last process ends. It is long enough for a message over a slow network.
const LIMIT: Duration = Duration::from_secs(30);

/// The part of `LIMIT` between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// Time limit for all waits for the command when a loop ends.
const END: Duration = Duration::from_secs(10);

/// The part of `END` reserved for the last alert, which says that the loop ended.
const LAST: Duration = Duration::from_secs(5);

/// Maximum number of queued alerts: more than the fastest experiments cause during one call.
const QUEUE: usize = 32;

/// Limit on the output of one call, in bytes.
const OUTPUT: u64 = 64 * 1024;

/// Size in bytes from which the output file of all calls is started again.
const OUTPUTS: u64 = 1024 * 1024;

/// The alerts to the command of `--on-event`, and their delivery.
#[derive(Default)]
pub(crate) struct Hooks {
    queue: Option<Sender<Alert>>,
    courier: Option<JoinHandle<()>>,
    /// The last alert, which is sent even if earlier ones hang.
    last: Option<(Courier, Alert)>,
    /// Problems with the command, for the event log. Only the session writes to that log: it attributes other writes to an
    /// agent or a run.
    trouble: Trouble,
    /// Set once this invocation has reported that the command fails.
    is_told: bool,
}

/// Problems, each with its time.
type Trouble = Arc<Mutex<Vec<(Timestamp, Value)>>>;

/// A task that calls the command for one alert after another.
#[derive(Clone)]
struct Courier {
    command: String,
    /// The working tree. The command gets its path but runs elsewhere: files that it left there would count as the agent's.
    root: PathBuf,
    logs: PathBuf,
    trouble: Trouble,
    clock: Clock,
}

/// The session that alerts are of.
pub(crate) struct Alerted<'a> {
    pub(crate) contract: &'a Contract,
    pub(crate) history: &'a History,
    /// Its working tree.
    pub(crate) root: &'a Path,
    pub(crate) logs: PathBuf,
    pub(crate) clock: Clock,
}

impl<'a> From<&'a Store> for Alerted<'a> {
    fn from(store: &'a Store) -> Self {
        let Store { contract, history, repo, folder, clock, .. } = store;
        Alerted { contract, history, root: repo.worktree(), logs: folder.logs(), clock: *clock }
    }
}

impl Hooks {
    /// Tells the command of `--on-event` of an event, if there is one and it is of that kind. It does not wait.
    pub(crate) fn alert(&mut self, event: &Event, of: &Alerted<'_>) {
        let Some(command) = &of.contract.on_event else { return };
        for alert in alerts(event, of.contract, of.history, &Zoned::now()) {
            let courier = || Courier {
                command: command.clone(),
                root: of.root.to_owned(),
                logs: of.logs.clone(),
                trouble: self.trouble.clone(),
                clock: of.clock,
            };
            let kind = alert.event;
            if kind == AlertKind::Stopped {
                self.last = Some((courier(), alert));
                continue;
            }
            let queue = self.queue.get_or_insert_with(|| {
                let (queue, alerts) = mpsc::channel(QUEUE);
                self.courier = Some(tokio::spawn(courier().deliver(alerts)));
                queue
            });
            if queue.try_send(alert).is_err() {
                courier().warn(kind, &format!("skipped: {QUEUE} others are waiting"));
            }
        }
    }

    /// Waits until the command has received all alerts, 10 s at most. A call that hangs is terminated for the last alert, and
    /// alerts queued behind it are lost. A signal ends each of the two waits.
    pub(crate) async fn finish(&mut self, mut listener: Listener, clock: Clock) {
        drop(self.queue.take());
        let (courier, last) = (self.courier.take(), self.last.take());
        let end = Instant::now() + END;
        let mut is_done = true;
        if let Some(mut courier) = courier {
            is_done = tokio::select! {
                _ = &mut courier => true,
                () = sleep_until(end - LAST) => false,
                () = listener.signal() => false,
            };
            // Its job is tied to it.
            courier.abort();
        }
        if let Some((courier, alert)) = last {
            let told = async {
                Executor::local().end_left_over(&courier.folder(), HOOK).await;
                courier.call(&alert, end.saturating_duration_since(Instant::now()).saturating_sub(GRACE)).await
            };
            is_done &= tokio::select! {
                told = told => {
                    told.unwrap_or_else(|detail| courier.warn(alert.event, &detail));
                    true
                }
                () = sleep_until(end) => false,
                () = listener.signal() => false,
            };
        }
        if !is_done {
            let detail = json!({"detail": "stopped waiting for the command of --on-event"});
            note(&self.trouble, clock.now(), detail);
        }
    }

    /// Returns whether a problem is not yet logged.
    pub(crate) fn has_trouble(&self) -> bool {
        self.trouble.lock().is_ok_and(|lines| !lines.is_empty())
    }

    /// Logs the problems with the command. Returns an event about them the first time.
    pub(crate) fn note_trouble(&mut self, log: &EventLog) -> Option<Event> {
        let lines = self.trouble.lock().map(|mut lines| std::mem::take(&mut *lines)).unwrap_or_default();
        for (ts, detail) in &lines {
            let _ = log.work(*ts, Level::Warn, HOOK, detail);
        }
        let is_new = !lines.is_empty() && !std::mem::replace(&mut self.is_told, true);
        is_new.then(|| Notice::HooksFail.into())
    }
}

impl Courier {
    async fn deliver(self, mut alerts: Receiver<Alert>) {
        // A command started by a killed `ar` may still be running.
        Executor::local().end_left_over(&self.folder(), HOOK).await;
        while let Some(alert) = alerts.recv().await {
            if let Err(detail) = self.call(&alert, LIMIT).await {
                self.warn(alert.event, &detail);
            }
        }
    }

    fn folder(&self) -> PathBuf {
        self.logs.join("on-event")
    }

    /// Calls the command and waits until all of it is gone, `limit` at most; why it came to nothing, if it did.
    async fn call(&self, alert: &Alert, limit: Duration) -> Result<(), String> {
        let elsewhere = if has_space(&self.logs) { None } else { folder_with_space() };
        let Some(elsewhere) = elsewhere else {
            return self.call_in(self.folder(), self.logs.join("on-event.log"), alert, limit).await;
        };
        let own = tempfile::Builder::new().prefix("ar-on-event-").tempdir_in(elsewhere);
        let own = own.map_err(|error| error.to_string())?;
        self.call_in(own.path().join("on-event"), own.path().join("on-event.log"), alert, limit).await
    }

    /// Does the same with the files of the call in `folder`.
    async fn call_in(&self, folder: PathBuf, log: PathBuf, alert: &Alert, limit: Duration) -> Result<(), String> {
        let event = folder.join("event.json");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let line = serde_json::to_string(alert).map_err(|error| error.to_string())?;
        write_atomic(&event, format!("{line}\n").as_bytes()).map_err(|error| with_causes(&error))?;
        self.head(&log, alert).map_err(|error| error.to_string())?;
        // Alerts leave from this machine, wherever runs take place.
        let job = Executor::local().start(&Job {
            name: HOOK.into(),
            command: self.command.clone(),
            cwd: folder.clone(),
            folder,
            log,
            log_limit: Some(OUTPUT),
            stdin: Some(event),
            env: vec![
                ("AR_EVENT".into(), <&str>::from(alert.event).into()),
                ("AR_TAG".into(), alert.tag.clone()),
                ("AR_ROOT".into(), self.root.to_string_lossy().into_owned()),
            ],
            timeout: limit.saturating_sub(GRACE),
            grace: GRACE,
            tied: true,
            ..Job::default()
        });
        let exit = job.map_err(|error| with_causes(&error))?.wait().await.map_err(|error| with_causes(&error))?;
        match exit {
            Exit { timed_out: true, .. } => {
                Err(format!("not done after {}", duration_text(limit.saturating_sub(GRACE))))
            }
            Exit { exit: Some(0), .. } => Ok(()),
            Exit { exit: Some(status), .. } => Err(format!("exit {status}")),
            _ => Err("ended by a signal".into()),
        }
    }

    /// Begins the part of a call in the file of their output.
    fn head(&self, log: &Path, alert: &Alert) -> std::io::Result<()> {
        if fs::metadata(log).is_ok_and(|meta| meta.len() > OUTPUTS) {
            fs::remove_file(log)?;
        }
        // Opening a FIFO for writing blocks until a process reads from it.
        move_irregular_away(log)?;
        let mut file = File::options().create(true).append(true).open(log)?;
        writeln!(file, "{} {}", exact_time(self.clock.now()), alert.text)
    }

    fn warn(&self, kind: AlertKind, detail: &str) {
        note(&self.trouble, self.clock.now(), json!({"of": kind, "detail": detail}));
    }
}

fn note(trouble: &Trouble, ts: Timestamp, detail: Value) {
    if let Ok(mut lines) = trouble.lock() {
        lines.push((ts, detail));
    }
}
