//! Decides whether a name in a log is the metric's own, and which number belongs to it.
//!
//! A name counts at the start of a line, after a separator, or after another value: `step 5 val_bpb: 1.2`,
//! `epoch 3 | val_bpb 1.2`, `[12:00:01] INFO val_bpb: 1.2`. It does not count inside a longer name
//! (`running_bpb`, `eval/bpb`) or phrase (`Best val_bpb: 1.17`, `test loss: 3`, `Triplet Loss=3`). After any other plain word
//! a name of several parts counts only when nothing stands around `:` or `=`, as in a structured log: `eval done val_bpb=1.2`.
//! Words for all parts are no other name: `Mean val_bpb: 1.2`. A name that is a unit has its number before it, `99 ns/op`, unless the
//! names of its line come first: `loss 0.5 tok/s 1234`.

use super::extent::{Extent, Extents, aggregate_behind, before_aggregate, is_progress, object_part, step_behind};
use super::{
    MetricMention, NAME_FIELDS, VALUE_FIELDS, amount_at, is_elsewhere, is_of_another_run, next_char, valid_text,
    value_at, whole, word_before,
};
use crate::domain::{Number, SCALES, Unit, WordList, word_list};

/// Number of bytes to check before a name.
pub(super) const LEFT: usize = 256;

/// Number of bytes to check after a name; a number that extends further does not count.
pub(super) const RIGHT: usize = 256;

/// The reading of a name's mention.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reading {
    /// This value.
    Value(Extents, MetricMention),
    /// Nothing, because any of these numbers can be meant.
    Several(Vec<String>),
}

impl Reading {
    /// It as what a name says; see [`Number::named`](crate::domain::Number::named).
    pub(super) fn named(self, name: &str) -> Reading {
        match self {
            Reading::Value(standing, value) => Reading::Value(standing, value.named(name, None)),
            several @ Reading::Several(_) => several,
        }
    }
}

/// The way in which a number is tied to its name.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NumberForm {
    /// `name=1` and `name:1`.
    Tight,
    /// `name: 1`, `name = 1` and `name ..... 1`.
    Spaced,
    /// `name 1`.
    Juxtaposed,
    /// `| name | 1 |`.
    Cell,
}

/// Reads the mention of a name which stands between `left` and `right`, the rest of its line on either side.
///
/// `left` starts at the start of the line or [`LEFT`] bytes before the name; `cut` says that `right` ends before its
/// line does.
pub(super) fn reading_between(name: &str, left: &[u8], right: &[u8], cut: bool) -> Option<Reading> {
    let left = String::from_utf8_lossy(left);
    if let Some(value) = value_of_fields(&left, right, cut) {
        return Some(Reading::Value(Extents::of(&left, &String::from_utf8_lossy(right), None), value));
    }
    let is_unit = Unit::is_name(name);
    let behind = aggregate_behind(right);
    let right_of_name = right;
    let right = &right[behind.as_ref().map_or(0, |(length, _)| *length)..];
    let (in_brackets, unit) = unit_behind(right).unzip();
    let right = &right[in_brackets.unwrap_or_default()..];
    let step = step_behind(right);
    let right = &right[step.as_ref().map_or(0, |(length, _)| *length)..];
    let comes_first = || comes_first(&left, &String::from_utf8_lossy(right));
    let found = form(right).filter(|(form, _)| *form != NumberForm::Juxtaposed || !is_unit || comes_first());
    let valued = found.and_then(|(form, at)| {
        let text = &right[at..];
        // What follows is the next name.
        let is_before = is_unit && form == NumberForm::Juxtaposed;
        let end = text.iter().position(u8::is_ascii_whitespace).filter(|_| is_before);
        Some((form, text, value_behind(form, &text[..end.unwrap_or(text.len())])?))
    });
    let summary = || {
        let (form, at) = found.filter(|(form, _)| matches!(form, NumberForm::Tight | NumberForm::Spaced))?;
        Some((form, &right[at..], mean_of(name, &right[at..])?))
    };
    let is_mean = valued.is_none();
    let valued = valued.or_else(summary);
    let Some((form, text, (value, length))) = valued else {
        return if is_unit { reading_before(&left, right_of_name) } else { None };
    };
    let rest = &text[length..];
    let is_longer = name.contains('@') && rest.starts_with(b":") && value_at(rest[1..].trim_ascii_start()).is_some();
    if (cut && rest.is_empty()) || is_longer || leads_on(rest) {
        return None;
    }
    let stands = |left: &str| stands_alone(name, left, form);
    // A mean of the steps so far, or beside the number that it is of, is a running one.
    let is_final = |left: &str| stands(left) && !is_progress(left) && !left.contains(name);
    let before = before_aggregate(&left);
    let mut counts = match behind {
        None => stands(&left) || before.is_some_and(is_final),
        Some(_) => is_final(before.unwrap_or(&left)),
    };
    let rest = String::from_utf8_lossy(rest);
    let named = behind.or(step).map(|(_, extent)| extent).or(before.map(|_| Extent::Whole));
    let named = named.or_else(|| object_part(name, &left, &rest));
    let value = value.with_unit(unit);
    let value = running_average(name, &value, &left, &rest).unwrap_or(value);
    let numbers = if form == NumberForm::Juxtaposed { bare_numbers(text) } else { Vec::new() };
    let is_in_report = name == "accuracy" && left.trim().is_empty() && counts_samples(right, &numbers);
    let mut extents = Extents::of(&left, &rest, named);
    if is_mean {
        counts &= !matches!(extents.extent, Extent::Part(_));
        extents.extent = Extent::Mean;
    }
    counts.then_some(match numbers.len() {
        2.. if !is_in_report => Reading::Several(numbers),
        _ => Reading::Value(extents, value),
    })
}

