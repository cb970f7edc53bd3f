//! The terminal goes away, or takes nothing any more: the loop does not care. And one that is filled with `ar status --watch`.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::interrupt::{signal, wait_for_runs};
use crate::run_loop::training_repo;
use crate::support::{AR, CLOCK, Called, TestRepo, ar, ar_command, hears_hang_ups, until};

/// A repository whose run waits for the file `go` beside it where there is a file `slow`.
fn waiting_repo() -> TestRepo {
    let repo = training_repo();
    let script = "echo run >> ../runs\nif [ -e slow ]; then until [ -e ../go ]; do sleep 0.02; done; fi\n\
                  echo val_bpb: $(cat value)\n";
    repo.write("train.sh", script);
    repo.write("value", "2.0\n");
    repo.commit_all("waits");
    repo
}

/// The arguments of a loop of two experiments, the first of which waits.
const LOOP: [&str; 12] = [
    "run",
    "--yes",
    "--metric",
    "val_bpb",
    "--cmd",
    "sh train.sh",
    "--tag",
    "t",
    "--agent",
    "touch slow; echo 1.$AR_EXPERIMENT > value",
    "--max-experiments",
    "2",
];

/// Calls the binary on a terminal of its own; see `terminal.py`.
fn on_terminal(repo: &TestRepo, mode: &str, args: &[&str]) -> Child {
    on_terminal_with(repo, mode, &[], args)
}

