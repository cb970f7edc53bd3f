//! The extent of a number in a line: the whole run, a part such as one fold, or another process than the first.

use super::name::{
    AGGREGATES, LINKS, PARTS, PROCESSES, PROGRESS, contains, is_blank, is_decoration, is_marker, qualifies,
};
use super::valid_text;

/// The extent and process of a mention's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extents {
    pub(super) extent: Extent,
    pub(super) process: Process,
}

/// The part of the run that it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it: `val_loss: 0.92`, `Mean val_loss: 0.92`.
    Whole,
    /// All of it up to a step: `step 5 val_loss: 0.92`.
    SoFar,
    /// All parts together, under a name of its own: `val_loss/mean: 0.92`.
    Derived,
    /// A mean beside its deviation, which may be one over time: `"val_loss": {"mean": 0.92, "std": 0.1}`.
    Mean,
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
    /// A rank, or a setting of that name: `rank=16`.
    Field(u32),
    /// One whose rank the line does not give.
    Pid(u32),
}

impl Extents {
    /// The extents of a line without words about them.
    pub(super) const WHOLE: Extents = Extents { extent: Extent::Whole, process: Process::Main };

    /// Of a line that has `left` before the name and `right` behind the number. `named` is the extent that the words around the name
    /// give, if any do.
    pub(super) fn of(left: &str, right: &str, named: Option<Extent>) -> Extents {
        let part = |it: &Labelled<'_>| Some(Extent::Part(format!("{} {}", it.word, it.label)));
        let by_field = |it: &Labelled<'_>| part(it).filter(|_| it.is_aside());
        let extent = labelled(left, &PARTS, part).or_else(|| labelled(right, &PARTS, by_field)).or(named);
        let is_step = || is_progress(left) || is_progress(right);
        let extent = extent.unwrap_or_else(|| if is_step() { Extent::SoFar } else { Extent::Whole });
        Extents { extent, process: process(left, right) }
    }
}

/// The text before the words in front of a name that name all parts, if there are such words: `Mean`, `Avg.`, `CV`.
pub(super) fn before_aggregate(left: &str) -> Option<&str> {
    let (mut rest, mut found) = (left, None);
    loop {
        let before = rest.trim_end_matches(is_decoration);
        let phrase = before.trim_end_matches(is_blank);
        let is_apart = phrase.len() < before.len();
        let phrase = phrase.strip_suffix('.').unwrap_or(phrase);
        let word = phrase.rsplit(|c: char| !c.is_alphabetic() && c != '-').next().unwrap_or_default();
        let is_aggregate = contains(&AGGREGATES, word);
        if !is_apart || !(is_aggregate || contains(LINKS, word)) {
            return found;
        }
        rest = &phrase[..phrase.len() - word.len()];
        if is_aggregate {
            found = Some(rest);
        }
    }
}

/// The length of what follows a name and says that its number is of all parts: ` (mean of 5)`, ` over 3 seeds`, `/mean`. Then the
/// extent that it gives.
pub(super) fn aggregate_behind(right: &[u8]) -> Option<(usize, Extent)> {
    let text = valid_text(right);
    if let Some(behind) = text.strip_prefix('/') {
        let word = first_word(behind);
        let is_longer = behind[word.len()..].starts_with(['_', '/', '.']);
        return (contains(&AGGREGATES, word) && !is_longer).then_some((1 + word.len(), Extent::Derived));
    }
    let phrase = text.trim_start_matches([' ', '\t']);
    let before = text.len() - phrase.len();
    let length = match phrase.strip_prefix(['(', '[']) {
        None if before == 0 => return None,
        None => before + all_parts(phrase)?,
        Some(inner) => all_parts(inner).and_then(|_| Some(before + inner.find([')', ']'])? + 2))?,
    };
    Some((length, Extent::Whole))
}

