//! `ar status`, once or as a screen that follows, which takes no lock and writes nothing; and `ar stop`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{env, io, mem, thread};

use anstream::{AutoStream, ColorChoice};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, disable_raw_mode, size};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Text;
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use autoresearch::domain::{
    Clock, ExperimentId, GpuLoad, StopWhen, Tag, experiment_name, experiment_names, list, with_causes,
};
use autoresearch::exec::GpuMonitor;
use autoresearch::git::Repo;
use autoresearch::guardian::{register_folder, registered_sessions};
use autoresearch::report::{
    Format, Report, Scene, Screen, Scroll, SessionStatus, draw, fit, render_all_status, render_status,
};
use autoresearch::session::{
    Interrupt, Session, SessionError, StatusWatcher, Stopped, StoppingBeside, Tried, TryError, ask_to_stop,
    end_run_only, inspect_all, inspect_sessions, note_stopped,
};
use autoresearch::state::SessionFolder;

use super::taking::ending;
use super::{
    CliError, Signals, StatusArgs, StopArgs, current_dir, error, interruptible, no_runtime, output, resolve_session,
    runtime, settings,
};

/// Prints what is happening to a session, or to each of them.
pub(super) fn status(args: StatusArgs) -> Result<ExitCode, CliError> {
    if args.all {
        return if args.watch { watch_all_sessions() } else { all(args.format) };
    }
    let tag = args.session.or(args.tag);
    if args.watch {
        return watch_session(tag);
    }
    let sessions = inspect_sessions(&current_dir()?, tag, settings::clock()?)?;
    let _pager = output::paged();
    output::text(&render_status(&sessions, args.format, output::width()));
    error::leave(sessions);
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each session of this user on this machine.
fn all(format: Format) -> Result<ExitCode, CliError> {
    let user = register_folder()?;
    let (sessions, troubles) = inspect_all(registered_sessions(&user)?, settings::clock()?);
    for trouble in troubles {
        output::note(&trouble);
    }
    let _pager = output::paged();
    match (sessions.is_empty(), format) {
        (true, Format::Table) => output::line("no sessions"),
        _ => output::text(&render_all_status(&sessions, format, output::width())),
    }
    error::leave(sessions);
    Ok(ExitCode::SUCCESS)
}

/// Poll interval of the session.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time to wait for a key before checking whether to quit.
const PATIENCE: Duration = Duration::from_millis(200);

/// Time limit for a terminal to accept the last write.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// The size of a terminal that does not report one.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// A view that fills the terminal.
pub(super) trait FullScreen {
    /// Reads it again.
    fn look(&mut self);
    /// Scrolls by so many rows; a screen has `page` of them.
    fn scroll(&mut self, rows: isize, page: usize);
    /// Draws it.
    fn screen(&mut self, width: u16, height: u16) -> Screen;
}

/// Shows a session until a key or a signal ends it.
fn watch_session(tag: Option<Tag>) -> Result<ExitCode, CliError> {
    refuse_no_terminal()?;
    let repo = Repo::discover(&current_dir()?)?;
    let tag = resolve_session::find(&repo, tag)?;
    let clock = settings::clock()?;
    let dir = repo.worktree().to_owned();
    show(move |ended| watch(View::new(&Repo::discover(&dir).map_err(io::Error::other)?, tag, clock), ended))
}

/// Shows all sessions of this user on this machine.
fn watch_all_sessions() -> Result<ExitCode, CliError> {
    refuse_no_terminal()?;
    let (user, clock) = (register_folder()?, settings::clock()?);
    let view = AllView { user, clock, sessions: Vec::new(), troubles: Vec::new(), above: 0 };
    show(move |ended| watch(view, ended))
}

fn refused(why: &str) -> CliError {
    CliError::new(why, Some("run `ar status` to print it once".into()))
}

fn refuse_no_terminal() -> Result<(), CliError> {
    if !output::is_interactive() {
        return Err(refused("--watch needs a terminal"));
    }
    if env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(refused("--watch needs a terminal that can be drawn on, and TERM is dumb"));
    }
    Ok(())
}