/// Returns whether the second number counts samples, as in the row of all classes in the report of scikit-learn.
fn counts_samples(right: &[u8], numbers: &[String]) -> bool {
    let [share, samples] = numbers else { return false };
    let is_share = share.parse::<f64>().is_ok_and(|share| share <= 1.0);
    right.starts_with(&[b' '; 20]) && is_share && samples.parse::<u64>().is_ok()
}

/// The value at the start of `text`, an amount of money only behind a sign: `name=$1` is an argument of a script.
fn value_behind(form: NumberForm, text: &[u8]) -> Option<(MetricMention, usize)> {
    let may_be = |length: usize| match form {
        NumberForm::Juxtaposed => false,
        NumberForm::Tight => length > "$1".len(),
        NumberForm::Spaced | NumberForm::Cell => true,
    };
    value_at(text).or_else(|| amount_at(text).filter(|(_, length)| may_be(*length)))
}

/// The unit in brackets between a name and its number, and the bytes up to its end: ` (ms)`.
pub(super) fn unit_behind(right: &[u8]) -> Option<(usize, Unit)> {
    let start = blanks(right);
    let inner = right[start..].strip_prefix(b"(").or(right[start..].strip_prefix(b"["))?;
    let length = inner.iter().position(|byte| matches!(byte, b')' | b']'))?;
    // `(min)` is hardly minutes.
    let word = std::str::from_utf8(&inner[..length]).ok().filter(|word| !["m", "min", "d", "B"].contains(word))?;
    let unit = Some(Unit::new(word)).filter(Unit::is_known)?;
    Some((start + length + 2, unit))
}