/// The length of what follows a name and says after which step, or over how many samples, its number is: ` (step 100)`,
/// ` after 3 epochs`, `[n=64]`. Then the extent that it gives. A `:` or `=` follows.
pub(super) fn step_behind(right: &[u8]) -> Option<(usize, Extent)> {
    let text = valid_text(right);
    let phrase = text.trim_start_matches([' ', '\t']);
    let (before, bracket) = (text.len() - phrase.len(), phrase.strip_prefix(['(', '[']));
    let inner = match bracket {
        Some(inner) => &inner[..inner.find([')', ']'])?],
        None => &phrase[..phrase.find([':', '=']).filter(|_| before > 0)?],
    };
    if bracket.is_none() && inner.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let length = before + inner.len() + if bracket.is_some() { 2 } else { 0 };
    let words = || inner.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let counts = |word: &str| contains(PROGRESS, &singular(word));
    let is_sample = |word: &str| bracket.is_some() && contains(&["n", "sample", "example"], &singular(word));
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_step = words().any(counts);
    let is_known = |word| is_number(word) || counts(word) || is_sample(word) || ["at", "after"].contains(&word);
    let is_said = words().any(is_number) && (is_step || words().any(is_sample)) && words().all(is_known);
    let is_tied = text[length..].trim_start().starts_with([':', '=']);
    let extent = if is_step { Extent::SoFar } else { Extent::Whole };
    (is_said && is_tied).then_some((length, extent))
}

/// The part that a name is of whose object lies in another one that has the name, or beside one: `dog` in
/// `{"acc": 0.8, "dog": {"acc": 0.9}}`. An object that a word for all parts names is none.
pub(super) fn object_part(name: &str, left: &str, right: &str) -> Option<Extent> {
    let quote = left.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
    let own = keys_around(left);
    let key = own.iter().find(|key| !key.is_empty()).filter(|key| !contains(&AGGREGATES, key))?;
    let field = format!("{quote}{name}{quote}");
    let all = format!("{left}{name}{quote}:{right}");
    let mut others = all.match_indices(&field).filter(|(at, _)| all[at + field.len()..].trim_start().starts_with(':'));
    others.any(|(at, _)| keys_around(&all[..at]) != own).then(|| Extent::Part((*key).to_owned()))
}

/// The keys of the objects and lists that are open at the end of `text`, the innermost first; empty for one without a key.
fn keys_around(text: &str) -> Vec<&str> {
    let (mut keys, mut closed) = (Vec::new(), 0_u32);
    for (at, c) in text.char_indices().rev() {
        match c {
            '}' | ']' => closed += 1,
            '{' | '[' if closed > 0 => closed -= 1,
            '{' | '[' => {
                let key = text[..at].trim_end().strip_suffix(':').map(str::trim_end);
                let key = key.and_then(|key| key.strip_suffix(['"', '\'']));
                keys.push(key.and_then(|key| key.rsplit(['"', '\'']).next()).unwrap_or_default());
            }
            _ => {}
        }
    }
    keys
}

/// The length of the words at the start of `text` that name all parts: `mean`, `averaged over 3 seeds`.
fn all_parts(text: &str) -> Option<usize> {
    let (mut length, mut at) = (None, 0);
    for phrase in text.split_inclusive([' ', '\t']) {
        let word = first_word(phrase);
        // `passes` and `folds`.
        let singular = word.strip_suffix("es").filter(|stem| stem.ends_with('s')).or(word.strip_suffix('s'));
        let is_of_all = contains(&AGGREGATES, word)
            || singular.is_some_and(|part| contains(&PARTS, part) || contains(&["run", "trial"], part));
        if is_of_all {
            length = Some(at + word.len());
        } else if !contains(LINKS, word) && !word.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        if word.len() < phrase.trim_end().len() {
            break;
        }
        at += phrase.len();
    }
    length
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(text.len())]
}

/// Returns whether `text` counts steps, so that a mean behind it is one over time: `epoch 3 | mean loss: 0.5`.
pub(super) fn is_progress(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| contains(PROGRESS, word))
}

