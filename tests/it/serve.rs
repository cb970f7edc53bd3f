//! `ar serve`: who gets in, what the page shows, and that it leaves no trace.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::looking::listing;
use crate::run_loop::{agent, training_repo};
use crate::support::{TestRepo, ar, ar_command, ar_in_time, until};

const HOSTILE: &str = "</pre><script>alert(1)</script>\"><img src=x onerror=alert(1)>";

/// A server, which ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server answered.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Server {
    fn start(repo: &TestRepo, args: &[&str]) -> Server {
        let mut command = ar_command(repo, &repo.path(), ["serve", "--port", "0"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Server { child, url: url.trim_end().to_owned() }
    }

    fn port(&self) -> u16 {
        let (_, after) = self.url.split_once("http://127.0.0.1:").unwrap();
        after.split_once("/?token=").unwrap().0.parse().unwrap()
    }

    fn token(&self) -> &str {
        self.url.split_once("/?token=").unwrap().1
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).unwrap()
    }

    /// Sends these lines of a request, and an empty one.
    fn send(&self, lines: &[&str]) -> Answer {
        let mut stream = self.connect();
        stream.write_all((lines.join("\r\n") + "\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Asks for a path, whose query may begin with `?`, with the token.
    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let line = format!("GET {path}?token={}&{query} HTTP/1.1", self.token());
        self.send(&[&[line.as_str(), "Host: localhost"], headers].concat())
    }

    fn body(&self, path: &str) -> String {
        let answer = self.get(path, &[]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    #[track_caller]
    fn until_now_says(&self, words: &str) -> String {
        until(words, || Some(self.body("/now")).filter(|now| now.contains(words)))
    }
}

#[test]
fn the_first_line_is_the_address_and_nothing_else_opens_the_page() {
    let repo = training_repo();
    let server = Server::start(&repo, &[]);
    let token = server.token();
    assert!(token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let page = server.get("/", &[]);
    assert_eq!(page.status, 200);
    for header in
        ["cache-control: no-store", "referrer-policy: no-referrer", "x-content-type-options: nosniff", "text/html"]
    {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(!page.body.contains("http:") && !page.body.contains("https:"));

    let with = |method: &str, query: &str, host: &str| {
        let answer = server.send(&[&format!("{method} /now?{query} HTTP/1.1"), &format!("Host: {host}")]);
        assert!(answer.status == 200 || !answer.body.contains("data-part"), "{}", answer.body);
        answer.status
    };
    let right = format!("token={token}");
    assert_eq!(with("GET", &right, "127.0.0.1:1"), 200);
    assert_eq!([with("GET", "", "localhost"), with("GET", "token=", "localhost")], [403, 403]);
    assert_eq!(with("GET", &format!("token={}x", &token[1..]), "localhost"), 403);
    assert_eq!([with("GET", &right, "evil.example"), with("GET", &right, "10.0.0.1")], [403, 403]);
    assert_eq!([with("POST", &right, "localhost"), with("DELETE", &right, "localhost")], [405, 405]);
    assert_eq!([with("POST", "", "localhost"), with("POST", &right, "evil.example")], [403, 403]);
    assert_eq!(server.send(&[&format!("GET /?{right} HTTP/1.0")]).status, 403);
    assert_eq!(server.get("/etc/passwd", &[]).status, 404);
    let head = server.send(&[&format!("HEAD /?{right} HTTP/1.1"), "Host: localhost"]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let long = format!("X-Long: {}", "x".repeat(100_000));
    assert_eq!(server.get("/", &[&long]).status, 431);
}

#[test]
fn nothing_that_experiments_say_is_more_than_text() {
    let repo = training_repo();
    let train = repo.read("train.sh").replace("VAL_BPB=2.000000", "VAL_BPB=1.5");
    repo.write("train.sh", train + &format!("\n# {HOSTILE}\ncat <<'X'\nthe log says {HOSTILE}\nX\n"));
    ar(&repo, ["try", "-m", HOSTILE, "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    let server = Server::start(&repo, &[]);
    let escaped = "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;";
    for (path, words) in [
        ("/now", "the log says "),
        ("/course", "<td class=\"what\">"),
        ("/experiment?id=1", "<dt>description</dt><dd>"),
        ("/experiment?id=1", "+# "),
    ] {
        let answer = server.get(path, &[]);
        assert!(answer.body.contains(&format!("{words}{escaped}")), "{words} in {path}: {}", answer.body);
        assert!(!answer.body.contains("<script") && !answer.body.contains("<img"), "{}", answer.body);
        let policy = answer.head.lines().find(|line| line.starts_with("content-security-policy")).unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let refused = server.get("/experiment?id=%3Cscript%3E", &[]);
    assert!(refused.status == 404 && !refused.body.contains("<script"), "{}", refused.body);
    let page = server.send(&[&format!("GET /?token={} HTTP/1.1", server.token()), "Host: localhost"]);
    for name in ["style", "script"] {
        let (_, text) = page.body.split_once(&format!("<{name}>")).unwrap();
        let hash = BASE64_STANDARD.encode(Sha256::digest(text.split_once(&format!("</{name}>")).unwrap().0));
        let policy = format!("{name}-src 'sha256-{hash}'");
        assert!(page.head.contains(&policy), "{policy} in {}", page.head);
    }
}

#[test]
fn it_waits_for_a_session_and_follows_its_loop_through_a_kill_and_a_restart() {
    let repo = training_repo();
    let server = Server::start(&repo, &["t"]);
    server.until_now_says("<b>t</b> <span class=\"missing\">waiting: ");
    let agent = "[ $AR_EXPERIMENT -lt 2 ] || [ -e ../go ] || { echo thinking; sleep 300; }; echo \"# $AR_EXPERIMENT\" >> train.sh";
    let args = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments", "2"];
    let mut command = ar_command(&repo, &repo.path(), args);
    let mut going = command.args(["--agent", agent]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let now = server.until_now_says("waiting for the agent to propose experiment 2");
    assert!(now.contains("data-title=\"t: 2.000000, active\""), "{now}");
    server.until_now_says("thinking");
    let course = server.body("/course");
    assert!(course.contains("data-id=\"1\"") && !course.contains("data-id=\"2\""), "{course}");

    going.kill().unwrap();
    going.wait().unwrap();
    let left = server.until_now_says("idle; experiment 2 was left unfinished");
    fs::write(repo.outside().join("go"), "").unwrap();
    ar_in_time(&repo, ["resume"]).ok();
    let ended = server.until_now_says("<span>idle</span>");
    let number = |now: &str| now.split('"').nth(1).unwrap().to_owned();
    assert_ne!(number(&left), number(&ended));
    assert!(server.body("/course").contains("data-id=\"2\""));

    // Nothing changes any more, so nothing is sent.
    let answer = server.get("/now", &[]);
    let tag = answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let same = server.get("/now", &[&format!("If-None-Match: {tag}")]);
    assert_eq!((same.status, same.body.as_str()), (304, ""));

    for name in repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch"]).lines() {
        repo.git(["update-ref", "-d", name]);
    }
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["branch", "--quiet", "-D", "autoresearch/t"]);
    fs::remove_dir_all(repo.file(".autoresearch/t")).unwrap();
    server.until_now_says("<b>t</b> <span class=\"missing\">waiting: ");
}

#[test]
fn it_leaves_no_trace_and_neither_status_nor_patrols_see_it() {
    let repo = training_repo();
    let args = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments", "1"];
    ar(&repo, args.into_iter().chain(["--agent", &agent("better")])).ok();
    let look = || (ar(&repo, ["status", "--format", "json"]).ok().json(), ar(&repo, ["doctor"]).stdout);
    let (status, doctor) = look();
    let before = listing(repo.outside());
    let server = Server::start(&repo, &[]);
    for path in ["/", "/now", "/course", "/experiment?id=1", "/experiment?id=7"] {
        server.get(path, &[]);
    }
    let after = listing(repo.outside());
    let new: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert!(after == before, "{new:?}");
    let (seen, examined) = look();
    assert_eq!(
        (&seen["sessions"][0]["owner"], &seen["sessions"][0]["doing"]),
        (&serde_json::Value::Null, &"idle".into())
    );
    assert_eq!(seen["sessions"][0]["next"], status["sessions"][0]["next"]);
    assert_eq!(examined, doctor);
    let patrolled = ar(&repo, ["guard", "--format", "json"]).ok();
    assert!(!patrolled.stdout.contains(&server.child.id().to_string()), "{patrolled:?}");
    // Nothing keeps the session from being driven on.
    repo.write("train.sh", repo.read("train.sh").replace("VAL_BPB=1.9", "VAL_BPB=1.5"));
    ar(&repo, ["try", "-m", "by hand"]).ok();
    server.until_now_says("1.500000");
}

#[test]
fn a_signal_ends_it_at_once_whoever_is_connected() {
    let repo = training_repo();
    for signal in ["INT", "TERM"] {
        let mut server = Server::start(&repo, &[]);
        let mut slow = server.connect();
        slow.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
        server.body("/now");
        Command::new("kill").args([&format!("-{signal}"), &server.child.id().to_string()]).status().unwrap();
        let ended = until("the end", || server.child.try_wait().unwrap());
        assert_eq!(ended.code(), Some(130), "{signal}");
    }
}

#[test]
fn many_that_send_nothing_keep_nobody_out_for_long_and_a_taken_port_is_an_error() {
    let repo = training_repo();
    let server = Server::start(&repo, &[]);
    let idle: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    (0..3).for_each(|_| _ = server.body("/now"));
    drop(idle);
    let port = server.port().to_string();
    let refused = ar(&repo, ["serve", "--port", &port]).exits(1);
    assert!(refused.stderr.contains(&format!("cannot listen at 127.0.0.1:{port}")), "{refused:?}");
    assert!(refused.stderr.contains("--port 0") && refused.stdout.is_empty(), "{refused:?}");
}

#[test]
fn two_sessions_share_a_chart_and_each_has_its_own_page() {
    let repo = training_repo();
    for (tag, steps) in [("one", "better"), ("two", "better better")] {
        let count = steps.split(' ').count().to_string();
        let args = ["run", "--yes", "--tag", tag, "--metric", "val_bpb", "--cmd", "sh train.sh"];
        ar(&repo, args.into_iter().chain(["--agent", &agent(steps), "--max-experiments", &count])).ok();
        repo.git(["checkout", "--quiet", "main"]);
    }
    let server = Server::start(&repo, &["one", "two"]);
    let now = server.body("/now");
    assert!(now.contains("<b>one</b>") && now.contains("<b>two</b>"), "{now}");
    let together = server.body("/course");
    assert_eq!(together.matches("role=\"img\"").count(), 1, "{together}");
    for words in ["<title>one, experiment 1: 1.900000", "<title>two, experiment 2: 1.800000", "data-session=\"two\""] {
        assert!(together.contains(words), "{words}: {together}");
    }
    let one = server.body("/course?session=one");
    assert!(one.contains("data-id=\"1\"") && !one.contains("data-id=\"2\""), "{one}");
    assert!(server.body("/experiment?session=two&id=2").contains("experiment 2 of session two"));
    assert_eq!(server.get("/experiment?session=three&id=2", &[]).status, 404);
}

#[test]
fn what_a_session_cannot_solve_is_a_banner_with_its_report() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--outage-limit", "100ms"];
    ar_in_time(&repo, args.into_iter().chain(["--agent", "echo 'Credit balance is too low'; exit 1"])).exits(4);
    let now = Server::start(&repo, &[]).body("/now");
    assert!(now.contains("role=\"alert\"><h2>session t needs you</h2><p>the agent is out of credit"), "{now}");
    assert!(now.contains("# Session t needs you\n") && now.contains("\nar resume t\n"), "{now}");
    assert!(now.contains("no patrol has come yet"), "{now}");
}
