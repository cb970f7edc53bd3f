//! What a run in place finds of earlier ones: state is set aside, and the user's files come back.

use serde_json::Value;

use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// Goes on from the checkpoint in `ckpt` if there is one, and leaves a better one.
const TRAIN: &str = "s=100; [ ! -e ckpt/last ] || s=$(cat ckpt/last); s=$((s - 5))\n\
                     mkdir -p ckpt; echo $s > ckpt/last; echo loss: $s; : $RATE\n";

/// A change without an effect.
const AGENT: &str = "echo \"# rate $AR_EXPERIMENT\" >> train.sh; echo rate $AR_EXPERIMENT";

fn repo(script: &str) -> TestRepo {
    let repo = TestRepo::empty();
    repo.write("train.sh", script);
    repo.write(".gitignore", "/ckpt/\n/cache/\n/data*\n");
    repo.commit_all("a script that leaves something");
    repo
}

fn args(experiments: &str) -> Vec<&str> {
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", AGENT];
    args.into_iter().chain(["--max-experiments", experiments]).collect()
}

fn run(repo: &TestRepo, experiments: &str, more: &[&str]) -> Called {
    let args: Vec<&str> = args(experiments).into_iter().chain(more.iter().copied()).collect();
    ar(repo, args)
}

/// Outcome, value and what was carried, of each record.
fn told(repo: &TestRepo) -> Vec<String> {
    let text = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/0*"]);
    let record = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let carried = record.get("carried").map(|carried| format!(" without {carried}")).unwrap_or_default();
        format!("{} {}{carried}", record["outcome"].as_str().unwrap(), record["metric"]["value"])
    };
    text.lines().filter(|line| !line.is_empty()).map(record).collect()
}

#[test]
fn a_checkpoint_of_an_earlier_run_makes_no_change_better() {
    let repo = repo(TRAIN);
    let called = run(&repo, "2", &[]).ok();
    assert_eq!(told(&repo), ["keep 95.0", "discard 95.0 without [\"ckpt\"]", "discard 95.0"]);
    let told = "experiment 1 had loss 90 with ckpt, 95 without; from now on it is set aside before each run";
    assert_eq!(called.stderr.matches(told).count(), 1, "{called:#?}");
    assert!(called.stderr.contains("carry = \"all\""), "{called:#?}");
    assert_eq!(repo.read("ckpt/last"), "95\n", "the last run's");
}

#[test]
fn what_only_the_control_goes_on_from_is_noted_with_its_experiment() {
    let repo = repo(
        "case $AR_RUN_DIR in */control-*) s=$(cat data); echo $((s + 1)) > data;; *) [ -e data ] || echo 1 > data;; esac\n\
         echo loss: $((100 - $(wc -l < train.sh)))\n",
    );
    run(&repo, "1", &["--control", "true"]).ok();
    assert_eq!(told(&repo), ["keep 98.0", "keep 97.0 without [\"data\"]"]);
}

#[test]
fn everything_is_carried_over_where_the_user_says_so_and_nothing_likewise() {
    let all = repo(TRAIN);
    run(&all, "1", &["--carry", "all", "--control", "false"]).ok();
    assert_eq!(told(&all), ["keep 95.0", "keep 90.0"]);
    // What nobody reads.
    let none = repo(
        "ls data* > seen; mkdir -p __pycache__; : > data-$AR_EXPERIMENT; : > __pycache__/x; echo loss: $(wc -l < seen)\n",
    );
    none.write("data", "the user's\n");
    run(&none, "2", &["--carry", "none", "--higher"]).ok();
    assert_eq!(told(&none), ["keep 1.0", "discard 1.0", "discard 1.0"]);
    assert!(none.exists("__pycache__/x") && none.exists("data"));
}

