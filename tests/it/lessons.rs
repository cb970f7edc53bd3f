//! What sessions learn, in autoresearch-lessons.md.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use autoresearch::state::LessonFile;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

const LESSONS: &str = "autoresearch-lessons.md";

/// The lines around the part of the file that is `ar`'s.
const BEGIN: &str = "<!-- autoresearch-lessons version 1: ar rewrites this part, your notes stay outside it -->\n";
const END: &str = "<!-- end of autoresearch-lessons -->\n";

/// The arguments of a loop whose agent does what `first` says and then makes a change that is worth `$value`.
fn loop_args(first: &str, experiments: u32) -> Vec<String> {
    let agent = format!(
        "cp \"$AR_PROMPT\" ../prompt-$AR_EXPERIMENT; value=1.9; direction=; lesson=; {first}; \
         sed -i \"s/^VAL_BPB=.*/VAL_BPB=$value/\" train.sh; echo \"# $AR_EXPERIMENT\" >> train.sh; \
         printf '{{\"description\": \"change %s\", \"direction\": \"%s\", \"lesson\": \"%s\"}}' \
         $AR_EXPERIMENT \"$direction\" \"$lesson\" > \"$AR_PROPOSAL\""
    );
    let count = experiments.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", &agent];
    args.into_iter().chain(["--max-experiments", &count]).map(str::to_owned).collect()
}

fn run(repo: &TestRepo, first: &str, experiments: u32, more: &[&str]) -> Called {
    let args = loop_args(first, experiments);
    ar(repo, args.iter().map(String::as_str).chain(["--tag", "t"]).chain(more.iter().copied()))
}

/// The entries: what names each, and its insight.
fn entries(repo: &TestRepo) -> Vec<(String, String)> {
    let lessons = LessonFile::new(&repo.path()).read().unwrap();
    lessons.into_iter().map(|lesson| (lesson.id.to_string(), lesson.insight)).collect()
}

fn names(repo: &TestRepo) -> Vec<String> {
    entries(repo).into_iter().map(|(name, _)| name).collect()
}

fn prompt(repo: &TestRepo, experiment: u32) -> String {
    fs::read_to_string(repo.outside().join(format!("prompt-{experiment}"))).unwrap()
}

/// A file of lessons of another session.
pub(crate) fn old_lessons(count: i64) -> String {
    format!("{BEGIN}{}{END}", old_entries(count))
}

/// `count` entries of another session, one a day, the last of them today.
fn old_entries(count: i64) -> String {
    let now: jiff::Timestamp = crate::support::CLOCK.parse().unwrap();
    let entry = |n: i64| {
        let time = now - jiff::SignedDuration::from_hours(24 * (count - n));
        format!(
            "<!-- lesson old/{n} -->\n- **strategy**: {}\n- **outcome**: keep\n- **insight**: {} {n}\n- **time**: \
                {time:.3}\n\n",
            ["width", "Warm up", "warm  up"][usize::try_from(n).unwrap() % 3],
            "長".repeat(260),
        )
    };
    (1..=count).map(entry).collect()
}

