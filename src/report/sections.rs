//! The parts of a report below its facts, for people. A new one is a function here that returns a [`Section`], in
//! [`sections`]; what it has of data is in the JSON document.

use std::collections::BTreeSet;

use anstyle::Style;
use jiff::Timestamp;

use super::{
    Align, Grid, Report, Sources, artifact_section, axes_section, commit, confounds_text, directions_section,
    escape_markdown, expected_section, files_section, hidden_section, never_helped_section, second_looks_section,
    signed, signed_gain, text, value, wrap,
};
use crate::domain::{
    ExperimentId, FailureClass, Number, VerifiedId, VerifiedPair, WordList, count_of, exact_time, experiment_name,
    experiment_names, first_of, one_line, percent_text, span_text, two_digits, word_list,
};
use crate::rules::{
    ComparedPair, DriftCheck, History, KeptStep, Margin, MarginBy, Miss, Point, Repeated, Repeats, RunOf, format_step,
    fresh_groups, listed, repeats, run_seconds, unreproduced,
};

/// The most kept steps to show; if there are more, the smaller ones are summed up.
const MOST_KEPT: usize = 20;

/// The most groups of repeated measurements to show.
const MOST_REPEATED: usize = 3;

/// The most reruns of the best experiment to show.
const MOST_CHECKS: usize = 5;

/// The most experiments of a failure class to name, beside the newest.
const MOST_EARLIER: usize = 3;

/// Words, in lower case, that mark the last line of a crashed run's log as the cause.
static WORDS_OF_FAILURE: WordList = WordList::new(|| word_list(include_str!("lists/words_of_failure.txt")));

/// A part of a report: a title, and a table or lines with further lines below each.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) grid: Option<Grid>,
    pub(super) lines: Vec<(String, Option<String>)>,
}

impl Section {
    pub(super) fn table(title: impl Into<String>, grid: Grid) -> Self {
        Section { title: title.into(), grid: Some(grid), lines: Vec::new() }
    }

    pub(super) fn lines(title: impl Into<String>, lines: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        Section { title: title.into(), grid: None, lines: lines.into_iter().collect() }
    }

    /// For a terminal, or whatever is as wide as it likes.
    pub(super) fn to_text(&self, width: Option<u16>) -> String {
        let bold = Style::new().bold();
        let mut text = wrap(&format!("{bold}{}{bold:#}", self.title), 0, width);
        text += &self.grid.as_ref().map(|grid| grid.to_lines(width)).unwrap_or_default();
        for (line, below) in &self.lines {
            text += &wrap(&format!("  {line}"), 2, width);
            text += &below.as_ref().map(|below| wrap(&format!("    {below}"), 4, width)).unwrap_or_default();
        }
        text
    }

    pub(super) fn to_markdown(&self) -> String {
        let mut text = format!("## {}\n\n", escape_markdown(&self.title));
        text += &self.grid.as_ref().map(Grid::to_markdown).unwrap_or_default();
        for (line, below) in &self.lines {
            text += &format!("- {}\n", escape_markdown(line));
            text += &below.as_ref().map(|below| format!("  {}\n", escape_markdown(below))).unwrap_or_default();
        }
        text
    }
}

