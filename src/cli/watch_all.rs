//! The screen of `ar status --all --watch`: a line for each session of this user on this machine.

use std::path::PathBuf;

use autoresearch::domain::{Clock, with_causes};
use autoresearch::guardian::registered_sessions;
use autoresearch::report::{Format, Screen, Scroll, SessionStatus, fit, render_all_status};
use autoresearch::session::inspect_all;

use super::watch::Shown;

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

impl AllView {
    /// Prepares to look; looks at nothing yet.
    pub(super) fn new(user: PathBuf, clock: Clock) -> AllView {
        AllView { user, clock, sessions: Vec::new(), troubles: Vec::new(), above: 0 }
    }
}

impl Shown for AllView {
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
