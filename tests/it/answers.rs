//! Agents that answer in the machine-readable form of a known program: what refuses them is waited out, whatever their exit
//! status, and what they use is kept.

use std::fs;

use serde_json::{Value, json};

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// Puts a program on the PATH that says `refused` and exits with 0 when it is called first, and then makes a change each time,
/// says `done` and exits with 0.
fn install(repo: &TestRepo, name: &str, refused: &str, done: &str) {
    let outside = repo.outside();
    fs::create_dir_all(outside.join("bin")).unwrap();
    fs::write(outside.join("refused"), refused).unwrap();
    fs::write(outside.join("done"), done).unwrap();
    let script = "#!/bin/sh\ncat > /dev/null\necho call >> ../calls; call=$(grep -c call ../calls)\n\
                  if [ $call = 1 ]; then touch half.txt; cat ../refused; exit 0; fi\n\
                  sed -i \"s/^VAL_BPB=.*/VAL_BPB=1.$((100 - call))/\" train.sh\ncat ../done\n";
    let program = format!("../bin/{name}");
    repo.write(&program, script);
    repo.chmod(&program, true);
}

/// Calls `ar` with nothing but the system's programs and those that were installed on the PATH.
fn call(repo: &TestRepo, args: &[&str]) -> Called {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env("PATH", format!("{}:/usr/bin:/bin", repo.outside().join("bin").display()));
    Called::from(command.output().unwrap())
}

/// A session of two experiments of an agent that is refused first; its two records and its report.
fn session(agent: &str, program: &str, refused: &str, done: &str, settings: &str) -> (Vec<Value>, Value) {
    let repo = training_repo();
    install(&repo, program, refused, done);
    fs::write(repo.outside().join("ar.toml"), settings).unwrap();
    if !settings.is_empty() {
        repo.write("ar.toml", settings);
        repo.commit_all("settings");
    }
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "2"];
    let called = call(&repo, &[&args[..], &["--format", "json", "--agent", agent]].concat()).ok();
    let events = called.json_lines();
    let outages: Vec<_> = events.iter().filter(|event| event["event"] == "outage").collect();
    assert_eq!(outages.len(), 1, "{called:#?}");
    assert_eq!((&outages[0]["kind"], &outages[0]["id"]), (&"rate_limit".into(), &1.into()), "{called:#?}");
    assert_eq!(repo.read("../calls").lines().count(), 3, "{called:#?}");
    assert!(!repo.exists("half.txt"), "what it had begun is put away");
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
    assert!(saved.lines().any(|kept| repo.git(["ls-tree", "--name-only", kept]).contains("half.txt")), "{saved}");
    let bodies = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/0*"]);
    let records: Vec<Value> = bodies.lines().filter_map(|line| serde_json::from_str(line).ok()).skip(1).collect();
    assert_eq!(records.len(), 2, "{bodies}");
    for record in &records {
        assert_eq!((&record["outcome"], &record["diff"]["files"]), (&"keep".into(), &1.into()), "{record}");
    }
    let report = call(&repo, &["report", "t", "--format", "json"]).ok().json();
    for (record, told) in records.iter().zip(report["experiments"].as_array().unwrap().iter().skip(1)) {
        assert_eq!(record["agent"], told["agent"], "{told}");
    }
    assert!(repo.read(".autoresearch/t/runs/00002/agent.log").contains(done), "the log is as it was printed");
    (records, report)
}

/// What an agent's record has beside its command line and its time.
fn used(record: &Value) -> Value {
    let mut agent = record["agent"].clone();
    agent.as_object_mut().unwrap().retain(|name, _| name != "command" && name != "seconds");
    agent
}

