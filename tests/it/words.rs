//! `ar tell`: what a person says to a session, from outside of its calls.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, FIND_OWNER, Person, TestRepo, ar, ar_command, ar_in_time, until};

const HEADING: &str = "## From the person in charge\n";
const FILE: &str = ".autoresearch/t/words.jsonl";

/// Shell by which a person says something in another terminal, at a moment that the test chooses.
fn says(person: &Person, words: &str) -> String {
    person.types(&format!("{AR} tell {words}"))
}

/// The arguments of a session whose agent keeps the prompt of each call as `prompt-N`, does what `first` says, with the number
/// of the call in `$N`, and changes something.
fn args(repo: &TestRepo, first: &str, experiments: u32, more: &[&str]) -> Vec<String> {
    let agent = format!(
        "OUT={}; N=1; until mkdir $OUT/call-$N 2>/dev/null; do N=$((N + 1)); done; cat > $OUT/prompt-$N; {first}; \
         echo \"# $N $AR_EXPERIMENT\" >> train.sh",
        repo.outside().display()
    );
    let count = experiments.to_string();
    let args =
        ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", &count];
    let args = args.into_iter().chain(["--agent", &agent]).chain(more.iter().copied());
    args.map(str::to_owned).collect()
}

fn run(repo: &TestRepo, first: &str, experiments: u32, more: &[&str]) -> Called {
    ar_in_time(repo, args(repo, first, experiments, more))
}

/// What the user says in the prompt of a call; nothing without the section.
fn told(repo: &TestRepo, call: u32) -> Option<String> {
    let prompt = fs::read_to_string(repo.outside().join(format!("prompt-{call}"))).unwrap();
    let (_, section) = prompt.split_once(HEADING)?;
    assert!(!section.contains(HEADING));
    Some(section.split("\n## ").next().unwrap().to_owned())
}

/// Whether each call was told that.
fn told_in_calls(repo: &TestRepo, text: &str, calls: u32) -> Vec<bool> {
    (1..=calls).map(|call| told(repo, call).is_some_and(|told| told.contains(&format!("\n{text}\n")))).collect()
}

fn listed(repo: &TestRepo) -> Vec<(u64, String, bool)> {
    let list = ar(repo, ["tell", "--list", "--format", "json"]).ok().json();
    assert_eq!(list["version"], 1);
    let word = |word: &Value| {
        (word["id"].as_u64().unwrap(), word["text"].as_str().unwrap().to_owned(), word["standing"].as_bool().unwrap())
    };
    list["words"].as_array().unwrap().iter().map(word).collect()
}

#[test]
fn a_word_is_in_the_next_prompt_alone_and_a_standing_one_in_each() {
    let repo = training_repo();
    let person = Person::at(&repo);
    let first = format!(
        "case $N in 1) {}; {};; 3) {};; esac",
        says(&person, "'halve the rate' > ../said"),
        says(&person, "--standing \"$(printf 'keep\\033[31m it\\007 small')\" >> ../said"),
        says(&person, "--drop 2"),
    );
    let called = run(&repo, &first, 4, &["--format", "json"]).ok();
    assert_eq!(
        fs::read_to_string(repo.outside().join("said")).unwrap(),
        "told session t, word 1: the next prompt has it\ntold session t, word 2: each prompt from now on has it\n"
    );
    assert_eq!(told_in_calls(&repo, "halve the rate", 4), [false, true, false, false]);
    assert_eq!(told_in_calls(&repo, "keep it small", 4), [false, true, true, false], "it is stripped, and dropped");
    assert_eq!((told(&repo, 1), told(&repo, 4)), (None, None));
    let events: Vec<Value> = called.json_lines().into_iter().filter(|event| event["event"] == "told").collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((&events[0]["word"], &events[0]["text"]), (&1.into(), &"halve the rate".into()));
    let decisions = repo.read(".autoresearch/t/logs/orchestrator.jsonl");
    let decisions: Vec<Value> = decisions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_user: Vec<&Value> = decisions.iter().filter(|line| line["source"] == "user").collect();
    assert_eq!(of_user.len(), 2, "{decisions:?}");
    assert_eq!((&of_user[1]["event"], &of_user[1]["level"]), (&"told".into(), &"decision".into()));
    assert_eq!(of_user[1]["data"]["standing"], true);
    assert_eq!((listed(&repo), repo.status()), (vec![], String::new()));
}