/// The number that has its name in one field and its value in another: `{"metric": "loss", "value": 1}`, `metric=loss value=1`.
fn value_of_fields(left: &str, right: &[u8], cut: bool) -> Option<MetricMention> {
    let quote = left.chars().next_back().filter(|c| matches!(c, '"' | '\''));
    let ends = |c| quote.map_or_else(|| is_blank(c) || matches!(c, ',' | ';' | '|'), |quote| c == quote);
    let key = left.strip_suffix(|c| Some(c) == quote).unwrap_or(left).trim_end().strip_suffix([':', '='])?.trim_end();
    let quoted = quote.filter(|quote| key.ends_with(*quote));
    let key = word_before(key.strip_suffix(|c| Some(c) == quoted).unwrap_or(key));
    if !NAME_FIELDS.contains(&key) || !next_char(right).is_some_and(ends) {
        return None;
    }
    let right = String::from_utf8_lossy(right);
    let mark = quoted.map(String::from).unwrap_or_default();
    let behind = |part: &'_ str, name: &str| -> Option<(usize, usize)> {
        let field = format!("{mark}{name}{mark}");
        let mut found = part.match_indices(&field).map(|(at, _)| (at, at + field.len()));
        let is_apart = |at: usize| !mark.is_empty() || word_before(&part[..at]).is_empty();
        found.find(|(at, end)| is_apart(*at) && part[*end..].trim_start().starts_with([':', '=']))
    };
    let parts = match quoted {
        // The first bracket that closes or opens what the other side began.
        Some(_) => {
            let leaves = |inner: char, outer: char| {
                let mut depth = 0;
                move |c| {
                    depth += i32::from(c == inner) - i32::from(c == outer);
                    depth < 0
                }
            };
            let start = left.rfind(leaves('}', '{')).unwrap_or(0);
            [&right[..right.find(leaves('{', '}')).unwrap_or(right.len())], &left[start..]]
        }
        None => [&right[..behind(&right, key).map_or(right.len(), |(at, _)| at)], ""],
    };
    let field = |name: &str| {
        parts.into_iter().find_map(|part| Some(part[behind(part, name)?.1..].trim_start()[1..].trim_start()))
    };
    let text = VALUE_FIELDS.iter().find_map(|name| field(name))?;
    let (value, length) = value_at(text.as_bytes())?;
    let unit = field("unit").map(|text| quote.and_then(|quote| text.strip_prefix(quote)).unwrap_or(text));
    let unit = unit
        .and_then(|text| text.split(|c| is_blank(c) || matches!(c, '"' | '\'' | ',' | ';' | '}')).next())
        .map(Unit::new);
    (!cut || length < text.len()).then(|| value.with_unit(unit))
}

/// The average over the batches so far, where a line of meters has it in parentheses behind the newest number:
/// `[10/100]  Time 0.3 (0.4)  Loss 1.2 (1.1)`. Without a batch and a meter of time, it is a deviation, an old best or another number.
fn running_average(name: &str, value: &MetricMention, left: &str, rest: &str) -> Option<MetricMention> {
    let MetricMention::Number(newest) = value else { return None };
    let average = in_parentheses(rest.trim_start_matches(is_blank).strip_prefix('(')?)?;
    let is_near = |newest: &Number, average: &Number| (0.5..2.0).contains(&(average.value / newest.value));
    let others: Vec<_> = meters(left).chain(meters(rest)).collect();
    let is_clock = |name: &str| contains(&["time", "data"], name);
    let is_meter = is_clock(name) || others.iter().any(|(name, ..)| is_clock(name));
    let is_average = match is_near(newest, &average) {
        true => !others.is_empty(),
        false => others.len() > 1 && others.iter().any(|(_, newest, average)| is_near(newest, average)),
    };
    let is_like = newest.unit == average.unit && newest.raw.contains('.') && average.raw.contains('.');
    (is_like && is_meter && is_average && counts_batches(left)).then_some(MetricMention::Number(average))
}

/// The number, without a sign in front, that ends in a parenthesis.
fn in_parentheses(inner: &str) -> Option<Number> {
    let inner = inner.trim_start_matches(is_blank);
    let (value, length) = value_at(inner.as_bytes())?;
    let is_alone = inner[length..].trim_start_matches(is_blank).starts_with(')') && !inner.starts_with('+');
    value.number().filter(|_| is_alone)
}

/// The names in `text` that have a number in parentheses behind another one, and both numbers.
fn meters(text: &str) -> impl Iterator<Item = (&str, Number, Number)> {
    text.match_indices('(').filter_map(|(at, _)| {
        let before = text[..at].trim_end_matches(is_blank);
        let number = token_before(before);
        let name = before[..before.len() - number.len()].trim_end_matches(|c| is_blank(c) || c == ':');
        Some((word_before(name), whole(number.as_bytes())?.number()?, in_parentheses(&text[at + 1..])?))
    })
}

/// Words before a counter of batches.
const BATCHED: &[&str] = &["batch", "iter", "iteration", "step", "test", "train", "training", "val", "valid"];

