//! `ar status --watch`: keys in, screens out. It only looks.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use autoresearch::domain::{Clock, GpuLoad, Tag, with_causes};
use autoresearch::exec::GpuMonitor;
use autoresearch::git::Repo;
use autoresearch::report::{Overview, Scene, Screen, Scroll, columns, draw, fit};
use autoresearch::rules::SessionStatus;
use autoresearch::session::{Lookout, SessionError};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use ratatui::crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::crossterm::{cursor, execute, queue};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::error::CliError;
use super::process::{current_dir, no_runtime, runtime};
use super::{chosen, exit, output, settings};

/// How often it is looked again.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a key is waited for before it is looked whether to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a terminal may take to show the last that is written to it.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// The size of a terminal that does not tell.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// Shows a session until a key or a signal ends it.
pub(super) fn run(tag: Option<Tag>) -> Result<ExitCode, CliError> {
    let refused = |why: &str| CliError::new(why, Some("run `ar status` to print it once".into()));
    if !output::is_interactive() {
        return Err(refused("--watch needs a terminal"));
    }
    if env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(refused("--watch needs a terminal that can be drawn on, and TERM is dumb"));
    }
    let repo = Repo::discover(&current_dir()?)?;
    let tag = chosen::find(&repo, tag)?;
    let clock = settings::clock()?;
    runtime()?.block_on(async {
        let mut signals = Vec::new();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            signals.push(signal(kind).map_err(no_runtime)?);
        }
        let [mut int, mut term, mut hangup] = signals.try_into().map_err(|_| refused("cannot listen for signals"))?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        // A write to a terminal can take for ever.
        let watch = thread::spawn(move || watch(&repo, tag, clock, &seen));
        tokio::select! {
            () = over(&watch) => {}
            _ = int.recv() => ended.store(true, Ordering::Relaxed),
            _ = term.recv() => ended.store(true, Ordering::Relaxed),
            _ = hangup.recv() => ended.store(true, Ordering::Relaxed),
        }
        if timeout(LAST_WRITE, over(&watch)).await.is_err() {
            // Of what was there before this at least works without a write.
            let _ = disable_raw_mode();
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        match watch.join() {
            Ok(Ok(())) if ended.load(Ordering::Relaxed) => Ok(ExitCode::from(exit::INTERRUPTED)),
            Ok(Ok(())) => Ok(ExitCode::SUCCESS),
            Ok(Err(error)) => Err(CliError::new(error, Some("run `ar status` to print it once".into()))),
            // What it was is said.
            Err(_) => Ok(ExitCode::from(exit::CANNOT_START)),
        }
    })
}

async fn over(thread: &JoinHandle<io::Result<()>>) {
    while !thread.is_finished() {
        sleep(Duration::from_millis(20)).await;
    }
}

