//! The scripts that search arXiv and Wikipedia, and web engines, on recorded answers.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{INIT, text_of};
use crate::support::{Called, TestRepo, ar, ar_command};

/// An address under which a recorded answer is read.
fn recorded(name: &str) -> String {
    format!("file://{}/fixtures/search/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the script with these answers of arXiv and Wikipedia, in a folder of its own as `ar` does.
fn searched(script: &Path, answers: [&str; 2], words: &[&str], question: &str) -> Output {
    let [arxiv, wikipedia] = answers.map(recorded);
    let asked = script.with_extension("question");
    fs::write(&asked, question).unwrap();
    let mut command = Command::new("python3");
    command.arg(script).args(words).stdin(fs::File::open(asked).unwrap());
    command.env("AR_SEARCH_ARXIV", arxiv).env("AR_SEARCH_WIKIPEDIA", wikipedia).output().unwrap()
}

#[test]
fn init_writes_a_search_that_needs_no_key_where_it_is_asked_for() {
    let repo = TestRepo::empty();
    let called = ar(&repo, INIT).ok();
    assert!(called.stderr.contains("note: no search command; `--keyless-search` also writes one"), "{called:?}");
    assert!(!repo.exists("search.py") && !repo.read("program.md").contains("search.py"));

    let repo = TestRepo::empty();
    let called = ar(&repo, INIT.into_iter().chain(["--keyless-search"])).ok();
    assert!(called.stdout.contains("ar.toml, search.py\n") && !called.stderr.contains("no search"), "{called:?}");
    assert!(repo.read("ar.toml").contains("\nsearch = ["), "{}", repo.read("ar.toml"));
    assert!(repo.read("program.md").contains("`python3 search.py WORDS` searches arXiv and Wikipedia."));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // It is in no scope, so that no agent changes it.
    assert!(!repo.read("ar.toml").lines().any(|line| line.starts_with("scope") && line.contains("search.py")));
    ar(&repo, ["run", "--research", "Q", "--keyless-search"]).exits(2);
}

#[test]
fn what_both_interfaces_say_is_read_and_a_failure_of_one_keeps_the_other() {
    let repo = TestRepo::empty();
    ar(&repo, INIT.into_iter().chain(["--keyless-search"])).ok();
    let script = repo.file("search.py");
    let question = r#"{"version": 1, "question": "How do servers\nmanage memory?", "tried": []}"#;
    let found = searched(&script, ["arxiv.xml", "wikipedia.json"], &[], question);
    assert!(found.status.success(), "{found:?}");
    let lines = String::from_utf8(found.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts = [
        "A first paper on the memory of servers (2023): It measures what is lost < 4% of the time.",
        "Memory paging: In operating systems, memory paging is \"a scheme\"",
        "A second paper (2024): It says less.",
        "C++ & caches: Short.",
    ];
    assert_eq!(lines.iter().map(|line| line["text"].as_str().unwrap()).collect::<Vec<_>>(), texts);
    assert_eq!(lines[0]["url"], "https://arxiv.org/abs/0001.00001v1");
    assert_eq!(lines[3]["url"], "https://en.wikipedia.org/wiki/C%2B%2B_%26_caches");
    assert_eq!(
        lines.iter().map(|line| line["score"].clone()).collect::<Vec<_>>(),
        [1.0, 0.75, 0.5, 0.25].map(|it| json!(it))
    );

    // For a person, or an agent that asks by itself, without JSON.
    let found = searched(&script, ["arxiv.xml", "wikipedia_error.json"], &["memory", "of", "servers"], "");
    let (out, err) = (String::from_utf8(found.stdout).unwrap(), String::from_utf8(found.stderr).unwrap());
    assert!(found.status.success() && out.starts_with(&format!("{}\n  https://arxiv.org/", texts[0])), "{out}");
    assert!(err.contains("search.py: wikipedia: You've exceeded your rate limit."), "{err}");

    // Nothing found is no answer, and so is a question without words.
    let none = searched(&script, ["arxiv_error.xml", "missing"], &["memory"], "");
    assert!(!none.status.success() && none.stdout.is_empty(), "{none:?}");
    assert!(String::from_utf8(none.stderr).unwrap().contains("search.py: nothing found"));
    for question in ["{\"question\": \"What is it?\"}", "", "[1"] {
        assert!(!searched(&script, ["arxiv.xml", "wikipedia.json"], &[], question).status.success(), "{question}");
    }
}

/// The engines of the script.
const ENGINES: [&str; 16] = [
    "baidu",
    "bing-cn",
    "bing",
    "360",
    "sogou",
    "wechat",
    "toutiao",
    "google",
    "google-hk",
    "duckduckgo",
    "yahoo",
    "startpage",
    "brave",
    "ecosia",
    "qwant",
    "wolframalpha",
];

/// The variable that replaces an engine's address, and the address of its recorded page.
fn engine_page(engine: &str) -> (String, String) {
    let name = format!("AR_SEARCH_{}", engine.to_uppercase().replace('-', "_"));
    (name, recorded(&format!("engines/{engine}.html")))
}

/// A repository with the script over web engines.
fn with_engines() -> TestRepo {
    let repo = TestRepo::empty();
    ar(&repo, INIT.into_iter().chain(["--search", "engines"])).ok();
    repo
}

/// Calls the script over web engines, with this question on standard input.
fn engine_command(repo: &TestRepo, args: &[&str], question: &str) -> Command {
    let asked = repo.outside().join("asked");
    fs::write(&asked, question).unwrap();
    let mut command = Command::new("python3");
    command.arg(repo.file("engines.py")).args(args).stdin(fs::File::open(asked).unwrap());
    command
}

/// Options that name all engines.
fn all_engines() -> Vec<&'static str> {
    ENGINES.into_iter().flat_map(|engine| ["--engine", engine]).collect()
}

#[test]
fn init_writes_a_search_over_web_engines_where_it_is_asked_for_and_the_loop_asks_it() {
    let repo = TestRepo::empty();
    let args = INIT.into_iter().chain(["--search", "echo mine", "--search", "engines", "--keyless-search"]);
    let called = ar(&repo, args).ok();
    assert!(called.stdout.contains("ar.toml, search.py, engines.py\n"), "{called:?}");
    for said in
        ["`python3 search.py WORDS` searches arXiv", "`python3 engines.py --engine NAME WORDS` searches the web"]
    {
        assert!(repo.read("program.md").contains(said), "{said}");
    }
    let settings = repo.read("ar.toml");
    assert!(settings.contains("echo mine") && settings.contains("search.py") && !settings.contains("\"engines\""));
    assert_eq!(repo.git(["status", "--porcelain"]), "");

    let repo = with_engines();
    assert!(!repo.exists("search.py") && repo.read("ar.toml").contains("engines.py\" --engine duckduckgo"));
    let agent = "cp \"$AR_PROMPT\" ../prompt; echo >> research_artifact.md";
    let args = ["run", "--yes", "--tag", "t", "--agent", agent, "--max-experiments", "1"];
    let mut command = ar_command(&repo, &repo.path(), args);
    Called::from(command.envs(ENGINES.map(engine_page)).output().unwrap()).ok();
    let prompt = text_of(repo.outside().join("prompt"));
    let found = "\"url\": \"https://arxiv.org/abs/0001.00001\", \"engine\": \"duckduckgo\", \"score\": 1.0}";
    assert!(prompt.contains(found) && prompt.contains("## A source from the backlog"), "{prompt}");
}

#[test]
fn the_results_of_each_engine_are_read_and_nothing_else_of_its_page() {
    let repo = with_engines();
    let texts =
        ["A first paper on memory: It measures what is lost < 4%.", "Paging, explained: Pages of a fixed size."];
    let [paper, paging] = ["https://arxiv.org/abs/0001.00001", "https://example.org/paging?page=2&size=4"];
    let mut command = engine_command(&repo, &all_engines(), "{\"question\": \"Memory: How do servers manage it?\"}");
    let found = command.envs(ENGINES.map(engine_page)).output().unwrap();
    assert!(found.status.success() && found.stderr.is_empty(), "{found:?}");
    let lines = String::from_utf8(found.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["score"], &lines[16]["score"]), (32, &json!(1.0), &json!(0.5)));
    for engine in ENGINES {
        let of = |key: &str| -> Vec<&str> {
            lines.iter().filter(|line| line["engine"] == engine).map(|line| line[key].as_str().unwrap()).collect()
        };
        // Some hide where a result leads to; the redirection leads there, too.
        let urls = match engine {
            "sogou" => ["https://www.sogou.com/link?url=hedJjaC291a", paging],
            "wechat" => ["https://weixin.sogou.com/link?url=dn9a_one", "https://weixin.sogou.com/link?url=dn9a_two"],
            "toutiao" => ["http://www.toutiao.com/a7000000000000000001/?channel=", paging],
            "qwant" => ["https://www.qwant.com/redirect/0a1b2c==/?position=1&query=paper", paging],
            _ => [paper, paging],
        };
        assert_eq!(of("url"), urls, "{engine}");
        // Qwant prints the address beside its title.
        assert!(engine == "qwant" || of("text") == texts, "{engine}: {:?}", of("text"));
    }
    // Where the results are headings, links beside them lead to copies, translations and the engine's own pages.
    let result = |name: &str| {
        format!(
            "<div><a href='https://{name}.org/'><img></a><h3><a href='https://{name}.org/'>{name}</a></h3>\
             <a href='https://cache.example.net/{name}'>Cached</a><p>About {name}.</p></div>"
        )
    };
    let page = format!(
        "<a href='https://social.example.net/us'>Follow us</a><h1><a href='https://www.google.fr/webhp'>Home</a></h1>{}",
        ["one", "two", "three"].map(result).concat()
    );
    fs::write(repo.outside().join("headings"), page).unwrap();
    let mut command = engine_command(&repo, &["--engine", "google", "memory"], "");
    let page = format!("file://{}/headings", repo.outside().display());
    let found = String::from_utf8(command.env("AR_SEARCH_GOOGLE", page).output().unwrap().stdout).unwrap();
    let expected = ["one", "two", "three"].map(|name| format!("{name}: About {name}.\n  https://{name}.org/\n"));
    assert_eq!(found, expected.concat());
    // One that fails, or finds nothing, is named.
    fs::write(repo.outside().join("empty"), "<a href='/'>Are you a robot?</a>").unwrap();
    let three = ["--engine", "brave", "--engine", "bing", "--engine", "google", "memory"];
    let mut command = engine_command(&repo, &three, "");
    command.envs(ENGINES.map(engine_page)).env("AR_SEARCH_GOOGLE", "file:///no/such");
    let found = command.env("AR_SEARCH_BING", format!("file://{}/empty", repo.outside().display())).output().unwrap();
    let (out, err) = (String::from_utf8(found.stdout).unwrap(), String::from_utf8(found.stderr).unwrap());
    assert_eq!(out, format!("{}\n  {paper}\n{}\n  {paging}\n", texts[0], texts[1]));
    assert!(err.contains("engines.py: bing: no results on its page\nengines.py: google: "), "{err}");
}

#[test]
fn each_engine_is_asked_with_its_operators_and_its_filter_of_time_and_says_what_it_lacks() {
    let repo = with_engines();
    let asked = |args: &[&str]| {
        let args = [&all_engines()[..], &["--urls"], args, &["kv"]].concat();
        let found = engine_command(&repo, &args, "").output().unwrap();
        let [urls, lacks] = [found.stdout, found.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(urls.lines().count(), ENGINES.len(), "{urls}");
        (urls.lines().map(str::to_owned).collect::<Vec<_>>(), lacks)
    };
    let lacking = |lacks: &str, engine: &str| -> Vec<String> {
        let begin = format!("engines.py: {engine} has nothing like ");
        let of = lacks.lines().filter_map(|line| line.strip_prefix(&begin));
        of.map(|line| line.strip_suffix(", and is asked without it").unwrap().to_owned()).collect()
    };
    let (urls, lacks) = asked(&["--site", "a.org", "--filetype", "pdf", "--phrase", "x y", "--exclude", "z"]);
    for (engine, url) in ENGINES.into_iter().zip(&urls) {
        let (words, lacked) = match engine {
            "wechat" | "toutiao" | "wolframalpha" => ("kv", 4),
            "qwant" => ("kv%20site%3Aa.org%20%22x%20y%22%20-z", 1),
            _ => ("kv%20site%3Aa.org%20filetype%3Apdf%20%22x%20y%22%20-z", 0),
        };
        let is_asked = url.split(['?', '&']).any(|part| part.split_once('=').is_some_and(|(_, value)| value == words));
        assert!(url.starts_with("https://") && is_asked, "{url}");
        assert_eq!(lacking(&lacks, engine).len(), lacked, "{engine}: {lacks}");
    }
    // In the order of the engines: what is added for a day, a week, a month and a year.
    let bing = ["ex1%3a%22ez1%22", "ex1%3a%22ez2%22", "ex1%3a%22ez3%22", "ex1%3a%22ez5_"];
    let google = ["&tbs=qdr:d", "&tbs=qdr:w", "&tbs=qdr:m", "&tbs=qdr:y"];
    let filters = [
        ["&gpc=stf%3D1"; 4],
        bing,
        bing,
        ["&adv_t=d", "&adv_t=w", "&adv_t=m", "&adv_t=y"],
        ["&s_from=inttime_day", "&s_from=inttime_week", "&s_from=inttime_month", "&s_from=inttime_year"],
        ["&tsn=1", "&tsn=2", "&tsn=3", "&tsn=4"],
        ["&filter_period=day&", "&filter_period=week&", "&filter_period=month&", "&filter_period=year&"],
        google,
        google,
        ["&df=d", "&df=w", "&df=m", "&df=y"],
        ["&btf=d", "&btf=w", "&btf=m", ""],
        ["&with_date=d", "&with_date=w", "&with_date=m", "&with_date=y"],
        ["&tf=pd", "&tf=pw", "&tf=pm", "&tf=py"],
        [""; 4],
        ["&freshness=day", "&freshness=week", "&freshness=month", ""],
        [""; 4],
    ];
    for (place, (since, days)) in [("day", 1), ("week", 7), ("month", 30), ("year", 365)].into_iter().enumerate() {
        let (urls, lacks) = asked(&["--since", since]);
        for ((engine, url), filters) in ENGINES.into_iter().zip(&urls).zip(filters) {
            assert!(url.contains(filters[place]), "{engine} {since}: {url}");
            let lacked = if filters[place].is_empty() { vec![format!("--since {since}")] } else { Vec::new() };
            assert_eq!(lacking(&lacks, engine), lacked, "{engine}");
        }
        let (_, stf) = urls[0].split_once("stf%3D").unwrap();
        let (start, end) = stf.trim_end_matches("%7Cstftype%3D1").split_once("%2C").unwrap();
        assert_eq!(end.parse::<u64>().unwrap() - start.parse::<u64>().unwrap(), days * 86_400);
    }
}

#[test]
fn a_question_in_chinese_keeps_its_words() {
    let repo = with_engines();
    let question = r#"{"question": "内存: 服务器如何管理 KV cache 的内存，是否浪费？"}"#;
    let found = engine_command(&repo, &["--urls", "--engine", "baidu"], question).output().unwrap();
    let quoted = |text: &str| -> String {
        let byte = |it: u8| if it.is_ascii_alphanumeric() { char::from(it).to_string() } else { format!("%{it:02X}") };
        text.bytes().map(byte).collect()
    };
    let words = quoted("内存 服务器如何管理 KV cache 的内存 是否浪费");
    assert_eq!(String::from_utf8(found.stdout).unwrap(), format!("https://www.baidu.com/s?wd={words}\n"));
}