#[test]
fn a_checkpoint_from_before_the_session_is_back_at_its_end() {
    let repo = repo(TRAIN);
    repo.write("ckpt/last", "80\n");
    run(&repo, "1", &[]).ok();
    assert_eq!(told(&repo), ["keep 95.0 without [\"ckpt/last\"]", "discard 95.0"]);
    assert_eq!(repo.read("ckpt/last"), "80\n");
    // As are those of a night that goes on with the session.
    run(&repo, "1", &[]).ok();
    assert_eq!((told(&repo).len(), repo.read("ckpt/last").as_str()), (3, "80\n"));
    assert!(told(&repo)[2].starts_with("discard 95.0"));
}

#[test]
fn nothing_that_is_set_aside_is_deleted_and_what_no_run_wrote_is_back_at_the_end() {
    let train = format!("{TRAIN}echo run >> ../runs; : > ckpt/model-$$; cat ckpt-base.pt >> ../bases\n");
    let repo = repo(&train);
    repo.write(".gitignore", "/ckpt*\n");
    repo.commit_all("more to ignore");
    repo.write("ckpt-base.pt", "base\n");
    let agent = format!("{AGENT}; mkdir -p ckpt; echo $AR_EXPERIMENT > ckpt/note-$AR_EXPERIMENT");
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    ar(&repo, args.into_iter().chain(["--max-experiments", "3"])).ok();
    let lines = |file: &str| std::fs::read_to_string(repo.outside().join(file)).unwrap().lines().count();
    let last = std::process::Command::new("find").args([".", "-name", "last*"]).current_dir(repo.path()).output();
    let last = String::from_utf8(last.unwrap().stdout).unwrap();
    assert_eq!(last.lines().count(), 2, "that of the last run and that of the one before: {last}");
    let find = std::process::Command::new("find").args([".", "-name", "model-*"]).current_dir(repo.path()).output();
    let models = String::from_utf8(find.unwrap().stdout).unwrap();
    assert_eq!((lines("runs"), models.lines().count(), lines("bases")), (5, 5, 5), "{models}");
    let notes = std::process::Command::new("find").args([".", "-name", "note-*"]).current_dir(repo.path()).output();
    let found = String::from_utf8(notes.unwrap().stdout).unwrap();
    let notes = ["1", "2", "3"].map(|note| {
        std::fs::read_to_string(repo.path().join(format!("ckpt/note-{note}")))
            .unwrap_or_else(|_| panic!("{note}: {found}"))
    });
    assert_eq!(notes, ["1\n", "2\n", "3\n"]);
    assert_eq!(repo.read("ckpt-base.pt"), "base\n");
}

#[test]
fn ar_try_sets_a_checkpoint_aside_and_makes_the_user_s_no_part_of_a_change() {
    let repo = TestRepo::empty();
    repo.write("train.sh", TRAIN);
    repo.commit_all("a script that leaves a checkpoint");
    repo.write("ckpt/last", "80\n");
    for (change, first) in [("1", true), ("2", false)] {
        repo.write("train.sh", format!("{TRAIN}# {change}\n"));
        let begin = ["--metric", "loss", "--cmd", "sh train.sh", "--tag", "t"];
        let args = ["try", "-m", change].into_iter().chain(begin.into_iter().filter(|_| first));
        ar(&repo, args).ok();
        assert_eq!(repo.read("ckpt/last"), "80\n");
    }
    assert_eq!(told(&repo), ["keep 95.0 without [\"ckpt/last\"]", "discard 95.0", "discard 95.0"]);
    assert_eq!(repo.git(["show", "--format=", "--name-only", "refs/autoresearch/t/00002^{commit}"]).trim(), "train.sh");
}

#[test]
fn what_makes_no_difference_is_put_back_and_stays() {
    // The first experiment makes a table that later runs read.
    let repo = repo(
        "mkdir -p cache; [ -e cache/table ] || [ $AR_EXPERIMENT = 0 ] || echo made $AR_EXPERIMENT > cache/table\n\
         [ ! -e cache/table ] || cat cache/table > /dev/null; echo run >> ../runs; echo loss: 5\n",
    );
    let called = run(&repo, "3", &[]).ok();
    assert_eq!(told(&repo), ["keep 5.0", "discard 5.0", "discard 5.0", "discard 5.0"]);
    assert_eq!(called.stderr.matches("put back cache for later runs").count(), 1, "{called:#?}");
    assert_eq!(std::fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 5);
    assert_eq!(repo.read("cache/table"), "made 1\n");
}