/// Returns whether `left` says how many batches of how many are done, as in `Epoch: [0][ 10/100]`: neither epochs nor parts.
fn counts_batches(left: &str) -> bool {
    let is_other = |word: &str| contains(&PARTS, word) || contains(&["episode", "run", "trial"], word);
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let mut words = left.split(|c: char| !c.is_alphabetic());
    let is_counter = |(at, _): (usize, &str)| {
        let inner = left[at + 1..].trim_start();
        let behind = inner.trim_start_matches(|c: char| c.is_ascii_digit());
        let total = behind.strip_prefix('/').filter(|_| behind.len() < inner.len());
        let end = total.map(|total| total.trim_start_matches(|c: char| c.is_ascii_digit()));
        let unit = word_before(left[..at].trim_end_matches(|c| is_blank(c) || c == ':'));
        let is_of_batches =
            unit.is_empty() || unit.bytes().all(|byte| byte.is_ascii_digit()) || contains(BATCHED, unit);
        end.is_some_and(|end| end.starts_with([']', ' '])) && is_of_batches
    };
    !words.any(|word| is_other(&singular(word))) && left.match_indices('[').any(is_counter)
}

/// The mean that `text` begins with, behind a name and a sign, and the bytes up to its end.
fn mean_of(name: &str, text: &[u8]) -> Option<(MetricMention, usize)> {
    let text = valid_text(text);
    let of_interval = || middle_of_interval(text).filter(|_| ["time", "thrpt"].contains(&name));
    mean_of_object(text).or_else(|| mean_of_fields(text)).or_else(of_interval)
}

/// The mean in an object of statistics alone: `{"mean": 0.3, "std": 0.01}`.
fn mean_of_object(text: &str) -> Option<(MetricMention, usize)> {
    let (inner, _) = text.strip_prefix('{')?.split_once('}')?;
    let mut mean = None;
    for field in inner.split(',') {
        let (key, number) = field.split_once(':')?;
        let key = key.trim_matches(|c| is_blank(c) || is_decoration(c));
        let number = whole(number.as_bytes()).filter(|_| contains(&STATISTICS, key))?;
        mean = if ["mean", "avg", "average"].contains(&key) { Some(number) } else { mean };
    }
    Some((mean?, inner.len() + 2))
}

/// The mean in front of its deviation: `mean=0.85 std=0.05`.
fn mean_of_fields(text: &str) -> Option<(MetricMention, usize)> {
    let (number, rest) = text.strip_prefix("mean=")?.split_once(' ')?;
    let is_deviation = ["std=", "sd=", "stdev=", "sem="].iter().any(|sign| rest.trim_start().starts_with(sign));
    Some((whole(number.as_bytes())?, text.len() - rest.len() - 1)).filter(|_| is_deviation)
}

/// The middle one of three numbers with units, which are an estimate and its bounds: `[41.1 ms 41.4 ms 41.7 ms]`.
fn middle_of_interval(text: &str) -> Option<(MetricMention, usize)> {
    let (inner, _) = text.strip_prefix('[')?.split_once(']')?;
    let words: Vec<&str> = inner.split_whitespace().collect();
    let numbers: Option<Vec<Number>> = words.chunks(2).map(|it| whole(it.join(" ").as_bytes())?.number()).collect();
    let [low, middle, high]: [Number; 3] = numbers?.try_into().ok()?;
    let unit = middle.unit.clone().filter(Unit::is_known)?;
    let is_ordered = low.converted(&unit)?.value <= middle.value && middle.value <= high.converted(&unit)?.value;
    is_ordered.then_some((MetricMention::Number(middle), inner.len() + 2))
}

