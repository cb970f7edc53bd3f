//! Recognises text that nobody edited since `ar` wrote it.

use sha2::{Digest, Sha256};

/// The bytes of a hash in a mark.
const BYTES: usize = 8;

/// The hash of a text, whatever ends its lines: git may have changed that.
pub(super) fn fingerprint(text: &[u8]) -> String {
    let text = with_line_feeds(text);
    Sha256::digest(text).iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The text with lines that end as on Unix.
pub(super) fn with_line_feeds(text: &[u8]) -> Vec<u8> {
    let is_kept = |at: &usize| !(text[*at] == b'\r' && text.get(at + 1) == Some(&b'\n'));
    (0..text.len()).filter(is_kept).map(|at| text[at]).collect()
}
