//! `ar mcp`, by a client that speaks its protocol over pipes. `tests/mcp/run` has the real clients.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

use crate::run_loop::training_repo;
use crate::support::{AR, TestRepo, ar, ar_command, hears_hang_ups, until};

/// How long a test waits for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client and its server.
struct Client {
    server: Child,
    input: Option<ChildStdin>,
    /// What the server writes, each line a message.
    said: Receiver<Value>,
    requests: u32,
    /// The roots that it announces.
    roots: Vec<String>,
}

impl Client {
    fn of(repo: &TestRepo) -> Client {
        Client::with_roots(repo, &[])
    }

    fn with_roots(repo: &TestRepo, roots: &[String]) -> Client {
        let mut command = ar_command(repo, &repo.path(), ["mcp"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(server.stdout.take().unwrap());
        let (saying, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nothing but messages: another line ends the thread, and the test with it.
                let message: Value = serde_json::from_str(&line).unwrap();
                let _ = saying.send(message);
            }
        });
        let input = server.stdin.take();
        let mut client = Client { server, input, said, requests: 0, roots: roots.to_vec() };
        let capabilities = if roots.is_empty() { json!({}) } else { json!({"roots": {}}) };
        let who = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": who});
        let answer = client.request("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "ar", "{answer}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request, and returns its number.
    fn ask(&mut self, method: &str, params: Value) -> u32 {
        self.requests += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}));
        self.requests
    }

    /// Waits for the next answer; the server's questions for roots are answered.
    fn answer(&mut self) -> Value {
        loop {
            let message = self.said.recv_timeout(PATIENCE).unwrap();
            if message["method"] != "roots/list" {
                return message;
            }
            let roots: Vec<Value> = self.roots.iter().map(|root| json!({"uri": root})).collect();
            self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": roots}}));
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn tool(&mut self, name: &str, args: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": name, "arguments": args}));
        answer["result"].clone()
    }

    /// The document of a tool that succeeds.
    #[track_caller]
    fn call(&mut self, name: &str, args: Value) -> Value {
        let result = self.tool(name, args);
        assert_eq!(result["isError"], false, "{result:#}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty(), "{result:#}");
        result["structuredContent"].clone()
    }

    /// The text of a tool that fails.
    #[track_caller]
    fn fails(&mut self, name: &str, args: Value) -> String {
        let result = self.tool(name, args);
        assert_eq!(result["isError"], true, "{result:#}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("error: ") && text.contains("hint: "), "{text}");
        text
    }

    /// Waits until the outcome of an experiment is known.
    #[track_caller]
    fn outcome(&mut self, experiment: u32) -> Value {
        until("the outcome", || {
            let waited = self.call("wait", json!({"experiment": experiment}));
            (waited["phase"] == "recorded" || waited["phase"] == "stopped").then_some(waited)
        })
    }

    /// Closes the server's standard input, and waits until it is gone.
    fn leave(mut self) {
        drop(self.input.take());
        assert!(self.server.wait().unwrap().success());
    }
}

/// A repository whose run waits for a sign, with settings and a change in its tree.
fn waiting_repo() -> TestRepo {
    let repo = training_repo();
    repo.write(
        "train.sh",
        "echo run >> ../runs; until [ -e ../go ]; do sleep 0.02; done; VAL=2.0; echo val_bpb: $VAL\n",
    );
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\ntag = \"t\"\n");
    repo.commit_all("waits for a sign");
    set_value(&repo, "1.5");
    repo
}

fn set_value(repo: &TestRepo, value: &str) {
    let text = repo.read("train.sh");
    let (before, after) = text.split_once("VAL=").unwrap();
    repo.write("train.sh", format!("{before}VAL={value};{}", after.split_once(';').unwrap().1));
}

fn go(repo: &TestRepo) {
    fs::write(repo.outside().join("go"), "").unwrap();
}

fn halt(repo: &TestRepo) {
    fs::remove_file(repo.outside().join("go")).unwrap();
}

fn runs(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count()
}

#[test]
fn a_change_is_tried_at_once_and_waited_for() {
    let repo = waiting_repo();
    let mut client = Client::of(&repo);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["brief", "try", "wait", "log", "show", "report", "status", "idea", "note", "stop"]);
    assert!(!tools.to_string().contains("\"null\""), "one type for each, as some clients want it: {tools:#}");

    // The baseline is only being measured.
    assert_eq!(client.call("try", json!({"description": "first", "direction": "width"})), json!({"experiment": 1}));
    let waited = client.call("wait", json!({"experiment": 1, "seconds": 0}));
    assert_eq!(waited, json!({"experiment": 1, "phase": "baseline"}));
    let refused = client.fails("try", json!({"description": "second"}));
    assert!(refused.contains("experiment 1 is still running") && refused.contains("`wait`"), "{refused}");
    ar(&repo, ["tell", "keep it small"]).ok();
    go(&repo);
    let waited = client.outcome(1);
    assert_eq!((&waited["outcome"], &waited["value"]), (&"keep".into(), &1.5.into()));
    assert_eq!(waited["next"][0], "from the person in charge: keep it small", "{waited}");

    set_value(&repo, "1.9");
    client.call("try", json!({"description": "worse"}));
    assert_eq!(client.outcome(2)["outcome"], "discard");
    assert!(repo.read("train.sh").contains("VAL=1.5;"), "it is rolled back");

    let log = client.call("log", json!({}));
    assert_eq!(log["experiments"][0]["description"], "worse", "the newest first");
    let shown = client.call("show", json!({"experiment": 1}));
    assert_eq!(shown, ar(&repo, ["show", "1", "--format", "json"]).ok().json());
    client.call("note", json!({"experiment": 1, "text": "--seen"}));
    assert_eq!(client.call("show", json!({"experiment": 1}))["notes"][0]["text"], "--seen");
    assert!(client.call("brief", json!({}))["text"].as_str().unwrap().contains("Lower val_bpb"));
    client.leave();
    ar(&repo, ["doctor"]).ok();
}

#[test]
fn what_cannot_be_parsed_is_answered_by_an_error_and_the_next_request_as_ever() {
    let repo = training_repo();
    let mut client = Client::of(&repo);
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"{}\"}}", "x".repeat(5 << 20));
    for (line, why) in
        [("{not json", "key must be a string"), ("[1", "EOF"), (&long, "more than 4 MB"), ("\"\\ud800\"", "")]
    {
        writeln!(client.input.as_mut().unwrap(), "{line}").unwrap();
        let answer = client.answer();
        assert_eq!((&answer["error"]["code"], answer.get("id")), (&(-32700).into(), Some(&Value::Null)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
        assert_eq!(client.request("ping", json!({}))["error"], Value::Null);
    }
    client.leave();
}

#[test]
fn an_error_of_the_baseline_comes_back_from_wait() {
    let repo = waiting_repo();
    repo.write("ar.toml", "metric = \"accuracy\"\nhigher = true\ncmd = \"sh train.sh\"\ntag = \"t\"\n");
    repo.git(["commit", "--quiet", "-m", "another metric", "ar.toml"]);
    let mut client = Client::of(&repo);
    assert_eq!(client.call("try", json!({"description": "first"})), json!({"experiment": 1}));
    go(&repo);
    let failed = client.fails("wait", json!({"experiment": 1}));
    assert!(failed.contains("baseline") && failed.contains("val_bpb"), "{failed}");
    assert!(repo.read("train.sh").contains("VAL=1.5;"), "the change is still there");
    assert!(client.fails("wait", json!({"experiment": 1})).contains("no session"));
    client.leave();
}

#[test]
fn a_client_that_is_gone_leaves_the_run_going_and_the_next_wait_records_it() {
    if !hears_hang_ups() {
        return;
    }
    let repo = waiting_repo();
    go(&repo);
    ar(&repo, ["try", "-m", "first"]).ok();
    halt(&repo);
    set_value(&repo, "1.25");
    let mut client = Client::of(&repo);
    client.call("try", json!({"description": "slow"}));
    until("the run", || (runs(&repo) == 3).then_some(()));

    // A cancelled call has no answer, and ends nothing.
    let cancelled = client.ask("tools/call", json!({"name": "wait", "arguments": {"experiment": 2}}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancelled}}));
    assert_eq!(client.call("wait", json!({"experiment": 2, "seconds": 0}))["phase"], "running");

    // Nor does one that waits keep the server.
    client.ask("tools/call", json!({"name": "wait", "arguments": {"experiment": 2}}));
    client.leave();
    let alone = until("the end of `ar try`", || {
        let status = ar(&repo, ["status", "--format", "json"]).ok().json()["sessions"][0].clone();
        status["owner"].is_null().then_some(status)
    });
    assert_eq!(alone["activity"], "running_alone", "{alone:#}");

    let mut client = Client::of(&repo);
    let refused = client.fails("try", json!({"description": "another"}));
    assert!(refused.contains("experiment 2 of session t is still open"), "{refused}");
    assert_eq!(client.call("wait", json!({"experiment": 2, "seconds": 0}))["experiment"], 2);
    go(&repo);
    assert_eq!(client.outcome(2)["outcome"], "keep");
    client.leave();
    assert_eq!(runs(&repo), 3, "each once");
    ar(&repo, ["doctor"]).ok();
}

#[test]
fn what_is_stopped_is_said_and_not_continued() {
    let repo = waiting_repo();
    go(&repo);
    ar(&repo, ["try", "-m", "first"]).ok();
    halt(&repo);
    set_value(&repo, "1.25");
    let mut client = Client::of(&repo);
    client.call("try", json!({"description": "slow"}));
    until("the run", || (runs(&repo) == 3).then_some(()));
    let stopped = client.call("stop", json!({"now": true}));
    assert!(stopped["done"].as_str().unwrap().contains("rolled back"), "{stopped}");
    let waited = client.outcome(2);
    assert_eq!((&waited["phase"], &waited["outcome"]), (&"stopped".into(), &Value::Null), "{waited}");
    assert!(client.fails("wait", json!({"experiment": 9})).contains("no experiment 9 in session t"));
    client.leave();
    assert_eq!(runs(&repo), 3);
}

#[test]
fn a_loop_at_work_is_named_and_its_calls_see_what_they_may_use() {
    let repo = waiting_repo();
    repo.git(["checkout", "--quiet", "."]);
    let speaks = repo.outside().join("speaks");
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "try", "arguments": {"description": "x"}}}),
    ];
    fs::write(&speaks, messages.map(|message| format!("{message}\n")).concat()).unwrap();
    // Clients may start their servers without the variables of the call.
    let agent = format!("env -i \"PATH=$PATH\" {AR} mcp < ../speaks > ../heard; echo '# 1' >> train.sh");
    let args = ["run", "--yes", "--agent", &agent, "--max-experiments", "1"];
    let mut command = ar_command(&repo, &repo.path(), args);
    let mut looping = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || repo.outside().join("runs").exists().then_some(()));
    let mut client = Client::of(&repo);
    let refused = client.fails("try", json!({"description": "mine"}));
    assert!(refused.contains("a loop is active in session t") && refused.contains("`idea`"), "{refused}");
    let ideas = client.call("idea", json!({"action": "add", "text": "mine", "direction": "width"}));
    assert_eq!(ideas["ideas"][0]["text"], "mine");
    client.leave();
    go(&repo);
    assert!(looping.wait().unwrap().success());

    let heard = fs::read_to_string(repo.outside().join("heard")).unwrap();
    let heard: Vec<Value> = heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: u32| heard.iter().find(|message| message["id"] == id).unwrap()["result"].clone();
    let tools = of(2)["tools"].clone();
    let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["brief", "log", "show", "report", "status", "idea", "note"]);
    assert!(of(3)["content"][0]["text"].as_str().unwrap().contains("inside a call of the loop"), "{}", of(3));
}

