//! The values of a log's summary, by name.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// Values by name, in the order of the log. Experiments of a session mostly have the same names, so experiments read in
/// sequence share them in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    names: Arc<[String]>,
    values: Box<[f64]>,
}

impl Metrics {
    /// The value with that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(named: T) -> Self {
        let (names, values): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        Metrics { names: names.into(), values: values.into() }
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Metrics {
    /// Reads an object and skips everything but numbers.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Named)
    }
}

thread_local! {
    /// The names in the object that this thread read last.
    static LAST: RefCell<Arc<[String]>> = RefCell::default();
}

/// A name borrowed from the document, if possible.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Named;

impl<'de> Visitor<'de> for Named {
    type Value = Metrics;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
        let last = LAST.with_borrow(Arc::clone);
        // Only what follows the first different name.
        let mut others: Vec<String> = Vec::new();
        let mut values: Vec<f64> = Vec::with_capacity(last.len());
        while let Some((Name(name), value)) = map.next_entry::<Name<'_>, Value>()? {
            let Some(value) = value.as_f64() else { continue };
            if !others.is_empty() || last.get(values.len()).is_none_or(|known| *known != *name) {
                others.push(name.into_owned());
            }
            values.push(value);
        }
        let known = values.len() - others.len();
        let names = if others.is_empty() && known == last.len() {
            last
        } else {
            let names: Arc<[String]> = last[..known].iter().cloned().chain(others).collect();
            LAST.set(Arc::clone(&names));
            names
        };
        Ok(Metrics { names, values: values.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Metrics {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_read_after_one_another_does_not_mix() {
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
        assert!(Arc::ptr_eq(&read(r#"{"loss":1}"#).names, &read(r#"{"loss":2}"#).names), "the names are there twice");
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let metrics = read(r#"{"device": "cuda", "loss": 1, "best": null, "steps": 20}"#);
        assert_eq!(metrics.iter().collect::<Vec<_>>(), [("loss", 1.0), ("steps", 20.0)]);
        assert_eq!((metrics.get("steps"), metrics.get("best")), (Some(20.0), None));
    }
}
