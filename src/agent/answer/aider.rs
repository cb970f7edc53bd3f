//! The answer of aider, which has no machine-readable mode: its lines for people, broken at the terminal's width.

use super::Answer;
use crate::domain::{Refusal, Tokens, Usage};

/// The beginning of its first line.
const BANNER: &str = "Aider v";

/// The beginning of a line that reports a refusal by the service. It may retry, and exits with 0 in the end.
const ERROR: &str = "litellm.";

/// The beginnings of lines about its own work.
const OWN: [&str; 6] = ["Tokens:", "Cost:", "Commit ", "Applied edit to ", "You can use /undo", "Retrying in "];

/// The most lines of one usage report.
const USAGE_LINES: usize = 3;

/// The state of reading its lines.
#[derive(Default)]
pub(super) struct AiderLines {
    is_aider: bool,
    /// The usage report of a message, as far as it has arrived, and the number of its lines.
    usage: Option<(String, usize)>,
    /// The cost of all messages so far.
    cost: Option<f64>,
}

impl AiderLines {
    /// Takes a line without escape sequences.
    pub(super) fn take_line(&mut self, line: &str, answer: &mut Answer) {
        let line = line.trim();
        self.is_aider |= line.starts_with(BANNER);
        if !self.is_aider {
            return;
        }
        if line.starts_with("Tokens:") {
            self.end_usage(answer);
            self.usage = Some((String::new(), 0));
            answer.refusal = None;
        }
        if let Some((text, lines)) = &mut self.usage {
            *text += line;
            *text += " ";
            *lines += 1;
            if line.ends_with(" session.") || *lines == USAGE_LINES {
                self.end_usage(answer);
            }
        }
        if line.starts_with(ERROR) {
            answer.refusal = Some(Refusal::saying(line.to_owned()));
        } else if let Some(rest) = line.strip_prefix("Main model: ").or(line.strip_prefix("Model: ")) {
            answer.usage.model = rest.split_whitespace().next().map(str::to_owned);
        } else if !OWN.iter().any(|own| line.starts_with(own)) && self.usage.is_none() {
            answer.text = Some(line.to_owned());
        }
    }

    /// Sums up.
    pub(super) fn finish(&mut self, answer: &mut Answer) {
        self.end_usage(answer);
        answer.usage.add(Usage { cost: self.cost.take(), ..Usage::default() });
    }

    /// Understands `Tokens: 12k sent, 1.5k cache write, 10k cache hit, 345 received. Cost: $0.01 message, $0.02 session.`
    fn end_usage(&mut self, answer: &mut Answer) {
        let Some((text, _)) = self.usage.take() else { return };
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut tokens = Tokens::default();
        for pair in words.windows(2) {
            let count = number(pair[0]).unwrap_or(0.0) as u64;
            match pair[1].trim_end_matches([',', '.']) {
                "sent" => tokens.input = count,
                "received" => tokens.output = count,
                "cache" if words.windows(3).any(|three| three[..2] == *pair && three[2].starts_with("hit")) => {
                    tokens.cached = count;
                }
                "session" => self.cost = number(pair[0].trim_start_matches('$')).or(self.cost),
                _ => {}
            }
        }
        answer.usage.add(Usage { tokens: Some(tokens), ..Usage::default() });
    }
}

/// A number, in thousands where it ends with `k`.
fn number(word: &str) -> Option<f64> {
    let (digits, factor) = word.strip_suffix('k').map_or((word, 1.0), |digits| (digits, 1000.0));
    digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number * factor)
}
