//! A repository in the shape of Karpathy's, whose `program.md` tells an agent to run the whole loop by itself.

use std::fs;

use crate::support::{AR, Called, TestRepo, ar_command};

/// What such a repository tells its agent.
const PROGRAM: &str = "# Nightly tuning\n\n\
    Make val_bpb as low as you can by editing `train.py`; `prepare.py` is read-only. Training always takes 5 minutes.\n\n\
    Start it with `uv run train.py`. Look the number up with `grep \"^val_bpb:\" run.log`.\n\n\
    ## Log\n\nAppend a row to `results.tsv` after each experiment, with tabs between the columns:\n\n\
    ```\ncommit\tval_bpb\tmemory_gb\tstatus\tdescription\n```\n\n\
    The status is `keep`, `discard` or `crash`; a crash has 0.000000 and 0.0.\n\n\
    ## Loop\n\nLOOP FOREVER:\n\n\
    1. Edit train.py.\n2. git commit\n3. `uv run train.py > run.log 2>&1`\n4. Log the row.\n\
    5. If val_bpb is not lower, git reset to where you began.\n\n\
    Kill a run that exceeds 10 minutes. NEVER STOP, and never ask whether to go on.\n";

/// A notebook that reads the ledger as such a repository's does.
const NOTEBOOK: &str = r##"{"cells": [{"cell_type": "code", "source": [
    "import pandas as pd\n",
    "rows = pd.read_csv(\"results.tsv\", sep=\"\\t\")\n",
    "rows[\"status\"] = rows[\"status\"].str.strip().str.upper()\n",
    "kept = rows[rows[\"status\"] == \"KEEP\"]\n",
    "kept[\"val_bpb\"].cummin()\n"]}], "nbformat": 4}"##;

/// Stands for `uv`, and for the training that it would start: prints the summary of a run with the loss that train.py says.
const UV: &str = "#!/bin/sh\n\
    [ \"$1 $2\" = 'run train.py' ] || exit 64\n\
    loss=$(sed -n 's/^LOSS = //p' train.py)\n\
    if [ \"$loss\" = OOM ]; then\n\
    printf 'Traceback (most recent call last):\\n  File \"train.py\", line 1, in <module>\\n' >&2\n\
    echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' >&2; exit 1; fi\n\
    printf -- '---\\nval_bpb:          %s\\ntraining_seconds: 300.1\\ntotal_seconds:    325.9\\n' $loss\n\
    printf 'peak_vram_mb:     45060.2\\nmfu_percent:      39.80\\nnum_steps:        953\\n'\n";

/// An agent that obeys such a program.md: it loops, commits, runs, logs and resets by itself. Where its prompt has a
/// protocol before that, by which it is called for one change, it makes one, but keeps its other habits.
const AGENT: &str = r#"
one() {
    n=$1; from=$(git rev-parse HEAD)
    set -- 0 0.9979 0.9900 1.0200 OOM 0.9800 0.9850 0.9800 0.9700 0.9990 0.9600
    shift $n
    sed -i "s/^LOSS = .*/LOSS = $1/; s/^# idea .*/# idea $n/" train.py
    git add --all; git commit --quiet -m "idea $n"
    uv run train.py > run.log 2>&1
    loss=$(sed -n 's/^val_bpb: *//p' run.log)
    best=$(cat ../best 2> /dev/null || echo 1.000000)
    printf '%s\t%s\t44.0\tkeep\tby the agent: idea %s\n' $(git rev-parse --short=7 HEAD) ${loss:-0.000000} $n >> results.tsv
    if [ -n "$loss" ] && expr "$loss" \< "$best" > /dev/null; then echo $loss > ../best; else git reset --quiet --hard $from; fi
}
AR stop > /dev/null 2>> ../said
if head -n 3 "$AR_PROMPT" | grep -q '^# Nightly tuning'; then
    for n in 1 2 3 4 5 6 7 8 9 10; do one $n; done
else
    one $AR_EXPERIMENT
fi
cp "$AR_PROMPT" ../prompt-$AR_EXPERIMENT
echo "idea $AR_EXPERIMENT"
"#;

/// The repository, with programs `uv` and `claude` for its PATH.
fn repo() -> TestRepo {
    let repo = TestRepo::empty();
    repo.write("program.md", PROGRAM);
    repo.write("train.py", "from prepare import evaluate\n# idea 0\nLOSS = 1.000000\n");
    repo.write("prepare.py", "TIME_BUDGET = 300\n\ndef evaluate():\n    pass\n");
    repo.write("pyproject.toml", "[project]\nname = \"tuning\"\nversion = \"0\"\n");
    repo.write("uv.lock", "version = 1\n");
    repo.write("look.ipynb", NOTEBOOK);
    repo.write(".gitignore", "__pycache__/\n.venv\nCLAUDE.md\nresults.tsv\n");
    repo.commit_all("the repository");
    for (name, text) in [
        ("uv", UV.to_owned()),
        ("claude", format!("#!/bin/sh\ncat > /dev/null{}", AGENT.replace("AR stop", &format!("{AR} stop")))),
    ] {
        repo.write(format!("../bin/{name}"), text);
        repo.chmod(format!("../bin/{name}"), true);
    }
    repo
}