fn process(left: &str, right: &str) -> Process {
    // mpirun writes `[job,rank]<stdout>`.
    let by_mpi = || Some(Process::Rank(left.split_once("]<std")?.0.rsplit_once(',')?.1.parse().ok()?));
    let in_front = |it: &Labelled<'_>| match (it.word, it.is_field()) {
        ("pid", _) => it.rest.starts_with([')', ',']).then_some(Process::Pid(it.number()?)),
        (_, true) if !it.rest.starts_with([']', ')', '>']) => Some(Process::Field(it.number()?)),
        (_, _) => {
            // `rank1 step 5 loss=0.4`; in `rank 16 adapters` it is a setting.
            let is_prefix = it.between.is_empty() && !it.before.contains(char::is_alphanumeric);
            let is_label = is_prefix || it.rest.starts_with([']', ')', ':', '|', '>', '-']);
            is_label.then_some(Process::Rank(it.number()?))
        }
    };
    let behind = |it: &Labelled<'_>| {
        (it.word != "pid" && it.is_field() && it.is_aside()).then_some(Process::Field(it.number()?))
    };
    let found =
        by_mpi().or_else(|| labelled(left, &PROCESSES, in_front)).or_else(|| labelled(right, &PROCESSES, behind));
    found.filter(|process| *process != Process::Rank(0)).unwrap_or(Process::Main)
}

/// A word in a line with its label behind it: a whole number, or a word as in `task mnli:`.
struct Labelled<'a> {
    word: &'static str,
    before: &'a str,
    between: &'a str,
    label: &'a str,
    /// The text behind the label, without blanks.
    rest: &'a str,
}

impl Labelled<'_> {
    fn number(&self) -> Option<u32> {
        self.label.parse().ok()
    }

    /// Returns whether they are a field and its value: `fold=3`, `"fold": 3`.
    fn is_field(&self) -> bool {
        self.between.contains(['=', ':'])
    }

    /// Returns whether they describe the whole line though they stand at its end: `loss=0.4 fold=3`, `loss: 0.4 (fold 3)`. That is
    /// not so in `loss: 0.4, best fold: 3`.
    fn is_aside(&self) -> bool {
        let before = self.before.trim_end_matches(is_decoration);
        let token = before.split_whitespace().next_back().unwrap_or_default();
        let word = token.trim_start_matches(['(', '[']);
        let is_word = !word.is_empty() && word.chars().all(char::is_alphabetic);
        before.ends_with(['(', '[']) || (self.is_field() && !is_word)
    }
}

/// The first of these words that `text` has with a label behind it and for which `judge` finds something; of several such
/// places the last.
fn labelled<T>(text: &str, words: &'static [&'static str], judge: impl Fn(&Labelled<'_>) -> Option<T>) -> Option<T> {
    let mut found: Option<(usize, T)> = None;
    let mut end = text.len();
    while let Some(last) = text[..end].rfind(|c: char| c.is_ascii_alphabetic()) {
        let is_part = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        let start = last + 1 - text[..=last].bytes().rev().take_while(is_part).count();
        let name = &text[start..=last];
        let place = words.iter().position(|word| word.eq_ignore_ascii_case(name));
        let place = place.filter(|place| found.as_ref().is_none_or(|(known, _)| place < known));
        if let Some(place) = place
            && !text[..start].ends_with(char::is_alphanumeric)
            && let Some((between, label, rest)) =
                number_behind(&text[last + 1..]).or_else(|| word_behind(&text[last + 1..]))
        {
            let it = Labelled { word: words[place], before: &text[..start], between, label, rest: rest.trim_start() };
            found = judge(&it).map(|given| (place, given)).or(found);
        }
        end = start;
    }
    found.map(|(_, it)| it)
}

/// The whole number behind a word, the text between them, and what follows.
fn number_behind(text: &str) -> Option<(&str, &str, &str)> {
    let behind = text.trim_start_matches([' ', '-', '_', '#', '=', ':', '[', '"', '\'']);
    let (number, rest) = behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count());
    let mut next = rest.chars();
    let is_whole = match next.next() {
        Some('.' | ',') => !next.next().is_some_and(|c| c.is_ascii_digit()),
        next => !next.is_some_and(|c| c.is_alphanumeric() || c == '_'),
    };
    (is_whole && !number.is_empty()).then(|| (&text[..text.len() - behind.len()], number, rest))
}

