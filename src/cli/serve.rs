//! `ar serve`: a page that stays open. It only looks: it takes no lock and writes nothing. A request gets in by the token and a name
//! that leads here; clients that are slow, many or long-winded have limits. A thread of its own reads the sessions, one question
//! after another.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use autoresearch::domain::{Clock, ExperimentId, Tag, Which, with_causes};
use autoresearch::exec::shield_from_terminal;
use autoresearch::fs::read_at_most;
use autoresearch::git::Repo;
use autoresearch::guardian::examine_guardians;
use autoresearch::report::{
    LiveSession, PageRoom, Report, SessionSnapshot, SessionStatus, live_course, live_experiment, live_now, live_page,
    live_policy,
};
use autoresearch::rules::History;
use autoresearch::session::{SessionError, SessionView, StatusWatcher, choose_session};

use super::{CliError, ServeArgs, Signals, current_dir, error, messages, output, records, runtime, settings};

/// Serves the page until a signal ends it.
pub(super) fn run(args: ServeArgs) -> Result<ExitCode, CliError> {
    let dir = Repo::discover(&current_dir()?)?.worktree().to_owned();
    let clock = settings::clock()?;
    runtime()?.block_on(async {
        let mut signals = Signals::listen(shield_from_terminal())?;
        let listener = listen(args.bind, args.port).await?;
        let access =
            Access::new(args.bind).map_err(|error| CliError::new(format!("cannot make a token: {error}"), None))?;
        let port = listener.local_addr().map_err(|error| CliError::new(error, None))?.port();
        let sessions = args.sessions.into_iter().chain(args.tag).collect();
        let reader = ReaderThread::open(dir, sessions, clock).map_err(|error| CliError::new(error, None))?;
        output::line(&access.url(port));
        if !args.bind.is_loopback() {
            output::note("note: the page is not encrypted; anyone on the way can read it, and its token");
        }
        tokio::select! {
            () = serve(listener, access, reader) => {}
            () = signals.next() => {}
        }
        Ok(ExitCode::from(error::INTERRUPTED))
    })
}

async fn listen(address: IpAddr, port: u16) -> Result<TcpListener, CliError> {
    let at = SocketAddr::new(address, port);
    TcpListener::bind(at).await.map_err(|error| {
        CliError::new(format!("cannot listen at {at}: {error}"), Some("pass --port 0 for a free port".into()))
    })
}

/// The most questions that wait for an answer.
const WAITING: usize = 32;

/// The time for which a look at the sessions holds, whoever else asks.
const FRESH: Duration = Duration::from_millis(900);

/// The most bytes of a report of an escalation.
const REPORT: u64 = 64 << 10;

/// A page's question.
pub(super) enum Ask {
    /// The current activity.
    Now,
    /// The findings of one session, or of all that are shown.
    Course { session: Option<String> },
    /// The details of an experiment.
    Experiment { session: Option<String>, id: String },
}

type Answer = Result<String, String>;

/// The sender of questions to the thread that reads sessions.
pub(super) struct ReaderThread {
    asks: mpsc::Sender<(Ask, oneshot::Sender<Answer>)>,
}

