//! `ar report --format html`: whole, readable, and deaf to what others wrote.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

const HOSTILE: &str = "</pre><script>alert(1)</script>\"><img src=x onerror=alert(1)>\u{1b}]0;title\u{7}\u{202e}";

/// Fails where an element is not closed, or closed without having been opened; gives the names of all there are.
fn elements(page: &str) -> Vec<String> {
    const VOID: [&str; 2] = ["meta", "input"];
    let (mut open, mut names): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap();
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "in {open:?} before {:?}", rest.get(..80));
            continue;
        }
        let name = tag.split(' ').next().unwrap().to_owned();
        assert!(name.chars().all(char::is_alphanumeric), "{tag}");
        if ["script", "style"].contains(&name.as_str()) {
            rest = &rest[rest.find(&format!("</{name}>")).unwrap()..];
        }
        if !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        names.push(name);
    }
    assert_eq!(open, [""; 0]);
    names
}

/// The text of the first element of that name.
fn inside<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("<{name}>")).unwrap();
    after.split_once(&format!("</{name}>")).unwrap().0
}

fn assert_harmless(page: &str) {
    let names = elements(page);
    assert_eq!(names.iter().filter(|name| *name == "script").count(), 1);
    assert!(
        !names.iter().any(|name| ["img", "link", "iframe", "object", "base"].contains(&name.as_str())),
        "{names:?}"
    );
    assert!(!page.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    for from_elsewhere in ["http:", "https:", "url(", "@import", " onerror=\"", " src=\""] {
        let found = page.replace("http://www.w3.org/2000/svg", "").find(from_elsewhere);
        assert_eq!(found, None, "{from_elsewhere}");
    }
}

#[test]
fn the_page_of_a_session_has_each_experiment_with_its_change_its_log_and_its_reason() {
    let repo = training_repo();
    let train = repo.read("train.sh");
    let noisy = |value: &str| {
        let line = train.lines().find(|line| line.starts_with("VAL_BPB=")).unwrap();
        let shown = HOSTILE.replace('"', "'");
        train.replace(line, &format!("VAL_BPB={value}")) + &format!("\n# {HOSTILE}\necho \"the log says {shown}\"\n")
    };
    repo.write("train.sh", noisy("1.5"));
    ar(&repo, ["try", "-m", HOSTILE, "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    repo.write("train.sh", noisy("1.7"));
    ar(&repo, ["try", "-m", "a worse one"]).ok();

    let page = ar(&repo, ["report", "--format", "html"]).ok().stdout;
    assert_harmless(&page);
    let escaped = "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;";
    for text in [
        &format!("<td class=\"what\">{escaped}"),
        &format!("\n+# {escaped}"),
        "<span class=\"put\">+",
        &format!("the log says {escaped}"),
        "is better than 2.000000",
        "<span class=\"taken\">-VAL_BPB=1.5\n",
        "a href=\"#e2\"",
        "id=\"e2\"",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
    let policy = page.split_once("Content-Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src &#39;none&#39;") || policy.starts_with("default-src 'none'"), "{policy}");
    for name in ["style", "script"] {
        let hash = BASE64_STANDARD.encode(Sha256::digest(inside(&page, name)));
        assert!(policy.contains(&format!("{name}-src 'sha256-{hash}'")), "{name} in {policy}");
    }
}

#[test]
fn the_page_of_a_ledger_is_whole_whatever_stands_in_it() {
    let home = TestRepo::empty();
    let page = |ledger: String| {
        fs::write(home.outside().join("results.tsv"), ledger).unwrap();
        let args = ["report", "--ledger", "results.tsv", "--format", "html"];
        Called::from(ar_command(&home, home.outside(), args).output().unwrap()).ok().stdout
    };
    let header = "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n";
    let rows = format!("a1\t1.5\t1\tkeep\t{HOSTILE}\nb2\t<b>\t0\t<i>\t'&amp;\nc3\t1.4\t0\tdiscard\t\n");
    assert_harmless(&page(header.to_owned() + &rows));
    assert_harmless(&page(header.to_owned()));
    let hostile = page(format!("commit\t{}\tstatus\n1\t2\tkeep\n", HOSTILE.replace('\t', " ")));
    assert_harmless(&hostile);
}

#[test]
fn picture_and_page_say_of_what_they_are_and_many_experiments_are_paged() {
    let repo = training_repo();
    let train = repo.read("train.sh");
    let line = train.lines().find(|line| line.starts_with("VAL_BPB=")).unwrap();
    repo.write("train.sh", train.replace(line, "VAL_BPB=1.5"));
    ar(&repo, ["try", "-m", "better", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    let page = ar(&repo, ["report", "--format", "html", "--chart", "../chart.svg"]).ok().stdout;
    let path = repo.path();
    let folder = path.file_name().unwrap().to_str().unwrap();
    let about = format!("{folder}, session nov20");
    assert!(inside(&page, "title").starts_with(&about), "{page}");
    assert!(page.contains(&format!("<p class=\"about\">{about}")), "{page}");
    let chart = fs::read_to_string(repo.outside().join("chart.svg")).unwrap();
    for text in [&about, "1 experiment, 1 kept, val_bpb from 2.000000 to 1.5 (25% better)"] {
        assert!(chart.contains(text), "{text} in {chart}");
    }

    // Whether scripts show it page by page is for `tests/html/check.py`; the whole is there without them.
    let rows: String = (0..5000)
        .map(|n| {
            format!(
                "a{n:06x}\t{:.5}\t{}\tidea {n}\n",
                2.0 / f64::from(n + 1),
                if n % 10 == 0 { "keep" } else { "discard" }
            )
        })
        .collect();
    fs::write(repo.outside().join("many.tsv"), format!("commit\tval_bpb\tstatus\tdescription\n{rows}")).unwrap();
    let args = ["report", "--ledger", "many.tsv", "--format", "html", "--chart", "many.svg"];
    let many = Called::from(ar_command(&repo, repo.outside(), args).output().unwrap()).ok().stdout;
    assert_eq!(many.matches("<tr class=").count(), 5000);
    assert!(many.contains("<nav id=\"pages\" hidden") && !many.contains("min-width: 44rem"));
    let chart = fs::read_to_string(repo.outside().join("many.svg")).unwrap();
    let (last_mark, line) = (chart.rfind("<circle").unwrap(), chart.find("class=\"best\"").unwrap());
    assert!(last_mark < line, "the line lies above the marks");
}
