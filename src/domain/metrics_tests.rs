use super::*;

fn read(text: &str) -> Metrics {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_is_read_is_written_again() {
    for text in [
        r#"{"loss":1.5,"steps":20.0}"#,
        r#"{"loss":2.5,"steps":21.0}"#,
        r#"{"loss":3.5}"#,
        r#"{"steps":22.0,"loss":4.5}"#,
        r#"{"steps":22.0,"loss":4.5,"lr":0.1}"#,
        r#"{"steps":22.0,"l\"r":0.1,"loss":4.5}"#,
        "{}",
    ] {
        let metrics = read(text);
        assert_eq!(serde_json::to_string(&metrics).unwrap(), text);
        let one_by_one: Metrics = metrics.iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(metrics, one_by_one);
    }
}

#[test]
fn what_is_no_number_is_left_out() {
    let metrics = read(r#"{"device": "cuda", "loss": 1, "best": null, "steps": 20}"#);
    assert_eq!(metrics.iter().collect::<Vec<_>>(), [("loss", 1.0), ("steps", 20.0)]);
    assert_eq!((metrics.get("steps"), metrics.get("best")), (Some(20.0), None));
}
