//! The line of an outcome: number, verdict and value first, then the description and the reason, as far as they fit.

use anstyle::{AnsiColor, Style};
use autoresearch::domain::{ExperimentId, FailureClass, Number, Outcome, Record};
use autoresearch::report::{columns, fit};
use autoresearch::rules::Ended;

/// The width of the value.
const VALUE: usize = 9;

/// The columns that a description keeps while the text behind it is shortened.
const LEAST_DESCRIPTION: usize = 20;

/// The outcome of an experiment or of a run.
pub(super) struct OutcomeLine {
    /// Number, verdict and value.
    head: String,
    description: String,
    reason: String,
    /// The reason that the gain is doubtful, if it is.
    doubt: Option<String>,
}

impl OutcomeLine {
    /// A finished experiment: its value or the class of its failure, its description, and the reason for its outcome.
    pub(super) fn of_experiment(record: &Record, doubt: Option<&str>) -> OutcomeLine {
        let ended = Ended::of_record(record);
        let color = match ended {
            Ended::Keep => AnsiColor::Green,
            Ended::Discard | Ended::Refused | Ended::Other => AnsiColor::Yellow,
            Ended::Crash => AnsiColor::Red,
        };
        let style = Style::new().fg_color(Some(color.into()));
        let outcome = <&str>::from(ended);
        let class = record.failure.as_ref().map(|failure| failure.class).filter(|class| *class != FailureClass::Crash);
        let class = class.map(|class| class.to_string());
        let value = record.metric.number().as_ref().map(Number::to_string);
        let first = value.as_deref().or(class.as_deref()).unwrap_or("-");
        let class = class.as_ref().filter(|_| value.is_some()).map(|class| format!(" [{class}]")).unwrap_or_default();
        let Record { id, description, reason, .. } = record;
        OutcomeLine {
            head: format!("{id:>4}  {style}{outcome:<8}{style:#} {first:<VALUE$} "),
            description: description.clone(),
            reason: format!("{reason}{class}"),
            doubt: doubt.map(str::to_owned),
        }
    }

    /// A run without a record of its own yet; `what` says in a word what becomes of it.
    pub(super) fn of_run(
        id: ExperimentId,
        what: &str,
        value: Option<&Number>,
        description: &str,
        reason: &str,
    ) -> OutcomeLine {
        let value = value.map_or_else(|| "-".to_owned(), Number::to_string);
        OutcomeLine {
            head: format!("{id:>4}  {what:<8} {value:<VALUE$} "),
            description: description.to_owned(),
            reason: reason.to_owned(),
            doubt: None,
        }
    }

    /// The line in `width` columns, where there is a terminal. The description is shortened first, then the cause of the doubt
    /// is omitted, then the reason is cut: that there is a doubt is the last to go.
    pub(super) fn fit(&self, width: Option<u16>) -> String {
        let OutcomeLine { head, description, reason, doubt } = self;
        let reason = format!(": {reason}");
        let whole_doubt = doubt.as_ref().map(|why| format!("; doubtful: {why}")).unwrap_or_default();
        let line = format!("{head}{description}{reason}{whole_doubt}");
        let Some(width) = width.filter(|width| columns(&line) > usize::from(*width)) else { return line };
        let room = usize::from(width).saturating_sub(columns(head));
        let least = columns(description).min(LEAST_DESCRIPTION);
        let doubt = match doubt {
            Some(_) if least + columns(&reason) + columns(&whole_doubt) > room => "; doubtful",
            _ => &whole_doubt,
        };
        let room = room.saturating_sub(columns(doubt));
        let description = cut(description, room.saturating_sub(columns(&reason)).max(least).min(room));
        let reason = cut(&reason, room - columns(&description));
        fit(&format!("{head}{description}{reason}{doubt}"), Some(width))
    }
}

/// Tells where the user's change is saved that is no longer in the working tree. A refused change stays in the tree.
pub(super) fn saved_line(record: &Record) -> Option<String> {
    let is_refused = record.failure.as_ref().is_some_and(|failure| failure.class.is_refusal());
    let Record { id, outcome, .. } = record;
    (*outcome != Outcome::Keep && !is_refused)
        .then(|| format!("      your change is saved as experiment {id}; `ar restore {id}` puts it on a branch"))
}

/// A text in so many columns; none at all in no column.
fn cut(text: &str, width: usize) -> String {
    if width == 0 { String::new() } else { fit(text, u16::try_from(width).ok()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_shortened_first_then_the_cause_of_a_doubt_then_the_reason() {
        let line = OutcomeLine {
            doubt: Some("gained more than half of 2.0".to_owned()),
            ..OutcomeLine::of_run(7.into(), "keep", None, "a description of 30 characters", "it is better than 2.0")
        };
        let head = "   7  keep     -         ";
        let at = |width: u16| {
            let fitted = line.fit(Some(width));
            assert!(columns(&fitted) <= usize::from(width), "{width}: {fitted}");
            fitted.strip_prefix(head).map(str::to_owned).unwrap_or(fitted)
        };
        let whole = "a description of 30 characters: it is better than 2.0; doubtful: gained more than half of 2.0";
        assert_eq!(line.fit(None), format!("{head}{whole}"));
        assert_eq!(at(118), whole);
        assert_eq!(at(109), "a description of 30 …: it is better than 2.0; doubtful: gained more than half of 2.0");
        assert_eq!(at(107), "a description of 30 characters: it is better than 2.0; doubtful");
        assert_eq!(at(78), "a description of 30…: it is better than 2.0; doubtful");
        assert_eq!(at(70), "a description of 30…: it is better…; doubtful");
        assert_eq!(at(45), "a descrip…; doubtful");
        assert_eq!(at(36), "…; doubtful");
        for width in 1..120 {
            at(width);
        }
    }

    #[test]
    fn wide_characters_and_short_descriptions_fit_too() {
        let fit = |description: &str, width: u16| {
            OutcomeLine::of_run(7.into(), "tried", None, description, "better").fit(Some(width))
        };
        assert_eq!(fit("学習率を上げる学習率を上げる", 53), "   7  tried    -         学習率を上げる学習…: better");
        assert_eq!(fit("short", 33), "   7  tried    -         short: …");
    }
}