/// Runs `watch` on a thread of its own until it is over, or a signal ends it.
fn show(watch: impl FnOnce(&AtomicBool) -> io::Result<()> + Send + 'static) -> Result<ExitCode, CliError> {
    runtime()?.block_on(async {
        let (mut signals, mut hangup) = (Signals::listen(false)?, signal(SignalKind::hangup()).map_err(no_runtime)?);
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        // A write to a terminal can block for ever.
        let watch = thread::spawn(move || watch(&seen));
        tokio::select! {
            () = over(&watch) => {}
            () = signals.next() => ended.store(true, Ordering::Relaxed),
            _ = hangup.recv() => ended.store(true, Ordering::Relaxed),
        }
        if timeout(LAST_WRITE, over(&watch)).await.is_err() {
            // This at least needs no write.
            let _ = disable_raw_mode();
            return Ok(ExitCode::from(error::INTERRUPTED));
        }
        let watched = watch.join();
        // A write to a terminal that was closed may fail before its signal is heard.
        let is_closed = matches!(watched, Ok(Err(_))) && timeout(LAST_WRITE, hangup.recv()).await.is_ok();
        match watched {
            Ok(_) if is_closed || ended.load(Ordering::Relaxed) => Ok(ExitCode::from(error::INTERRUPTED)),
            Ok(Ok(())) => Ok(ExitCode::SUCCESS),
            Ok(Err(error)) => Err(CliError::new(error, Some("run `ar status` to print it once".into()))),
            // The panic was printed.
            Err(_) => Ok(ExitCode::from(error::CANNOT_START)),
        }
    })
}

async fn over(thread: &JoinHandle<io::Result<()>>) {
    while !thread.is_finished() {
        sleep(Duration::from_millis(20)).await;
    }
}

fn watch(shown: impl FullScreen, ended: &AtomicBool) -> io::Result<()> {
    let mut terminal = ratatui::try_init_with_options(TerminalOptions { viewport: Viewport::Fixed(area()) })?;
    let entered = execute!(io::stdout(), EnterAlternateScreen);
    let watched = entered.and_then(|()| follow(&mut terminal, shown, ended));
    // A terminal that was closed needs no restoring, and a drop would complain to it and panic.
    let _ = terminal.show_cursor();
    let _ = ratatui::try_restore();
    mem::forget(terminal);
    watched
}

/// Shows it until a key or `ended` says to stop.
fn follow(terminal: &mut DefaultTerminal, mut view: impl FullScreen, ended: &AtomicBool) -> io::Result<()> {
    let is_plain = AutoStream::choice(&io::stdout()) == ColorChoice::Never;
    let (mut looked, mut is_drawn, mut page) = (None::<Instant>, false, 0);
    while !ended.load(Ordering::Relaxed) {
        if looked.is_none_or(|at| at.elapsed() >= INTERVAL) {
            view.look();
            (looked, is_drawn) = (Some(Instant::now()), false);
        }
        if !is_drawn {
            let area = area();
            if terminal.get_frame().area() != area {
                terminal.resize(area)?;
            }
            let screen = view.screen(area.width, area.height);
            terminal.draw(|frame| {
                frame.render_widget(Text::from(screen.lines), area);
                if is_plain {
                    frame.buffer_mut().set_style(area, Style::reset());
                }
            })?;
            (page, is_drawn) = (screen.page, true);
        }
        let left = looked.map_or(INTERVAL, |at| INTERVAL.saturating_sub(at.elapsed()));
        if !poll(left.min(PATIENCE))? {
            continue;
        }
        is_drawn = false;
        match read()? {
            Event::Resize(..) => terminal.resize(area())?,
            Event::Key(key) if key.kind != KeyEventKind::Release => match action(key) {
                Some(Action::Quit) => return Ok(()),
                Some(Action::Scroll(rows)) => view.scroll(rows, page),
                Some(Action::Page(pages)) => view.scroll(pages * isize::try_from(page).unwrap_or(1).max(1), page),
                None => {}
            },
            _ => {}
        }
    }
    Ok(())
}

/// The whole terminal.
fn area() -> Rect {
    let (width, height) = size().ok().filter(|(width, height)| *width > 0 && *height > 0).unwrap_or(USUAL_SIZE);
    Rect::new(0, 0, width, height)
}

/// The action of a key.
enum Action {
    Quit,
    /// Scrolls by this number of experiments towards the older ones.
    Scroll(isize),
    /// Scrolls by this number of screens.
    Page(isize),
}

fn action(key: KeyEvent) -> Option<Action> {
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Char('j') | KeyCode::Down => Action::Scroll(1),
        KeyCode::Char('k') | KeyCode::Up => Action::Scroll(-1),
        KeyCode::Char(' ') | KeyCode::PageDown => Action::Page(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::Char('g') | KeyCode::Home => Action::Scroll(isize::MIN),
        KeyCode::Char('G') | KeyCode::End => Action::Scroll(isize::MAX),
        _ => return None,
    })
}

/// The screen of one session.
struct View<'a> {
    watcher: StatusWatcher<'a>,
    gpus: GpuMonitor,
    loads: Vec<GpuLoad>,
    /// The last status that was read, and the analysis of its records.
    seen: Option<(SessionStatus, Report)>,
    log: Vec<String>,
    scroll: Scroll,
    /// The reason that nothing newer was read, if any.
    trouble: Option<String>,
    tag: Tag,
}

