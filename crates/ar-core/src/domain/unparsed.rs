//! JSON objects that are parsed late.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON object kept as text, which takes a fraction of the memory, and parsed when a field is requested.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Unparsed(Box<RawValue>);

impl Unparsed {
    /// Stores an object.
    ///
    /// # Errors
    ///
    /// JSON cannot represent it, for example keys that are not texts.
    pub fn of(object: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(object).map(Unparsed)
    }

    /// A field, if it exists and has that type.
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
    /// Writes the object in the layout of the enclosing document.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
