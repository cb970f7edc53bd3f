//! JSON objects that are understood late.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON object that is kept as its text, which takes a fraction of the memory, and understood where a field is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Unparsed(Box<RawValue>);

impl Unparsed {
    /// Keeps an object.
    ///
    /// # Errors
    ///
    /// It has something that JSON has no word for, such as keys that are no texts.
    pub fn of(object: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(object).map(Unparsed)
    }

    /// A field, where it is there and of that type.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(self.0.get()).ok()?;
        serde_json::from_str(fields.get(name)?.get()).ok()
    }

    fn value(&self) -> Option<Value> {
        serde_json::from_str(self.0.get()).ok()
    }
}

impl PartialEq for Unparsed {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Serialize for Unparsed {
    /// Writes what it says, laid out as what it stands in.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