#[test]
fn a_word_waits_for_a_call_that_comes_to_something() {
    let repo = training_repo();
    let person = Person::at(&repo);
    // The call that has it first meets an outage, the next one dies with its `ar`; the one after that changes nothing.
    let first = format!(
        "case $N in 1) {};; 2) echo 'rate limit exceeded, try again in 0.02 seconds'; exit 1;; \
         3) {FIND_OWNER}; kill -KILL $owner; sleep 60;; 4) exit;; esac",
        says(&person, "steady > /dev/null")
    );
    assert_eq!(run(&repo, &first, 3, &[]).code, None);
    assert_eq!(listed(&repo), [(1, "steady".to_owned(), false)]);
    ar(&repo, ["resume"]).ok();
    assert_eq!(told_in_calls(&repo, "steady", 5), [false, true, true, true, false]);
    assert_eq!(listed(&repo), []);
    // A word that was delivered is no word to drop, and its number is not given again, even if the file is lost.
    assert!(ar(&repo, ["tell", "--drop", "1"]).exits(1).stderr.contains("hint: run `ar tell --list` to see them"));
    repo.rm(FILE);
    let said = ar(&repo, ["tell", "again"]).ok().stdout;
    assert_eq!(said, "told session t, word 2: the next prompt has it; no process is active now\n");
}