/// The same with variables.
fn on_terminal_with(repo: &TestRepo, mode: &str, variables: &[(&str, &str)], args: &[&str]) -> Child {
    let mut command = Command::new("python3");
    repo.environment(&mut command);
    command
        .env("AR_CLOCK", CLOCK)
        .envs(variables.iter().copied())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/terminal.py"))
        .args([mode, repo.outside().to_str().unwrap(), AR])
        .args(args)
        .current_dir(repo.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What became of the call.
#[track_caller]
fn came_to(terminal: Child, exit: &str) {
    let called = Called::from(terminal.wait_with_output().unwrap()).ok();
    assert_eq!(called.stdout.trim(), exit, "{called:?}");
}

fn touch(repo: &TestRepo, name: &str) {
    fs::write(repo.outside().join(name), "").unwrap();
}

#[test]
fn a_terminal_that_is_closed_leaves_the_run_going_to_be_picked_up() {
    if !hears_hang_ups() {
        return;
    }
    let repo = waiting_repo();
    let terminal = on_terminal(&repo, "plain", &LOOP);
    wait_for_runs(&repo, 2);
    touch(&repo, "close");
    came_to(terminal, "130");
    let status = ar(&repo, ["status"]).ok().stdout;
    assert!(status.contains("the run of experiment 1 is still going"), "{status}");
    touch(&repo, "go");
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    wait_for_runs(&repo, 2);
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
    assert_eq!(repo.status(), "");
}

#[test]
fn under_nohup_a_loop_goes_on_to_its_end_without_its_terminal() {
    let repo = waiting_repo();
    let terminal = on_terminal(&repo, "nohup", &LOOP);
    wait_for_runs(&repo, 2);
    touch(&repo, "close");
    touch(&repo, "go");
    came_to(terminal, "0");
    wait_for_runs(&repo, 3);
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
}

#[test]
fn a_terminal_that_takes_nothing_does_not_hold_the_loop_up() {
    let repo = waiting_repo();
    touch(&repo, "go");
    came_to(on_terminal(&repo, "frozen", &LOOP), "0");
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
    repo.write("value", "0.5\n");
    came_to(on_terminal(&repo, "frozen", &["try", "-m", "half", "--max-experiments", "3"]), "0");
    assert_eq!(repo.read("results.tsv").lines().count(), 5);
}

#[test]
fn a_loop_in_the_background_may_write_where_others_are_stopped_for_it() {
    let repo = waiting_repo();
    touch(&repo, "go");
    came_to(on_terminal(&repo, "background", &LOOP), "0");
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
}

/// A loop that has ended with more to say than the pipe holds that nobody reads.
fn talked_into_a_full_pipe(repo: &TestRepo) -> Child {
    repo.write("train.sh", "seq -f 'a_number_that_makes_records_longer_%g: 1.25' 200; echo val_bpb: 2.0\n");
    repo.commit_all("many numbers");
    let agent = "echo \"# $AR_EXPERIMENT\" >> train.sh";
    let args = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let child = ar_command(repo, &repo.path(), args)
        .args(["--max-experiments", "9", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until("the end of the session", || {
        let journal = fs::read_to_string(repo.file(".autoresearch/t/state/progress.json")).ok()?;
        journal.contains("\"status\": \"stopped\"").then_some(())
    });
    assert_eq!(repo.read("results.tsv").lines().count(), 11);
    child
}

#[test]
fn a_pipe_that_nobody_reads_does_not_hold_the_loop_up_and_has_everything_in_the_end() {
    let repo = training_repo();
    let child = talked_into_a_full_pipe(&repo);
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.len() > 64 * 1024, "a pipe holds that much");
    assert_eq!(called.json_lines().last().unwrap()["event"], "session_stopped");
}

#[test]
fn an_interrupt_ends_what_only_waits_to_be_read() {
    let repo = training_repo();
    let mut child = talked_into_a_full_pipe(&repo);
    let ended = until("its end", || {
        // The first one may still be heard by the loop.
        signal(&child, "-INT");
        child.try_wait().unwrap()
    });
    assert_eq!(ended.code(), None, "{ended}");
}

/// All that was written to the terminal so far.
fn written(repo: &TestRepo) -> String {
    let written = fs::read(repo.outside().join("screen")).unwrap_or_default();
    String::from_utf8_lossy(&written).into_owned()
}

/// What the terminal shows, if it has all of `words`.
fn screen_has(repo: &TestRepo, words: &[&str]) -> Option<String> {
    let mut terminal = vt100::Parser::new(24, 80, 0);
    terminal.process(written(repo).as_bytes());
    let screen = terminal.screen().contents();
    words.iter().all(|word| screen.contains(word)).then_some(screen)
}

/// Gives a file that `terminal.py` acts on, and waits until it is taken.
fn ask(repo: &TestRepo, name: &str, content: &str) {
    let (part, file) = (repo.outside().join("part"), repo.outside().join(name));
    fs::write(&part, content).unwrap();
    fs::rename(part, &file).unwrap();
    until("the one at the terminal", || (!file.exists()).then_some(()));
}

/// A watch that shows all of `words`.
fn watch(repo: &TestRepo, words: &[&str]) -> Child {
    let _ = fs::remove_file(repo.outside().join("screen"));
    let terminal = on_terminal(repo, "screen", &["status", "--watch", "t"]);
    until("the screen", || screen_has(repo, words));
    terminal
}

/// Whether something was written in a colour, by its number or by that of the 256.
fn has_colours(written: &str) -> bool {
    (30..38).any(|colour| written.contains(&format!("\u{1b}[{colour}m"))) || written.contains("\u{1b}[38;")
}

const LEFT_AS_IT_WAS: &str = "\u{1b}[?1049l";

#[test]
fn a_run_has_a_live_line_that_goes_with_it() {
    let repo = waiting_repo();
    let terminal = on_terminal_with(&repo, "screen", &[("TERM", "xterm")], &LOOP);
    until("the live line", || screen_has(&repo, &["experiment 1: ", " of 10m00s", "to beat 2.0"]));
    touch(&repo, "go");
    came_to(terminal, "0 as it was");
    let screen = screen_has(&repo, &["   1  keep", "   2  discard", "stopped: "]).unwrap();
    assert!(!screen.contains("experiment 1: ") && !screen.contains("of 10m00s"), "{screen}");
}

#[test]
fn at_80_columns_a_line_begins_with_verdict_and_value_and_its_description_is_cut() {
    let repo = waiting_repo();
    let agent = "echo 1.75 > value; printf '{\"description\": \"%0120d\"}' 7 > $AR_PROPOSAL";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let terminal = on_terminal(&repo, "screen", &[&args[..], &["--max-experiments", "1"]].concat());
    came_to(terminal, "0 as it was");
    let screen = screen_has(&repo, &["stopped: "]).unwrap();
    let lines: Vec<&str> = screen.lines().filter(|line| line.contains("00000")).collect();
    assert!(
        matches!(lines[..], [line] if line.starts_with("   1  keep     1.75      val_bpb 1.75 is better than 2")),
        "{screen}"
    );
}

#[test]
fn at_80_columns_the_reason_comes_before_the_description_and_a_doubt_stays() {
    let line_of = |first: &str, second: &str| {
        let repo = waiting_repo();
        let agent = format!("echo {second} > value; printf '{{\"description\": \"%0120d\"}}' 7 > $AR_PROPOSAL");
        repo.write("value", format!("{first}\n"));
        repo.commit_all("begins elsewhere");
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
        let terminal = on_terminal(&repo, "screen", &[&args[..], &["--max-experiments", "1"]].concat());
        came_to(terminal, "0 as it was");
        let screen = screen_has(&repo, &["stopped: "]).unwrap();
        let lines: Vec<&str> = screen.lines().filter(|line| line.contains("00000")).collect();
        assert_eq!(lines.len(), 1, "{screen}");
        lines[0].to_owned()
    };
    let plain = line_of("2.0", "1.75");
    assert!(plain.starts_with("   1  keep     1.75      val_bpb 1.75 is better than 2"), "{plain}");
    assert!(plain.contains("...: 000000000"), "{plain}");
    let doubted = line_of("2.0", "0.5");
    assert!(doubted.starts_with("   1  keep     0.5       val_bpb 0.5 is "), "{doubted}");
    assert!(doubted.contains("...; doubtful: 000000000"), "{doubted}");
}

#[test]
fn a_watch_shows_a_loop_at_work_follows_the_size_and_leaves_loop_and_terminal_as_they_were() {
    let repo = waiting_repo();
    let mut at_work =
        ar_command(&repo, &repo.path(), LOOP).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_runs(&repo, 2);
    let terminal = watch(&repo, &["running experiment 1, ", "baseline", "q quits"]);
    let screen = written(&repo);
    assert!(screen.is_ascii() && !has_colours(&screen), "no colour and no UTF-8: {screen}");
    ask(&repo, "size", "5 20");
    until("a small screen", || screen_has(&repo, &["t runnin", "~"]));
    ask(&repo, "keys", "jjkG\u{1b}[B\u{1b}[6~ gx");
    ask(&repo, "size", "1 1");
    ask(&repo, "keys", "q");
    came_to(terminal, "0 as it was");
    assert!(written(&repo).contains(LEFT_AS_IT_WAS));
    let terminal = watch(&repo, &["running experiment 1, "]);
    ask(&repo, "signal", "15");
    came_to(terminal, "130 as it was");
    assert!(written(&repo).contains(LEFT_AS_IT_WAS));
    let terminal = watch(&repo, &["running experiment 1, "]);
    touch(&repo, "close");
    came_to(terminal, "130");
    assert!(at_work.try_wait().unwrap().is_none());
    touch(&repo, "go");
    assert!(at_work.wait().unwrap().success());
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
}

#[test]
fn a_watch_sees_the_session_begin_end_and_disappear() {
    let repo = waiting_repo();
    touch(&repo, "go");
    repo.write(
        "train.sh",
        "until [ -e ../measure ]; do sleep 0.02; done\nprintf '10%%\\r\\033[31m20%%\\n'\necho val_bpb: 2.0\n",
    );
    repo.commit_all("waits");
    let mut at_work =
        ar_command(&repo, &repo.path(), LOOP).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || repo.exists(".autoresearch/t/runs/00000/started.json").then_some(()));
    let terminal = watch(&repo, &["running the baseline", "best         none yet"]);
    touch(&repo, "measure");
    at_work.wait().unwrap();
    let screen = until("the end", || screen_has(&repo, &["idle", "ended ", "3 rows: ", "20%"]));
    assert!(!screen.contains("10%") && !has_colours(&written(&repo)), "{screen}");
    fs::remove_dir_all(repo.file(".autoresearch")).unwrap();
    repo.git(["update-ref", "-d", "refs/autoresearch/t/00000"]);
    until("the end of all", || screen_has(&repo, &["no session `t` found"]));
    ask(&repo, "keys", "\u{1b}");
    came_to(terminal, "0 as it was");
}

#[test]
fn a_watch_draws_in_braille_where_the_locale_is_utf_8_and_in_ascii_elsewhere() {
    let repo = TestRepo::new();
    repo.write("value", "2.0\n");
    repo.commit_all("a value");
    let agent = "case $AR_EXPERIMENT in 1) v=1.99 ;; 2) v=1.5 ;; *) v=1.7 ;; esac; echo $v > value";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "echo loss: $(cat value)", "--agent", agent, "--tag", "t"];
    ar(&repo, [&args[..], &["--max-experiments", "3"]].concat()).ok();
    // A screen that is seen while it is drawn has a part of the chart.
    let drawn = |locale: &str, legend: &str, is_whole: &dyn Fn(&str) -> bool| {
        let _ = fs::remove_file(repo.outside().join("screen"));
        let terminal = on_terminal_with(&repo, "screen", &[("LC_ALL", locale)], &["status", "--watch", "t"]);
        let seen = || screen_has(&repo, &["loss (lower is better)", legend]).filter(|screen| is_whole(screen));
        let screen = until("the whole chart", seen);
        ask(&repo, "keys", "q");
        came_to(terminal, "0 as it was");
        screen
    };
    let is_braille = |c: &char| ('\u{2801}'..='\u{28ff}').contains(c);
    drawn("C.UTF-8", "⠿ 3 kept", &|screen| {
        // The first two keeps differ by a fiftieth of the height: too little for a line of text, but not for a dot.
        let first = screen.lines().find(|line| line.chars().any(|c| is_braille(&c))).unwrap_or_default();
        let kinds: std::collections::BTreeSet<char> = first.chars().filter(is_braille).collect();
        screen.chars().filter(is_braille).count() > 40 && kinds.len() > 2
    });
    let plain = drawn("C", "O 3 kept", &|_| true);
    assert!(plain.is_ascii(), "{plain}");
}

#[test]
fn a_watch_over_all_sessions_has_a_line_for_each() {
    let repo = training_repo();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    let terminal = on_terminal(&repo, "screen", &["status", "--all", "--watch"]);
    let name = repo.path().file_name().unwrap().to_str().unwrap().to_owned();
    until("the screen", || screen_has(&repo, &["session", &name, "idle", "q quits"]));
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "echo val_bpb: 7.5", "--tag", "v"]).ok();
    until("the new session", || screen_has(&repo, &["v ", "7.5"]));
    ask(&repo, "keys", "jkGg");
    ask(&repo, "size", "1 1");
    ask(&repo, "keys", "q");
    came_to(terminal, "0 as it was");
}

