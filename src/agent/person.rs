//! Messages of the user to the agent.

use std::fmt::Write;

use crate::domain::Message;

/// The words of the user as a section; empty without any. Cut after so many bytes of a word.
pub(super) fn person_text(words: &[Message], most: usize) -> String {
    if words.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## From the person in charge\n\n\
         The user says this. It counts more than the directive and the goals above; the protocol and the contract \
         still hold.\n",
    );
    for word in words {
        let end = (0..=most.min(word.text.len())).rev().find(|at| word.text.is_char_boundary(*at)).unwrap_or(0);
        let _ = writeln!(text, "\n{}", &word.text[..end]);
        if end < word.text.len() {
            text += "(cut; `ar tell --list` prints all of it)\n";
        }
    }
    text
}
