//! Attacks on results.tsv.

use super::harness::{assert_undone, measured, repo, said, session};
use crate::support::can_have_walls;

#[test]
fn rows_that_the_agent_changes_deletes_or_makes_up_are_put_right_and_named() {
    let (repo, called) = assert_undone(&[
        ("sed -i 's/\\t2.0\\t/\\t0.1\\t/' results.tsv", "1 row changed or missing, restored"),
        ("sed -i '$d' results.tsv", "results.tsv changed while the agent was active: "),
        (
            "tail -n 1 results.tsv | sed 's/\\t[0-9.]*\\t/\\t0.001\\t/' >> results.tsv",
            "1 row without an experiment, removed",
        ),
        ("tail -n 1 results.tsv >> results.tsv", "1 row without an experiment"),
        ("cp results.tsv ../rows; rm results.tsv; ln -s ../rows results.tsv", "results.tsv.before-repair"),
        ("rm results.tsv; mkfifo results.tsv", "results.tsv.before-repair-3"),
        ("rm results.tsv; mkdir results.tsv", "results.tsv.before-repair-4"),
        (
            "head -n 1 results.tsv > ../one; tail -n +2 results.tsv | tac > ../tac; cat ../one ../tac > results.tsv",
            "rows in another order",
        ),
        // A row for the commit that becomes the experiment's.
        (
            "echo 1.90 > src/value; git commit -qam 'number 9'; printf '%s\\t0.001\\t0.1\\timproved\\tfake\\n' \
             $(git rev-parse --short=8 HEAD) >> results.tsv",
            "1 row without an experiment",
        ),
        ("printf 'loss\\tx\\n' > results.tsv", "rows changed or missing, restored"),
    ]);
    assert!(!repo.read("results.tsv").contains("0.001"), "{}", repo.read("results.tsv"));
    assert!(repo.read("results.tsv.before-repair").contains("0.1"), "{called:?}");
}

#[test]
fn rows_that_the_agent_adds_are_taken_out_and_named_and_the_next_prompt_says_so() {
    let honest = repo();
    session(&honest, &["true", "true"], &[]).ok();
    let hostile = repo();
    let row = "feedface\t0.5\t1.0\timproved\tby the agent";
    let next = "cp $AR_PROMPT ../prompt";
    let called = session(&hostile, &[&format!("printf '{row}\\n# mine\\n' >> results.tsv"), next], &[]).ok();
    let named = format!("2 rows without an experiment, removed: \"{}\", \"# mine\"", row.replace('\t', " "));
    assert!(said(&called).contains(&named), "{called:?}");
    assert_eq!(hostile.read(".autoresearch/t/runs/00001/rows.tsv"), format!("{row}\n# mine\n"), "{called:?}");
    let prompt = std::fs::read_to_string(hostile.outside().join("prompt")).unwrap();
    assert!(prompt.contains("The last call wrote into the ledger. `ar` removed 2 rows"), "{prompt}");
    assert_eq!(measured(&hostile), measured(&honest), "{called:?}");
}

#[test]
fn a_row_that_somebody_else_adds_while_no_agent_is_at_work_stays() {
    let repo = repo();
    let row = "feedface\t0.5\t1.0\timproved\tby hand";
    repo.write(
        "eval.sh",
        format!("[ $AR_EXPERIMENT = 0 ] || printf '{row}\\n' >> results.tsv; echo val_bpb: $(cat src/value)\n"),
    );
    repo.commit_all("a command that writes a row");
    let called = session(&repo, &["true"], &[]).ok();
    assert!(said(&called).contains("1 foreign row, left in place"), "{called:?}");
    assert!(repo.read("results.tsv").contains(row), "{}", repo.read("results.tsv"));
}

#[test]
fn what_the_baseline_writes_into_the_ledger_is_taken_out_and_named() {
    let header = "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n";
    let row = "feedface\t0.5\t1.0\timproved\tby the run";
    let add = format!("printf '{row}\\n' >> results.tsv");
    let named = format!("1 row without an experiment, removed: \"{}\"", row.replace('\t', " "));
    for (there, writes, named) in [
        ("", &add[..], &named[..]),
        ("", "echo 0.5 by the run > results.tsv", "removed: \"0.5 by the run\""),
        ("", &format!("printf '{header}{row}\\n' > results.tsv"), &named),
        ("", "echo x > ../rows; ln -s ../rows results.tsv", "a link in its place, removed; kept in "),
        ("", "mkdir results.tsv", "results.tsv was not a file"),
        (header, &add, &named),
    ] {
        for walls in [false, true] {
            // What is there is read-only behind a wall.
            if walls && (!there.is_empty() || !can_have_walls()) {
                continue;
            }
            let repo = repo();
            repo.write(
                "eval.sh",
                format!("[ $AR_EXPERIMENT != 0 ] || {{ {writes}; }}; echo val_bpb: $(cat src/value)\n"),
            );
            repo.commit_all("a command that writes rows");
            if !there.is_empty() {
                repo.write("results.tsv", there);
            }
            let called = session(&repo, &["true"], if walls { &["--sandbox", "require"] } else { &[] }).ok();
            assert!(said(&called).contains(named), "{writes}: {called:?}");
            let kept = repo.outside().join("repo/.autoresearch/t/runs/00000/rows.tsv");
            assert_eq!(kept.exists(), named.contains("removed: \""), "{writes}");
            let rows = repo.read("results.tsv");
            assert!(rows.starts_with(header) && rows.lines().count() == 3 && !rows.contains("by the run"), "{rows}");
        }
    }
}