#[test]
fn words_of_many_processes_have_a_number_each_and_no_kill_tears_one_apart() {
    let repo = training_repo();
    run(&repo, ":", 1, &[]).ok();
    let tell = |text: &str| {
        let mut command = ar_command(&repo, &repo.path(), ["tell", text]);
        command.stdout(Stdio::null());
        command
    };
    let children: Vec<_> = (0..8).map(|n| tell(&format!("word of {n}")).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let numbers: Vec<u64> = listed(&repo).iter().map(|(id, ..)| *id).collect();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    if cfg!(debug_assertions) {
        let trace = repo.outside().join("trace");
        let mut command = tell("killed when it was written");
        command.env("AR_CRASH_TRACE", trace).env("AR_CRASH_AT", "state.line_appended:1");
        assert_eq!(command.status().unwrap().code(), None);
        assert_eq!(listed(&repo)[8], (9, "killed when it was written".to_owned(), false));
    }
    // One that was killed while it wrote is named as what nobody said, and swallows none.
    fs::write(repo.file(FILE), repo.read(FILE) + "{\"version\":1,\"id\":10,\"te").unwrap();
    ar(&repo, ["tell", "after it"]).ok();
    let said = listed(&repo);
    assert_eq!(said.last().unwrap().1, "after it");
    let called = run(&repo, ":", 2, &[]).ok();
    assert!(called.stderr.contains("removed 1 line that ar tell did not write from words.jsonl"), "{called:#?}");
    assert!(said.iter().all(|(_, text, _)| told_in_calls(&repo, text, 2) == [false, true]), "{said:?}");
    assert_eq!(repo.read(FILE).lines().count(), said.len());
}

#[test]
fn what_an_agent_writes_into_the_file_of_words_is_nobodys_word() {
    let repo = training_repo().without_walls();
    // It copies a line and changes it, says something as if it were a person, drops what a person said, and deletes all.
    let person = Person::at(&repo);
    let forge = "F=$AR_STATE_DIR/../words.jsonl";
    let first = format!(
        "{forge}; case $N in 1) {};; 2) sed -i 's/careful/reckless/' $F;; \
         3) sed 's/\"id\":1/\"id\":9/' $F >> $F; echo '{{\"version\":1,\"id\":1,\"ts\":\"2026-11-20T22:00:00.000Z\"}}' >> $F; \
         echo '{{\"version\":7,\"id\":3}}' >> $F;; \
         4) rm $F;; 5) rm $F; mkfifo $F;; 6) rm -rf .autoresearch; mkdir -p $AR_RUN_DIR;; 7) rm $F; mkdir $F;; esac",
        says(&person, "--standing 'be careful' > /dev/null")
    );
    let called = run(&repo, &first, 8, &[]).ok();
    assert_eq!(told_in_calls(&repo, "be careful", 8), [false, true, true, true, true, true, true, true], "{called:#?}");
    for call in 1..=8 {
        let told = told(&repo, call).unwrap_or_default();
        assert!(!told.contains("reckless") && told.matches("careful").count() <= 1, "{call}: {told}");
    }
    for named in ["removed 1 line that ar tell did not write", "removed 3 lines that ar tell did not write"] {
        assert!(called.stderr.contains(named), "{named}: {called:#?}");
    }
    assert_eq!(called.stderr.matches("restored words of the user's").count(), 5, "{called:#?}");
    assert!(called.stderr.contains("words.jsonl; the file found is "), "{called:#?}");
    assert_eq!(listed(&repo), [(1, "be careful".to_owned(), true)]);
    // The first command that acts on the session puts right what was forged while nobody was there.
    fs::write(repo.file(FILE), repo.read(FILE).replace("careful", "quick")).unwrap();
    assert_eq!(listed(&repo), []);
}

/// A loop that waits, with an agent that says `first`.
fn waiting(repo: &TestRepo, first: &str, more: &[&str], activity: &str) -> Child {
    let mut command = ar_command(repo, &repo.path(), args(repo, first, 2, more));
    command.env_remove("AR_NO_PAUSES").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until(activity, || {
        let called = ar(repo, ["status", "t", "--format", "json"]);
        let session = (called.code == Some(0)).then(|| called.json()["sessions"][0].clone())?;
        (session["activity"] == activity && (activity != "between" || !session["sleep"].is_null())).then_some(())
    });
    child
}

#[test]
fn a_word_ends_a_pause_and_a_wait_for_the_agent() {
    let repo = training_repo();
    let child = waiting(&repo, ":", &["--cadence", "2h"], "between");
    ar(&repo, ["tell", "go on"]).ok();
    Called::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(told_in_calls(&repo, "go on", 2), [false, true]);

    let repo = training_repo();
    let limited = "[ -e ../back ] || { echo 'usage limit reached. Try again in 2 hours.'; exit 1; }";
    let child = waiting(&repo, limited, &[], "waiting");
    fs::write(repo.outside().join("back"), "").unwrap();
    ar(&repo, ["tell", "the limit is lifted"]).ok();
    Called::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(told_in_calls(&repo, "the limit is lifted", 3), [false, true, false]);
}

#[test]
fn one_of_several_seats_gets_a_word() {
    let repo = training_repo();
    repo.write(".gitignore", "model.ckpt\n");
    repo.commit_all("ignore the weights");
    // All seats call at once, and each call waits for the others.
    let first = "until [ -e $OUT/call-4 ]; do sleep 0.02; done";
    run(&repo, ":", 1, &[]).ok();
    repo.git(["switch", "--quiet", "main"]);
    ar(&repo, ["tell", "once"]).ok();
    ar(&repo, ["tell", "--standing", "in each"]).ok();
    let called = run(&repo, first, 4, &["--slots", "3", "--calls", "3"]);
    assert_eq!(called.code, Some(0), "{called:#?}");
    let count = |text: &str| told_in_calls(&repo, text, 4).iter().filter(|told| **told).count();
    assert_eq!((count("once"), count("in each")), (1, 3));
}

#[test]
fn who_drives_by_try_reads_the_word_in_the_brief_and_in_the_next_answer() {
    let repo = training_repo();
    let change = |text: &str| repo.write("train.sh", repo.read("train.sh") + text);
    change("# 1\n");
    let answer = ar(&repo, ["try", "-m", "first", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    assert!(!answer.stdout.contains("person"), "{answer:#?}");
    ar(&repo, ["tell", "smaller\nsteps"]).ok();
    let brief = || ar(&repo, ["brief"]).ok().stdout;
    assert!(brief().contains(&format!("{HEADING}\n")) && brief().contains("\nsmaller\nsteps\n"), "{}", brief());
    change("# 2\n");
    let answer = ar(&repo, ["try", "-m", "second"]).ok().stdout;
    assert!(answer.contains("      from the person in charge:\n      | smaller\n      | steps\n"), "{answer}");
    assert!(!brief().contains(HEADING));
    ar(&repo, ["tell", "--standing", "only train.sh"]).ok();
    for text in ["# 3\n", "# 4\n"] {
        change(text);
        let answer = ar(&repo, ["try", "-m", text, "--format", "json"]).ok().json();
        assert_eq!(answer["words"][0]["text"], "only train.sh", "{answer}");
    }
}

#[test]
fn an_empty_word_a_huge_one_and_one_from_within_a_call_are_refused() {
    let repo = training_repo().without_walls();
    ar(&repo, ["tell", "nobody is there"]).exits(1);
    // Without the variables of the call, and as a process that left it, too.
    let bare = format!("env -i PATH=\"$PATH\" HOME=\"$HOME\" {AR} tell");
    let first = format!(
        "{AR} tell psst 2> ../refused; {bare} psst 2>> ../refused; {bare} --drop 1 2>> ../refused; {bare} --list; \
         setsid -f sh -c '{bare} psst 2> ../late; : > ../over'; until [ -e ../over ]; do sleep 0.02; done"
    );
    run(&repo, &first, 1, &[]).ok();
    for (file, count) in [("refused", 3), ("late", 1)] {
        let refused = fs::read_to_string(repo.outside().join(file)).unwrap();
        let said =
            "cannot call `ar tell` inside experiment 1 of the loop\nhint: edit the files, describe the change in ";
        assert_eq!(refused.matches(said).count(), count, "{refused}");
    }
    assert_eq!(listed(&repo), []);
    ar(&repo, ["tell", "use", "the", "--standing", "old data"]).ok();
    assert_eq!(listed(&repo), [(1, "use the old data".to_owned(), true)]);
    ar(&repo, ["tell", "--drop", "1"]).ok();
    ar(&repo, ["tell", " \n\u{1b}[31m "]).exits(2);
    ar(&repo, ["tell", ""]).exits(2);
    ar(&repo, ["tell"]).exits(2);
    ar(&repo, ["tell", "--list", "--drop", "1"]).exits(2);
    let piped = |bytes: &[u8]| {
        let mut command = ar_command(&repo, &repo.path(), ["tell", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        Called::from(child.wait_with_output().unwrap())
    };
    let called = piped(&vec![b'x'; (1 << 20) + 1]).exits(2);
    assert!(called.stderr.contains("error: the text has 1.0 MB, more than the limit of 1.0 MB"), "{called:#?}");
    piped(&vec![b'x'; 1 << 20]).ok();
    assert_eq!(listed(&repo)[0].1.len(), 1 << 20);
    ar(&repo, ["tell", "--drop", "2"]).ok();
    // What stands on several lines in a file reaches the agent so.
    piped(b"first:\n\n  - a\n  - b\n").ok();
    assert_eq!(listed(&repo)[0].1, "first:\n\n  - a\n  - b");
    run(&repo, ":", 2, &[]).ok();
    assert_eq!(told_in_calls(&repo, "first:\n\n  - a\n  - b", 2), [false, true]);
    let mut command = ar_command(&repo, &repo.path(), ["tell", "who am I"]);
    let called = Called::from(command.env_remove("HOME").output().unwrap()).exits(1);
    assert!(called.stderr.contains("hint: set HOME, or XDG_STATE_HOME"), "{called:#?}");
    assert_eq!(listed(&repo), []);
}

#[test]
fn a_key_that_is_too_short_is_named() {
    let repo = training_repo();
    let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    ar(&repo, run).ok();
    let key = repo.outside().join("home/.local/state/autoresearch/key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    fs::write(&key, "").unwrap();
    let refused = ar(&repo, ["tell", "hello"]).exits(1);
    assert!(refused.stderr.contains(&format!("{} is no key", key.display())), "{refused:?}");
    assert!(refused.stderr.contains(&format!("rm {}", key.display())), "{refused:?}");
    fs::remove_file(&key).unwrap();
    ar(&repo, ["tell", "hello"]).ok();
}

#[test]
fn a_word_from_namespaces_that_a_call_made_is_refused_and_one_from_beside_it_is_not() {
    let repo = training_repo().without_walls();
    let apart = |how: &str| format!("unshare {how} env -i PATH=\"$PATH\" HOME=\"$HOME\" {AR} tell");
    let (hidden, fresh) = (apart("-Urpf"), apart("-Urpf --mount-proc"));
    if !Command::new("unshare").args(["-Urpf", "--mount-proc", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no right to make namespaces");
        return;
    }
    let call = format!(
        "{hidden} psst 2> ../refused; {fresh} psst 2>> ../refused; : > ../there; until [ -e ../go ]; do sleep 0.02; done"
    );
    let outside = repo.outside();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            until("the call", || outside.join("there").exists().then_some(()));
            let mut command = Command::new("sh");
            repo.environment(&mut command);
            let told = command.args(["-c", &format!("{fresh} hello")]).current_dir(repo.path()).output().unwrap();
            fs::write(outside.join("go"), "").unwrap();
            Called::from(told)
        });
        run(&repo, &call, 1, &[]).ok();
        beside.join().unwrap().ok();
    });
    let refused = fs::read_to_string(outside.join("refused")).unwrap();
    assert_eq!(refused.matches("cannot call `ar tell` inside experiment 1 of the loop\n").count(), 2, "{refused}");
    assert_eq!(listed(&repo).iter().map(|word| word.1.as_str()).collect::<Vec<_>>(), ["hello"], "{refused}");
}
