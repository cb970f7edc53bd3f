use proptest::prelude::*;
use strum::VariantArray;

use super::super::columns::Columns;
use super::*;
use crate::domain::{CommitId, LedgerDialect, Number, Outcome};
use crate::ledger::{RowStatus, Said, read};

const HEADER: [&str; 5] = ["commit_hash", "val_bpb", "memory_gb", "status", "description"];

/// An experiment whose commit is `digit` forty times.
fn experiment(digit: char, value: Option<&str>, description: &str) -> (CommitId, Option<Number>, String) {
    let value = value.map(|value| value.parse().unwrap());
    (CommitId::new(digit.to_string().repeat(40)), value, description.to_owned())
}

fn entries(experiments: &[(CommitId, Option<Number>, String)]) -> Vec<Entry<'_>> {
    experiments
        .iter()
        .map(|(commit, value, description)| Entry {
            commit,
            value: value.clone(),
            memory_gb: None,
            outcome: if value.is_some() { Outcome::Keep } else { Outcome::Crash },
            failure: None,
            description,
            is_partial: false,
            is_refused: false,
        })
        .collect()
}

fn format_of(text: &str) -> (RowFormat, bool) {
    match text.strip_prefix(&(HEADER.join("\t") + "\n")) {
        Some(rows) => {
            let records = crate::ledger::tsv::records(rows).map(|(_, row)| row);
            (RowFormat::continued(&HEADER, Columns::by_name(&HEADER, Some("val_bpb")), records, "\n"), true)
        }
        None => (RowFormat::new("val_bpb", LedgerDialect::Ar), false),
    }
}

/// The comparison, the rebuilt text, and where the rows are.
fn rebuilt(text: &str, experiments: &[(CommitId, Option<Number>, String)]) -> (Comparison, String, Vec<u64>) {
    let (format, has_header) = format_of(text);
    let rebuild = Rebuild::new(text, &format, has_header, &entries(experiments));
    let (text, places) = rebuild.text();
    (rebuild.comparison(), text, places)
}

#[test]
fn a_refused_change_needs_no_row_in_karpathys_dialect() {
    let experiments = [
        experiment('a', Some("1.50"), "baseline"),
        experiment('b', None, "refused"),
        experiment('c', Some("1.25"), "c"),
    ];
    let mut entries = entries(&experiments);
    entries[1].is_refused = true;
    for (dialect, expected) in [(LedgerDialect::Karpathy, 2), (LedgerDialect::Ar, 3)] {
        let format = RowFormat::new("val_bpb", dialect);
        let rows: Vec<String> = entries.iter().map(|entry| format.row(entry)).collect();
        let header = format.header_line();
        let (text, places) = Rebuild::new("", &format, false, &entries).text();
        assert_eq!((text.lines().count(), text.starts_with(&header), places.len()), (expected + 1, true, 3));
        let again = Rebuild::new(&text, &format, true, &entries);
        assert!(again.comparison().is_whole() && again.text().0 == text, "{text}");
        // A row that is there, also a torn one, stays.
        let old = header + &rows.concat();
        let whole = Rebuild::new(&old, &format, true, &entries);
        assert_eq!((whole.comparison().is_whole(), whole.comparison().own, whole.text().0 == old), (true, 3, true));
        let torn = old.replace("refused\n", "refu\n");
        assert_eq!(Rebuild::new(&torn, &format, true, &entries).text().0.lines().count(), 4);
    }
    let format = RowFormat::new("val_bpb", LedgerDialect::Karpathy);
    assert_eq!(Rebuild::new("", &format, false, &entries[1..2]).text().0, "");
}