/// Calls `ar` where the programs are those of the repository and of the system.
fn ar_there(repo: &TestRepo, args: &[&str]) -> Called {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", repo.outside().join("bin").display());
    ar_command(repo, &repo.path(), args).env("PATH", path).output().unwrap().into()
}

/// The rows of results.tsv, each as its cells.
fn rows(repo: &TestRepo) -> Vec<Vec<String>> {
    repo.read("results.tsv").lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// What the notebook makes of the ledger: of the rows whose status in upper case is KEEP, the lowest number so far.
fn staircase(rows: &[Vec<String>]) -> Vec<f64> {
    let (columns, rows) = rows.split_first().unwrap();
    let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
    let (status, value) = (at("status"), at("val_bpb"));
    let kept = rows.iter().filter(|row| row[status].trim().to_uppercase() == "KEEP");
    let mut lowest = f64::INFINITY;
    let steps = kept.map(|row| {
        lowest = lowest.min(row[value].parse().unwrap());
        lowest
    });
    steps.collect()
}

#[test]
fn init_and_run_without_a_flag_make_a_night_of_one_idea_each_that_the_notebook_reads() {
    let repo = repo();
    let called = ar_there(&repo, &["init"]).ok();
    for found in [
        "found: metric val_bpb (lower is better)\n",
        "found: command uv run train.py\n",
        "found: time limit per run 10m, named in program.md\n",
        "found: decide confirmed\n",
        "found: agent claude, the only one installed\n",
        "found: program.md uses Karpathy's columns: a new results.tsv has commit … keep, discard, crash\n",
        "found: program.md tells the agent to loop, commit, log and reset by itself: the agent gets it after ar's protocol",
    ] {
        assert!(called.stdout.contains(found), "{found}: {called:?}");
    }
    let terms = repo.read("ar.toml");
    for line in [
        "metric = \"val_bpb\"",
        "lower = true",
        "cmd = \"uv run train.py\"",
        "timeout = \"10m\"",
        "agent = \"claude\"",
        "scope = [\"train.py\"]",
        "ledger = \"karpathy\"",
    ] {
        assert!(terms.lines().any(|found| found == line), "{line} in {terms}");
    }
    let found = ar_there(&repo, &["doctor"]).ok().stdout;
    assert!(found.contains("program.md tells the agent to loop, commit, log and reset by itself"), "{found}");
    assert!(found.contains("program.md uses Karpathy's columns"), "{found}");

    repo.write("ar.toml", format!("{terms}\nmax-experiments = 10\ntag = \"t\"\n"));
    let called = ar_there(&repo, &["run", "--yes"]).ok();
    let rows = rows(&repo);
    assert_eq!(rows[0], ["commit", "val_bpb", "memory_gb", "status", "description"]);
    let read: Vec<String> =
        rows[1..].iter().map(|row| format!("{} {} {} {}", row[1], row[2], row[3], row[4])).collect();
    let expected = [
        "1.000000 44.0 keep baseline",
        "0.9979 44.0 keep idea 1",
        "0.9900 44.0 keep idea 2",
        "1.0200 44.0 discard idea 3",
        "0.000000 0.0 crash idea 4",
        "0.9800 44.0 keep idea 5",
        "0.9850 44.0 discard idea 6",
        "0.9800 44.0 discard idea 7",
        "0.9700 44.0 keep idea 8",
        "0.9990 44.0 discard idea 9",
        "0.9600 44.0 keep idea 10",
    ];
    assert_eq!(read, expected, "{called:?}");
    assert_eq!(staircase(&rows), [1.0, 0.9979, 0.99, 0.98, 0.97, 0.96]);

    // Each record holds one idea, made on what was kept before it.
    let mut base = repo.git(["rev-parse", "refs/autoresearch/t/00000^{commit}"]);
    for (row, n) in rows[2..].iter().zip(1..) {
        let commit = repo.git(["rev-parse", &format!("refs/autoresearch/t/{n:05}^{{commit}}")]);
        assert!(commit.starts_with(&row[0]) && row[0].len() == 7, "{row:?}: {commit}");
        assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), base, "{n}");
        assert!(repo.git(["show", &format!("{commit}:train.py")]).contains(&format!("# idea {n}\n")), "{n}");
        if row[3] == "keep" {
            base = commit;
        }
    }
    let refused = fs::read_to_string(repo.outside().join("said")).unwrap();
    assert_eq!(refused.matches("cannot call `ar stop` inside experiment").count(), 10, "{refused}");
    assert_eq!(called.stderr.matches("1 row without an experiment, removed").count(), 10, "{called:?}");
    // What an agent costs that trains by itself is told once.
    let trained =
        "noticed that the agent trained by itself in its call for experiment 1 (it rewrote run.log): the call took ";
    assert_eq!(
        (called.stderr.matches("trained by itself").count(), called.stderr.contains(trained)),
        (1, true),
        "{called:?}"
    );
    let prompt = fs::read_to_string(repo.outside().join("prompt-2")).unwrap();
    assert!(prompt.contains(PROGRAM.trim()) && !prompt.starts_with(PROGRAM.trim()), "{prompt}");
    assert_eq!(repo.status(), "?? ar.toml");
}

