//! `ar report --chart`, and the chart of `ar report` on a terminal.

use std::fs;

use crate::support::{Called, TestRepo, ar_command};

const LEDGER: &str = "\
commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription
a3f8b2c1\t1.8342\t14.3\timproved\tbaseline GPT-125M
c72f1b30\t1.8589\t15.1\trejected\tmlp_ratio=8
f10a2c88\tnan\toom\tfailed\tblock_size=4096 OOM
b10a2c88\t1.8113\t14.3\timproved\t<b>wider</b> & deeper
";

fn with_ledger() -> TestRepo {
    let home = TestRepo::empty();
    fs::write(home.outside().join("results.tsv"), LEDGER).unwrap();
    home
}

fn report(home: &TestRepo, args: &[&str]) -> Called {
    let args = [&["report", "--ledger", "results.tsv"], args].concat();
    Called::from(ar_command(home, home.outside(), args).output().unwrap())
}

#[test]
fn a_chart_is_written_as_its_name_says_and_the_report_is_printed_as_ever() {
    let home = with_ledger();
    let called = report(&home, &["--chart", "progress.svg", "--format", "csv"]).ok();
    assert_eq!(called.stderr, "the chart is in progress.svg\n");
    assert!(called.stdout.starts_with("id,commit,val_bpb,"), "{called:?}");
    let svg = fs::read_to_string(home.outside().join("progress.svg")).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    for text in
        ["3 experiments, 1 kept, val_bpb from 1.8342 to 1.8113 (1.2% better)", "<b>wider</b> & deeper", "1 crashed"]
    {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
    let alone = report(&home, &["--chart", "progress.PNG"]).ok();
    assert_eq!((alone.stdout.as_str(), alone.stderr.as_str()), ("the chart is in progress.PNG\n", ""));
    assert!(fs::read(home.outside().join("progress.PNG")).unwrap().starts_with(b"\x89PNG\r\n"));
}

#[test]
fn a_chart_that_cannot_be_written_is_an_error_that_says_why() {
    let home = with_ledger();
    let other = report(&home, &["--chart", "progress.pdf"]).exits(2);
    assert!(other.stderr.contains("a chart is written as .svg or .png"), "{other:?}");
    let nowhere = report(&home, &["--chart", "no/such/folder/a.svg"]).exits(1);
    assert!(nowhere.stderr.contains("no/such/folder/a.svg"), "{nowhere:?}");
}

#[test]
fn the_chart_of_a_terminal_has_the_characters_that_its_locale_knows() {
    let home = with_ledger();
    let drawn = |locale: &str| {
        let mut command = ar_command(&home, home.outside(), ["report", "--ledger", "results.tsv"]);
        let report = Called::from(command.env("LC_ALL", locale).output().unwrap()).ok().stdout;
        report.split_once("val_bpb (lower is better)\n").unwrap().1.split_once("\n\n").unwrap().0.to_owned()
    };
    let (plain, lines) = (drawn("C"), drawn("en_US.UTF-8"));
    assert!(
        plain.is_ascii() && plain.contains("\n1.81+") && plain.contains("O 2 kept   . 1 not kept   x 1 crashed"),
        "{plain}"
    );
    assert!(lines.contains("┐") && lines.contains("● 2 kept"), "{lines}");
}

#[test]
fn a_chart_is_dark_if_that_is_asked_for_and_a_style_without_a_chart_is_refused() {
    let home = with_ledger();
    let paper = |args: &[&str]| {
        report(&home, &[&["--chart", "a.svg"], args].concat()).ok();
        let svg = fs::read_to_string(home.outside().join("a.svg")).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let paper = document.descendants().find(|node| node.attribute("class") == Some("paper"));
        paper.and_then(|node| node.attribute("fill")).unwrap().to_owned()
    };
    assert_eq!([paper(&[]), paper(&["--style", "light"])], ["#ffffff", "#ffffff"]);
    assert_eq!(paper(&["--style", "dark"]), "#0d1117");
    let png = |args: &[&str]| {
        report(&home, &[&["--chart", "a.png"], args].concat()).ok();
        fs::read(home.outside().join("a.png")).unwrap()
    };
    let light = png(&[]);
    assert_eq!(light, png(&["--style", "light"]));
    assert_ne!(light, png(&["--style", "dark"]));
    let alone = report(&home, &["--style", "dark"]).exits(2);
    assert!(alone.stderr.contains("--chart <FILE>"), "{alone:?}");
    report(&home, &["--chart", "a.svg", "--style", "blue"]).exits(2);
}
