//! Which column of a ledger is which.

use super::status::Verdict;

const COMMIT: &[&str] = &[
    "commit",
    "commit_hash",
    "hash",
    "sha",
    "commit_sha",
    "git_sha",
    "git_hash",
    "git_commit",
    "revision",
    "rev",
    "cand_hash",
];

/// The verdict's names, first choice first.
const STATUS: &[&str] = &["status", "accepted", "kept", "correct", "correctness", "outcome", "verdict", "decision"];

const DESCRIPTION: &[&str] = &[
    "description",
    "desc",
    "notes",
    "note",
    "rationale",
    "comment",
    "change",
    "summary",
    "hypothesis",
    "strategy",
    "message",
    "idea",
];

/// Names of columns that are never the metric.
const NEVER_METRIC: &[&str] = &[
    "id",
    "exp",
    "iter",
    "iteration",
    "round",
    "gen",
    "run",
    "step",
    "n",
    "timestamp",
    "time",
    "date",
    "started",
    "finished",
    "seed",
];

/// Where the columns of a ledger are; indices from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) commit: Option<usize>,
    pub(super) metric: Option<usize>,
    pub(super) memory: Option<usize>,
    pub(super) status: Option<usize>,
    pub(super) description: Option<usize>,
}

impl Columns {
    /// Finds the columns by their names; the metric by `metric` alone.
    pub(super) fn by_name<S: AsRef<str>>(names: &[S], metric: Option<&str>) -> Self {
        let metric = metric.and_then(|metric| {
            let exact = names.iter().position(|name| name.as_ref().trim() == metric);
            exact.or_else(|| names.iter().position(|name| name.as_ref().trim().eq_ignore_ascii_case(metric)))
        });
        Columns {
            commit: first_of(names, COMMIT),
            metric,
            memory: names.iter().position(|name| memory_unit(name.as_ref()).is_some()),
            status: first_of(names, STATUS),
            description: first_of(names, DESCRIPTION),
        }
    }

    /// Whether the column may be the metric as far as its place and name go.
    pub(super) fn may_be_metric(&self, column: usize, name: &str) -> bool {
        let taken = [self.commit, self.memory, self.status, self.description].contains(&Some(column));
        !taken && !NEVER_METRIC.contains(&name.trim().to_lowercase().as_str())
    }
}

fn first_of<S: AsRef<str>>(names: &[S], wanted: &[&str]) -> Option<usize> {
    wanted.iter().find_map(|wanted| names.iter().position(|name| name.as_ref().trim().eq_ignore_ascii_case(wanted)))
}

/// How many of a memory column's units make a GiB; absent for a column that is no memory.
pub(super) fn memory_unit(name: &str) -> Option<f64> {
    let name = name.trim().to_lowercase();
    let unit = match name.rsplit_once('_')?.1 {
        "gb" | "gib" => 1.0,
        "mb" | "mib" => 1024.0,
        _ => return None,
    };
    ["mem", "vram"].iter().any(|part| name.contains(part)).then_some(unit)
}

/// How the verdict is written in a column of this name.
pub(super) fn verdict(name: &str) -> Verdict {
    if ["accepted", "kept"].contains(&name.trim().to_lowercase().as_str()) { Verdict::Flag } else { Verdict::Word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_in_any_order_under_their_usual_names() {
        let names = ["exp", "tok_s", "vram_peak_mb", "notes", "status", "Description", "sha"];
        let columns = Columns::by_name(&names, Some("tok_s"));
        let expected =
            Columns { commit: Some(6), metric: Some(1), memory: Some(2), status: Some(4), description: Some(5) };
        assert_eq!(columns, expected);
        assert_eq!(
            (memory_unit("vram_peak_mb"), memory_unit("memory_gb"), memory_unit("size_mb")),
            (Some(1024.0), Some(1.0), None)
        );
    }
}