impl<'a> View<'a> {
    fn new(repo: &'a Repo, tag: Tag, clock: Clock) -> View<'a> {
        View {
            watcher: StatusWatcher::new(repo, tag.clone(), clock),
            gpus: GpuMonitor::start(),
            loads: Vec::new(),
            seen: None,
            log: Vec::new(),
            scroll: Scroll::default(),
            trouble: None,
            tag,
        }
    }
}

impl FullScreen for View<'_> {
    fn look(&mut self) {
        self.loads = self.gpus.look();
        if !self.watcher.is_there() {
            self.trouble = Some(SessionError::NoSession { tag: Some(self.tag.clone()), there: Vec::new() }.to_string());
            return;
        }
        let status = match self.watcher.look() {
            Ok(status) => status,
            Err(error) => {
                self.trouble = Some(with_causes(&error));
                return;
            }
        };
        self.trouble = None;
        self.log = status.log.as_ref().map(|log| self.watcher.last_lines(log)).unwrap_or_default();
        let report = match self.seen.take() {
            Some((_, report)) if report.is_of(&status.history) => report,
            _ => status.report(),
        };
        self.seen = Some((status, report));
    }

    fn scroll(&mut self, rows: isize, page: usize) {
        if let Some((status, _)) = &self.seen {
            self.scroll = self.scroll.by(rows, &status.history, page);
        }
    }

    fn screen(&mut self, width: u16, height: u16) -> Screen {
        let trouble = self.trouble.as_deref();
        match &self.seen {
            Some((status, report)) => {
                let scene = Scene { status, report, log: &self.log, gpus: &self.loads, trouble };
                let screen = draw(&scene, self.scroll, width, height, output::glyphs());
                self.scroll = screen.scroll;
                screen
            }
            None => {
                let line = fit(trouble.unwrap_or_default(), Some(width));
                Screen { lines: vec![line.into()], page: 0, scroll: self.scroll }
            }
        }
    }
}

/// The last line of the screen.
const KEYS: &str = "j and k scroll, q quits";

/// All sessions as they were read last.
pub(super) struct AllView {
    user: PathBuf,
    clock: Clock,
    sessions: Vec<(PathBuf, SessionStatus)>,
    troubles: Vec<String>,
    /// The number of lines above the screen.
    above: usize,
}

impl FullScreen for AllView {
    fn look(&mut self) {
        match registered_sessions(&self.user) {
            Ok(sessions) => (self.sessions, self.troubles) = inspect_all(sessions, self.clock),
            Err(error) => self.troubles = vec![with_causes(&error)],
        }
    }

    fn scroll(&mut self, rows: isize, _page: usize) {
        self.above = self.above.saturating_add_signed(rows);
    }

    fn screen(&mut self, width: u16, height: u16) -> Screen {
        let table = render_all_status(&self.sessions, Format::Table, Some(width));
        let none = if self.sessions.is_empty() { Some("no sessions") } else { None };
        let table = none.into_iter().chain(table.lines().filter(|_| none.is_none()));
        let lines: Vec<&str> = table.chain(self.troubles.iter().map(String::as_str)).collect();
        let page = usize::from(height).saturating_sub(1);
        self.above = self.above.min(lines.len().saturating_sub(page));
        let mut screen: Vec<String> = lines.into_iter().skip(self.above).take(page).map(str::to_owned).collect();
        screen.resize(page, String::new());
        screen.push(KEYS.to_owned());
        let lines = screen.iter().take(height.into()).map(|line| fit(line, Some(width)).into()).collect();
        Screen { lines, page, scroll: Scroll::default() }
    }
}

