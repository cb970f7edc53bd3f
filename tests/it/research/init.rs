//! `ar init --research`: a repository in which `ar run` works.

use std::fs;

use super::{INIT, claims, record, session, text_of};
use crate::support::{TestRepo, ar, ar_command};

const FILES: [&str; 5] = ["ar.toml", "program.md", "research.toml", "research_artifact.md", "sources/.gitkeep"];

#[test]
fn an_empty_folder_becomes_a_repository_in_which_a_session_runs() {
    let repo = TestRepo::empty();
    fs::remove_dir_all(repo.file(".git")).unwrap();
    let called = ar(&repo, INIT).ok();
    assert!(called.stdout.starts_with("wrote and committed program.md, research.toml, "), "{called:?}");
    assert_eq!(repo.git(["ls-files"]).lines().collect::<Vec<_>>(), FILES);
    assert_eq!(repo.git(["log", "--format=%s"]), "research: How do servers manage memory?");
    assert_eq!(repo.status(), "");
    assert_eq!(repo.read("research_artifact.md"), "# How do servers manage memory?\n\n## Memory\n\n## Speed\n");
    for line in [
        "metric = \"composite\"",
        "cmd = \"ar score\"",
        "keep-above = 0.45",
        "stop-rule = [\"kill2\", \"plateau:30\"]",
        "max-files = 5",
        "max-file-lines = 300",
        "agent-rounds = 15",
        "agent-timeout = \"30m\"",
    ] {
        assert!(repo.read("ar.toml").lines().any(|found| found == line), "{line}");
    }
    assert!(repo.read("program.md").contains("   - Memory\n   - Speed\n"));

    // An experiment that is kept, two without a supported claim, and one without a claim. The archiver is first on the PATH.
    let agent = super::agent(&[
        &claims("Memory", "Paging wastes little.", "kwon", "a waste of under 4%", "waste of under 4%"),
        &claims("Memory", "Paging wastes little memory.", "kwon", "", "not there"),
        "sed -i 's|^## Speed$|&\\n- Unfounded.|' research_artifact.md",
        "ar score > ../agent-score; echo >> research_artifact.md",
    ]);
    let called = session(&repo, &agent, 4, &[]).ok();
    let outcomes = [0, 1, 2, 3, 4].map(|id| record(&repo, id)["outcome"].as_str().unwrap().to_owned());
    assert_eq!(outcomes, ["keep", "keep", "discard", "discard", "crash"], "{called:?}");
    let first = record(&repo, 1);
    // technical: 0.40 × 1 + 0.10 × 0 + 0.20 × 0.5 + 0.30 × 1.
    assert_eq!(
        (first["metric"]["raw"].as_str(), record(&repo, 0)["metric"]["value"].is_null()),
        (Some("0.8000"), true)
    );
    for (axis, value) in [("claim_density", 1.0), ("source_diversity", 0.0), ("topic_coverage", 0.5), ("novelty", 1.0)]
    {
        assert_eq!(first["metrics"][axis], value, "{axis}");
    }
    // Two experiments without a supported claim: novelty is (1 + 0 + 0) / 3.
    assert!(text_of(repo.outside().join("agent-score")).ends_with("composite: nan\nartifact_composite: 0.6000\n"));
    assert!(ar(&repo, ["repro", "1"]).ok().stdout.contains("the value was reproduced exactly"));
}

#[test]
fn a_repository_that_is_there_gets_its_files_and_nothing_else() {
    let repo = TestRepo::new();
    repo.write("notes.txt", "mine\n");
    repo.write("research_artifact.md", "# How do servers manage memory?\n\n## Memory\n\n## Speed\n");
    ar(&repo, INIT).ok();
    let files = repo.git(["show", "--format=", "--name-only"]);
    assert_eq!(files.lines().collect::<Vec<_>>(), FILES);
    assert_eq!(repo.status(), "?? notes.txt");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");

    // Once more there is nothing to do.
    let head = repo.head();
    let called = ar(&repo, INIT).ok();
    assert!(called.stdout.starts_with("already committed: program.md, "), "{called:?}");
    assert_eq!((repo.head(), repo.status().as_str()), (head, "?? notes.txt"));

    // On an unborn branch, too, only these files are committed.
    let repo = TestRepo::empty();
    repo.write("notes.txt", "mine\n");
    ar(&repo, INIT).ok();
    assert_eq!((repo.git(["ls-files"]).lines().count(), repo.status().as_str()), (5, "?? notes.txt"));
}

