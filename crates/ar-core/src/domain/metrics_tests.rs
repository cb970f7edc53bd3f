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

#[test]
fn the_digits_of_a_log_stay_beside_the_values_that_are_the_same() {
    let named = |text: &str| {
        let pairs = text.split(' ').map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(name, raw)| (name.to_owned(), raw.parse::<Number>().unwrap())).collect::<Metrics>()
    };
    let printed = named("loss=2.50 acc=0.900 lr=0.1");
    let digits = |metrics: &Metrics| ["loss", "acc", "lr"].map(|name| metrics.digits(name).map(str::to_owned));
    assert_eq!(digits(&printed), [Some("2.50".to_owned()), Some("0.900".to_owned()), None]);
    let mean = read(r#"{"loss": 2.45, "acc": 0.9, "lr": 0.1}"#).in_digits_of(&printed);
    assert_eq!(digits(&mean), [None, Some("0.900".to_owned()), None]);

    let record = crate::rules::sample::record(
        serde_json::json!({"id": 1, "metrics": {"loss": 2.5}, "digits": {"loss": "2.50"}}),
    );
    assert_eq!(digits(&record.metrics)[0].as_deref(), Some("2.50"));
    assert!(record.more.is_empty(), "{:?}", record.more);
    let written = serde_json::to_string(&record).unwrap();
    assert!(written.contains(r#""metrics":{"loss":2.5},"digits":{"loss":"2.50"}"#), "{written}");
    assert_eq!(serde_json::from_str::<crate::domain::Record>(&written).unwrap(), record);
}
