//! Reads the sessions for the page, one question after another, on a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use autoresearch::domain::{Clock, ExperimentId, Tag, Which, with_causes};
use autoresearch::fs::read_at_most;
use autoresearch::git::Repo;
use autoresearch::guardian::examine_guardians;
use autoresearch::report::{
    LivePart, LiveSession, Report, Room, SessionStatus, live_course, live_experiment, live_now,
};
use autoresearch::rules::History;
use autoresearch::session::{SessionError, SessionView, StatusWatcher, choose_session};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::cli::{messages, report};

/// The most questions that wait for an answer.
const WAITING: usize = 32;

/// The time for which a look at the sessions holds, whoever else asks.
const FRESH: Duration = Duration::from_millis(900);

/// The most bytes of a report of an escalation.
const REPORT: u64 = 64 << 10;

/// What a page asks for.
pub(super) enum Ask {
    /// What happens now.
    Now,
    /// What one session found, or all that are shown.
    Course { session: Option<String> },
    /// The details of an experiment.
    Experiment { session: Option<String>, id: String },
}

type Answer = Result<String, String>;

/// Where questions are handed in.
pub(super) struct Desk {
    asks: mpsc::Sender<(Ask, oneshot::Sender<Answer>)>,
}

impl Desk {
    /// Starts to read these sessions of the repository that `dir` is in, or the one that a command without a name means.
    pub(super) fn open(dir: PathBuf, named: Vec<Tag>, clock: Clock) -> io::Result<Desk> {
        let (asks, mut asked) = mpsc::channel::<(Ask, oneshot::Sender<Answer>)>(WAITING);
        thread::Builder::new().name("sessions".into()).spawn(move || {
            let repo = Repo::discover(&dir);
            let reader = repo.as_ref().map(|repo| Reader::new(repo, named, clock));
            let mut reader = reader.map_err(|error| with_causes(error));
            while let Some((ask, answer)) = asked.blocking_recv() {
                // Who no longer waits for it needs none.
                let _ = answer.send(reader.as_mut().map_err(|why| why.clone()).and_then(|reader| reader.answer(&ask)));
            }
        })?;
        Ok(Desk { asks })
    }

    /// Answers a question with a part of the page, or a sentence; `None` if too many wait.
    pub(super) async fn ask(&self, ask: Ask) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        let gone = || Err("the sessions cannot be read any more: start `ar serve` again".to_owned());
        match self.asks.try_send((ask, answer)) {
            Ok(()) => Some(answered.await.unwrap_or_else(|_| gone())),
            Err(TrySendError::Full(_)) => None,
            Err(TrySendError::Closed(_)) => Some(gone()),
        }
    }
}

/// What decides whether a report of a session would say something else.
#[derive(Clone)]
struct Basis {
    history: Arc<History>,
    is_owned: bool,
    ended: Option<String>,
}

impl Basis {
    fn of(status: &SessionStatus) -> Basis {
        Basis { history: Arc::clone(&status.history), is_owned: status.owner.is_some(), ended: status.ended.clone() }
    }

    fn is_same(&self, other: &Basis) -> bool {
        Arc::ptr_eq(&self.history, &other.history) && self.is_owned == other.is_owned && self.ended == other.ended
    }
}

/// A session that is looked at again and again.
struct Watched<'a> {
    watcher: StatusWatcher<'a>,
    /// What was seen last, or why nothing was.
    seen: Result<Sight, String>,
    report: Option<(Basis, Report)>,
}

struct Sight {
    status: SessionStatus,
    log: Vec<String>,
    escalation: Option<String>,
}

struct Reader<'a> {
    repo: &'a Repo,
    dir: &'a Path,
    named: Vec<Tag>,
    clock: Clock,
    watched: BTreeMap<Tag, Watched<'a>>,
    /// The sessions that are shown, or why there are none.
    shown: Result<Vec<Tag>, String>,
    /// What the reports were made of when [`course`](Self::course) was counted last.
    bases: Vec<(Tag, Basis)>,
    course: u64,
    looked: Option<Instant>,
}

