//! `ar show`.

use std::process::ExitCode;

use autoresearch::domain::Record;
use autoresearch::report::{Format, record_grid};
use autoresearch::rules::confounds_of_keep;
use autoresearch::session::{SavedArtifacts, SessionView};
use serde_json::{Value, json};

use super::args::ShowArgs;
use super::error::CliError;
use super::settings::clock;
use super::{chosen, exit, note, output};

/// Prints one experiment: its record, its diff and the end of its log, or all of that.
pub(super) fn run(args: ShowArgs) -> Result<ExitCode, CliError> {
    let format = args.format;
    if args.log && format != Format::Table {
        return Err(CliError::usage("--log prints a log, which has no other format", "omit --format or --log"));
    }
    let (view, record) = chosen::open_at(&args.experiment, args.tag)?;
    let diff = view.diff(&record)?;
    let dropped = view.folder.why_dropped(record.id);
    let notes = note::on(&view, [&record]).remove(&record.id).unwrap_or_default();
    let _pager = output::paged();
    let screen = (format == Format::Table).then(clock).transpose()?;
    let replaced_by = view.history.replaced().get(&record.id).copied();
    let composite = view.contract.as_ref().and_then(|contract| contract.composite.as_ref());
    let had_to_beat = view.history.had_to_beat(&record);
    let mut grid = record_grid(&record, composite, had_to_beat, replaced_by, &notes, screen);
    let artifacts = view.artifacts(&record);
    if let Some(artifacts) = &artifacts {
        let place = match artifacts {
            SavedArtifacts::In(folder) => match record.artifacts_run {
                Some(run) => format!("in {} ({run})", folder.display()),
                None => format!("in {}", folder.display()),
            },
            SavedArtifacts::Gone(why) => why.clone(),
        };
        grid.push(["artifacts".to_owned(), place]);
    }
    let verified: Vec<_> =
        view.history.verified().iter().filter(|pair| pair.runs > 0 && pair.names(record.id)).collect();
    let decimals = record.metric.number().map_or(4, |number| number.decimals());
    verified.iter().for_each(|pair| grid.push(["verified".to_owned(), pair.sentence(decimals)]));
    match format {
        Format::Table => {
            output::text(&grid.to_fields(output::width()));
            if !diff.is_empty() {
                output::line("");
                output::untrusted(&diff);
            }
            let has_log = if args.log { print_logs(&view, &record)? } else { print_tail(&view, &record)? };
            if let (false, Some(why)) = (has_log, dropped) {
                output::line(&format!("\n{why}"));
            }
        }
        Format::Csv | Format::Md => output::text(&grid.render(format, None)),
        Format::Json => {
            let mut value = json!(record);
            if let Value::Object(fields) = &mut value {
                // The numbers are in `metrics`.
                fields.remove("digits");
                fields.insert("replaced_by".into(), json!(replaced_by));
                fields.insert("confounds".into(), json!(confounds_of_keep(&record, had_to_beat)));
                fields.insert("notes".into(), json!(notes));
                fields.insert("diff_text".into(), String::from_utf8_lossy(&diff).into());
                fields.insert("log_tail".into(), view.log_tail(record.id)?.into());
                fields.insert("logs_dropped".into(), dropped.into());
                let (folder, gone) = match &artifacts {
                    Some(SavedArtifacts::In(folder)) => (Some(folder), None),
                    Some(SavedArtifacts::Gone(why)) => (None, Some(why)),
                    None => (None, None),
                };
                fields.insert("artifacts_folder".into(), json!(folder));
                fields.insert("artifacts_gone".into(), json!(gone));
                fields.insert("verified".into(), json!(verified));
            }
            output::json(&value);
        }
    }
    exit::leave(view);
    Ok(ExitCode::SUCCESS)
}

/// Prints the end of the newest log. Returns whether there is one.
fn print_tail(view: &SessionView, record: &Record) -> Result<bool, CliError> {
    let tail = view.log_tail(record.id)?;
    if !tail.is_empty() {
        output::line(&format!("\nthe end of {}", view.run_log(record.id).display()));
        output::untrusted(tail.as_bytes());
    }
    Ok(!tail.is_empty())
}

/// Prints all logs of an experiment's runs while it reads them. Returns whether there are any.
fn print_logs(view: &SessionView, record: &Record) -> Result<bool, CliError> {
    let logs = view.run_logs(record);
    for (version, log) in &logs {
        let of = version.map(|version| format!(", of version {version}")).unwrap_or_default();
        output::line(&format!("\n{}{of}", log.display()));
        view.stream_log(log, output::bytes)?;
    }
    Ok(!logs.is_empty())
}