const CLAUDE: [&str; 2] = [
    r#"{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-4-8"}
{"type":"assistant","message":{"id":"m","model":"<synthetic>","content":[{"type":"text","text":"API Error"}],"usage":{"input_tokens":0,"output_tokens":0}},"session_id":"s","error":"rate_limit"}
{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: Request rejected (429) · Rate limit reached. Try again in 0.2 seconds.","session_id":"s","total_cost_usd":0.25,"usage":{"input_tokens":0,"output_tokens":0}}
"#,
    r#"{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-4-8"}
{"type":"assistant","message":{"id":"m","model":"claude-opus-4-8","content":[{"type":"text","text":"I read"}],"usage":{"input_tokens":1,"output_tokens":2}},"session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"result":"All done.\nraise the rate","session_id":"s","total_cost_usd":0.5,"usage":{"input_tokens":30,"cache_creation_input_tokens":20,"cache_read_input_tokens":50,"output_tokens":40}}
"#,
];

#[test]
fn claude() {
    let (records, report) = session("claude", "claude", CLAUDE[0], CLAUDE[1], "");
    let tokens = json!({"input": 100, "output": 40, "cached": 50});
    assert_eq!(used(&records[0]), json!({"model": "claude-opus-4-8", "tokens": tokens, "cost": 0.5}));
    assert_eq!(records[1]["description"], "raise the rate");
    let cost = json!({"total": 1.25, "per_experiment": 0.625, "per_keep": 0.625, "currency": "USD"});
    assert_eq!(report["cost"], cost, "the refused call cost something too");
    assert_eq!(report["tokens"], json!({"input": 200, "output": 80, "cached": 100}));
}

#[test]
fn codex() {
    let refused = r#"{"type":"thread.started","thread_id":"t"}
{"type":"turn.started"}
{"type":"error","message":"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"}
{"type":"turn.failed","error":{"message":"You've hit your usage limit. Upgrade to Pro or try again in 0.2 seconds."}}
"#;
    let done = r#"{"type":"thread.started","thread_id":"t"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata not found."}}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"raise the rate"}}
{"type":"turn.completed","usage":{"input_tokens":1000000,"cached_input_tokens":400000,"output_tokens":100000}}
"#;
    let prices = "[prices.\"gpt-5\"]\ninput = 1.0\noutput = 10.0\ncached = 0.1\n";
    let line = "codex exec --json --model gpt-5 -";
    let (records, report) = session(line, "codex", refused, done, prices);
    let tokens = json!({"input": 1_000_000, "output": 100_000, "cached": 400_000});
    assert_eq!(used(&records[1]), json!({"model": "gpt-5", "tokens": tokens, "cost": 1.64}));
    assert_eq!((&records[1]["description"], &report["cost"]["total"]), (&"raise the rate".into(), &3.28.into()));
}

#[test]
fn gemini() {
    let begun = r#"YOLO mode is enabled. All tool calls will be automatically approved.
{"type":"init","timestamp":"t","session_id":"s","model":"gemini-2.5-flash"}
{"type":"message","timestamp":"t","role":"user","content":"do it"}
"#;
    let refused = r#"{"type":"result","timestamp":"t","status":"error","error":{"type":"unknown","message":"[API Error: You exceeded your current quota. Please retry in 0.2s.]"},"stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0}}
"#;
    let done = r#"{"type":"message","timestamp":"t","role":"assistant","content":"raise ","delta":true}
{"type":"message","timestamp":"t","role":"assistant","content":"the rate","delta":true}
{"type":"result","timestamp":"t","status":"success","stats":{"total_tokens":60,"input_tokens":40,"output_tokens":20,"cached":10,"models":{"gemini-2.5-flash":{"total_tokens":60}}}}
"#;
    let (records, report) = session("gemini", "gemini", &(begun.to_owned() + refused), &(begun.to_owned() + done), "");
    let tokens = json!({"input": 40, "output": 20, "cached": 10});
    assert_eq!(used(&records[0]), json!({"model": "gemini-2.5-flash", "tokens": tokens}));
    assert_eq!((&records[1]["description"], &report["cost"]), (&"raise the rate".into(), &Value::Null));
    assert_eq!(report["tokens"], json!({"input": 80, "output": 40, "cached": 20}));
}

#[test]
fn opencode() {
    let refused = r#"{"type":"error","timestamp":1,"sessionID":"ses","error":{"name":"APIError","data":{"message":"Rate limit reached.","statusCode":429,"isRetryable":true,"responseHeaders":{"retry-after":"0.2"}}}}
"#;
    let done = r#"{"type":"step_start","timestamp":1,"sessionID":"ses","part":{"type":"step-start"}}
{"type":"text","timestamp":1,"sessionID":"ses","part":{"type":"text","text":"raise the rate"}}
{"type":"step_finish","timestamp":1,"sessionID":"ses","part":{"reason":"stop","type":"step-finish","tokens":{"total":20,"input":10,"output":8,"reasoning":2,"cache":{"write":0,"read":5}},"cost":0.125}}
"#;
    let (records, report) = session("opencode", "opencode", refused, done, "");
    let tokens = json!({"input": 15, "output": 10, "cached": 5});
    assert_eq!(used(&records[1]), json!({"tokens": tokens, "cost": 0.125}));
    assert_eq!((&records[1]["description"], &report["cost"]["total"]), (&"raise the rate".into(), &0.25.into()));
}

#[test]
fn aider() {
    let begun = "Aider v0.86.2\nMain model: openai/gpt-5 with diff edit format, infinite output\nWeak model: openai/gpt-5-mini\n";
    let refused = "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached. \nPlease try again in 0.2 seconds.\n\
                   The API provider has rate limited you. Try again later or check your quotas.\n";
    let done = "I raise the rate.\nTokens: 1.2k sent, 1.0k cache hit, 55 received. Cost: $0.0625 message, $0.0625\nsession.\nApplied edit to train.sh\n";
    let (records, report) = session("aider", "aider", &(begun.to_owned() + refused), &(begun.to_owned() + done), "");
    let tokens = json!({"input": 1200, "output": 55, "cached": 1000});
    assert_eq!(used(&records[1]), json!({"model": "openai/gpt-5", "tokens": tokens, "cost": 0.0625}));
    assert_eq!((&records[1]["description"], &report["cost"]["total"]), (&"I raise the rate.".into(), &0.125.into()));
}

#[test]
fn a_form_is_known_by_itself_also_in_a_line_of_the_users_own() {
    let (records, report) = session("sh ../bin/my-agent --verbose", "my-agent", CLAUDE[0], CLAUDE[1], "");
    assert_eq!((&records[1]["agent"]["cost"], &report["cost"]["total"]), (&0.5.into(), &1.25.into()));
}

#[test]
fn words_tell_of_a_refusal_where_nothing_else_does() {
    let repo = training_repo();
    let agent = "echo call >> ../calls; call=$(grep -c call ../calls); \
                 [ $call != 1 ] || { echo 'Rate limit exceeded (429), retry after 0.2 s'; exit 0; }; \
                 echo \"# $call\" >> train.sh; echo 'I raise it'";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    let called = call(&repo, &[&args[..], &["--format", "json", "--agent", agent]].concat()).ok();
    let outage = called.json_lines().into_iter().find(|event| event["event"] == "outage").expect(&called.stdout);
    assert_eq!((&outage["kind"], repo.read("../calls").lines().count()), (&"rate_limit".into(), 2));
    let report = call(&repo, &["report", "t", "--format", "json"]).ok().json();
    assert_eq!((&report["cost"], &report["experiments"][1]["description"]), (&Value::Null, &"I raise it".into()));
}

#[test]
fn a_script_reports_cost_and_tokens_by_the_line_of_the_book() {
    let repo = training_repo();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/agents.md");
    let page = fs::read_to_string(page).unwrap();
    let line = page.lines().find(|line| line.starts_with("{\"type\":\"result\"")).unwrap();
    let model = page.lines().find_map(|line| line.split('`').find(|code| code.contains("\"init\""))).unwrap();
    fs::write(repo.outside().join("report"), format!("working\n{model}\n{line}\n")).unwrap();
    let agent = "sed -i 's/^VAL_BPB=.*/VAL_BPB=1.5/' train.sh; cat ../report";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, [&args[..], &["--max-experiments", "1", "--max-cost", "5"]].concat()).ok();
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let made = &report["experiments"][1];
    assert_eq!((&made["description"], &made["agent"]["cost"]), (&"raised the rate".into(), &0.41.into()), "{made}");
    assert_eq!(made["agent"]["tokens"], json!({"input": 21000, "output": 900, "cached": 9000}));
    assert_eq!(made["agent"]["model"], "my-model");
    assert_eq!(report["cost"]["total"], 0.41);
}
