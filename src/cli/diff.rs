//! `ar diff`.

use std::process::ExitCode;

use autoresearch::report::{Format, compared_grid, compared_json};
use autoresearch::rules::{Aspect, Compared, compare};
use autoresearch::session::SessionView;

use super::args::DiffArgs;
use super::error::CliError;
use super::{chosen, output};

/// Prints two experiments side by side, and how their code differs.
pub(super) fn run(args: DiffArgs) -> Result<ExitCode, CliError> {
    let (view, a) = chosen::open_at(&args.experiment, args.tag.clone())?;
    let is_same = args.experiment.tag == args.other.tag || args.other.tag.as_ref() == Some(&view.tag);
    let other = match is_same {
        true => None,
        false => Some(chosen::open_at(&args.other, args.tag)?),
    };
    let (contract, b) = match other {
        Some((other, b)) => (other.contract, b),
        None => (view.contract.clone(), view.find(&args.other.which)?.clone()),
    };
    [&a, &b].into_iter().try_for_each(SessionView::require_commit)?;
    let rows = compare(&a, &b, [view.contract.as_ref(), contract.as_ref()]);
    let code = view.repo.objects.diff_text(&a.commit, &b.commit)?;
    let _pager = output::paged();
    let grid = compared_grid(&a, &b, &rows);
    let format = args.format;
    match format {
        Format::Table => {
            output::text(&grid.to_lines(output::width()));
            let is_elsewhere =
                |row: &Compared| row.aspect == Aspect::Environment && !row.a.is_null() && !row.b.is_null();
            if rows.iter().any(is_elsewhere) {
                output::line("\nthey ran in different environments: such numbers do not compare");
            }
            if !code.is_empty() {
                output::line("");
                output::untrusted(&code);
            }
        }
        Format::Csv | Format::Md => output::text(&grid.render(format, None)),
        Format::Json => output::json(&compared_json(&a, &b, &rows, &String::from_utf8_lossy(&code))),
    }
    Ok(ExitCode::SUCCESS)
}