#[test]
fn each_run_finds_what_the_command_needs_of_the_user_s_as_it_was_before_the_first() {
    // The command needs the data, and the checkpoint is state.
    let repo = repo(&format!("wc -l < data >> ../found || exit 1; echo row >> data\n{TRAIN}"));
    repo.write("data", "rows\n");
    repo.write("ckpt/last", "80\n");
    let called = run(&repo, "2", &[]).ok();
    assert_eq!(told(&repo), ["keep 75.0", "discard 75.0", "discard 75.0"]);
    assert!(called.stderr.contains("the command fails without it"), "{called:#?}");
    let found = std::fs::read_to_string(repo.outside().join("found")).unwrap();
    assert!(found.lines().all(|lines| lines == "1"), "{found}");
    assert_eq!((repo.read("data").as_str(), repo.read("ckpt/last").as_str()), ("rows\n", "80\n"));
}

#[test]
fn a_file_that_is_written_as_it_was_is_no_state() {
    let repo = repo("cat data > copy; cat copy > data; echo run >> ../runs; echo loss: 5\n");
    repo.write(".gitignore", "data\ncopy\n");
    repo.commit_all("more to ignore");
    repo.write("data", "rows\n");
    run(&repo, "1", &[]).ok();
    assert_eq!(std::fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 2);
}

#[test]
fn a_file_that_is_written_anew_and_read_is_no_state_whatever_its_length_and_one_that_is_appended_to_is() {
    let runs = |script: &str| {
        let repo = repo(&format!("echo run >> ../runs; {script}\n"));
        run(&repo, "1", &["--control", "false"]).ok();
        std::fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count()
    };
    assert_eq!(runs("wc -l < ../runs > data; seq 0 $(cat data) >> data; cat data; echo loss: 5"), 2);
    assert_eq!(runs("echo row >> data; echo loss: $(wc -l < data)"), 3);
}

#[test]
fn no_run_goes_on_from_the_newest_of_several_numbered_checkpoints() {
    let script = "n=$(ls ckpt | tail -n 1); s=100; [ -z \"$n\" ] || s=$(cat ckpt/$n); s=$((s - 5))\n\
                  echo $s > ckpt/step-$((1000 - s)).pt; echo loss: $s\n";
    let repo = repo(script);
    repo.write("ckpt/.gitkeep", "");
    repo.git(["add", "-f", "ckpt/.gitkeep"]);
    repo.git(["commit", "-qm", "a folder"]);
    repo.write("ckpt/step-5.pt", "80\n");
    run(&repo, "2", &[]).ok();
    let outcomes: Vec<_> = told(&repo).iter().map(|told| told.split(" without").next().unwrap().to_owned()).collect();
    assert_eq!(outcomes, ["keep 95.0", "discard 95.0", "discard 95.0"]);
    assert_eq!(repo.read("ckpt/step-5.pt"), "80\n");
}

#[test]
fn what_stayed_once_is_state_as_soon_as_a_run_goes_on_from_it() {
    let repo = repo("mkdir -p out; [ -e out/words ] || echo words > out/words; cat out/words; echo loss: 100\n");
    repo.write(".gitignore", "/out/\n");
    repo.commit_all("more to ignore");
    let agent = "case $AR_EXPERIMENT in 2) echo 's=99; [ ! -e out/last ] || s=$(cat out/last); s=$((s - 5)); \
                 echo $s > out/last; echo loss: $s' >> train.sh;; *) echo \"# $AR_EXPERIMENT\" >> train.sh;; esac";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, args.into_iter().chain(["--max-experiments", "4", "--control", "false"])).ok();
    let values: Vec<_> = told(&repo).iter().map(|told| told.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(values, ["100.0", "100.0", "94.0", "94.0", "94.0"], "{:#?}", told(&repo));
}

