//! What was approved stays approved.

use serde_json::{Value, json};

use crate::run_loop::training_repo;
use crate::support::{TestRepo, ar};

const CONTRACT: &str = ".autoresearch/t/state/contract.json";

/// A session of one experiment.
fn session() -> TestRepo {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let agent = ["--agent", "echo $AR_EXPERIMENT > new.txt; echo change", "--max-experiments", "1"];
    ar(&repo, args.into_iter().chain(agent)).ok();
    repo
}

fn edit(repo: &TestRepo, edit: impl FnOnce(&mut Value)) {
    let mut terms: Value = serde_json::from_str(&repo.read(CONTRACT)).unwrap();
    edit(&mut terms);
    repo.write(CONTRACT, serde_json::to_string_pretty(&terms).unwrap());
}

type Change = fn(&mut Value);

#[test]
fn terms_that_somebody_changed_in_the_file_are_refused_by_name_and_mended() {
    let changes: [(Change, &str); 4] = [
        (|terms| terms["metric"]["name"] = json!("loss"), "metric `val_bpb`, and now `loss` stands there"),
        (
            |terms| {
                terms["guards"] = json!([]);
                terms["protect"] = json!(["x"]);
                terms.as_object_mut().unwrap().remove("hash");
            },
            "list of protected files `none`, and now `x` stands there",
        ),
        (|terms| terms["max_experiments"] = json!(1000), "contract.json was changed after it was approved"),
        (|terms| terms["hash"] = json!("0"), "contract.json was changed after it was approved"),
    ];
    let repo = session();
    for (change, words) in changes {
        edit(&repo, change);
        for args in [&["resume"][..], &["run"], &["try", "-m", "x"]] {
            let called = ar(&repo, args).exits(6);
            assert!(called.stderr.contains(words), "{words}: {called:#?}");
            assert!(
                called.stderr.contains("hint: run `ar doctor --repair` to restore the approved contract"),
                "{called:#?}"
            );
        }
        ar(&repo, ["report"]).ok();
        ar(&repo, ["doctor"]).exits(1);
        let called = ar(&repo, ["doctor", "--repair"]).ok();
        assert!(called.stdout.contains("contract.json.before-repair"), "{called:#?}");
    }
    let called = ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert!(called.stdout.contains("   2  discard"), "{called:#?}");
}
