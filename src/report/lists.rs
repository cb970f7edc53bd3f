//! Messages, ideas, findings, ratings and the weights that ratings speak for, as tables.

use serde_json::{Value, json};

use super::{Align, Format, Grid, safe_line, text, wrap};
use crate::domain::{
    Axis, Clock, Composite, FORMAT_VERSION, Finding, Form, Idea, Message, Rating, Severity, Tag, count_of, exact_time,
};
use crate::rules::{Fit, NoFit, Weighed, four_decimals};

/// The words, a row each.
pub fn words_grid(words: &[Message]) -> Grid {
    Grid::of(
        words,
        &[
            ("#", Align::Right, &|word| word.id.to_string()),
            ("prompts", Align::Left, &|word| if word.standing { "each" } else { "the next" }.to_owned()),
            ("word", Align::Left, &|word| word.text.clone()),
        ],
    )
}

/// The ideas, a row each.
pub fn ideas_grid(ideas: &[Idea]) -> Grid {
    Grid::of(
        ideas,
        &[
            ("#", Align::Right, &|idea| idea.id.to_string()),
            ("kind", Align::Left, &|idea| idea.idea.kind.to_string()),
            ("state", Align::Left, &|idea| idea.state.to_string()),
            ("score", Align::Right, &|idea| text(idea.idea.score)),
            ("direction", Align::Left, &|idea| text(idea.idea.direction.as_ref())),
            ("by", Align::Left, &|idea| idea.by.clone()),
            ("idea", Align::Left, &|idea| idea.idea.text.clone()),
        ],
    )
}

/// The findings as a table, a row each.
pub fn findings_grid(findings: &[Finding]) -> Grid {
    Grid::of(
        findings,
        &[
            ("area", Align::Left, &|finding| finding.area.to_string()),
            ("session", Align::Left, &|finding| text(finding.session.as_ref())),
            ("level", Align::Left, &|finding| finding.level.to_string()),
            ("what", Align::Left, &|finding| finding.what.clone()),
            ("hint", Align::Left, &|finding| text(finding.hint.as_ref())),
        ],
    )
}

/// The findings for people: what is wrong with a hint below it, and at last how it stands.
pub fn findings_text(findings: &[Finding], repaired: &[String]) -> String {
    let mut text: String = repaired.iter().map(|deed| format!("repaired: {deed}\n")).collect();
    for finding in findings {
        let about = finding.session.as_ref().map(|tag| format!("{tag}: ")).unwrap_or_default();
        text +=
            &format!("{:<8} {:<10}  {about}{}\n", finding.level.to_string(), finding.area.to_string(), finding.what);
        if let Some(hint) = &finding.hint {
            text += &format!("{:21}hint: {hint}\n", "");
        }
    }
    text + &verdict(findings) + "\n"
}

/// Sums up the findings in one sentence.
fn verdict(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (damaged, errors, warnings) = (count(Severity::Damaged), count(Severity::Error), count(Severity::Warning));
    let parts: Vec<String> = [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| count_of(count, what))
        .collect();
    match (damaged, parts.is_empty()) {
        (0, true) => "no problems found".to_owned(),
        (0, false) => parts.join(", "),
        (_, true) => format!("{damaged} that you have to decide"),
        (_, false) => format!("{damaged} that you have to decide, {}", parts.join(", ")),
    }
}

/// The findings as a JSON document.
pub fn findings_json(sessions: &[Tag], findings: &[Finding], repaired: &[String], health: Severity) -> Value {
    json!({
        "version": FORMAT_VERSION,
        "sessions": sessions,
        "health": health,
        "repaired": repaired,
        "findings": findings,
    })
}

/// The sessions with their ratings, a row each; times are said as on the `screen` of whoever has that clock.
pub fn ratings_grid(ratings: &[(Tag, Option<Rating>)], screen: Option<Clock>) -> Grid {
    let when = |rating: &Rating| screen.map_or_else(|| exact_time(rating.at), |clock| clock.said(rating.at));
    Grid::of(
        ratings,
        &[
            ("session", Align::Left, &|(tag, _)| tag.to_string()),
            ("rating", Align::Right, &|(_, rating)| text(rating.as_ref().map(|rating| rating.value))),
            ("by", Align::Left, &|(_, rating)| text(rating.as_ref().map(|rating| rating.by.as_str()))),
            ("when", Align::Left, &|(_, rating)| text(rating.as_ref().map(when))),
        ],
    )
}

/// The most sessions without a rating to name.
const MOST_NAMED: usize = 5;

/// Renders the weights that ratings speak for: for people with what they rest on and the lines to paste, else the axes alone.
pub fn render_weights(weighed: &Weighed, format: Format, width: Option<u16>) -> String {
    let grid = weights_grid(weighed);
    if format != Format::Table {
        return grid.render(format, width);
    }
    let ratings = count_of(u32::try_from(weighed.weights.ratings).unwrap_or(u32::MAX), "rating");
    let mut text = format!("{ratings} of sessions with the same axes{}\n", of_type(weighed));
    text += &format!("\n{}\n", grid.to_lines(width));
    for line in remarks(weighed) {
        text += &wrap(&line, 2, width);
    }
    if let Ok(fit) = &weighed.weights.fit {
        text += "\npaste this in place of [composite]:\n\n";
        text += &composite_text(&fit.composite);
    }
    text
}

