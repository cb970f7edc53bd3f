use super::*;

fn raw(json: &str, pointer: &str) -> String {
    raw_of("m.json", json, pointer)
}

fn raw_of(file: &str, text: &str, place: &str) -> String {
    match metric_file(Path::new(file), text.as_bytes(), place, "val_loss") {
        Ok(Found::Number(number)) => number.raw,
        Ok(Found::NotFinite(raw)) => format!("not finite: {raw}"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn a_pointer_leads_to_the_number_with_its_digits() {
    let json = r#"{"eval": {"loss": 1.834200, "a/b": [1, 2.50]}, "text": "say \"NaN\" twice", "s": "0.5"}"#;
    assert_eq!(raw(json, "/eval/loss"), "1.834200");
    assert_eq!(raw(json, "/eval/a~1b/1"), "2.50");
    assert_eq!(raw(json, "/s"), "0.5");
    assert_eq!(raw("0.25\n", ""), "0.25");
    assert_eq!(raw(r#"{"loss": NaN}"#, "/loss"), "not finite: NaN");
    assert_eq!(raw(r#"[-Infinity]"#, "/0"), "not finite: -Infinity");
    assert_eq!(raw("\u{feff}{\"a\": 3}", "/a"), "3");
}

#[test]
fn what_is_no_number_is_named() {
    assert_eq!(raw(r#"{"a": null}"#, "/a"), "error: has no number at `/a`: null");
    assert_eq!(raw(r#"{"a": 1}"#, "/b/c"), "error: has nothing at `/b/c`: `b` is missing");
    assert_eq!(
        raw(r#"{"x": {"y/z": {"c": 1}}}"#, "/b/c"),
        "error: has nothing at `/b/c`: `b` is missing, but a number is at `/x/y~1z/c`"
    );
    assert_eq!(raw("{\"a\": 1", "/a"), "error: is not JSON");
    assert!(raw(r#"{"a": 1}"#, "a").starts_with("error: needs a JSON pointer"));
    assert!(metric_file(Path::new("m.json"), b"\"\\", "", "").is_err());
    let columns = "error: has no column `loss`; its columns: epoch, val_loss";
    assert_eq!(raw_of("m.csv", "epoch,val_loss\n1,0.5\n", "loss"), columns);
    assert_eq!(raw_of("m.csv", "epoch,val_loss\n1,\n", ""), "error: has no value in the column `val_loss`");
    assert_eq!(raw_of("m.csv", "val_loss\n0.5\nhigh\n", ""), "error: has no number at `val_loss`: high");
}

#[test]
fn the_last_cell_of_a_column_counts() {
    let lightning = "epoch,step,train_loss,val_loss\n0,10,0.9,\n0,10,,0.7\n1,20,0.6,\n1,20,,0.51\n2,30,0.4,\n";
    for place in ["", "val_loss", "/val_loss"] {
        assert_eq!(raw_of("logs/metrics.csv", lightning, place), "0.51");
    }
    assert_eq!(raw_of("m.csv", lightning, "train_loss"), "0.4");
    assert_eq!(raw_of("m.tsv", "epoch\tval loss, mean\n1\t0.5\n", "val loss, mean"), "0.5");
    assert_eq!(raw_of("M.CSV", "\u{feff}\"val/loss\";\"n\"\r\n\"0.25\";1\r\n", "val/loss"), "0.25");
    assert_eq!(raw_of("m.csv", "val_loss\n0.5\nnan\n", ""), "not finite: nan");
}

#[test]
fn the_last_line_with_the_number_counts() {
    let lines = "{\"val\": {\"loss\": 0.9}}\n{\"val\": {\"loss\": 0.80}}\n{\"train\": 0.1}\n{\"val\": {\"lo";
    assert_eq!(raw_of("log.jsonl", lines, "/val/loss"), "0.80");
    assert_eq!(raw_of("log.jsonl", "{\"a\": 1}\n{\"a\": 2}\n", "/b"), "error: has nothing at `/b`: `b` is missing");
    let named = "{\"metric\": \"val_loss\", \"value\": 0.7}\n{\"key\": \"lr\", \"value\": 0.1}\n";
    assert_eq!(raw_of("log.jsonl", named, ""), "0.7");
    assert_eq!(raw("{\"val_loss\": 0.6}", ""), "0.6");
    let null = "{\"val_loss\": 0.6}\n{\"val_loss\": null}\n";
    assert_eq!(raw_of("log.jsonl", null, "/val_loss"), "error: has no number at `/val_loss`: null", "no earlier one");
}

#[test]
fn the_unit_stands_beside_the_value() {
    for (json, place, expected) in [
        (r#"{"latency": {"value": 980, "unit": "ms"}}"#, "/latency/value", "980 ms"),
        (r#"{"metric": "val_loss", "unit": "s", "value": 1.5}"#, "", "1.5 s"),
        (r#"{"value": 2, "max": 980, "unit": "ms"}"#, "/max", "980"),
        (r#"{"value": "2 s", "unit": "ms"}"#, "/value", "2 s"),
    ] {
        let found = metric_file(Path::new("m.json"), json.as_bytes(), place, "val_loss");
        assert!(matches!(&found, Ok(Found::Number(number)) if format!("{number:#}") == expected), "{json}: {found:?}");
    }
}

#[test]
fn the_place_of_a_name_in_a_file_is_found() {
    let place = |file: &str, text: &str| place_of(Path::new(file), text.as_bytes(), "val_loss");
    assert_eq!(place("m.csv", "epoch,val_loss\n1,0.5\n").as_deref(), Some(""));
    assert_eq!(place("m.json", "{\"eval\": {\"val_loss\": 1}}").as_deref(), Some("/eval/val_loss"));
    assert_eq!(place("m.jsonl", "{\"a\": 1}\n{\"eval\": {\"val_loss\": 1}}\n").as_deref(), Some("/eval/val_loss"));
    assert_eq!(place("m.csv", "epoch,loss\n1,0.5\n"), None);
    assert_eq!(place("m.json", "[1, 2]"), None);
}
