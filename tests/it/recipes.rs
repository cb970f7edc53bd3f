//! The cookbook and the recipes of the book, by the lines that they print.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use crate::run_loop::{agent, training_repo};
use crate::support::{AR, Called, TestRepo, ar_command, path_without_agents};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The lines to type below a heading of the cookbook.
fn lines_below(heading: &str) -> String {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/guide/cookbook.md")).unwrap();
    let (_, below) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    below.split("```sh\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// Types the lines below a heading, in a home folder where a script stands in for `claude`. Gives the home and what they printed.
fn follow(heading: &str, claude: &str) -> (TestRepo, PathBuf, Called) {
    let place = TestRepo::empty();
    let (home, bin) = (place.outside().join("user"), place.outside().join("user/bin"));
    fs::create_dir_all(&bin).unwrap();
    symlink(AR, bin.join("ar")).unwrap();
    let answer = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"a step"}'"#;
    fs::write(bin.join("claude"), format!("#!/bin/sh\nset -e\n{claude}\n{answer}\n")).unwrap();
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = [bin].into_iter().chain(std::env::split_paths(path_without_agents()));
    let mut shell = Command::new("sh");
    place.environment(&mut shell);
    shell.env("PATH", std::env::join_paths(path).unwrap()).env("HOME", &home).env("AR_NO_PAUSES", "1");
    shell.args(["-ec", &lines_below(heading)]).current_dir(ROOT);
    let called = Called::from(shell.output().unwrap()).ok();
    (place, home, called)
}

/// The outcome and failure class of each experiment in a folder.
fn outcomes(place: &TestRepo, folder: &Path) -> Vec<(String, String)> {
    let log = Called::from(ar_command(place, folder, ["log", "--format", "json"]).output().unwrap()).ok().json();
    let records = log["experiments"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    records.map(|record| (text(&record["outcome"]), text(&record["failure"]["class"]))).collect()
}

#[test]
fn the_kernel_of_the_cookbook_gets_faster_and_stays_right() {
    // Fast and wrong; fast and right; slow again.
    let claude = r#"
case $AR_EXPERIMENT in
1) printf 'def smooth(values, width):\n    return [0.0] * (len(values) - width + 1)\n' ;;
2) printf 'from itertools import accumulate\n\n\ndef smooth(values, width):\n    sums = [0.0, *accumulate(values)]\n'
   printf '    return [(after - before) / width for before, after in zip(sums, sums[width:])]\n' ;;
*) printf 'def smooth(values, width):\n    return [sum(values[i:i + width]) / width for i in range(len(values) - width + 1)]\n' ;;
esac >kernel.py"#;
    let (place, home, called) = follow("A kernel, by its speed", claude);
    let found = outcomes(&place, &home.join("kernel"));
    let found: Vec<_> = found.iter().map(|(outcome, class)| (outcome.as_str(), class.as_str())).collect();
    let wanted = [("keep", ""), ("discard", "guard_failed"), ("keep", ""), ("discard", "")];
    assert_eq!(found, wanted, "{called:?}");
    assert!(called.stdout.contains("windows of 1: the means are wrong"), "{called:?}");
}

#[test]
fn the_prompt_of_the_cookbook_gets_better_within_its_limit() {
    let claude = r#"
case $AR_EXPERIMENT in
1) echo 'Which team should answer this message: billing, bug or account?' ;;
2) echo 'Which team should answer this message: billing, bug or account? Answer with one word.' ;;
*) for i in 1 2 3 4 5; do echo 'Which team should answer: billing, bug or account? Answer with one word, and be right.'; done ;;
esac >prompt.txt"#;
    let (place, home, called) = follow("A prompt, by an evaluation", claude);
    let found = outcomes(&place, &home.join("prompt"));
    let found: Vec<_> = found.iter().map(|(outcome, _)| outcome.as_str()).collect();
    assert_eq!(found, ["keep", "discard", "keep", "discard"], "{called:?}");
    let prompt = fs::read_to_string(home.join("prompt/prompt.txt")).unwrap();
    assert!(prompt.ends_with("Answer with one word.\n"), "{prompt}");
}

/// Answers each request with 200 and passes on its first line, its headers and its body.
fn listener() -> (String, mpsc::Receiver<(String, String)>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let _ = sender.send((head, String::from_utf8(body).unwrap()));
        }
    });
    (address, requests)
}

#[test]
fn the_recipe_for_pushes_reaches_a_phone_and_a_chat() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("curl") || !has("jq") {
        let _ = writeln!(std::io::stderr(), "skipped: curl or jq is not installed");
        return;
    }
    let repo = training_repo();
    let (address, requests) = listener();
    let hook = format!("sh {ROOT}/docs/recipes/push.sh");
    let agent = agent("better worse");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let args = [&args[..], &["--max-experiments", "2", "--on-event", &hook]].concat();
    let mut command = ar_command(&repo, &repo.path(), args);
    command.env("PUSH_URL", format!("{address}/topic")).env("WEBHOOK_URL", format!("{address}/hook"));
    Called::from(command.output().unwrap()).ok();
    let got: Vec<(String, String)> = requests.try_iter().collect();
    // The best and the stop, each to both.
    assert_eq!(got.len(), 4, "{got:?}");
    let (head, body) = &got[0];
    assert!(head.starts_with("POST /topic ") && head.contains("\r\nTitle: ar: best in t\r\n"), "{head}");
    assert!(body.contains("1.9") && !body.contains('{'), "{body}");
    let (head, chat) = &got[1];
    assert!(head.starts_with("POST /hook ") && head.contains("application/json"), "{head}");
    let chat: serde_json::Value = serde_json::from_str(chat).unwrap();
    assert_eq!(chat, serde_json::json!({"text": body}));
    assert!(got[2].0.contains("Title: ar: stopped in t"), "{got:?}");
}