#[test]
fn a_change_beside_a_session_with_slots_is_refused_as_the_command_refuses_it() {
    let repo = training_repo();
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\n");
    repo.commit_all("settings");
    ar(&repo, ["run", "--yes", "--tag", "t", "--slots", "1", "--agent", "true", "--max-experiments", "0"]).ok();
    repo.write("train.sh", "echo val_bpb: 1\n");
    let mut client = Client::of(&repo);
    let refused = client.fails("try", json!({"description": "mine"}));
    assert!(refused.contains("session t has slots") && refused.contains("ar idea add TEXT"), "{refused}");
    client.leave();
    assert_eq!(repo.git(["branch", "--list", "autoresearch/*"]).trim(), "autoresearch/t");
}

#[test]
fn a_repository_elsewhere_is_used_within_the_roots_of_the_client() {
    let (here, there) = (training_repo(), waiting_repo());
    go(&there);
    ar(&there, ["try", "-m", "first"]).ok();
    let elsewhere = json!({"repository": there.path()});
    let mut client = Client::of(&here);
    let refused = client.fails("log", elsewhere.clone());
    assert!(refused.contains("announces no roots"), "{refused}");
    client.leave();

    let roots = [format!("file://{}", there.path().display())];
    let mut client = Client::with_roots(&here, &roots);
    assert_eq!(client.call("log", elsewhere)["experiments"].as_array().unwrap().len(), 2);
    let refused = client.fails("log", json!({"repository": there.outside()}));
    assert!(refused.contains("outside of the client's roots"), "{refused}");
    // Its own folder needs no root.
    assert!(client.fails("status", json!({"repository": "."})).contains("no session found"));
    client.leave();

    // A root within a repository is not the whole repository.
    fs::create_dir(there.file("within")).unwrap();
    let roots = [format!("file://{}", there.file("within").display())];
    let mut client = Client::with_roots(&here, &roots);
    let refused = client.fails("note", json!({"repository": there.file("within"), "experiment": 1, "text": "x"}));
    assert!(refused.contains("outside of the client's roots"), "{refused}");
    client.leave();
}

