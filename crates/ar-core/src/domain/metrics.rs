//! The values of a log's summary, by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Number;

/// Values by name, in the order of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    values: Vec<(String, f64)>,
    /// The digits in the log of those for which the shortest form has others.
    digits: BTreeMap<String, String>,
}

impl Metrics {
    /// The value with that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.values.iter().map(|(name, _)| name)
    }

    /// The names with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The digits of a value as the log has them, where they are known and not the shortest ones: `2.50`.
    pub fn digits(&self, name: &str) -> Option<&str> {
        self.digits.get(name).map(String::as_str)
    }

    /// These values with the digits that `other` has for the same ones.
    #[must_use]
    pub fn in_digits_of(self, other: &Metrics) -> Metrics {
        let mut digits = other.digits.clone();
        digits.retain(|name, _| self.get(name) == other.get(name));
        Metrics { digits, ..self }
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(named: T) -> Self {
        Metrics { values: named.into_iter().collect(), digits: BTreeMap::new() }
    }
}

impl FromIterator<(String, Number)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, Number)>>(named: T) -> Self {
        let mut all = Metrics::default();
        for (name, number) in named {
            if number.raw != number.value.to_string() {
                all.digits.insert(name.clone(), number.raw);
            }
            all.values.push((name, number.value));
        }
        all
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

/// Metrics as two fields of a record.
#[derive(Serialize, Deserialize)]
struct Fields {
    metrics: Metrics,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    digits: BTreeMap<String, String>,
}

/// Metrics as fields of what has them: `metrics`, and `digits` if there are some.
pub(super) mod with_digits {
    use super::{Deserialize, Deserializer, Fields, Metrics, Serialize, Serializer};

    pub(in crate::domain) fn serialize<S: Serializer>(metrics: &Metrics, serializer: S) -> Result<S::Ok, S::Error> {
        Fields { metrics: metrics.clone(), digits: metrics.digits.clone() }.serialize(serializer)
    }

    pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Metrics, D::Error> {
        let Fields { metrics, digits } = Fields::deserialize(from)?;
        Ok(Metrics { digits, ..metrics })
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