#[test]
fn a_change_that_was_refused_without_a_run_has_no_row() {
    let agent = "case $AR_EXPERIMENT in 2) echo '# faster' >> prepare.py ;; *) sed -i \"s/^LOSS = .*/LOSS = 0.9$AR_EXPERIMENT/\" train.py ;; \
                 esac; echo idea $AR_EXPERIMENT";
    let args = [
        "run",
        "--yes",
        "--tag",
        "t",
        "--metric",
        "val_bpb",
        "--cmd",
        "uv run train.py",
        "--agent",
        agent,
        "--scope",
        "train.py",
    ];
    let run = |more: &[&str]| {
        let repo = repo().without_walls();
        let called = ar_there(&repo, &[&args[..], &["--max-experiments", "3"], more].concat()).ok();
        assert!(!called.stderr.contains("trained by itself"), "{called:?}");
        repo
    };
    let repo = run(&[]);
    let descriptions = |repo: &TestRepo| rows(repo)[1..].iter().map(|row| row[4].clone()).collect::<Vec<_>>();
    assert_eq!(descriptions(&repo), ["baseline", "idea 1", "idea 3"]);
    let counts = |repo: &TestRepo| ar_there(repo, &["report", "t", "--format", "json"]).ok().json()["counts"].clone();
    assert_eq!((&counts(&repo)["refused"], &counts(&repo)["crash"]), (&1.into(), &0.into()));
    let found = ar_there(&repo, &["doctor"]).ok().stdout;
    assert!(found.contains("results.tsv has 3 rows of ar"), "{found}");

    // A file that is rebuilt has none either, and one that an earlier version wrote stays.
    let written = repo.read("results.tsv");
    repo.rm("results.tsv");
    ar_there(&repo, &["doctor", "--repair"]).ok();
    assert_eq!(repo.read("results.tsv"), written);
    let commit = repo.git(["rev-parse", "--short=7", "refs/autoresearch/t/00002^{commit}"]);
    let (before, last) = written.trim_end().rsplit_once('\n').unwrap();
    let older = format!("{before}\n{commit}\t0.000000\t0.0\tcrash\tidea 2\n{last}\n");
    repo.write("results.tsv", &older);
    let found = ar_there(&repo, &["doctor"]).ok().stdout;
    assert!(found.contains("results.tsv has 4 rows of ar") && !found.contains("contradicts"), "{found}");
    ar_there(&repo, &["run", "--tag", "t", "--max-experiments", "4", "--yes"]).ok();
    assert!(repo.read("results.tsv").starts_with(&older), "{}", repo.read("results.tsv"));

    let other = run(&["--ledger", "ar"]);
    assert_eq!(descriptions(&other), ["baseline", "idea 1", "idea 2", "idea 3"]);
}

#[test]
fn the_dialect_is_that_of_program_or_notebook_and_a_gitignore_is_no_sign() {
    type Prepare = fn(&TestRepo);
    let karpathy = "commit\tval_bpb";
    let cases: [(&str, Prepare, &[&str], &str, &str); 5] = [
        ("a program", |_| {}, &[], karpathy, "program.md uses Karpathy's columns"),
        (
            "a notebook",
            |repo| {
                repo.write("program.md", "Make it small.\n");
                let code = r#"rows = pd.read_csv(\"results.tsv\") # commit, val_bpb, memory_gb, status, description"#;
                repo.write("notes/look.ipynb", format!("{{\"cells\": [{{\"source\": \"{code}\"}}]}}"));
            },
            &[],
            karpathy,
            "notes/look.ipynb uses Karpathy's columns",
        ),
        ("neither", |repo| repo.write("program.md", "Make it small.\n"), &[], "commit_hash\tval_bpb", ""),
        (
            "other columns",
            |repo| repo.write("program.md", "In results.tsv:\n\nrun\tloss\tstatus\n\n`keep`, `discard`, `crash`\n"),
            &[],
            "commit_hash\tval_bpb",
            "program.md names columns that ar does not write (run, loss, status)",
        ),
        ("a flag", |_| {}, &["--ledger", "ar"], "commit_hash\tval_bpb", ""),
    ];
    for (name, prepare, more, header, said) in cases {
        let repo = repo();
        repo.rm("look.ipynb");
        prepare(&repo);
        repo.commit_all(name);
        let args = [&["run", "--yes", "--metric", "val_bpb", "--cmd", "uv run train.py", "--agent", "none"][..], more]
            .concat();
        let called = ar_there(&repo, &args).ok();
        let rows = repo.read("results.tsv");
        assert!(rows.starts_with(header), "{name}: {rows}");
        assert!(
            called.stderr.contains(said) && said.is_empty() != called.stderr.contains("columns"),
            "{name}: {called:?}"
        );
    }
}