/// Reads the number right before a name that is a unit.
fn reading_before(left: &str, right: &[u8]) -> Option<Reading> {
    let is_longer = next_char(right).is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '/'));
    let text = left.trim_end_matches(is_blank);
    let is_apart = text.len() < left.len();
    let digits = text.strip_suffix(|c| is_apart && SCALES.iter().any(|(letter, _)| *letter == c)).unwrap_or(text);
    let start = digits.trim_end_matches(|c: char| c.is_ascii_digit() || "+-.,eE".contains(c)).len();
    let before = &text[..start];
    let value = whole(&text.as_bytes()[start..])?;
    let counts = !is_longer && !before.ends_with(char::is_alphanumeric) && !is_elsewhere(before);
    (counts && !is_of_another_run(before))
        .then(|| Reading::Value(Extents::of(before, &String::from_utf8_lossy(right), None), value))
}

/// Returns whether a name that is a unit stands before its number: no number is before it, or names and numbers take turns on
/// its part of the line, and a name begins.
fn comes_first(left: &str, right: &str) -> bool {
    let is_end = |c| matches!(c, '|' | '│' | '┃' | ',' | ';' | ':' | '=' | '(' | '[');
    let left = left.rsplit(is_end).next().unwrap_or_default();
    // A colon may be that of a time.
    let right = right.split(|c| is_end(c) && c != ':').next().unwrap_or_default();
    match last_in_turn(left.split_whitespace().rev()) {
        None => !left.trim_end().ends_with(|c: char| c.is_ascii_digit()),
        // A number with a unit of its own.
        Some(word) if is_value(word) => {
            let unit = word.trim_start_matches(|c: char| !c.is_alphabetic());
            unit.len() > 1 && Unit::new(unit).is_known() || unit == "s"
        }
        Some(_) => {
            let mut words = right.split_whitespace().collect::<Vec<_>>();
            let is_plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let takes_turns = words.iter().enumerate().all(|(at, word)| is_plain(word) == (at % 2 == 0));
            takes_turns && words.pop().is_some_and(|word| is_plain(&word))
        }
    }
}

/// The last word up to which numbers and names take turns, beginning with a number.
fn last_in_turn<'a>(words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let turns = words.zip([true, false].into_iter().cycle());
    turns.take_while(|(word, is_number)| is_value(word) == *is_number).last().map(|(word, _)| word)
}

/// The numbers at the start of `text`, with only blanks between them.
fn bare_numbers(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let is_bare = |word: &&str| {
        word.ends_with(|c: char| c.is_ascii_digit()) && !word.contains(':') && whole(word.as_bytes()).is_some()
    };
    text.split_whitespace().take_while(is_bare).map(str::to_owned).collect()
}

/// Finds what ties the number to the name, and where the number begins.
fn form(right: &[u8]) -> Option<(NumberForm, usize)> {
    let mut at = right.iter().take(4).take_while(|&&byte| is_decoration(char::from(byte))).count();
    let (before, is_led) = leader(&right[at..]);
    at += before;
    let rest = &right[at..];
    let sign = match next_char(rest)? {
        ':' if rest.starts_with(b":=") => 2,
        '=' if rest.starts_with(b"==") || rest.starts_with(b"=>") => 2,
        ':' | '=' => 1,
        '：' => '：'.len_utf8(),
        _ if is_led => return Some((NumberForm::Spaced, at)),
        // The signature of a score: `BLEU|nrefs:1|tok:13a = 27.3`.
        '|' if before == 0 => {
            let end = at + rest.iter().position(|byte| *byte == b' ').filter(|end| rest[..*end].contains(&b':'))?;
            return right[end..].starts_with(b" = ").then_some((NumberForm::Spaced, end + 3));
        }
        bar if is_bar(bar) && before > 0 => {
            let bar = bar.len_utf8();
            let after = blanks(&rest[bar..]);
            return (after > 0).then_some((NumberForm::Cell, at + bar + after));
        }
        _ => return (before > 0).then_some((NumberForm::Juxtaposed, at)),
    };
    let after = blanks(&rest[sign..]);
    let form = if before == 0 && after == 0 { NumberForm::Tight } else { NumberForm::Spaced };
    Some((form, at + sign + after))
}

/// The length of the blanks and leader dots at the start of `text`, and whether there are dots.
fn leader(text: &[u8]) -> (usize, bool) {
    let first = blanks(text);
    let dots = text[first..].iter().take_while(|byte| **byte == b'.').count();
    let end = first + dots;
    if dots < 2 { (first, false) } else { (end + blanks(&text[end..]), true) }
}