/// The weights that ratings speak for as a JSON document.
pub fn weights_json(tag: &Tag, weighed: &Weighed) -> Value {
    let weights = &weighed.weights;
    let fit = weights.fit.as_ref();
    let missing = match fit {
        Err(NoFit::TooEarly { missing }) => *missing,
        _ => 0,
    };
    let why = |(name, why): (&dyn ToString, &String)| json!({"name": name.to_string(), "why": why});
    json!({
        "version": FORMAT_VERSION,
        "tag": tag,
        "type": weighed.kind,
        "ratings": weights.ratings,
        "missing": missing,
        "error": fit.ok().map(|fit| fit.error),
        "error_of_mean": fit.ok().map(|fit| fit.error_of_mean),
        "ridge": fit.ok().map(|fit| fit.parameter),
        "composite": fit.ok().map(|fit| &fit.composite),
        "why_none": fit.err().map(ToString::to_string),
        "negative": fit.map(|fit| fit.negative.as_slice()).unwrap_or_default(),
        "unlearned": weights.unlearned.iter().map(|(axis, reason)| why((axis, reason))).collect::<Vec<_>>(),
        "left_out": weights.left_out.iter().map(|(tag, reason)| why((tag, reason))).collect::<Vec<_>>(),
        "others": weighed.others,
        "unrated": weighed.unrated,
    })
}

/// The axes, a row each: the weight now and the fitted one.
fn weights_grid(weighed: &Weighed) -> Grid {
    let fit = weighed.weights.fit.as_ref();
    let fitted = |name: &str| Some(four_decimals(fit.ok()?.composite.axes.get(name)?.weight));
    let remark = |name: &str| {
        let is_negative = || fit.is_ok_and(|fit| fit.negative.iter().any(|axis| axis == name));
        let unlearned = weighed.weights.unlearned.iter().find(|(axis, _)| axis == name);
        match unlearned {
            Some((_, why)) => format!("{why}: nothing to learn, so it keeps its weight"),
            None if is_negative() => "the ratings fall with it, so its weight is 0".to_owned(),
            None => String::new(),
        }
    };
    Grid::of(
        &weighed.composite.axes,
        &[
            ("axis", Align::Left, &|(name, _): &(&String, &Axis)| (*name).clone()),
            ("weight", Align::Right, &|(_, axis)| four_decimals(axis.weight)),
            ("fitted", Align::Right, &|(name, _)| text(fitted(name))),
            ("remark", Align::Left, &|(name, _)| remark(name)),
        ],
    )
    .without_if_empty(&["fitted", "remark"])
}

/// Describes the basis of the weights, or the reason that there are none.
fn remarks(weighed: &Weighed) -> Vec<String> {
    let weights = &weighed.weights;
    let mut lines = match &weights.fit {
        Ok(fit) => of_fit(fit),
        Err(error) => vec![error.to_string()],
    };
    if weighed.composite.form != Form::Weighted {
        lines.push(format!("the form {} takes no weights; these are for the weighted one", weighed.composite.form));
    }
    lines.extend(weights.left_out.iter().map(|(tag, why)| format!("left out session {tag}: {why}")));
    if !weighed.others.is_empty() {
        lines.push(format!("left out, with other axes or another type: {}", names(&weighed.others)));
    }
    if !weighed.unrated.is_empty() {
        lines.push(format!(
            "without a rating: {}; rate one with `ar rate SESSION 0.8`",
            names(&weighed.unrated.iter().map(Tag::to_string).collect::<Vec<_>>())
        ));
    }
    lines
}

fn of_fit(fit: &Fit) -> Vec<String> {
    let (error, of_mean) = (four_decimals(fit.error), four_decimals(fit.error_of_mean));
    let mut lines = vec![format!(
        "a rating that was left out is predicted within {error} (root mean square); the mean of the others: {of_mean}"
    )];
    if fit.error >= fit.error_of_mean {
        lines.push("the axes predict the ratings no better than their mean does; keep the weights you have".to_owned());
    }
    lines.push(format!("ridge parameter, chosen by cross-validation: {}", fit.parameter));
    lines
}

/// The type of the question, at the end of a phrase.
fn of_type(weighed: &Weighed) -> String {
    weighed.kind.as_ref().map(|kind| format!(" and type {}", safe_line(kind))).unwrap_or_default()
}

/// The first of some sessions, and how many more there are.
fn names(sessions: &[impl AsRef<str>]) -> String {
    let named: Vec<&str> = sessions.iter().take(MOST_NAMED).map(AsRef::as_ref).collect();
    let more = sessions.len() - named.len();
    named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// A composite as the lines of `ar.toml`, or of `research.toml`.
fn composite_text(composite: &Composite) -> String {
    let name = |name: &str| toml::Value::from(name).to_string();
    let is_bare = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let mut text = format!("[composite]\nform = \"{}\"\n", composite.form);
    for (axis, Axis { weight, floor, range }) in &composite.axes {
        let key = if is_bare(axis) { axis.clone() } else { name(axis) };
        text += &format!("\n[composite.axes.{key}]\nweight = {weight}\n");
        if let Some(floor) = floor {
            text += &format!("floor = {floor}\n");
        }
        if let Some([lo, hi]) = range {
            text += &format!("range = [{lo:?}, {hi:?}]\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_pasted_reads_back() {
        let mut composite = Composite::preset("business").unwrap();
        composite.axes.insert("tok/s \"net\"".into(), Axis { weight: 1e-4, floor: Some(0.3), range: Some([2e9, 0.0]) });
        composite.axes.insert("whole".into(), Axis { weight: 0.0, floor: None, range: Some([0.0, 1.5]) });
        #[derive(serde::Deserialize)]
        struct Settings {
            composite: Composite,
        }
        let text = composite_text(&composite);
        assert_eq!(toml::from_str::<Settings>(&text).unwrap().composite, composite, "{text}");
    }
}