impl ReaderThread {
    /// Starts to read these sessions of the repository that `dir` is in, or the one that a command without a name means.
    pub(super) fn open(dir: PathBuf, named: Vec<Tag>, clock: Clock) -> io::Result<ReaderThread> {
        let (asks, mut asked) = mpsc::channel::<(Ask, oneshot::Sender<Answer>)>(WAITING);
        thread::Builder::new().name("sessions".into()).spawn(move || {
            let repo = Repo::discover(&dir);
            let reader = repo.as_ref().map(|repo| Reader::new(repo, named, clock));
            let mut reader = reader.map_err(|error| with_causes(error));
            while let Some((ask, answer)) = asked.blocking_recv() {
                // The requester may no longer wait.
                let _ = answer.send(reader.as_mut().map_err(|why| why.clone()).and_then(|reader| reader.answer(&ask)));
            }
        })?;
        Ok(ReaderThread { asks })
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

/// The key of a report: equal keys mean an equal report.
#[derive(Clone)]
struct ReportKey {
    history: Arc<History>,
    is_owned: bool,
    ended: Option<String>,
}

impl ReportKey {
    fn of(status: &SessionStatus) -> ReportKey {
        ReportKey {
            history: Arc::clone(&status.history),
            is_owned: status.owner.is_some(),
            ended: status.ended.clone(),
        }
    }

    fn is_same(&self, other: &ReportKey) -> bool {
        Arc::ptr_eq(&self.history, &other.history) && self.is_owned == other.is_owned && self.ended == other.ended
    }
}

/// A session that is looked at again and again.
struct WatchedSession<'a> {
    watcher: StatusWatcher<'a>,
    /// The last snapshot, or the reason for none.
    seen: Result<SessionSnapshot, String>,
    report: Option<(ReportKey, Report)>,
}

struct Reader<'a> {
    repo: &'a Repo,
    dir: &'a Path,
    named: Vec<Tag>,
    clock: Clock,
    watched: BTreeMap<Tag, WatchedSession<'a>>,
    /// The sessions that are shown, or why there are none.
    shown: Result<Vec<Tag>, String>,
    /// The keys of the reports when [`course`](Self::course) was last counted.
    report_keys: Vec<(Tag, ReportKey)>,
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
            report_keys: Vec::new(),
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
        let mut report_keys = Vec::new();
        for tag in tags {
            let watched = self.watched.entry(tag.clone()).or_insert_with(|| WatchedSession {
                watcher: StatusWatcher::new(self.repo, tag.clone(), self.clock),
                seen: Err(String::new()),
                report: None,
            });
            watched.look();
            if let Ok(snapshot) = &watched.seen {
                report_keys.push((tag, ReportKey::of(&snapshot.status)));
            }
        }
        let is_same = report_keys.len() == self.report_keys.len()
            && report_keys
                .iter()
                .zip(&self.report_keys)
                .all(|((tag, one), (known, other))| tag == known && one.is_same(other));
        if !is_same {
            self.course += 1;
            self.report_keys = report_keys;
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
            .map(|((_, watched), name)| LiveSession { name, found: watched.seen.as_ref().map_err(String::as_str) })
            .collect();
        if let Err(why) = &self.shown {
            sessions.push(LiveSession { name: &none, found: Err(why) });
        }
        live_now(&sessions, &guardians, self.course)
    }

    fn watched_in_order(&self) -> impl Iterator<Item = (&Tag, &WatchedSession<'a>)> {
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
            Ok(live_experiment(tag.as_str(), &records::detail(&view, &record, &notes, &mut PageRoom::default())))
        };
        read().map_err(|error: SessionError| with_causes(&error))
    }
}