#[test]
fn keeps_pivots_and_the_end_teach_lessons_that_the_next_session_reads() {
    let repo = training_repo();
    repo.write(LESSONS, "My own notes.\n");
    // The first is kept; two of the same direction are not, which is a pivot on the structural ladder.
    let first = "case $AR_EXPERIMENT in 1) value=1.5; direction=depth; lesson='deeper is better <script>' ;; \
                 2) direction=WarmUp ;; 3) direction='warm up'; lesson='warm-up does nothing' ;; 4) value=nan ;; esac";
    run(&repo, first, 4, &["--ladder", "structural"]).ok();
    let found = entries(&repo);
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["t/1", "t/pivot-1", "t/pivot-2", "t/summary-4"]);
    assert_eq!(found[0].1, "deeper is better ‹script>");
    assert_eq!(found[1].1, "warm-up does nothing");
    assert_eq!(found[3].1, "4 experiments, 1 kept; best 1.5 (experiment 1: change 1); in vain: WarmUp; failed: nan 1");
    let text = repo.read(LESSONS);
    assert!(
        text.starts_with(&format!(
            "My own notes.\n\n{BEGIN}# Lessons\n\n<!-- lesson t/1 -->\n- **strategy**: depth\n- **outcome**: keep\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("- **context**: t, val_bpb 2.000000 → 1.5\n- **experiment**: 1\n- **time**: 2026-11-20T22"),
        "{text}"
    );
    assert!(text.contains("- **outcome**: pivot: 2 experiments, 0 kept\n"), "{text}");
    assert_eq!(repo.status(), "", "it is no part of the repository");
    assert!(
        prompt(&repo, 2).contains("## Lessons\n")
            && prompt(&repo, 2).contains("- depth (keep; t, val_bpb 2.000000 → 1.5): ")
    );
    assert!(!prompt(&repo, 1).contains("## Lessons\n"), "notes of one's own are no lessons");

    // A call that makes no experiment has nothing to sum up; a later session reads all of it.
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!(entries(&repo), found);
    repo.git(["switch", "--quiet", "main"]);
    let args = loop_args("value=1.4; direction=depth", 1);
    ar(&repo, args.iter().map(String::as_str).chain(["--tag", "u"])).ok();
    assert!(prompt(&repo, 1).contains("- warm up (pivot: 2 experiments, 0 kept; t, val_bpb 1.5 → 1.9): warm-up does"));
    let found = entries(&repo);
    assert_eq!(found[4].0, "u/1");
    assert!(found[4].1.starts_with("change 1: val_bpb 1.4 is better than 2.000000"), "made of the reason: {found:?}");
    let brief = ar(&repo, ["brief", "u"]).ok().stdout;
    assert!(brief.contains("- depth (keep; u, val_bpb 2.000000 → 1.4): change 1: "), "{brief}");
}

#[test]
fn old_lessons_are_folded_by_strategy_and_those_of_this_session_are_not() {
    let repo = training_repo();
    let notes = "# Lessons\r\n\r\n* mine, with no end to it";
    run(&repo, "value=$(awk \"BEGIN{print 1.9-0.1*$AR_EXPERIMENT}\")", 1, &[]).ok();
    // It would be the first to go.
    let own = repo.read(LESSONS).replace("2026-11-20T22", "2020-11-20T22");
    repo.write(LESSONS, own.replace(END, &format!("{}{END}{notes}", old_entries(70))));
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    let names = names(&repo);
    let folded: Vec<_> = names.iter().filter(|name| name.starts_with("folded ")).collect();
    assert_eq!((names.len(), folded.len()), (50, 2), "no more than fifty: {names:?}");
    for own in ["t/1", "t/summary-1", "t/2", "t/summary-2"] {
        assert!(names.contains(&own.to_owned()), "{own}: {names:?}");
    }
    assert!(names.contains(&"old/70".to_owned()) && !names.contains(&"old/1".to_owned()), "{names:?}");
    assert!(repo.read(LESSONS).ends_with(&format!("{END}{notes}")));
    let brief = ar(&repo, ["brief"]).ok().stdout;
    assert!(brief.contains("## Lessons\n") && brief.len() < 8192, "{brief}");
}

#[test]
fn what_others_write_stays_to_the_byte_and_what_is_no_file_stops_nothing() {
    let repo = training_repo();
    repo.write(LESSONS, "<!-- autoresearch-lessons version 9 -->\nof a newer one\n");
    let first = "value=$(awk \"BEGIN{print 1.9-0.1*$AR_EXPERIMENT}\")";
    let content = |repo: &TestRepo| fs::read(repo.file(LESSONS)).unwrap();
    run(&repo, first, 1, &[]).ok();
    assert!(repo.read(LESSONS).starts_with(&format!(
        "<!-- autoresearch-lessons version 9 -->\nof a newer one\n\n{BEGIN}# Lessons\n\n<!-- lesson t/1 -->"
    )));
    assert_eq!(names(&repo), ["t/1", "t/summary-1"]);
    assert_eq!(repo.status(), "");

    let goes_on = |trouble: &str| {
        let called = ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
        assert!(called.stderr.contains(trouble), "{trouble}: {called:#?}");
    };
    // What is before and after the part stays; an entry that was edited says what its editor wants.
    let before = b"\xff\xfe <!-- lesson t/2 -->\n- **strategy**: x\n";
    let edited = repo.read(LESSONS).replacen("- **insight**: ", "- **insight**: I doubt\n  that ", 1);
    repo.write(LESSONS, [before, edited.as_bytes(), b"* mine"].concat());
    goes_on("");
    assert!(content(&repo).starts_with(before) && content(&repo).ends_with(b"* mine"));
    assert_eq!(names(&repo), ["t/1", "t/summary-1", "t/2", "t/summary-2"]);
    assert!(ar(&repo, ["brief", "t"]).ok().stdout.contains("I doubt that change 1"));
    // Without its end the part is text as well, and a new one begins.
    let cut = String::from_utf8_lossy(&content(&repo)).replace(END, "");
    repo.write(LESSONS, &cut);
    goes_on("");
    assert!(repo.read(LESSONS).starts_with(&cut));
    assert_eq!(names(&repo), ["t/3", "t/summary-3"]);
    assert!(ar(&repo, ["doctor"]).ok().stdout.contains("no problems found"));

    repo.rm(LESSONS);
    repo.symlink("../elsewhere", LESSONS);
    goes_on("autoresearch-lessons.md: it is not a regular file");
    assert!(!repo.outside().join("elsewhere").exists());
    repo.rm(LESSONS);
    fs::create_dir(repo.file(LESSONS)).unwrap();
    goes_on("autoresearch-lessons.md: it is not a regular file");
    fs::remove_dir(repo.file(LESSONS)).unwrap();
    repo.write(LESSONS, "mine\n");
    fs::set_permissions(repo.file(LESSONS), fs::Permissions::from_mode(0o444)).unwrap();
    goes_on("autoresearch-lessons.md: it is read-only");
    assert_eq!(repo.read(LESSONS), "mine\n");
}

#[test]
fn what_an_agent_deletes_is_put_back_and_what_it_adds_stays() {
    let repo = training_repo();
    repo.write(LESSONS, "# Mine\n");
    let first = "case $AR_EXPERIMENT in 1) rm autoresearch-lessons.md ;; \
                 2) value=1.5; : > autoresearch-lessons.md ;; \
                 3) echo 'the agent was here' >> autoresearch-lessons.md; value=1.4 ;; esac";
    let called = run(&repo, first, 3, &[]).ok();
    let told = "autoresearch-lessons.md, deleted while the agent was active";
    let is_told = |line: &&str| line.starts_with("note: restored ") && line.ends_with(told);
    assert_eq!(called.stderr.lines().filter(is_told).count(), 2, "{called:#?}");
    let text = repo.read(LESSONS);
    assert!(text.starts_with(&format!("# Mine\n\n{BEGIN}")), "{text}");
    assert!(text.ends_with(&format!("{END}the agent was here\n")), "{text}");
    assert_eq!(names(&repo), ["t/1", "t/2", "t/3", "t/summary-3"]);
}

#[test]
fn two_sessions_write_at_the_same_time() {
    let repo = training_repo();
    repo.git(["worktree", "add", "--quiet", "--detach", "../second"]);
    let first = "value=$(awk \"BEGIN{print 1.9-0.1*$AR_EXPERIMENT}\")";
    let start = |dir: std::path::PathBuf, tag: &str| {
        let args = loop_args(first, 4);
        let mut command: Command = ar_command(&repo, &dir, args.iter().map(String::as_str).chain(["--tag", tag]));
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let both = [start(repo.path(), "t"), start(repo.outside().join("second"), "u")];
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    let mut names = names(&repo);
    names.sort();
    let expected =
        ["t", "u"].map(|tag| ["1", "2", "3", "4", "summary-4"].map(|point| format!("{tag}/{point}"))).concat();
    assert_eq!(names, expected);
}

#[test]
fn the_doctor_names_damaged_ideas_and_sets_them_aside() {
    let repo = training_repo();
    run(&repo, "value=1.5", 1, &[]).ok();
    assert!(ar(&repo, ["doctor"]).ok().stdout.contains("no problems found"));
    repo.write(
        ".autoresearch/ideas.jsonl",
        "{\"version\":1,\"id\":1,\"ts\":\"2026-11-20T22:00:00Z\",\"by\":\"user\",\
               \"state\":\"open\",\"text\":\"deeper\"}\n{\"version\":1,\"id\":2,\n",
    );
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("cannot parse 1 line of ") && found.contains("ideas.jsonl"), "{found}");
    let repaired = ar(&repo, ["doctor", "--repair"]).ok().stdout;
    assert!(repaired.contains("no problems found"), "{repaired}");
    assert!(repo.exists(".autoresearch/ideas.jsonl.damaged"));
    assert!(ar(&repo, ["idea", "list"]).ok().stdout.contains("deeper"));
    assert_eq!(repo.status(), "");
}

#[test]
fn two_troubles_at_once_are_told_once_each() {
    let repo = training_repo();
    for path in [LESSONS, ".autoresearch/ideas.jsonl"] {
        fs::create_dir_all(repo.file(path)).unwrap();
    }
    let called = run(&repo, "value=1.$AR_EXPERIMENT", 3, &[]).ok();
    for trouble in ["cannot read lessons", "cannot read ideas", "lessons or ideas are not recorded"] {
        assert_eq!(called.stderr.matches(trouble).count(), 1, "{trouble}: {called:#?}");
    }
}
