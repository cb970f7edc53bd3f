use super::*;

fn raw(json: &str, pointer: &str) -> String {
    match metric_file(json.as_bytes(), pointer) {
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
    assert_eq!(raw(r#"{"a": null}"#, "/a"), "error: the value at `/a` in the metric file is not a number: null");
    assert_eq!(raw(r#"{"a": 1}"#, "/b/c"), "error: the metric file has nothing at `/b/c`: `b` is missing");
    assert_eq!(raw("{\"a\": 1", "/a"), "error: the metric file is not JSON");
    assert!(raw(r#"{"a": 1}"#, "a").starts_with("error: `a` is not a JSON pointer"));
    assert!(metric_file(b"\"\\", "").is_err());
}