/// Returns whether the number is only the first of a pair such as `1.30 -> 1.25`.
fn leads_on(rest: &[u8]) -> bool {
    let rest = &rest[blanks(rest)..];
    rest.starts_with(b"->") || rest.starts_with(b"=>") || rest.starts_with("→".as_bytes())
}

fn stands_alone(name: &str, text: &str, form: NumberForm) -> bool {
    if is_elsewhere(text) {
        return false;
    }
    let bare = text.trim_end_matches(is_decoration);
    let quoted = bare.len() < text.len();
    let Some(last) = bare.chars().next_back() else { return form != NumberForm::Cell };
    if is_blank(last) {
        return after_blank(name, bare, form);
    }
    if form == NumberForm::Cell {
        return is_bar(last);
    }
    if last.is_alphanumeric() {
        // The prefix of a Python string: `b'val_bpb: 1.2'`.
        return quoted && word_before(bare).chars().count() == 1;
    }
    // `%WER 5.12` as speech toolkits print it.
    let is_percent = ["WER", "SER", "CER"].contains(&name)
        && bare.strip_suffix('%').is_some_and(|before| before.chars().next_back().is_none_or(is_blank));
    let glue = "-/._@$#%+~&?=\\";
    is_percent || !glue.contains(last) && !is_of_another_run(bare)
}

/// Returns whether a name counts behind `left`, which ends in blanks.
fn after_blank(name: &str, left: &str, form: NumberForm) -> bool {
    let before = left.trim_end_matches(is_blank);
    let is_tabbed = left[before.len()..].contains('\t');
    if let Some(value) = quoted_value(before) {
        return !is_of_another_run(value);
    }
    let before = before.trim_end_matches(is_decoration);
    let Some(last) = before.chars().next_back() else { return form != NumberForm::Cell };
    if form == NumberForm::Cell {
        return is_bar(last);
    }
    if !last.is_alphanumeric() && last != '_' && last != '%' {
        // `mean ± std: 1.2` names both; `+ val_bpb=1.2` is a shell that echoes its commands.
        if matches!(last, '±' | '+' | '&' | '/' | '\\' | '$' | '@') {
            return false;
        }
        // `Adj. R-squared` is another name.
        if before.strip_suffix('.').is_some_and(|before| is_abbreviation(token_before(before))) {
            return false;
        }
        return matches!(last, ',' | ';' | '.') || !is_of_another_run(before);
    }
    let token = token_before(before);
    let token_start = before.len() - token.len();
    if let Some((_, value)) = token.rsplit_once([':', '=']) {
        return !is_stale(value);
    }
    if is_value(token) || is_marker(token) {
        return true;
    }
    let is_identifier = |text: &str| text.contains(['_', '/', '.']);
    // The column of a log with the name of the program.
    let is_program = is_tabbed && is_identifier(name) && token.strip_suffix(".py").is_some_and(|stem| !is_stale(stem));
    if (qualifies(token) && !is_program) || contains(PRINTERS, token) || is_of_another_run(before) {
        return false;
    }
    // The word may begin a longer name of plain words, but none that is an identifier.
    let earlier = token_before(before[..token_start].trim_end_matches(is_blank));
    let is_behind_value = is_value(earlier);
    let is_of_logger = is_tabbed && is_marker(earlier) && (token == "root" || token.contains(['.', '_']));
    let joins = token.contains(['/', '.']) || (is_behind_value && counts_value(token));
    let is_apart = is_behind_value || is_of_logger || form == NumberForm::Tight;
    joins || (is_identifier(name) && (is_identifier(token) || is_apart))
}

/// The value at the end of `text` that a structured log has in quotes: `eval done` of `msg="eval done"`.
fn quoted_value(text: &str) -> Option<&str> {
    let quote = text.chars().next_back().filter(|c| matches!(c, '\'' | '"'))?;
    let (field, value) = text.strip_suffix(quote)?.rsplit_once(quote)?;
    field.ends_with('=').then_some(value)
}

