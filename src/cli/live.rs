//! The live lines at the bottom of a terminal: one for each open experiment, and so one for each slot.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output;
use autoresearch::domain::ExperimentId;

/// The most redraws of the lines per second.
const RATE: u8 = 4;

/// The current step, shortened to make room for the figures behind it.
const TEMPLATE: &str = "{wide_msg}{prefix}";

/// Owns the live lines.
pub(super) struct Live {
    all: MultiProgress,
    lines: BTreeMap<ExperimentId, ProgressBar>,
}

impl Live {
    /// Prepares lines on standard error, where that is a terminal and signs of progress are wanted.
    pub(super) fn new() -> Option<Live> {
        let target = ProgressDrawTarget::stderr_with_hz(RATE);
        (io::stderr().is_terminal() && !output::manners().quiet)
            .then(|| Live { all: MultiProgress::with_draw_target(target), lines: BTreeMap::new() })
    }

    /// Shows what an experiment does now; its figures start anew.
    pub(super) fn begin(&mut self, id: ExperimentId, doing: String) {
        output::begin_drawing();
        let line = self.lines.entry(id).or_insert_with(|| {
            let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.all.add(ProgressBar::no_length().with_style(style))
        });
        line.set_message(doing);
    }

    /// Shows the figures of an experiment.
    pub(super) fn show(&self, id: ExperimentId, figures: String) {
        let Some(line) = self.lines.get(&id) else { return };
        output::begin_drawing();
        line.set_prefix(figures);
        line.tick();
    }

    /// Removes the line of an experiment.
    pub(super) fn end(&mut self, id: ExperimentId) {
        if let Some(line) = self.lines.remove(&id) {
            output::begin_drawing();
            line.finish_and_clear();
            self.all.remove(&line);
        }
    }

    /// Prints something above the lines.
    pub(super) fn above(&self, print: impl FnOnce()) {
        output::begin_drawing();
        self.all.suspend(|| {
            print();
            output::begin_drawing();
        });
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        while let Some(id) = self.lines.keys().next().copied() {
            self.end(id);
        }
    }
}