/// Stops whoever is at work on a session, or ends a run that goes on without anybody.
pub(super) fn stop(args: StopArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let tag = resolve_session::find(&repo, args.session.tag())?;
    let when = if args.now { StopWhen::Now } else { StopWhen::Experiment };
    let stopped = ask_to_stop(&repo, &tag, when, clock)?;
    if matches!(stopped, Stopped::NobodyThere | Stopped::RunsAlone(_) | Stopped::Left(_)) {
        keep_guardians_away(&repo, &tag, clock);
    }
    let waiting = SessionFolder::new(repo.main_worktree(), &tag).files_to_return();
    output::line(&match stopped {
        Stopped::NobodyThere if !waiting.is_empty() => {
            end_open(repo, &tag, ExperimentId::BASELINE, true, clock)?;
            format!("session {tag} is idle; put back {}", list(&waiting))
        }
        Stopped::NobodyThere => format!("session {tag} is idle; nothing to stop"),
        Stopped::RunsAlone(id) if args.now => end_open(repo, &tag, id, false, clock)?,
        Stopped::RunsAlone(id) => format!(
            "no loop is active in session {tag}, but the run of {} is still going\n`ar stop {tag} --now` terminates \
                it; `ar resume {tag}` waits for it and continues",
            experiment_name(id)
        ),
        Stopped::Left(id) if args.now => end_open(repo, &tag, id, true, clock)?,
        Stopped::Left(id) => format!(
            "session {tag} is idle, but {} is still open\n`ar stop {tag} --now` saves its change and closes it; \
                `ar resume {tag}` continues",
            experiment_name(id)
        ),
        Stopped::RunsUnknown(id) if args.now => {
            runtime()?.block_on(end_run_only(repo.main_worktree(), &tag, id))?;
            format!("terminated the run of {}; run `ar doctor {tag}` to see what is left of it", experiment_name(id))
        }
        Stopped::RunsUnknown(id) => format!(
            "no loop is active in session {tag}, but a run of {} is still going that its journal does not know\n\
             `ar stop {tag} --now` terminates it; `ar doctor {tag}` shows the fix",
            experiment_name(id)
        ),
        Stopped::After(open) if !open.is_empty() => format!("session {tag} stops after {}", experiment_names(&open)),
        Stopped::After(_) => format!("session {tag} stops before its next experiment"),
        Stopped::Beside(stopping) => stopping_text(&tag, &stopping),
        Stopped::Ended(open) if !open.is_empty() => {
            let (stay, its) = if open.len() == 1 { ("stays", "its") } else { ("stay", "their") };
            format!(
                "session {tag} has stopped; {} {stay} open, and `ar resume {tag}` goes on with {its} fresh runs",
                experiment_names(&open)
            )
        }
        Stopped::Ended(_) if args.now => format!("session {tag} has stopped; what was unfinished is rolled back"),
        Stopped::Ended(_) => format!("session {tag} has stopped"),
    });
    Ok(ExitCode::SUCCESS)
}

/// Describes the runs and proposals of a session with slots that stops.
fn stopping_text(tag: &Tag, stopping: &StoppingBeside) -> String {
    let StoppingBeside { runs, proposals, stay_ready, winners, train } = stopping;
    let mut first: Vec<String> = Vec::new();
    if !runs.is_empty() {
        first.push(experiment_names(runs));
    }
    if *train {
        first.push("the run of merged winners".to_owned());
    }
    let mut text = match first.is_empty() {
        true => format!("session {tag} stops before its next run"),
        false => format!("session {tag} stops after {}", first.join(" and ")),
    };
    if !proposals.is_empty() {
        text += &if *stay_ready {
            format!("\nready for the next loop, unless an agent is still at work: {}", experiment_names(proposals))
        } else {
            format!("\nkept as ideas with their commits, not run: the proposals of {}", experiment_names(proposals))
        };
    }
    if !winners.is_empty() {
        text += &format!("\nwaiting to be merged when `ar resume {tag}` continues: {}", experiment_names(winners));
    }
    text
}

/// Tells guardians to leave an idle session alone. Reports a failure and continues.
pub(super) fn keep_guardians_away(repo: &Repo, tag: &Tag, clock: Clock) {
    if let Err(error) = note_stopped(repo, tag, clock) {
        output::note(&format!("`ar guard` may restart session {tag}: {}", with_causes(&error)));
    }
}

/// Takes over the session, and ends and closes the experiment that is open in it, as the second Ctrl-C does.
fn end_open(repo: Repo, tag: &Tag, id: ExperimentId, was_left: bool, clock: Clock) -> Result<String, CliError> {
    let main_worktree = repo.main_worktree().to_owned();
    let (plan, printer) = ending(repo, tag, clock)?;
    let tried = interruptible(async |interrupts| {
        interrupts.ask(Interrupt::Now);
        let tried = async { Session::open(plan, printer.observer(), interrupts).await?.try_continue(None).await };
        Ok(match tried.await {
            // The run may be what fills the disk.
            Err(error) if error.is_disk_full() => {
                end_run_only(&main_worktree, tag, id).await?;
                None
            }
            // It had no commit yet: closing it was all there was to do.
            Err(SessionError::Try(TryError::NothingOpen)) => Some(Tried::RolledBack),
            tried => Some(tried?),
        })
    });
    printer.finish();
    let name = experiment_name(id);
    Ok(match tried? {
        Some(Tried::RolledBack) if was_left => format!("closed {name} and rolled its change back"),
        Some(Tried::Recorded(_)) if was_left => format!("{name} had been measured; it is recorded"),
        Some(Tried::RolledBack) => format!("terminated the run of {name} and rolled its change back"),
        Some(Tried::Recorded(_)) => format!("the run of {name} had already finished; it is recorded"),
        // No run is brought back here.
        Some(Tried::StillRunning(_)) if was_left => {
            format!("{name} stays open with the runs that it has; `ar resume` goes on")
        }
        Some(Tried::StillRunning(_) | Tried::Reworking(_)) => format!("the run of {name} is still going"),
        None => format!(
            "terminated the run of {name}; the disk is too full for the rest: free space, then run `ar resume {tag}` \
                to continue"
        ),
    })
}