#[test]
fn notes_of_a_try_come_with_its_outcome_and_texts_that_cannot_be_taken_are_named() {
    let repo = waiting_repo();
    go(&repo);
    repo.write("new.py", "not added\n");
    let mut client = Client::of(&repo);
    for (tool, args, name) in [
        ("try", json!({"description": " "}), "`description` is empty"),
        ("try", json!({"description": "a\u{0}b"}), "`description` contains a NUL"),
        ("note", json!({"experiment": 0, "text": "x".repeat(20_000)}), "`text` has more than 10000 characters"),
        ("idea", json!({"action": "add"}), "`text` is empty"),
        ("idea", json!({"action": "drop", "text": "all"}), "is not the number of an idea"),
        ("log", json!({"top": 0}), "`top` is 0"),
    ] {
        let refused = client.fails(tool, args);
        assert!(refused.contains(name), "{refused}");
    }
    let begun = client.call("try", json!({"description": "first"}));
    assert_eq!(begun["experiment"], 1);
    let waited = client.outcome(1);
    assert!(waited["next"].to_string().contains("new.py"), "{waited}");
    // The session knows it as well, also once it is another one.
    assert_eq!(client.outcome(1)["outcome"], waited["outcome"]);
    repo.git(["checkout", "--quiet", "main"]);
    set_value(&repo, "5.0");
    ar(&repo, ["try", "-m", "elsewhere", "--tag", "u"]).ok();
    assert_eq!(client.outcome(1)["outcome"], "discard");
    client.leave();
}
