//! What the number of a line is of: the whole run, a part of it such as one fold, or another process than the first.

use super::vocabulary::{AGGREGATES, PARTS, PROCESSES, PROGRESS, contains, is_blank, is_decoration};

/// What a mention's number is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) extent: Extent,
    pub(super) process: Process,
}

/// How much of the run it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// All parts together: `Mean val_loss: 0.92`.
    Aggregate,
    /// One part: `Fold 5/5 - val_loss: 0.88`.
    Part(String),
}

/// The process that printed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Process {
    /// The only one, or rank 0.
    Main,
    /// Another rank.
    Rank(u32),
    /// One whose rank the line does not give.
    Pid(u32),
}

impl Standing {
    /// Of a line that says nothing about it.
    pub(super) const WHOLE: Standing = Standing { extent: Extent::Whole, process: Process::Main };

    /// Of a line that has `left` before the name. `is_aggregate` says that words around the name name all parts.
    pub(super) fn of(left: &str, is_aggregate: bool) -> Standing {
        let extent = match numbered(left, PARTS, |_| true) {
            Some((word, number)) => Extent::Part(format!("{word} {number}")),
            None if is_aggregate => Extent::Aggregate,
            None => Extent::Whole,
        };
        Standing { extent, process: process(left) }
    }
}

/// The text before the words in front of a name that name all parts, if there are such words: `Mean`, `CV`.
pub(super) fn before_aggregate(left: &str) -> Option<&str> {
    let mut rest = left;
    loop {
        let before = rest.trim_end_matches(is_decoration);
        let phrase = before.trim_end_matches(is_blank);
        let word = phrase.rsplit(|c: char| !c.is_alphabetic() && c != '-').next().unwrap_or_default();
        let is_apart = phrase.len() < before.len() && contains(AGGREGATES, word);
        if !is_apart {
            return (rest.len() < left.len()).then_some(rest);
        }
        rest = &phrase[..phrase.len() - word.len()];
    }
}

/// The length of what follows a name and says that its number is of all parts: ` (mean of 5)`, ` mean`.
pub(super) fn aggregate_behind(right: &[u8]) -> usize {
    let text = std::str::from_utf8(right)
        .unwrap_or_else(|error| std::str::from_utf8(&right[..error.valid_up_to()]).unwrap_or_default());
    let phrase = text.trim_start_matches([' ', '\t']);
    let inner = phrase.strip_prefix(['(', '[']);
    let word = inner.unwrap_or(phrase);
    let word = &word[..word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len())];
    let is_apart = inner.is_some() || phrase.len() < text.len();
    if !is_apart || !contains(AGGREGATES, word) {
        return 0;
    }
    let before = text.len() - phrase.len();
    match inner {
        None => before + word.len(),
        Some(inner) => inner.find([')', ']']).map_or(0, |end| before + end + 2),
    }
}

/// Returns whether `left` counts steps, so that a mean behind it is one over time: `epoch 3 | mean loss: 0.5`.
pub(super) fn is_progress(left: &str) -> bool {
    left.split(|c: char| !c.is_alphanumeric()).any(|word| contains(PROGRESS, word))
}

fn process(left: &str) -> Process {
    // mpirun writes `[job,rank]<stdout>`.
    let by_mpi = || left.split_once("]<std")?.0.rsplit_once(',')?.1.parse().ok();
    let ends = |rest: &str| rest.trim_start().starts_with([']', ')', ':', '|', '>', '-']);
    let by_name = || numbered(left, PROCESSES, ends).map(|(_, rank)| rank);
    match by_mpi().or_else(by_name) {
        Some(0) => Process::Main,
        Some(rank) => Process::Rank(rank),
        None => match numbered(left, &["pid"], |rest| rest.starts_with([')', ','])) {
            Some((_, pid)) => Process::Pid(pid),
            None => Process::Main,
        },
    }
}

/// The first of these words that `text` has with a whole number behind it, and its last number. `may_follow` judges the text behind
/// the number.
fn numbered(
    text: &str,
    words: &'static [&'static str],
    may_follow: impl Fn(&str) -> bool,
) -> Option<(&'static str, u32)> {
    let mut found: Option<(usize, u32)> = None;
    let mut end = text.len();
    while let Some(last) = text[..end].rfind(|c: char| c.is_ascii_alphabetic()) {
        let start = last + 1 - text[..=last].bytes().rev().take_while(u8::is_ascii_alphabetic).count();
        let place = words.iter().position(|word| word.eq_ignore_ascii_case(&text[start..=last]));
        let place = place.filter(|place| found.is_none_or(|(known, _)| *place < known));
        if let Some(place) = place
            && !text[..start].ends_with(char::is_alphanumeric)
            && let Some((number, rest)) = number_behind(&text[last + 1..])
            && may_follow(rest)
        {
            found = Some((place, number));
        }
        end = start;
    }
    found.map(|(place, number)| (words[place], number))
}

/// The whole number behind a word, and what follows.
fn number_behind(text: &str) -> Option<(u32, &str)> {
    let behind = text.trim_start_matches([' ', '-', '_', '#', '=', ':', '[', '"', '\'']);
    let (number, rest) = behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count());
    let mut next = rest.chars();
    let is_whole = match next.next() {
        Some('.' | ',') => !next.next().is_some_and(|c| c.is_ascii_digit()),
        next => !next.is_some_and(|c| c.is_alphanumeric() || c == '_'),
    };
    is_whole.then(|| Some((number.parse().ok()?, rest)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_its_number_is_of() {
        for (left, part) in [
            ("Fold 5/5 - ", "fold 5"),
            ("fold 1 ", "fold 1"),
            ("seed 3: ", "seed 3"),
            ("[seed=3] step 7 | ", "seed 3"),
            ("split #2 ", "split 2"),
            ("class 7: ", "class 7"),
            ("Task_4 | ", "task 4"),
            ("{\"fold\": 2, ", "fold 2"),
        ] {
            assert_eq!(Standing::of(left, true).extent, Extent::Part(part.into()), "{left}");
        }
        for left in ["", "epoch 3 | ", "5 folds: ", "class loss 0.5 ", "task: 0.5 ", "unfold 3 ", "seeds 3 "] {
            assert_eq!(Standing::of(left, false), Standing::WHOLE, "{left}");
        }
        assert_eq!(Standing::of("", true).extent, Extent::Aggregate);
    }

    #[test]
    fn a_line_tells_which_process_printed_it() {
        for (left, process) in [
            ("[rank0]: ", Process::Main),
            ("[rank1]: ", Process::Rank(1)),
            ("rank 1: ", Process::Rank(1)),
            ("[Rank 3] INFO ", Process::Rank(3)),
            ("12:00:01 [rank=2] ", Process::Rank(2)),
            ("[1,0]<stdout>:", Process::Main),
            ("[1,3]<stdout>", Process::Rank(3)),
            ("worker-2  | ", Process::Rank(2)),
            ("train-worker-2-1 | ", Process::Rank(2)),
            ("[default1]:", Process::Rank(1)),
            ("(train pid=4711) ", Process::Pid(4711)),
            ("(RayTrainWorker pid=4711, ip=10.0.0.2) ", Process::Pid(4711)),
            ("(RayTrainWorker pid=4711) [rank1] ", Process::Rank(1)),
            ("rank=16 lr=3 ", Process::Main),
            ("rank 16 adapters ", Process::Main),
            ("frank 1: ", Process::Main),
        ] {
            assert_eq!(Standing::of(left, false).process, process, "{left}");
        }
    }
}