impl WatchedSession<'_> {
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
                Ok(SessionSnapshot { status, log, escalation })
            }
        };
    }

    /// Makes the report anew where it would say something else.
    fn report(&mut self, dir: &Path, tag: &Tag) -> Result<(), SessionError> {
        let Ok(SessionSnapshot { status, .. }) = &self.seen else { return Ok(()) };
        let key = ReportKey::of(status);
        if self.report.as_ref().is_some_and(|(known, _)| known.is_same(&key)) {
            return Ok(());
        }
        let view = SessionView::open(dir, Some(tag.clone()))?.for_person()?;
        // One that is only being opened has nothing to report.
        self.report = match view.report() {
            Ok(report) => Some((key, report.with_verified(&view.history))),
            Err(SessionError::NoSession { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }
}

/// The number of random bytes in a token.
const TOKEN: usize = 24;

/// The check that lets requests in.
#[derive(Debug)]
pub(super) struct Access {
    token: String,
    bound: IpAddr,
}

impl Access {
    /// Makes a new token for a server at this address.
    pub(super) fn new(bound: IpAddr) -> Result<Access, getrandom::Error> {
        let mut bytes = [0; TOKEN];
        getrandom::fill(&mut bytes)?;
        Ok(Access { token: bytes.iter().map(|byte| format!("{byte:02x}")).collect(), bound })
    }

    /// The address to open. A server at all addresses is named by the one of this machine itself.
    pub(super) fn url(&self, port: u16) -> String {
        let host = match self.bound {
            address if address.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(address) => format!("[{address}]"),
            IpAddr::V4(address) => address.to_string(),
        };
        format!("http://{host}:{port}/?token={}", self.token)
    }

    /// Refuses a request with a status and a sentence, or lets it in.
    pub(super) fn refuse(&self, method: &Method, hosts: &[&str], query: &str) -> Option<(StatusCode, &'static str)> {
        // A page of elsewhere can have its own name lead here, but it cannot have that name be one of these.
        if hosts.is_empty() || !hosts.iter().all(|host| self.is_own_name(host)) {
            return Some((StatusCode::FORBIDDEN, "open this page by localhost or by the address that it listens at\n"));
        }
        let given = parameter(query, "token").unwrap_or_default();
        if !is_same(given.as_bytes(), self.token.as_bytes()) {
            return Some((StatusCode::FORBIDDEN, "open the address that `ar serve` printed, with its token\n"));
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "this page only reads: GET and HEAD\n"));
        }
        None
    }

    /// Returns whether a name leads here without a name server. The port may be that of another end of a tunnel.
    fn is_own_name(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) => address.is_loopback() || address == self.bound || self.bound.is_unspecified(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// The value of a parameter of a query; the first of several.
fn parameter(query: &str, name: &str) -> Option<String> {
    let (_, value) = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// Compares two texts in a time that says nothing about where they differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len() && given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// The most connections at once. One more closes the oldest that has not shown the token; without such a one, it is closed.
const CONNECTIONS: usize = 64;

/// The time for the head of a request, and for a whole connection, which has one request: a large page over a slow line.
const HEAD_TIME: Duration = Duration::from_secs(10);

const TIME: Duration = Duration::from_secs(120);

/// The most bytes of the head of a request, and of its headers.
const HEAD: usize = 16 << 10;

const HEADERS: usize = 64;

/// The pause after the system could give no connection.
const PAUSE: Duration = Duration::from_millis(200);

/// The state that all connections share.
struct PageServer {
    access: Access,
    reader: ReaderThread,
    page: String,
    policy: HeaderValue,
    /// The connections that have not shown the token, oldest first; each is notified where it is to close.
    strangers: Mutex<VecDeque<Arc<Notify>>>,
}

/// Answers requests for ever.
pub(super) async fn serve(listener: TcpListener, access: Access, reader: ReaderThread) {
    let policy = HeaderValue::try_from(live_policy()).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let server = Arc::new(PageServer { access, reader, page: live_page(), policy, strangers: Mutex::default() });
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        if room.available_permits() == 0 {
            let oldest = server.strangers().pop_front();
            let Some(oldest) = oldest else { continue };
            oldest.notify_one();
        }
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { continue };
        let (server, stranger) = (Arc::clone(&server), Arc::new(Notify::new()));
        server.strangers().push_back(Arc::clone(&stranger));
        tokio::spawn(async move {
            let answer = service_fn(|request| server.answer(request, &stranger));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .keep_alive(false)
                .max_buf_size(HEAD)
                .max_headers(HEADERS)
                .serve_connection(TokioIo::new(stream), answer);
            tokio::select! {
                // Errors of a client are its own.
                _ = timeout(TIME, connection) => {}
                () = stranger.notified() => {}
            }
            server.forget_stranger(&stranger);
            drop(place);
        });
    }
}

impl PageServer {
    fn strangers(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a connection has shown the token, or is over.
    fn forget_stranger(&self, known: &Arc<Notify>) {
        self.strangers().retain(|stranger| !Arc::ptr_eq(stranger, known));
    }

    async fn answer(&self, request: Request<Incoming>, stranger: &Arc<Notify>) -> Result<Response<String>, Infallible> {
        let (status, body) = match self.refuse(&request) {
            Some((status, why)) => (status, why.to_owned()),
            None => {
                self.forget_stranger(stranger);
                self.found(&request).await
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let is_page = status == StatusCode::OK;
        if is_page {
            let tag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(response.body())[..15]));
            if request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response.body_mut().clear();
            }
            if let Ok(tag) = HeaderValue::try_from(tag) {
                response.headers_mut().insert(header::ETAG, tag);
            }
        }
        self.dress(response.headers_mut(), is_page);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        Ok(response)
    }

    fn refuse(&self, request: &Request<Incoming>) -> Option<(StatusCode, &'static str)> {
        let named = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let hosts: Vec<&str> = named.chain(request.uri().authority().map(|authority| authority.as_str())).collect();
        let query = request.uri().query().unwrap_or_default();
        self.access.refuse(request.method(), &hosts, query)
    }

    async fn found(&self, request: &Request<Incoming>) -> (StatusCode, String) {
        let query = request.uri().query().unwrap_or_default();
        let session = parameter(query, "session");
        let ask = match request.uri().path() {
            "/" => return (StatusCode::OK, self.page.clone()),
            "/now" => Ask::Now,
            "/course" => Ask::Course { session },
            "/experiment" => Ask::Experiment { session, id: parameter(query, "id").unwrap_or_default() },
            _ => return (StatusCode::NOT_FOUND, "nothing is here\n".to_owned()),
        };
        match self.reader.ask(ask).await {
            Some(Ok(body)) => (StatusCode::OK, body),
            Some(Err(why)) => (StatusCode::NOT_FOUND, why + "\n"),
            None => (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n".to_owned()),
        }
    }

    /// Adds the headers that every answer has.
    fn dress(&self, headers: &mut HeaderMap, is_page: bool) {
        let kind = if is_page { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
        for (name, value) in [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(bound: &str) -> Access {
        Access { token: "abc123".into(), bound: bound.parse().unwrap() }
    }

    fn status(access: &Access, method: &Method, hosts: &[&str], query: &str) -> u16 {
        access.refuse(method, hosts, query).map_or(200, |(status, _)| status.as_u16())
    }

    #[test]
    fn the_token_opens_and_nothing_like_it() {
        let access = access("127.0.0.1");
        let status = |query| status(&access, &Method::GET, &["127.0.0.1:8765"], query);
        assert_eq!(status("token=abc123"), 200);
        assert_eq!(status("session=t&token=abc12%33"), 200);
        for query in ["", "token=", "token=abc124", "token=abc12", "token=abc1234", "Token=abc123", "token=ABC123"] {
            assert_eq!(status(query), 403, "{query}");
        }
    }

    #[test]
    fn only_names_that_need_no_name_server_lead_here() {
        let at = |bound, host: &str| status(&access(bound), &Method::GET, &[host], "token=abc123");
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:80", "127.8.8.8"] {
            assert_eq!(at("127.0.0.1", host), 200, "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:8765", "10.0.0.7:8765", "", "a@localhost", "127.0.0.1.nip.io"]
        {
            assert_eq!(at("127.0.0.1", host), 403, "{host}");
        }
        assert_eq!(
            [at("10.0.0.7", "10.0.0.7:8765"), at("10.0.0.7", "10.0.0.8"), at("10.0.0.7", "localhost")],
            [200, 403, 200]
        );
        assert_eq!([at("0.0.0.0", "10.0.0.7:8765"), at("0.0.0.0", "box")], [200, 403]);
        let two = ["localhost", "evil.example"];
        assert_eq!(status(&access("127.0.0.1"), &Method::GET, &two, "token=abc123"), 403);
        assert_eq!(status(&access("127.0.0.1"), &Method::GET, &[], "token=abc123"), 403);
    }

    #[test]
    fn only_reading_is_allowed_and_tokens_are_long_and_new() {
        let access = access("127.0.0.1");
        for (method, expected) in [(Method::HEAD, 200), (Method::POST, 405), (Method::PUT, 405), (Method::OPTIONS, 405)]
        {
            assert_eq!(status(&access, &method, &["localhost"], "token=abc123"), expected);
            assert_eq!(status(&access, &method, &["localhost"], ""), 403, "without a token nothing else is answered");
        }
        let new = || Access::new("::1".parse().unwrap()).unwrap();
        assert!(new().token.len() >= 32 && new().token != new().token);
        assert!(new().url(7).starts_with("http://[::1]:7/?token="));
    }
}