fn watch(repo: &Repo, tag: Tag, clock: Clock, ended: &AtomicBool) -> io::Result<()> {
    let mut terminal = Terminal::take()?;
    let mut view = View::new(repo, tag, clock);
    let (mut looked, mut is_drawn, mut page) = (None::<Instant>, false, 0);
    while !ended.load(Ordering::Relaxed) {
        if looked.is_none_or(|at| at.elapsed() >= INTERVAL) {
            view.look();
            (looked, is_drawn) = (Some(Instant::now()), false);
        }
        if !is_drawn {
            let (width, height) = terminal.size();
            let screen = view.screen(width, height);
            terminal.show(&screen.lines)?;
            (page, is_drawn) = (screen.page, true);
            view.scroll = screen.scroll;
        }
        let left = looked.map_or(INTERVAL, |at| INTERVAL.saturating_sub(at.elapsed()));
        if !poll(left.min(PATIENCE))? {
            continue;
        }
        is_drawn = false;
        match read()? {
            Event::Resize(..) => terminal.forget(),
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

/// What a key asks for.
enum Action {
    Quit,
    /// By so many experiments towards the older ones.
    Scroll(isize),
    /// By so many screens of them.
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

/// What is seen of the session.
struct View<'a> {
    lookout: Lookout<'a>,
    gpus: GpuMonitor,
    loads: Vec<GpuLoad>,
    /// What was seen last, and what was worked out of it.
    seen: Option<(SessionStatus, Overview)>,
    log: Vec<String>,
    scroll: Scroll,
    /// Why nothing newer was seen.
    trouble: Option<String>,
    tag: Tag,
}

impl<'a> View<'a> {
    fn new(repo: &'a Repo, tag: Tag, clock: Clock) -> View<'a> {
        View {
            lookout: Lookout::new(repo, tag.clone(), clock),
            gpus: GpuMonitor::start(),
            loads: Vec::new(),
            seen: None,
            log: Vec::new(),
            scroll: Scroll::default(),
            trouble: None,
            tag,
        }
    }

    fn look(&mut self) {
        self.loads = self.gpus.look();
        if !self.lookout.is_there() {
            self.trouble = Some(SessionError::NoSession { tag: Some(self.tag.clone()), there: Vec::new() }.to_string());
            return;
        }
        let status = match self.lookout.look() {
            Ok(status) => status,
            Err(error) => {
                self.trouble = Some(with_causes(&error));
                return;
            }
        };
        self.trouble = None;
        self.log = status.log.as_ref().map(|log| self.lookout.last_lines(log).to_vec()).unwrap_or_default();
        let overview = match self.seen.take() {
            Some((_, overview)) if overview.is_of(&status) => overview,
            _ => Overview::of(&status),
        };
        self.seen = Some((status, overview));
    }

    fn scroll(&mut self, rows: isize, page: usize) {
        if let Some((status, _)) = &self.seen {
            self.scroll = self.scroll.by(rows, &status.history, page);
        }
    }

    fn screen(&self, width: u16, height: u16) -> Screen {
        let trouble = self.trouble.as_deref();
        match &self.seen {
            Some((status, overview)) => {
                let scene = Scene { status, overview, log: &self.log, gpus: &self.loads, trouble };
                draw(&scene, self.scroll, width, height, output::glyphs())
            }
            None => Screen { lines: vec![fit(trouble.unwrap_or_default(), Some(width))], page: 0, scroll: self.scroll },
        }
    }
}

/// The terminal, drawn on; as it was before when this is dropped.
struct Terminal {
    /// The lines that are there.
    shown: Vec<String>,
    is_coloured: bool,
}

impl Terminal {
    fn take() -> io::Result<Terminal> {
        let before = std::panic::take_hook();
        // What a panic says belongs on the screen that stays.
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode()?;
        let terminal =
            Terminal { shown: Vec::new(), is_coloured: AutoStream::choice(&io::stdout()) != ColorChoice::Never };
        execute!(io::stdout(), EnterAlternateScreen, DisableLineWrap, cursor::Hide)?;
        Ok(terminal)
    }

    fn size(&self) -> (u16, u16) {
        size().ok().filter(|(width, height)| *width > 0 && *height > 0).unwrap_or(USUAL_SIZE)
    }

    /// Draws everything anew the next time.
    fn forget(&mut self) {
        self.shown.clear();
    }

    /// Draws the lines that are not there yet.
    fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let width = usize::from(self.size().0);
        let mut bytes = Vec::new();
        if self.shown.len() != lines.len() {
            self.shown.clear();
            queue!(bytes, Clear(ClearType::All))?;
        }
        for (row, line) in (0..).zip(lines) {
            if self.shown.get(usize::from(row)) == Some(line) {
                continue;
            }
            queue!(bytes, cursor::MoveTo(0, row))?;
            match self.is_coloured {
                true => bytes.extend_from_slice(line.as_bytes()),
                false => write!(bytes, "{}", strip_str(line))?,
            }
            // At the end of a full line it would take the last character.
            if columns(line) < width {
                queue!(bytes, Clear(ClearType::UntilNewLine))?;
            }
        }
        if !bytes.is_empty() {
            let mut out = io::stdout().lock();
            out.write_all(&bytes)?;
            out.flush()?;
        }
        lines.clone_into(&mut self.shown);
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Puts the terminal back as it was. One that is gone needs nothing.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), cursor::Show, EnableLineWrap, LeaveAlternateScreen);
}