#[test]
fn every_kind_of_damage_is_found_and_mended() {
    let three = [
        experiment('a', Some("1.50"), "baseline"),
        experiment('b', None, "a typo in the loss"),
        experiment('c', Some("1.25"), "say µ and ü"),
    ];
    let (header, [a, b, c]) = (
        HEADER.join("\t") + "\n",
        [
            "aaaaaaaa\t1.50\tnan\timproved\tbaseline\n",
            "bbbbbbbb\tnan\tnan\tfailed\ta typo in the loss\n",
            "cccccccc\t1.25\tnan\timproved\tsay µ and ü\n",
        ],
    );
    let whole = format!("{header}{a}{b}{c}");
    let mine = "deadbeef\t1.1\t2.0\timproved\tby hand\n";
    let half = &b[..b.len() - 9];
    for (what, text, expected, missing, torn, repeated) in [
        ("all is there", whole.clone(), whole.clone(), vec![], vec![], vec![]),
        ("no file", String::new(), whole.clone(), vec![0, 1, 2], vec![], vec![]),
        ("only a remark", "# mine\n".into(), format!("# mine\n{whole}"), vec![0, 1, 2], vec![], vec![]),
        (
            "one is missing",
            format!("{header}{a}{mine}{c}"),
            format!("{header}{a}{b}{mine}{c}"),
            vec![1],
            vec![],
            vec![],
        ),
        (
            "the first is missing",
            format!("{header}{mine}{b}{c}"),
            format!("{header}{mine}{whole}").replace(&format!("{mine}{header}"), mine),
            vec![0],
            vec![],
            vec![],
        ),
        ("the last is torn", format!("{header}{a}{b}{}", &c[..20]), whole.clone(), vec![2], vec![4], vec![]),
        ("only its end is missing", whole.trim_end().into(), whole.clone(), vec![], vec![4], vec![]),
        ("zeros after a power cut", format!("{header}{a}{b}{}\0\0", &c[..9]), whole.clone(), vec![2], vec![4], vec![]),
        ("torn, and written again", format!("{header}{a}{half}\n{b}{c}"), whole.clone(), vec![], vec![3], vec![]),
        ("torn in the middle", format!("{header}{a}bbbbbbbb\tnan\n{c}"), whole.clone(), vec![1], vec![3], vec![]),
        ("twice", format!("{header}{a}{b}{b}{c}"), whole.clone(), vec![], vec![], vec![4]),
        ("in another order", format!("{header}{c}{a}{b}"), format!("{header}{c}{a}{b}"), vec![], vec![], vec![]),
        (
            "a line end of others",
            format!("{header}{a}{b}{c}{}", mine.trim_end()),
            format!("{header}{a}{b}{c}{}", mine.trim_end()),
            vec![],
            vec![],
            vec![],
        ),
    ] {
        let (found, text, places) = rebuilt(&text, &three);
        assert_eq!(text, expected, "{what}");
        assert_eq!((found.missing, found.torn, found.repeated), (missing, torn, repeated), "{what}");
        for (place, row) in places.iter().zip([a, b, c]) {
            assert!(text[usize::try_from(*place).unwrap()..].starts_with(row), "{what}: {place} in {text}");
        }
    }
}

#[test]
fn a_row_that_was_edited_is_still_the_row_of_its_experiment() {
    let one = [experiment('a', Some("1.50"), "baseline")];
    for (row, differs) in [
        ("aaaaaaaa\t1.5\t14.0\tIMPROVED\tthe start", false),
        ("aaaaaaa\t1.50\tnan\tkeep\tbaseline", false),
        ("aaaaaaaa\t1.40\tnan\timproved\tbaseline", true),
        ("aaaaaaaa\t1.50\tnan\trejected\tbaseline", true),
    ] {
        let text = format!("{}\n{row}\n", HEADER.join("\t"));
        let (found, after, _) = rebuilt(&text, &one);
        assert_eq!(found.differing, if differs { vec![(2, 0)] } else { vec![] }, "{row}");
        assert!(found.is_whole() && found.foreign == 0, "{row}: {found:?}");
        assert_eq!(after, text);
    }
}

#[test]
fn a_keep_whose_train_has_the_number_is_no_zero_in_any_dialect() {
    let experiments = [experiment('a', None, "rides"), experiment('b', Some("1.5"), "leads")];
    for dialect in LedgerDialect::VARIANTS {
        let format = RowFormat::new("loss", *dialect);
        let mut entries = entries(&experiments);
        entries.iter_mut().for_each(|entry| entry.outcome = Outcome::Keep);
        entries[0].memory_gb = Some(2.0);
        let row = format.row(&entries[0]);
        let cells: Vec<&str> = row.trim_end().split('\t').collect();
        assert_eq!((cells[1], cells[2]), ("nan", "2.0"), "{dialect:?}");
        let text = format.header_line() + &row + &format.row(&entries[1]);
        assert!(Rebuild::new(&text, &format, true, &entries).comparison().is_whole());
        let ledger = read(text.as_bytes(), &Said::default());
        let rows: Vec<_> =
            ledger.rows.iter().map(|row| (row.status, row.value.is_some(), row.problem.clone())).collect();
        assert_eq!(rows, [(RowStatus::Keep, false, None), (RowStatus::Keep, true, None)]);
    }
}

