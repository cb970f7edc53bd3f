use std::fs;

use super::*;

#[test]
fn takes_what_fits_and_passes_over_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proposal.json");
    fs::write(
        &path,
        r#"{"description": "warmup\n0.15 ", "direction": ["no"], "expected": 1.25, "findings": "one", "x": 1,
            "ideas": ["deeper", {"text": "wider", "score": 0.5, "direction": 7}, {"score": 1}, [], {"text": "u", "kind": "source"}]}"#,
    )
    .unwrap();
    let expected = Proposal {
        description: Some("warmup 0.15".into()),
        expected: Some("1.25".into()),
        findings: vec!["one".into()],
        ideas: vec![
            NewIdea { text: "deeper".into(), ..NewIdea::default() },
            NewIdea { text: "wider".into(), direction: Some("7".into()), score: Some(0.5), ..NewIdea::default() },
            NewIdea { text: "u".into(), kind: IdeaKind::Source, ..NewIdea::default() },
        ],
        error: Some("not a text: direction".into()),
        ..Proposal::default()
    };
    assert_eq!(Proposal::read(&path), expected);
    assert_eq!(Proposal::read(&folder.path().join("absent")), Proposal::default());
    for (content, error) in [
        ("not json", "it is not a JSON object: expected ident at line 1 column 2"),
        ("[1]", "it is not a JSON object: invalid type: sequence, expected a map at line 1 column 0"),
        ("{\"description\": \"a \"b\"\"}", "it is not a JSON object: expected `,` or `}` at line 1 column 21"),
    ] {
        fs::write(&path, content).unwrap();
        assert_eq!(Proposal::read(&path), Proposal { error: Some(error.into()), ..Proposal::default() });
    }
    fs::write(&path, " \n").unwrap();
    assert_eq!(Proposal::read(&path), Proposal::default());
    // It takes no space on the disk and none in memory.
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(Proposal::read(&path).error.unwrap().starts_with("cannot read it: "));
}

#[test]
fn the_last_line_is_of_this_call_and_without_colour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.log");
    fs::write(&path, "old\n\u{1b}[32mraised the rate\u{1b}[0m\n\n  \n").unwrap();
    let said = |from| last_line(&last_words(&path, from));
    assert_eq!(said(4).as_deref(), Some("raised the rate"));
    assert_eq!(said(fs::metadata(&path).unwrap().len()), None);
}