#[test]
fn a_kept_change_that_adds_a_file_at_the_place_of_one_of_the_user_s_stays() {
    let repo = repo(TRAIN);
    repo.write(".gitignore", "");
    repo.commit_all("ignore nothing");
    repo.write("ckpt/last", "80\n");
    let agent = "echo echo loss: 50 > train.sh; mkdir -p ckpt; echo 50 > ckpt/last; git add ckpt; echo a checkpoint";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t"];
    let more = ["--agent", agent, "--max-experiments", "1", "--control", "false"];
    let called = ar(&repo, args.into_iter().chain(more)).ok();
    assert_eq!((repo.status().as_str(), repo.read("ckpt/last").as_str()), ("", "50\n"), "{called:#?}");
    assert!(called.stderr.contains("what was set aside of it before is"), "{called:#?}");
}

#[test]
fn a_pipe_in_a_folder_that_the_command_needs_stops_no_loop() {
    let repo = repo(
        "[ $AR_EXPERIMENT = 0 ] && { echo loss: 9; exit; }; s=$(cat work/s) || exit 1; echo $((s - 1)) > work/s; \
         echo loss: $s\n",
    );
    repo.write(".gitignore", "/work/\n");
    repo.commit_all("more to ignore");
    let agent =
        "mkdir -p work; [ -e work/s ] || { echo 5 > work/s; mkfifo work/pipe; }; echo \"# $AR_EXPERIMENT\" >> train.sh";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let called = ar_in_time(&repo, args.into_iter().chain(["--max-experiments", "1", "--control", "false"])).ok();
    assert!(called.stderr.contains("put back work before each run"), "{called:#?}");
    assert!(repo.exists("work/pipe") && told(&repo).len() == 2, "{called:#?}");
}

#[test]
fn a_data_set_that_gets_another_link_between_two_nights_is_no_state() {
    let repo = repo("cat data/rows > /dev/null || exit 1; echo run >> ../runs; echo loss: 5\n");
    repo.write("data/rows", "rows\n");
    run(&repo, "1", &[]).ok();
    std::fs::hard_link(repo.file("data/rows"), repo.outside().join("backup")).unwrap();
    run(&repo, "1", &[]).ok();
    assert_eq!(std::fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 3);
}

#[test]
fn a_run_that_finds_another_state_each_time_counts_in_the_end_and_ar_says_so() {
    // Each run takes what there is, and leaves it under the next name.
    let repo = repo("n=$(ls box); cat box/$n; rm box/$n; echo x > box/${n}x; echo loss: 5\n");
    repo.write(".gitignore", "/box/\n");
    repo.commit_all("more to ignore");
    repo.write("box/x", "the user's\n");
    let called = run(&repo, "1", &["--control", "false"]).ok();
    let told = "counted experiment 0 although in each of its 6 runs it read and changed box/xxxxxx";
    assert!(called.stderr.contains(told), "{called:#?}");
    assert_eq!(repo.read("box/x"), "the user's\n");
}

#[test]
fn a_file_of_which_there_is_no_copy_returns_as_the_run_left_it_and_ar_says_so() {
    let repo = repo("echo loss: 5\n");
    repo.write("data", "rows\n");
    run(&repo, "1", &[]).ok();
    let agent = "echo 'cat data; echo row >> data' >> train.sh; echo use the data";
    let args = ["run", "--yes", "--tag", "t", "--agent", agent, "--max-experiments", "1"];
    let called = ar(&repo, args).ok();
    assert!(called.stderr.contains("data was not copied before the run that changed it"), "{called:#?}");
    assert_eq!(repo.read("data"), "rows\nrow\n");
}

#[test]
fn after_a_stop_in_the_baseline_s_run_a_checkpoint_is_as_before() {
    let repo = repo(&format!("{TRAIN}: > ../trained; sleep 60\n"));
    repo.write("ckpt/last", "80\n");
    let (repo, trained) = (&repo, repo.outside().join("trained"));
    std::thread::scope(|scope| {
        let night = scope.spawn(|| run(repo, "1", &[]));
        until("the run trained", || trained.exists().then_some(()));
        assert_eq!(repo.read("ckpt/last"), "75\n");
        ar(repo, ["stop", "t", "--now"]).ok();
        night.join().unwrap();
    });
    assert_eq!(repo.read("ckpt/last"), "80\n");
}