#[test]
fn two_sessions_on_one_commit_have_a_row_each() {
    let two = [experiment('a', Some("1.50"), "baseline"), experiment('a', Some("1.50"), "baseline")];
    let row = "aaaaaaaa\t1.50\tnan\timproved\tbaseline\n";
    let (found, text, _) = rebuilt(&format!("{}\n{row}", HEADER.join("\t")), &two);
    assert_eq!(found.missing, [1]);
    assert_eq!(text, format!("{}\n{row}{row}", HEADER.join("\t")));
    assert_eq!(rebuilt(&text, &two).0, Comparison { own: 2, ..Comparison::default() });
}

/// Damage to a row of a file.
#[derive(Debug, Clone)]
enum Damage {
    None,
    Lost,
    Twice,
    TornAndAgain(usize),
    Foreign(String),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let damage = prop_oneof![
        3 => Just(Damage::None),
        1 => Just(Damage::Lost),
        1 => Just(Damage::Twice),
        1 => (9usize..40).prop_map(Damage::TornAndAgain),
        2 => "[ -~]{0,12}(\t[ -~]{0,6}){0,5}".prop_map(Damage::Foreign),
    ];
    proptest::collection::vec(damage, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn each_experiment_has_one_row_and_nothing_of_others_is_lost(
        damages in damages(),
        cut in proptest::option::of(1usize..60),
        descriptions in proptest::collection::vec("\\PC{0,16}", 12),
        has_header in any::<bool>(),
    ) {
        let experiments: Vec<_> = descriptions
            .iter()
            .zip("0123456789abcdef".chars())
            .map(|(description, digit)| experiment(digit, (digit != '3').then_some("1.5"), description))
            .collect();
        let (format, _) = format_of("");
        let rows: Vec<String> = entries(&experiments).iter().map(|entry| format.row(entry)).collect();
        let mut text = if has_header { format.header_line() } else { String::new() };
        let mut foreign = Vec::new();
        if has_header {
            for (damage, row) in damages.iter().zip(&rows) {
                let end = |cut: usize| (0..=cut.min(row.len() - 1)).rev().find(|end| row.is_char_boundary(*end)).unwrap();
                match damage {
                    Damage::None => text += row,
                    Damage::Lost => {}
                    Damage::Twice => text += &row.repeat(2),
                    Damage::TornAndAgain(cut) => text += &format!("{}\n{row}", &row[..end(*cut)].trim_end_matches('\n')),
                    Damage::Foreign(line) => {
                        text += &format!("{row}{line}\n");
                        foreign.push(line.clone());
                    }
                }
            }
            if let Some(cut) = cut
                && text.ends_with('\n')
                && matches!(damages.last(), Some(Damage::None | Damage::Twice | Damage::TornAndAgain(_)))
            {
                let from = text.trim_end().rfind('\n').unwrap_or_default() + 2;
                let to = (from..text.len()).filter(|end| text.is_char_boundary(*end)).nth(cut).unwrap_or(text.len());
                text.truncate(to);
            }
        }
        let (before, after, places) = rebuilt(&text, &experiments);
        for (row, place) in rows.iter().zip(&places) {
            prop_assert!(after[usize::try_from(*place).unwrap()..].starts_with(row.as_str()), "{after:?} has no {row:?}");
            prop_assert_eq!(after.split_inclusive('\n').filter(|line| line == row).count(), 1);
        }
        let mut left = after.lines();
        for line in &foreign {
            prop_assert!(left.any(|found| found == line), "{line:?} is lost or moved in {after:?}");
        }
        if before.is_whole() {
            prop_assert_eq!(&after, &text);
        }
        let (again, same, _) = rebuilt(&after, &experiments);
        prop_assert!(again.is_whole(), "{again:?} in {after:?}");
        prop_assert_eq!(same, after);
    }
}
