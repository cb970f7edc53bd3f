//! `ar score`.

use std::borrow::Cow;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use autoresearch::domain::{COMPOSITE, CommitId, ExperimentId, FORMAT_VERSION, Form, Number, Tag, count_of, one_line};
use autoresearch::git::Repo;
use autoresearch::report::{Align, Format, Grid};
use autoresearch::rules::{artifact_metric, four_decimals};
use autoresearch::score::{Score, explain};
use autoresearch::session::{Compared, Scored, ScoredOf, score};
use serde_json::{Map, Value, json};

use super::args::ScoreArgs;
use super::error::CliError;
use super::process::{current_dir, runtime};
use super::{chosen, output};

/// Prints what the research artifact of the working tree scores. Only an artifact or terms that cannot be read are an error.
pub(super) fn run(args: ScoreArgs) -> Result<ExitCode, CliError> {
    let dir = current_dir()?;
    let named = args.session.or(args.tag);
    let of_call = variable("AR_TAG").and_then(|tag| tag.parse::<Tag>().ok());
    // The experiment whose run or agent this is a part of.
    let own = variable("AR_EXPERIMENT").and_then(|id| id.parse::<ExperimentId>().ok());
    let own = own.filter(|_| of_call.is_some() && named.as_ref().is_none_or(|tag| Some(tag) == of_call.as_ref()));
    let commit = variable("AR_COMMIT").filter(|_| own.is_some()).map(|commit| CommitId::new(&commit));
    let folder = variable("AR_RUN_DIR").filter(|_| commit.is_some()).map(PathBuf::from);
    let tag = match named.or(of_call) {
        Some(tag) => Some(chosen::find(&Repo::find(&dir)?, Some(tag))?),
        None => None,
    };
    let scored = runtime()?.block_on(score(&dir, tag, ScoredOf { experiment: own, commit, folder }))?;
    match args.format {
        Format::Json => output::json(&document(&scored)),
        Format::Table => output::text(&text(&scored)),
        format => {
            let mut grid = Grid::new([("axis", Align::Left), ("value", Align::Right)]);
            for (name, value) in lines(&scored.score) {
                grid.push([name.into_owned(), value]);
            }
            output::text(&grid.render(format, output::width()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Explains the score, then lists the values. They come last because the last value of a name in a log counts.
fn text(scored: &Scored) -> String {
    let mut text = format!("question: {}\n{}\n", one_line(&scored.terms.question), compared(&scored.compared));
    for line in explain(&scored.score, &scored.terms) {
        text += &line;
        text.push('\n');
    }
    for (name, value) in lines(&scored.score) {
        text += &format!("{name}: {value}\n");
    }
    text
}

/// The axes and the composite as they are printed, and after them the composite of the artifact.
fn lines(score: &Score) -> Vec<(Cow<'static, str>, String)> {
    let number = |value: Option<f64>| value.map_or("nan".to_owned(), four_decimals);
    let mut lines: Vec<_> = score.axes.iter().map(|(name, value)| (Cow::from(*name), number(*value))).collect();
    let whole = |number: &Option<Number>| number.as_ref().map_or("nan".to_owned(), |number| number.raw.clone());
    lines.push((COMPOSITE.into(), whole(&score.composite)));
    lines.push((artifact_metric(COMPOSITE).into(), whole(&score.artifact.composite)));
    lines
}

fn compared(compared: &Compared) -> String {
    let kept = match (&compared.kept, compared.experiment) {
        (Some(_), Some(id)) if id.is_baseline() => "the baseline".to_owned(),
        (Some(_), Some(id)) => format!("experiment {id}"),
        (Some(commit), None) => format!("commit {}", commit.short(8)),
        (None, _) => "nothing".to_owned(),
    };
    match &compared.session {
        Some(tag) => {
            let earlier = count_of(compared.earlier, "earlier iteration");
            format!("compared with {kept} and {earlier} of session {tag}")
        }
        None => format!("compared with {kept}, outside of a session"),
    }
}

fn document(scored: &Scored) -> Value {
    let Scored { terms, compared, score } = scored;
    let axes: Map<String, Value> = score.axes.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let by: Map<String, Value> = score.diversity.iter().map(|(by, value)| ((*by).to_owned(), json!(value))).collect();
    let forms: Map<String, Value> =
        score.forms.iter().map(|(form, value)| (form.to_string(), json!(value.as_ref().map(|it| it.value)))).collect();
    let topics =
        |places: &mut dyn Iterator<Item = usize>| places.map(|place| terms.topics[place].clone()).collect::<Vec<_>>();
    let texts = json!({
        "version": FORMAT_VERSION,
        "topics": {
            "addressed": topics(&mut score.addressed.iter().copied()),
            "added": topics(&mut score.added.iter().copied()),
            "new": topics(&mut score.newly.iter().copied()),
            "open": topics(&mut (0..terms.topics.len()).filter(|place| !score.addressed.contains(place))),
        },
        "warnings": score.warnings,
        "problems": score.problems,
    });
    let numbers = json!({
        "claims": {"new": score.claims.0, "verified": score.claims.1, "repeats": score.repeats},
        "removed": score.removed,
        "sources": {"cited": score.sources.0, "first_stored": score.first_stored, "diversity": by, "kept": score.stored.0, "stored": score.stored.1},
        "compared": {
            "session": compared.session,
            "experiment": compared.experiment,
            "commit": compared.kept,
            "earlier": compared.earlier,
        },
        "reverified": score.batch.map(|(citations, failed)| json!({"citations": citations, "problems": failed})),
        "form": Form::Weighted.to_string(),
        "forms": forms,
        "artifact": {
            "axes": score.artifact.axes,
            "composite": score.artifact.value(),
            "form": terms.composite.form.to_string(),
        },
        "worst": score.worst,
        "axes": axes,
        "composite": score.composite.as_ref().map(|value| value.value),
    });
    // In a log the last number of a name counts: no text that an agent wrote comes after the numbers.
    Value::Object([texts, numbers].into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect())
}
