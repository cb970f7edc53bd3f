//! Moments in files and documents, for `#[serde(with)]`: written as [`exact_time`], read with any fraction.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

use super::exact_time;

/// Writes a moment.
pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&exact_time(*at))
}

/// Reads a moment.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    Timestamp::deserialize(deserializer)
}

/// The same for an optional moment.
pub mod option {
    use super::{Deserialize, Deserializer, Serializer, Timestamp, exact_time};

    /// Writes a moment, or null.
    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_some(&exact_time(*at)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a moment, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}