impl<'a> Reader<'a> {
    fn new(repo: &'a Repo, named: Vec<Tag>, clock: Clock) -> Reader<'a> {
        let shown = Ok(Vec::new());
        Reader {
            repo,
            dir: repo.worktree(),
            named,
            clock,
            watched: BTreeMap::new(),
            shown,
            bases: Vec::new(),
            course: 0,
            looked: None,
        }
    }

    fn answer(&mut self, ask: &Ask) -> Answer {
        if self.looked.is_none_or(|at| at.elapsed() >= FRESH) {
            self.look();
            self.looked = Some(Instant::now());
        }
        match ask {
            Ask::Now => Ok(self.now()),
            Ask::Course { session } => self.course(session.as_deref()),
            Ask::Experiment { session, id } => self.experiment(session.as_deref(), id),
        }
    }

    /// Looks at all sessions that are shown.
    fn look(&mut self) {
        self.shown = self.tags();
        let tags = self.shown.clone().unwrap_or_default();
        self.watched.retain(|tag, _| tags.contains(tag));
        let mut bases = Vec::new();
        for tag in tags {
            let watched = self.watched.entry(tag.clone()).or_insert_with(|| Watched {
                watcher: StatusWatcher::new(self.repo, tag.clone(), self.clock),
                seen: Err(String::new()),
                report: None,
            });
            watched.look();
            if let Ok(sight) = &watched.seen {
                bases.push((tag, Basis::of(&sight.status)));
            }
        }
        let is_same = bases.len() == self.bases.len()
            && bases.iter().zip(&self.bases).all(|((tag, one), (known, other))| tag == known && one.is_same(other));
        if !is_same {
            self.course += 1;
            self.bases = bases;
        }
    }

    fn tags(&self) -> Result<Vec<Tag>, String> {
        if !self.named.is_empty() {
            return Ok(self.named.clone());
        }
        match choose_session(self.repo, None) {
            Ok(chosen) => Ok(vec![chosen.tag]),
            Err(SessionError::NoSession { .. }) => Err("waiting for a session: `ar run` begins one".to_owned()),
            Err(error) => Err(with_causes(&error)),
        }
    }

    fn now(&self) -> String {
        let guardians = examine_guardians(self.clock);
        let none = self.dir.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let names: Vec<&str> = self.watched_in_order().map(|(tag, _)| tag.as_str()).collect();
        let mut sessions: Vec<LiveSession> = self
            .watched_in_order()
            .zip(&names)
            .map(|((_, watched), name)| LiveSession {
                name,
                found: match &watched.seen {
                    Err(why) => LivePart::Waiting(why),
                    Ok(Sight { status, log, escalation }) => {
                        LivePart::Seen { status, log, escalation: escalation.as_deref() }
                    }
                },
            })
            .collect();
        if let Err(why) = &self.shown {
            sessions.push(LiveSession { name: &none, found: LivePart::Waiting(why) });
        }
        live_now(&sessions, &guardians, self.course)
    }

    fn watched_in_order(&self) -> impl Iterator<Item = (&Tag, &Watched<'a>)> {
        self.shown.iter().flatten().filter_map(|tag| Some((tag, self.watched.get(tag)?)))
    }

    fn course(&mut self, session: Option<&str>) -> Answer {
        let tags = self.shown.clone().unwrap_or_default();
        let is_meant = |tag: &&Tag| session.is_none_or(|session| tag.as_str() == session);
        for tag in tags.iter().filter(is_meant) {
            if let Some(watched) = self.watched.get_mut(tag) {
                // One that cannot be reported hides no other.
                watched.report(self.dir, tag).or_else(|error| {
                    if session.is_none() && tags.len() > 1 { Ok(()) } else { Err(with_causes(&error)) }
                })?;
            }
        }
        let watched = tags.iter().filter(is_meant).filter_map(|tag| self.watched.get(tag));
        let reports: Vec<&Report> = watched.filter_map(|watched| Some(&watched.report.as_ref()?.1)).collect();
        let names: Vec<String> = tags.iter().map(ToString::to_string).collect();
        Ok(live_course(&reports, &names, self.clock))
    }

    fn experiment(&self, session: Option<&str>, id: &str) -> Answer {
        let tags = self.shown.clone()?;
        let tag = tags.into_iter().find(|tag| session.is_none_or(|session| tag.as_str() == session));
        let tag = tag.ok_or("this page does not show that session")?;
        let id: ExperimentId = id.parse().map_err(|_| "an experiment is named by its number")?;
        let read = || {
            let view = SessionView::open(self.dir, Some(tag.clone()))?;
            let record = view.find(&Which::Digits(id.to_string()))?.clone();
            let notes = messages::on(&view, [&record]);
            Ok(live_experiment(tag.as_str(), &report::detail(&view, &record, &notes, &mut Room::default())))
        };
        read().map_err(|error: SessionError| with_causes(&error))
    }
}

impl Watched<'_> {
    fn look(&mut self) {
        if !self.watcher.is_there() {
            self.report = None;
            self.seen = Err("waiting: no such session yet, or it is gone".to_owned());
            return;
        }
        self.seen = match self.watcher.look() {
            Err(error) => Err(with_causes(&error)),
            Ok(status) => {
                let log = status.log.as_ref().map(|log| self.watcher.last_lines(log)).unwrap_or_default();
                let escalation = status.report.as_ref().and_then(|path| read_at_most(path, REPORT).ok());
                let escalation = escalation.map(|text| String::from_utf8_lossy(&text).into_owned());
                Ok(Sight { status, log, escalation })
            }
        };
    }

    /// Makes the report anew where it would say something else.
    fn report(&mut self, dir: &Path, tag: &Tag) -> Result<(), SessionError> {
        let Ok(Sight { status, .. }) = &self.seen else { return Ok(()) };
        let basis = Basis::of(status);
        if self.report.as_ref().is_some_and(|(known, _)| known.is_same(&basis)) {
            return Ok(());
        }
        let view = SessionView::open(dir, Some(tag.clone()))?;
        // One that is only being opened has nothing to report.
        self.report = match view.report() {
            Ok(report) => Some((basis, report.with_verified(&view.history))),
            Err(SessionError::NoSession { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }
}
