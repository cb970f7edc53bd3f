use proptest::prelude::*;

use super::*;
use crate::domain::{CommitId, Outcome, one_line};
use crate::ledger::columns::ColumnPositions;
use crate::ledger::shape::{Entry, RowFormat};

/// The content of an experiment's row.
#[derive(Debug, Clone)]
struct Told {
    commit: CommitId,
    value: Option<String>,
    memory: Option<f64>,
    outcome: Outcome,
    description: String,
}

fn told() -> impl Strategy<Value = Told> {
    let outcome = prop_oneof![Just(Outcome::Keep), Just(Outcome::Discard), Just(Outcome::Crash)];
    let value = proptest::option::of("-?[1-9][0-9]{0,3}(\\.[0-9]{1,6})?(e-?[1-9])?");
    ("[0-9a-f]{40}", value, proptest::option::of(0.1..200.0), outcome, "[a-zA-Z0-9µ最 ,;:|'()%#-]{0,30}").prop_map(
        |(commit, value, memory, outcome, description)| Told {
            commit: CommitId::new(commit),
            // A kept experiment has a value, a crashed one does not.
            value: match outcome {
                Outcome::Keep => value.or(Some("1.50".to_owned())),
                Outcome::Discard => value,
                Outcome::Crash => None,
            },
            memory,
            outcome,
            description: format!("it {}", description.trim()),
        },
    )
}

/// Checks that a row says what was told.
fn same(row: &Row, told: &Told) -> Result<(), TestCaseError> {
    prop_assert!(row.commit.as_deref().is_some_and(|commit| told.commit.as_str().starts_with(commit)));
    prop_assert_eq!(row.value.as_ref().map(|number| &number.raw), told.value.as_ref());
    let status = match told.outcome {
        Outcome::Keep => RowStatus::Keep,
        Outcome::Discard => RowStatus::Discard,
        Outcome::Crash => RowStatus::Crash,
    };
    prop_assert_eq!(row.status, status);
    prop_assert_eq!(one_line(&row.description), one_line(&told.description));
    Ok(())
}

proptest! {
    #[test]
    fn rows_of_either_dialect_come_back_whatever_the_order_of_the_columns_and_what_is_between_them(
        rows in proptest::collection::vec(told(), 0..12),
        columns in Just(["commit", "val_bpb", "memory_gb", "status", "description", "tok_s", "note"]).prop_shuffle(),
        is_ours in any::<bool>(),
        ending in prop_oneof![Just("\n"), Just("\r\n")],
        bad in proptest::collection::vec((0usize..12, prop_oneof![1usize..7, 8usize..12], "[a-z0-9.]{1,8}"), 0..6),
        is_torn in any::<bool>(),
    ) {
        let header = columns.map(|name| if is_ours && name == "commit" { "commit_hash" } else { name });
        let places = ColumnPositions::by_name(&header, Some("val_bpb"));
        let format = RowFormat::continued(&header, places, std::iter::empty(), ending);
        let mut lines: Vec<String> = rows.iter().map(|told| format.row(&Entry {
            commit: &told.commit,
            value: told.value.as_ref().map(|raw| raw.parse().unwrap()),
            memory_gb: told.memory,
            outcome: told.outcome,
            failure: None,
            description: &told.description,
            is_partial: false,
            is_refused: false,
            is_baseline: false,
        })).collect();
        for (place, count, cell) in &bad {
            let place = (*place).min(lines.len());
            lines.insert(place, vec![cell.as_str(); *count].join("\t") + ending);
        }
        let mut text = format!("\n# a comment{ending}") + &format.header_line() + &lines.concat();
        if is_torn {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        let found = of_metric(&text, "val_bpb");
        let (malformed, whole): (Vec<_>, Vec<_>) = found.rows.iter().partition(|row| row.status == RowStatus::Malformed);
        prop_assert_eq!(malformed.len(), bad.len());
        prop_assert_eq!(whole.len(), rows.len());
        for (row, told) in whole.into_iter().zip(&rows) {
            same(row, told)?;
            prop_assert_eq!(row.memory_gb.map(|memory| format!("{memory:.1}")),
                told.memory.filter(|_| is_ours || told.value.is_some()).map(|memory| format!("{memory:.1}")));
        }
    }

    #[test]
    fn rows_in_commas_and_in_json_come_back_whatever_stands_in_a_cell(
        rows in proptest::collection::vec((told(), "(?s).{0,20}|[\"\n,;\r ]{0,6}"), 1..8),
    ) {
        let rows: Vec<Told> = rows.into_iter().map(|(told, description)| Told { description, ..told }).collect();
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["commit", "loss", "status", "description"]).unwrap();
        let mut json = "{\"type\":\"config\",\"metricName\":\"loss\"}\n".to_owned();
        for told in &rows {
            let (value, outcome) = (told.value.clone().unwrap_or_default(), told.outcome.to_string());
            writer.write_record([told.commit.as_str(), &value, &outcome, &told.description]).unwrap();
            let value = if value.is_empty() { "null" } else { &value };
            json += &format!("{{\"commit\":\"{}\",\"metric\":{value},\"status\":\"{outcome}\",\"description\":{}}}\n",
                told.commit, serde_json::to_string(&told.description).unwrap());
        }
        let commas = writer.into_inner().unwrap();
        for text in [commas.as_slice(), json.as_bytes()] {
            let found = read(text, &ReadOptions::default());
            prop_assert_eq!(found.rows.len(), rows.len(), "{}", String::from_utf8_lossy(text));
            for (row, told) in found.rows.iter().zip(&rows) {
                same(row, told)?;
            }
        }
    }

    #[test]
    fn any_bytes_are_a_ledger_that_adds_up_and_invents_no_number(
        text in "(commit\t|loss[\t,]|keep|crash|\\{\"a\":1\\}|\\{\"metricName\":\"a\"\\}|\n|\r\n|\t|,|\\| ?|---|#|\"|[0-9.%,-]{1,5}|ms|\\PC{0,3}){0,60}",
        metric in proptest::option::of("loss|a|2"),
        segment in proptest::option::of(0usize..3),
    ) {
        let found = read(text.as_bytes(), &ReadOptions { metric: metric.as_deref(), direction: None, segment });
        let counts = Report::of_ledger(found.clone()).counts();
        prop_assert_eq!(counts.total, counts.keep + counts.discard + counts.crash + counts.other + counts.malformed);
        prop_assert!(found.rows.len() <= text.split(['\n', '\r']).count());
        let plain = text.replace(',', "");
        for row in &found.rows {
            prop_assert_eq!(row.status == RowStatus::Malformed && row.problem.is_none(), false);
            if let Some(number) = &row.value {
                let printed = number.printed.as_ref().unwrap_or(&number.raw);
                prop_assert!(text.contains(printed) || plain.contains(printed));
            }
        }
    }

    #[test]
    fn noise_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        read(bytes, &ReadOptions::default());
    }
}
