//! The beat of the patrol.

use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;

use crate::state::read_json;

/// The record that each patrol writes at its end.
#[derive(Deserialize)]
struct Beat {
    at: Timestamp,
}

/// Returns when the last patrol ended; `None` if none ever did, or if nobody can read what it wrote.
pub(super) fn last_patrol(folder: &Path) -> Option<Timestamp> {
    read_json::<Beat>(&folder.join("patrol.json")).ok().flatten().map(|beat| beat.at)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_beat_that_can_be_read_is_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_patrol(folder.path()), None);
        let path = folder.path().join("patrol.json");
        for (text, is_beat) in [
            (r#"{"version":1,"at":"2026-11-20T22:00:00.000Z"}"#, true),
            (r#"{"version":1,"at":"2026-11-20T23:00:00+01:00","more":[1]}"#, true),
            (r#"{"version":1,"at":"yesterday"}"#, false),
            (r#"{"version":1}"#, false),
            (r#"{"version":1,"at":"2026-11-2"#, false),
            ("\0\0\0", false),
            ("", false),
        ] {
            fs::write(&path, text).unwrap();
            let at = "2026-11-20T22:00:00Z".parse().ok().filter(|_| is_beat);
            assert_eq!(last_patrol(folder.path()), at, "{text}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(last_patrol(folder.path()), None);
    }
}
