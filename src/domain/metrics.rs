//! The values of a log's summary, by name.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Values by name, in the order of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// The value with that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The names with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(named: T) -> Self {
        Metrics(named.into_iter().collect())
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
        let fields = Map::<String, Value>::deserialize(from)?;
        Ok(fields.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect())
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