#[test]
fn what_cannot_be_drawn_on_gets_an_error_that_names_the_other_way() {
    let repo = training_repo();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    let refused = ar(&repo, ["status", "--watch"]).exits(1).stderr;
    assert_eq!(refused, "error: --watch needs a terminal\nhint: run `ar status` to print it once\n");
    came_to(on_terminal_with(&repo, "screen", &[("TERM", "dumb")], &["status", "--watch"]), "1 as it was");
    assert!(screen_has(&repo, &["TERM is dumb", "run `ar status` to print it once"]).is_some());
    ar(&repo, ["status", "--watch", "--format", "json"]).exits(2);
}

#[test]
fn a_long_answer_on_a_terminal_goes_to_the_pager_unless_that_is_not_wanted_or_not_there() {
    let repo = training_repo();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    let paged = repo.outside().join("paged");
    let pager = format!("cat > {}", paged.display());
    let call = |pager: &str, args: &[&str]| {
        let _ = fs::remove_file(&paged);
        came_to(on_terminal_with(&repo, "plain", &[("AR_PAGER", pager), ("PAGER", "false")], args), "0");
        fs::read_to_string(&paged).unwrap_or_default()
    };
    assert!(call(&pager, &["log"]).contains("baseline"));
    // Whoever leaves the pager at once has seen enough.
    assert_eq!(call("true", &["show", "0"]), "");
    assert_eq!(call(&pager, &["log", "--no-pager"]), "");
    assert_eq!(call("no-such-pager", &["log"]), "");
    // What a command says that is not an answer to read does not go there.
    assert_eq!(call(&pager, &["note", "0", "look again"]), "");
}

#[test]
fn a_terminal_is_asked_for_a_direction_that_the_name_does_not_say() {
    let repo = training_repo();
    repo.write("train.sh", "echo gizmo: 2\n");
    repo.commit_all("gizmo");
    let args = ["run", "--metric", "gizmo", "--cmd", "sh train.sh", "--tag", "t", "--agent", "none"];
    let terminal = on_terminal(&repo, "screen", &[&args[..], &["--max-experiments", "0"]].concat());
    until("the question", || written(&repo).contains("lower or a higher gizmo better?").then_some(()));
    ask(&repo, "keys", "higher\n");
    until("the contract", || written(&repo).contains("[Y/n]").then_some(()));
    ask(&repo, "keys", "y\n");
    came_to(terminal, "0 as it was");
    assert!(written(&repo).contains("gizmo: higher is better"), "{}", written(&repo));
    assert!(repo.read(".autoresearch/t/state/contract.json").contains("\"higher\""));
}
