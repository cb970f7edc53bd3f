//! The file of packed refs, as it was read last.

use std::cell::RefCell;
use std::sync::Arc;

use gix::bstr::ByteSlice;

use crate::fs::FileStamp;

/// The packed refs as they were read last, sorted by name, with what the file system said of them then. Git itself tells by
/// the same stamp whether what it read of them is old.
#[derive(Default)]
pub(super) struct LastPacked(pub(super) RefCell<Option<(FileStamp, Packed)>>);

/// Names of refs with the objects that they name.
pub(super) type Packed = Arc<Vec<(String, String)>>;

/// Reads packed refs, in a tenth of the time that gix takes to check each name and object; nothing where a line is not as git
/// writes it.
pub(super) fn understood(content: &[u8]) -> Option<Vec<(String, String)>> {
    // Without a way out of the loop the compiler looks at many digits at once.
    let is_id =
        |hex: &[u8]| matches!(hex.len(), 40 | 64) && hex.iter().fold(true, |all, it| all & it.is_ascii_hexdigit());
    let mut found = Vec::new();
    for line in content.lines() {
        match line.first()? {
            b'#' => {}
            b'^' => is_id(&line[1..]).then_some(())?,
            _ => {
                let (object, name) = line.split_once_str(" ")?;
                (is_id(object) && name.starts_with(b"refs/")).then_some(())?;
                found.push((name.to_str_lossy().into_owned(), object.to_str_lossy().into_owned()));
            }
        }
    }
    Some(found)
}