/// The plain word behind a word, if it ends in a sign and no number follows: `task mnli: acc 0.7`. In `class loss: 0.5` it is a name.
fn word_behind(text: &str) -> Option<(&str, &str, &str)> {
    let behind = text.trim_start_matches(' ');
    let (word, rest) = behind.split_at(first_word(behind).len());
    let next = rest.trim_start().strip_prefix([':', '|', ']', ')'])?.trim_start();
    let is_label = behind.len() < text.len() && !word.is_empty() && !is_marker(word) && !qualifies(word);
    (is_label && !next.starts_with(|c: char| c.is_ascii_digit() || ".+-".contains(c))).then_some((
        &text[..text.len() - behind.len()],
        word,
        rest,
    ))
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
            ("Task cola: ", "task cola"),
            ("[split A] step 3 ", "split A"),
        ] {
            assert_eq!(Extents::of(left, "", Some(Extent::Whole)).extent, Extent::Part(part.into()), "{left}");
        }
        for left in [
            "",
            "5 folds: ",
            "class loss 0.5 ",
            "task: 0.5 ",
            "unfold 3 ",
            "seeds 3 ",
            "num_class: 10 ",
            "class loss: 0.5 ",
            "split val: ",
            "task finished: ",
        ] {
            assert_eq!(Extents::of(left, "", None), Extents::WHOLE, "{left}");
        }
        assert_eq!(Extents::of("epoch 3 | ", "", None).extent, Extent::SoFar);
        assert_eq!(Extents::of("{", ", \"step\": 5}", None).extent, Extent::SoFar);
        assert_eq!(Extents::of("", " (epoch 5)", Some(Extent::Derived)).extent, Extent::Derived);
    }

    #[test]
    fn words_behind_a_number_tell_what_it_is_of() {
        for (right, part) in [
            (" fold=4", Some("fold 4")),
            (", \"seed\": 3}", Some("seed 3")),
            (" acc=0.5 split=2", Some("split 2")),
            (" (fold 4)", Some("fold 4")),
            (" (best fold: 3)", None),
            (", best fold: 3", None),
            (" in fold 3", None),
        ] {
            let extent = part.map_or(Extent::Whole, |part| Extent::Part(part.into()));
            assert_eq!(Extents::of("", right, None).extent, extent, "{right}");
        }
        let process = |right: &str| Extents::of("", right, None).process;
        assert_eq!(process(" rank=1"), Process::Field(1));
        assert_eq!(process(", \"local_rank\": \"2\"}"), Process::Field(2));
        assert_eq!(process(" | gpu 1: 80 C"), Process::Main);
    }

    #[test]
    fn words_behind_a_name_name_all_parts() {
        for (right, length, extent) in [
            (" mean: 0.5", 5, Extent::Whole),
            (" over 3 seeds: 0.5", 13, Extent::Whole),
            (" averaged over all 5 folds = 0.5", 26, Extent::Whole),
            (" (over 5 folds): 0.5", 15, Extent::Whole),
            (" across classes=0.5", 15, Extent::Whole),
            ("/mean: 0.5", 5, Extent::Derived),
        ] {
            assert_eq!(aggregate_behind(right.as_bytes()), Some((length, extent)), "{right}");
        }
        for right in
            [": 0.5", " 0.5", " over 100 steps: 0.5", "/mean_std: 0.5", "/means: 1", " (5 epochs): 1", " 3 0.5"]
        {
            assert_eq!(aggregate_behind(right.as_bytes()), None, "{right}");
        }
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
            ("rank=16 lr=3 ", Process::Field(16)),
            ("rank=0 ", Process::Field(0)),
            ("local_rank: 1, ", Process::Field(1)),
            ("[local_rank: 1] ", Process::Rank(1)),
            ("rank1 step 5 ", Process::Rank(1)),
            ("[gpu0] ", Process::Main),
            ("{\"rank\": 2, ", Process::Field(2)),
            ("lora_rank=16 ", Process::Main),
            ("rank 16 adapters ", Process::Main),
            ("frank 1: ", Process::Main),
        ] {
            assert_eq!(Extents::of(left, "", None).process, process, "{left}");
        }
    }
}