#[test]
fn a_further_run_of_the_baseline_names_the_state_that_it_finds_in_the_record() {
    let repo = repo(
        "[ $AR_SEED = 1 ] || [ ! -e ckpt/last ] || { cat ckpt/last; echo $AR_SEED > ckpt/last; }\n\
         echo loss: 100.$AR_SEED\n",
    );
    repo.write("ckpt/last", "80\n");
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--decide", "confirmed"];
    let agent = ["--agent", "sed -i s/100/50/ train.sh; echo faster", "--max-experiments", "1"];
    ar(&repo, args.into_iter().chain(agent)).ok();
    let told = told(&repo);
    assert!(told[0].starts_with("keep 100.") && told[0].ends_with(" without [\"ckpt/last\"]"), "{told:#?}");
    assert_eq!(repo.read("ckpt/last"), "80\n");
}

#[cfg(debug_assertions)]
#[test]
fn killed_while_it_puts_something_back_it_does_so_again() {
    let repo = repo(
        "mkdir -p cache; [ -e cache/table ] || [ $AR_EXPERIMENT = 0 ] || echo made $AR_EXPERIMENT > cache/table\n\
         [ ! -e cache/table ] || cat cache/table > /dev/null; echo loss: 5\n",
    );
    let mut command = ar_command(&repo, &repo.path(), args("2"));
    command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "carrying.stays:1");
    assert_eq!(Called::from(command.output().unwrap()).code, None);
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!((told(&repo).len(), repo.read("cache/table").as_str()), (3, "made 1\n"));
}

#[cfg(debug_assertions)]
#[test]
fn after_a_kill_ar_doctor_names_the_files_that_wait_for_their_return_and_ar_stop_returns_them() {
    let repo = repo(TRAIN);
    repo.write("ckpt/last", "80\n");
    let mut command = ar_command(&repo, &repo.path(), args("1"));
    command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "running.entered:2");
    assert_eq!(Called::from(command.output().unwrap()).code, None);
    let waits =
        |stdout: &str| stdout.contains("carried/user for their return: ckpt/last") && stdout.contains("ar stop t");
    let doctor = ar(&repo, ["doctor"]);
    assert!(waits(&doctor.stdout), "{doctor:#?}");
    ar(&repo, ["stop", "t", "--now"]).ok();
    assert_eq!(repo.read("ckpt/last"), "80\n");
    let doctor = ar(&repo, ["doctor"]);
    assert!(!waits(&doctor.stdout), "{doctor:#?}");
}

#[cfg(debug_assertions)]
#[test]
fn killed_anywhere_it_ends_with_the_same_numbers_and_the_user_s_bytes() {
    let points = [
        "carrying.found",
        "running.folder_cleared",
        "running.entered",
        "carrying.moved",
        "running.over",
        "carrying.begun",
        "carrying.put_back",
    ];
    for point in points {
        for time in ["1", "2"] {
            let repo = repo(TRAIN);
            repo.write("ckpt/last", "80\n");
            let trace = repo.outside().join("trace");
            let mut command = ar_command(&repo, &repo.path(), args("1"));
            command.env("AR_CRASH_TRACE", trace).env("AR_CRASH_AT", format!("{point}:{time}"));
            let killed = Called::from(command.output().unwrap());
            if killed.code != Some(0) {
                let resumed = ar(&repo, ["resume", "t"]);
                assert_eq!(resumed.code, Some(0), "{point}: {resumed:#?}");
            }
            assert_eq!(told(&repo), ["keep 95.0 without [\"ckpt/last\"]", "discard 95.0"], "{point}:{time}");
            assert_eq!(repo.read("ckpt/last"), "80\n", "{point}:{time}");
        }
    }
}