/// The parts of a report in their order; one that has nothing to say is omitted.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    let assumed = report.assumed.iter().map(|sentence| (one_line(sentence), None));
    let notes =
        (!report.assumed.is_empty() && !report.is_without_numbers()).then(|| Section::lines("assumed", assumed));
    [
        kept(report),
        report.verified_section(),
        directions_section(report),
        files_section(report),
        never_helped_section(report),
        expected_section(report),
        artifact_section(report),
        axes_section(report),
        report.sources().as_ref().map(Sources::section),
        near_misses(report),
        second_looks_section(report),
        hidden_section(report),
        failed(report),
        repeated(report),
        report.across_section(),
        rechecked(report),
        slots(report),
        warned(report),
        notes,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The column of what a keep gained over the one before.
const GAIN: &str = "gain";

/// The column of what a change of a train gained by itself.
const ALONE: &str = "by itself";

/// The kept chain with what each step gained, where that is more than the baseline.
fn kept(report: &Report) -> Option<Section> {
    let kept = &report.summary.kept;
    let has_threshold = report.keep_above.is_some();
    if !kept.iter().any(|step| step.gain.is_some() || has_threshold && step.over.is_some()) {
        return None;
    }
    // One without a number stands beside the one that has the number of its train.
    let last_of_train = |place: &usize| {
        let is_numbered = |step: &&KeptStep| report.points[step.index].value.is_some();
        kept[*place..].iter().find(is_numbered)
    };
    let rank = |step: &KeptStep| match &report.points[step.index].value {
        Some(number) if has_threshold => Some(report.direction.gain(number.value, 0.0)),
        _ => step.gain,
    };
    let gain = |place: &usize| last_of_train(place).and_then(rank).unwrap_or(f64::INFINITY);
    let mut by_gain: Vec<usize> = (0..kept.len()).collect();
    by_gain.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    let small: BTreeSet<usize> = by_gain.into_iter().skip(MOST_KEPT).collect();
    let percent = |ratio: Option<f64>| text(ratio.map(percent_text));
    let gain = |step: &KeptStep| {
        step.gain?;
        let (value, before) = (report.points[step.index].value.as_ref()?, report.points[step.over?].value.as_ref()?);
        Some(signed_gain(report.direction, value, before))
    };
    let alone = |step: &KeptStep| report.details.get(step.index)?.gain_alone.map(signed);
    let hours = format!("{}s", report.hour());
    let cost = |step: &KeptStep| {
        let hours = report.hours().and(report.details.get(step.index)?.hours)?;
        Some(two_digits(hours))
    };
    let large = kept.iter().enumerate().filter(|(place, _)| !small.contains(place));
    let grid = Grid::of(
        large.map(|(_, step)| (step, &report.points[step.index])),
        &[
            ("#", Align::Right, &|(_, point)| point.id.to_string()),
            ("commit", Align::Left, &|(_, point)| commit(point)),
            (report.metric_name(), Align::Right, &|(step, _)| report.number_at(step.index)),
            (GAIN, Align::Right, &|(step, _)| text(gain(step))),
            (ALONE, Align::Right, &|(step, _)| text(alone(step))),
            ("relative", Align::Right, &|(step, _)| percent(step.relative_gain)),
            ("share", Align::Right, &|(step, _)| percent(step.share)),
            (&hours, Align::Right, &|(step, _)| text(cost(step))),
            ("what", Align::Text, &|(step, _)| report.described_at(step.index)),
        ],
    )
    .without_if_empty(&[ALONE, GAIN, "relative", "share", &hours])
    .sparing(["share", "relative", &hours].map(str::to_owned));
    let title = if has_threshold { "kept experiments" } else { "kept experiments and their gains" };
    let lines = notes_on_kept(report, &small, &hours);
    Some(Section { lines, ..Section::table(title, grid) })
}

/// Remarks below the table of keeps: changes beside the metric, the sum of the `small` steps, and the cost since the last keep.
fn notes_on_kept(report: &Report, small: &BTreeSet<usize>, hours: &str) -> Vec<(String, Option<String>)> {
    let (kept, has_threshold) = (&report.summary.kept, report.keep_above.is_some());
    let confounded = kept.iter().enumerate().filter(|(place, _)| !small.contains(place));
    let confounded = confounded.filter_map(|(_, step)| {
        let found = confounds_text(&report.details.get(step.index)?.confounds)?;
        Some(format!("experiment {} came with {found}", report.points[step.index].id))
    });
    let mut lines: Vec<String> = confounded.collect();
    if kept.iter().any(|step| step.keeps > 1 && step.gain.is_some()) {
        lines.push("the gain of a train is that of all its changes together".to_owned());
    }
    if !small.is_empty() {
        let together: f64 = small.iter().filter_map(|place| kept[*place].gain).sum();
        lines.push(match has_threshold {
            true => format!("and {} with worse numbers", count_of(small.len(), "other")),
            false => format!("and {}, together {}", count_of(small.len(), "smaller step"), two_digits(together)),
        });
    }
    if let Some(times) = report.times.filter(|times| report.hours().is_some() && times.since_keep > 0.0) {
        let since = two_digits(times.since_keep);
        lines.push(format!("{since} {hours} since the last keep"));
    }
    lines.into_iter().map(|line| (line, None)).collect()
}

/// Discarded experiments worth another look; below them why those were refused that had the better number.
fn near_misses(report: &Report) -> Option<Section> {
    if report.misses.is_empty() {
        return None;
    }
    let all = report.misses.iter().map(|miss| (miss, &report.points[miss.index], &report.points[miss.rival]));
    let is_refused = |(miss, point, _): &(&Miss, &Point, &Point)| miss.gain > 0.0 && !point.reason.is_empty();
    let refused = all.clone().filter(is_refused);
    let refused = refused.map(|(_, point, _)| (format!("{}: {}", point.id, one_line(&point.reason)), None));
    let gain = |miss: &Miss, point: &Point, rival: &Point| match point.value.as_ref().zip(rival.value.as_ref()) {
        _ if miss.gain == 0.0 => "equal".into(),
        Some((value, rival)) => signed_gain(report.direction, value, rival),
        None => String::new(),
    };
    let grid = Grid::of(
        all,
        &[
            ("#", Align::Right, &|(_, point, _)| point.id.to_string()),
            ("commit", Align::Left, &|(_, point, _)| commit(point)),
            (report.metric_name(), Align::Right, &|(_, point, _)| value(point)),
            ("gain", Align::Right, &|(miss, point, rival)| gain(miss, point, rival)),
            ("over", Align::Right, &|(.., rival)| rival.id.to_string()),
            ("what", Align::Text, &|(_, point, _)| point.description.to_string()),
        ],
    );
    let title = match report.margin {
        Some(Margin { size, by: MarginBy::Spread }) => {
            format!("near misses: better but not kept, or within the spread of {}", two_digits(size))
        }
        Some(Margin { size, by: MarginBy::MedianGain }) => {
            format!("near misses: better but not kept, or within {}, the median gain of a keep", two_digits(size))
        }
        None => "not kept, with a number as good or better".into(),
    };
    Some(Section { lines: refused.collect(), ..Section::table(title, grid) })
}

/// Tabulates the failures by class, with the message of the newest one of each.
fn failed(report: &Report) -> Option<Section> {
    let failures = &report.summary.failures;
    let newest = |class: &FailureClass| report.summary.examples.get(class).map(|index| &report.points[*index]);
    let grid = Grid::of(
        failures,
        &[
            ("class", Align::Left, &|(class, _)| class.to_string()),
            ("times", Align::Right, &|(_, count)| count.to_string()),
            ("newest", Align::Right, &|(class, _)| text(newest(class).map(|point| point.id))),
            ("earlier", Align::Left, &|(class, _)| earlier(report, **class)),
            ("message", Align::Text, &|(class, _)| text(newest(class).map(said))),
        ],
    );
    (!failures.is_empty()).then(|| Section::table("what failed", grid))
}

/// The first experiments that failed in a way, without the newest.
fn earlier(report: &Report, class: FailureClass) -> String {
    let failed = report.points.iter().filter(|point| point.failure == Some(class));
    let mut ids: Vec<String> = failed.map(|point| point.id.to_string()).collect();
    ids.pop();
    if ids.len() > MOST_EARLIER {
        ids[MOST_EARLIER] = "…".into();
        ids.truncate(MOST_EARLIER + 1);
    }
    ids.join(", ")
}

/// The last line of a failed run's log if it gives the cause, else the reason. The last line of a crashed run often
/// only reports progress.
fn said(point: &Point) -> String {
    let is_in_log = point.failure.is_some_and(FailureClass::is_in_log);
    let says = |line: &&str| {
        let line = line.to_lowercase();
        point.failure != Some(FailureClass::Crash) || WORDS_OF_FAILURE.iter().any(|word| line.contains(word))
    };
    let line = point.excerpt.lines().rev().find(|line| is_in_log && !line.trim().is_empty()).filter(says);
    line.unwrap_or(&point.reason).to_owned()
}

/// The spread of repeated measurements, and how it was got.
fn repeated(report: &Report) -> Option<Section> {
    let spread = report.spread.as_ref()?;
    let repeated: Vec<String> = spread.repeated.iter().map(repetition).collect();
    let limit = match spread.limit {
        0.0 => "the same code gave the same value each time".into(),
        limit => format!(
            "spread {}: two measurements of the same code differ by less than this in 19 of 20 cases (2.8 \
                standard deviations)",
            two_digits(limit)
        ),
    };
    let lines = first_of(&repeated, MOST_REPEATED).into_iter().chain([limit]).map(|line| (line, None));
    Some(Section::lines("measured more than once", lines))
}

/// The newest reruns of the best experiment, which no record has.
fn rechecked(report: &Report) -> Option<Section> {
    let line = |check: &DriftCheck| {
        let (now, then) = (Number::of(check.value), Number::of(check.recorded));
        let off = match format_step(report.direction, &now, &then) {
            _ if now.value == then.value => "the same value".into(),
            step => format!("{now}, {step} than the recorded {then}"),
        };
        let seed = check.seed.map_or(String::new(), |seed| format!(" by seed {seed}"));
        (format!("{}{seed}, at {}: {off}", experiment_name(check.id), exact_time(check.ended)), None)
    };
    let mut lines: Vec<_> = report.facts.checks.iter().rev().take(MOST_CHECKS).map(line).collect();
    if let Some(more) = report.facts.checks.len().checked_sub(MOST_CHECKS).filter(|more| *more > 0) {
        lines.push((format!("and {more} earlier"), None));
    }
    (!lines.is_empty()).then(|| Section::lines("the best experiment, run again", lines))
}

/// One group of repeated measurements.
fn repetition(group: &Repeated) -> String {
    let names = match group.experiments.as_slice() {
        [id] => experiment_name(*id),
        ids => format!("experiments {}", listed(ids)),
    };
    let again =
        if group.sessions.is_empty() { String::new() } else { format!(", again in {}", group.sessions.join(", ")) };
    let Repeated { count, min, max, deviation, .. } = group;
    format!("{names}{again}: {count} measurements, {min} to {max:#}, standard deviation {}", two_digits(*deviation))
}

/// Tabulates the runs of each slot.
fn slots(report: &Report) -> Option<Section> {
    let lanes = report.lanes();
    let first = lanes.iter().flatten().map(|run| run.run.started).min()?;
    let since = |at: Timestamp| at.duration_since(first).as_secs_f64();
    let span = lanes.iter().flatten().map(|run| since(run.run.started) + run.run.seconds).fold(0.0, f64::max);
    let grid = Grid::of(
        (0..).zip(&lanes),
        &[
            ("slot", Align::Right, &|(slot, _): &(u32, &Vec<RunOf<'_>>)| slot.to_string()),
            ("runs", Align::Right, &|(_, runs)| runs.len().to_string()),
            ("busy", Align::Right, &|(_, runs)| span_text(run_seconds(runs))),
            ("share", Align::Right, &|(_, runs)| percent_text(run_seconds(runs) / span.max(f64::MIN_POSITIVE))),
            ("last", Align::Right, &|(_, runs)| text(runs.last().map(|run| run.record.id))),
        ],
    );
    Some(Section::table("slots", grid))
}

fn warned(report: &Report) -> Option<Section> {
    let lines = report.warnings.iter().map(|warning| (one_line(&warning.what), warning.hint.as_deref().map(one_line)));
    (!report.warnings.is_empty()).then(|| Section::lines("warnings", lines))
}

/// The most pairs to show, and the most experiments to name that are not verified.
const MOST: usize = 8;

/// The results of fresh runs of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct VerifiedSection {
    /// The experiments against those of the same session, for each point of the report.
    own: Vec<Vec<VerifiedPair>>,
    /// Its experiments against those of other sessions.
    across: Vec<VerifiedPair>,
    /// True if fresh runs could tell something of its numbers that is not known.
    tells_more: bool,
}

impl VerifiedSection {
    /// Takes what was verified, for a report whose points are these experiments. A command that gives one number for every
    /// seed has nothing to verify, and neither have experiments that were not run here.
    fn of(history: &History, ids: impl Iterator<Item = ExperimentId>) -> VerifiedSection {
        let made = || history.verified().iter().filter(|pair| pair.runs > 0);
        let of = |id| made().filter(|pair| pair.a.own().is_some() && pair.b.own() == Some(id)).cloned().collect();
        VerifiedSection {
            own: ids.map(of).collect(),
            across: made().filter(|pair| pair.a.own().is_none()).cloned().collect(),
            tells_more: history.records().iter().all(|record| record.origin.imported.is_none())
                && repeats(&fresh_groups(history)) != Repeats::Exact,
        }
    }
}

impl Report {
    /// The same with what was verified of the session whose records it is of.
    #[must_use]
    pub fn with_verified(mut self, history: &History) -> Report {
        self.verified = VerifiedSection::of(history, self.points.iter().map(|point| point.id));
        self.warnings.extend(self.tag.as_ref().and_then(|tag| unreproduced(tag, history)));
        self
    }

    /// The result of fresh runs of the experiment at `index` among the points against another one.
    pub(super) fn verified(&self, index: usize, against: Option<usize>) -> Option<&VerifiedPair> {
        let other = self.points.get(against?)?.id;
        self.verified.own.get(index)?.iter().find(|pair| pair.a.own() == Some(other))
    }

    /// Says in the headline what fresh runs say of the best experiment against the baseline, or that there were none.
    pub(super) fn verified_text(&self) -> Option<String> {
        let best = self.summary.best?;
        let on_hidden = || {
            let names = |pair: &&ComparedPair| {
                let own = |id: &VerifiedId, index: usize| id.own() == self.points.get(index).map(|point| point.id);
                self.summary.baseline.is_some_and(|at| own(&pair.visible.a, at)) && own(&pair.visible.b, best)
            };
            self.hidden_pairs().find(names)?.hidden.as_ref().map(|pair| (pair, " on the hidden split"))
        };
        let pair = self.verified(best, self.summary.baseline).map(|pair| (pair, "")).or_else(on_hidden);
        let Some((VerifiedPair { runs, difference, low, high, .. }, split)) = pair else {
            let is_claimed = self.summary.gain.is_some_and(|gain| gain > 0.0);
            let is_open = is_claimed && self.can_verify() && !self.is_verified(best);
            return is_open.then(|| "not verified".to_owned());
        };
        let decimals = self.decimals();
        let said = match () {
            () if *low > 0.0 => "verified on",
            () if *high < 0.0 => "refuted by",
            () => "not confirmed by",
        };
        Some(format!(
            "{said} {} of each{split}: {difference:+.decimals$} ({low:+.decimals$} to {high:+.decimals$})",
            count_of(*runs, "fresh run")
        ))
    }

    /// Returns whether fresh runs compared the experiment at `index` with another one, also on a hidden split.
    fn is_verified(&self, index: usize) -> bool {
        let id = self.points.get(index).map(|point| point.id);
        self.verified.own.get(index).is_some_and(|pairs| !pairs.is_empty())
            || self.hidden_pairs().map(|pair| pair.visible.b.own()).any(|own| own.is_some() && own == id)
    }

    /// The pairs that fresh runs compared on a hidden split, for a person.
    pub(super) fn hidden_pairs(&self) -> impl Iterator<Item = &ComparedPair> {
        self.facts.hidden.pairs().iter().filter(|pair| pair.common_seeds() > 0)
    }

    /// The part with all pairs that fresh runs compared, and the keeps of which they say nothing.
    pub(super) fn verified_section(&self) -> Option<Section> {
        let pairs: Vec<&VerifiedPair> = self.verified.own.iter().flatten().collect();
        let mut lines: Vec<_> = pairs.iter().rev().take(MOST).map(|pair| (self.pair_text(pair), None)).collect();
        lines.reverse();
        if let Some(more) = pairs.len().checked_sub(MOST).filter(|more| *more > 0) {
            lines.insert(0, (format!("{} of earlier experiments", count_of(more, "comparison")), None));
        }
        let kept =
            self.summary.kept.iter().filter(|step| step.gain.is_some() && Some(step.index) != self.summary.baseline);
        let open: Vec<ExperimentId> =
            kept.filter(|step| !self.is_verified(step.index)).map(|step| self.points[step.index].id).collect();
        if !open.is_empty() && self.can_verify() {
            let verify = self.facts.verify_command();
            let next = format!("`{verify} N` compares experiment N with the one that it was made on");
            let is_none = pairs.is_empty() && self.hidden_pairs().next().is_none();
            let (line, next) = match (is_none, open.len() > MOST) {
                (true, _) => {
                    ("nothing yet".to_owned(), format!("`{verify}` compares the best experiment with the baseline"))
                }
                (false, true) => (format!("not verified: {}", count_of(open.len(), "keep")), next),
                (false, false) => (format!("not verified: {}", experiment_names(&open)), next),
            };
            lines.push((line, Some(next)));
        }
        let title =
            if pairs.is_empty() { "verified by fresh runs" } else { "verified by fresh runs, positive is better" };
        (!lines.is_empty()).then(|| Section::lines(title, lines))
    }

    /// The part with comparisons with experiments of other sessions.
    pub(super) fn across_section(&self) -> Option<Section> {
        let lines: Vec<_> = across_texts(self).into_iter().map(|line| (line, None)).collect();
        (!lines.is_empty()).then(|| Section::lines("compared with other sessions, positive is better", lines))
    }

    fn pair_text(&self, pair: &VerifiedPair) -> String {
        let VerifiedPair { a, b, runs, difference, low, high, .. } = pair;
        let (a, b, decimals) = (a.text(), b.text(), self.decimals());
        let interval = format!("{difference:+.decimals$} ({low:+.decimals$} to {high:+.decimals$})");
        format!("{b} against {a}: {interval} on {} of each", count_of(*runs, "fresh run"))
    }

    /// Research decides by a score, which is no noisy number.
    fn can_verify(&self) -> bool {
        self.verified.tells_more && self.sources().is_none()
    }

    fn decimals(&self) -> usize {
        self.best().and_then(|point| point.value.as_ref()).map_or(4, Number::decimals).clamp(1, 12)
    }
}

/// The results of fresh runs against experiments of other sessions, a line each.
pub(super) fn across_texts(report: &Report) -> Vec<String> {
    report.verified.across.iter().map(|pair| report.pair_text(pair)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_that_left_no_message_is_told_by_its_reason() {
        let crash = |excerpt: &str| {
            let point = Point { failure: Some(FailureClass::Crash), excerpt: excerpt.into(), ..Point::default() };
            said(&Point { reason: "the run failed (exit 3)".into(), ..point })
        };
        assert_eq!(crash("step 9/10\nstep 10/10 loss 1.0550\n"), "the run failed (exit 3)");
        assert_eq!(crash("step 1\nRuntimeError: shapes\n"), "RuntimeError: shapes");
    }
}