/// The last run of characters without blanks and brackets.
fn token_before(text: &str) -> &str {
    text.rsplit(|c: char| is_blank(c) || is_decoration(c) || "|,;()[]{}<>".contains(c)).next().unwrap_or_default()
}

/// Returns whether `token` is the value of the text before it: a number, with anything glued to it, or a constant.
pub(super) fn is_value(token: &str) -> bool {
    let digits = token.trim_start_matches(['+', '-', '.', '#']);
    digits.starts_with(|c: char| c.is_ascii_digit())
        || ["nan", "inf", "true", "false", "none", "null"].iter().any(|word| digits.eq_ignore_ascii_case(word))
}

fn blanks(text: &[u8]) -> usize {
    let mut length = 0;
    while let Some(c) = next_char(&text[length..]).filter(|&c| is_blank(c) && c != '\u{0}') {
        length += c.len_utf8();
    }
    length
}

/// Words in front of a name that only say where the line comes from or that the number is final.
const MARKERS: &[&str] = &[
    "critical", "current", "debug", "done", "error", "final", "finished", "info", "metric", "metrics", "notice",
    "result", "results", "summary", "trace", "warn", "warning",
];

/// Words that make the number that of another time: the best of some earlier night is not this run's number.
static STALE: WordList = WordList::new(|| word_list(include_str!("lists/stale.txt")));

/// Words that may stand between such a word and the name: `previous run`.
pub(super) const BETWEEN: &[&str] = &["experiment", "number", "result", "results", "run", "score", "session", "value"];

/// Programs and functions whose arguments a source line shows, while it is not run.
const PRINTERS: &[&str] = &["echo", "print", "printf", "println"];

/// Words that make the name another metric's: `test loss` is not `loss`.
static QUALIFIERS: WordList = WordList::new(|| word_list(include_str!("lists/qualifiers.txt")));

/// Words around a name that say that its number is of all parts.
pub(super) static AGGREGATES: WordList = WordList::new(|| word_list(include_str!("lists/aggregates.txt")));

/// Words between such a word and what it is of: `average of val_loss`, `mean over all folds`.
pub(super) const LINKS: &[&str] = &["across", "all", "for", "of", "over", "the"];

/// Words before the number of a part.
pub(super) static PARTS: WordList = WordList::new(|| word_list(include_str!("lists/parts.txt")));

/// Words before the number of a process, those that name the rank of all processes first.
pub(super) static PROCESSES: WordList = WordList::new(|| word_list(include_str!("lists/processes.txt")));

/// Fields of an object that holds only statistics of some numbers.
static STATISTICS: WordList = WordList::new(|| word_list(include_str!("lists/statistics.txt")));

/// Words that count steps.
pub(super) const PROGRESS: &[&str] = &["batch", "ep", "epoch", "it", "iter", "iteration", "round", "step", "update"];

/// Returns whether `word` before a dot is short for one that makes the name another metric's: `Adj. R-squared`.
fn is_abbreviation(word: &str) -> bool {
    word.eq_ignore_ascii_case("adj")
}

/// Returns whether `word` between a value and a name belongs to the value: `12 epochs`, `5 ms`.
fn counts_value(word: &str) -> bool {
    Unit::new(word).is_known() || (word.ends_with('s') && !word.ends_with("ss"))
}

/// Returns whether `word` before a name says nothing about the number.
pub(super) fn is_marker(word: &str) -> bool {
    contains(MARKERS, word)
}

/// Returns whether `word` before a name marks the number as one of another time.
pub(super) fn is_stale(word: &str) -> bool {
    contains(&STALE, word)
}

/// Returns whether a part of `word` before a name makes it another name.
pub(super) fn qualifies(word: &str) -> bool {
    word.split(|c: char| !c.is_alphabetic()).any(|part| is_stale(part) || contains(&QUALIFIERS, part))
}

/// Quotes and Markdown emphasis, which may stand around a name.
pub(super) fn is_decoration(c: char) -> bool {
    matches!(c, '\'' | '"' | '`' | '*' | '\\')
}

/// Lines between the cells of a table.
pub(super) fn is_bar(c: char) -> bool {
    matches!(c, '|' | '│' | '┃')
}

/// Blanks and control characters.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

pub(super) fn contains(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