#[test]
fn what_is_in_the_way_is_named_and_left() {
    let refused = |repo: &TestRepo, args: &[&str], code, what: &str| {
        let before = (repo.git(["status", "--porcelain"]), repo.try_git(["rev-parse", "HEAD"]).stdout);
        let called = ar(repo, args.iter().copied()).exits(code);
        assert!(called.stderr.contains(what) && called.stderr.contains("\nhint: "), "{called:?}");
        assert_eq!((repo.git(["status", "--porcelain"]), repo.try_git(["rev-parse", "HEAD"]).stdout), before);
    };
    let repo = TestRepo::new();
    refused(&repo, &["init", "--research", "Why?"], 2, "there are no sub-topics");
    refused(&repo, &["init", "--research", " ", "--subtopic", "A"], 2, "the question is empty");
    refused(&repo, &["init", "--research", "Why?", "--subtopic", "A", "--subtopic", "a"], 2, "the same heading");
    refused(&repo, &["init", "--research", "Why?", "--subtopic", ""], 2, "sub-topic 1 is empty");
    for topics in [["A", "a"], ["", "B"]] {
        let called =
            ar(&repo, ["init", "--research", "Why?", "--subtopic", topics[0], "--subtopic", topics[1]]).exits(2);
        assert!(called.stderr.contains("hint: name each sub-topic once: --subtopic"), "{called:?}");
    }
    let own = ["--metric", "acc", "--cmd", "foo", "--lower", "--scope", "x*"];
    let called = ar(&repo, [&INIT[..], &own].concat()).exits(2);
    assert!(called.stderr.contains("--metric, --lower, --cmd, --scope would change them"), "{called:?}");
    assert!(called.stderr.contains("hint: omit --metric and --lower and --cmd and --scope"), "{called:?}");
    assert_eq!((repo.status().as_str(), repo.exists("research.toml")), ("", false));
    let called = ar(&repo, ["init", "--research", "Why?", "--subtopic", "A", "--type", "other"]).exits(2);
    assert!(called.stderr.contains("equal, business, technical"), "{called:?}");
    ar(&repo, ["init", "--subtopic", "A"]).exits(2);

    repo.write("README.md", "changed\n");
    refused(&repo, &INIT, 1, "the working tree has uncommitted changes: README.md");
    repo.git(["checkout", "--quiet", "README.md"]);
    repo.write("program.md", "mine\n");
    refused(&repo, &INIT, 1, "program.md already exists");
    repo.rm("program.md");
    repo.write(".gitignore", "sources/\n");
    repo.commit_all("ignore");
    refused(&repo, &INIT, 1, "git ignores sources/.gitkeep");

    let repo = super::repo();
    session(&repo, &super::agent(&[&claims("Memory", "Alpha.", "a", "a says", "a says")]), 1, &super::flags()).ok();
    refused(&repo, &INIT, 1, "the current branch is that of session t");

    let folder = repo.outside().join("full");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), "").unwrap();
    let called = ar_command(&repo, &folder, INIT).output().unwrap();
    assert!(!called.status.success() && !folder.join(".git").exists(), "{called:?}");
}

#[test]
fn terms_that_do_not_work_are_told_by_doctor_and_at_the_start() {
    let repo = TestRepo::empty();
    ar(&repo, INIT).ok();
    assert!(ar(&repo, ["doctor"]).stdout.contains("ar score"));
    let terms = repo.read("research.toml");
    repo.write("research.toml", terms.replace("\"technical\"", "\"techncal\""));
    let called = ar(&repo, ["doctor"]);
    assert!(called.code == Some(1) && called.stdout.contains("cannot use research.toml"), "{called:?}");
    assert!(called.stdout.contains("the types are equal, business, technical"), "{called:?}");
    // A sub-topic that the artifact has no heading for.
    repo.write("research.toml", terms.replace("\"Speed\"", "\"Latency\""));
    repo.commit_all("another sub-topic");
    let called = session(&repo, &super::agent(&[&claims("Memory", "Alpha.", "a", "a says", "a says")]), 1, &[]).ok();
    assert!(
        called.stderr.contains("research_artifact.md lacks headings, and claims count below these alone: ## Latency\n"),
        "{called:?}"
    );
    assert!(!ar(&repo, ["resume", "--max-experiments", "1"]).stderr.contains("lacks headings"));
}

#[test]
fn an_agent_names_the_sub_topics_in_one_call() {
    for (agent, expected) in [
        (
            "cat > prompt; echo '{\"subtopics\": [\"Memory\", \"Speed\"]}' > $AR_PROPOSAL; echo done",
            "## Memory\n\n## Speed\n",
        ),
        ("cat > prompt; echo 'They are:'; echo '- Cost'; echo '2. Safety'; echo x >&2", "## Cost\n\n## Safety\n"),
    ] {
        let repo = TestRepo::new();
        ar(&repo, ["init", "--research", "Why?", "--agent", agent]).ok();
        assert!(repo.read("research_artifact.md").ends_with(expected), "{}", repo.read("research_artifact.md"));
        assert!(
            !repo.exists("prompt") && repo.read("ar.toml").contains("\nagent = "),
            "the call had a folder of its own"
        );
    }
    let repo = TestRepo::new();
    for (agent, why) in [
        ("cat > /dev/null; echo nothing", "named none"),
        ("echo no luck >&2; exit 3", "ended with exit 3: no luck"),
        ("sleep 300.25", "was not done after 1s"),
    ] {
        let called = ar(&repo, ["init", "--research", "Why?", "--agent", agent, "--agent-timeout", "1s"]).exits(1);
        assert!(called.stderr.contains("the agent named no sub-topics: ") && called.stderr.contains(why), "{called:?}");
        assert!(called.stderr.contains("hint: name them yourself: --subtopic"), "{called:?}");
    }
    assert_eq!((repo.status().as_str(), repo.exists("ar.toml")), ("", false));
}
