//! Recognises numbers in a log and finds where they end.

use serde::{Deserialize, Serialize};

use crate::domain::{Number, Suffix, Unit, duration};

/// A number in a log or a metric file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricMention {
    /// A finite number.
    Number(Number),
    /// `nan`, `inf` or a number too large or too small for a double, as it was written.
    NotFinite(String),
}

impl MetricMention {
    /// It in a known unit that is written elsewhere, unless it has one of its own.
    pub(super) fn with_unit(mut self, unit: Option<Unit>) -> MetricMention {
        if let MetricMention::Number(number @ Number { unit: None, .. }) = &mut self {
            number.unit = unit.filter(Unit::is_known);
        }
        self
    }

    /// The number, if it is finite.
    pub(super) fn number(self) -> Option<Number> {
        match self {
            MetricMention::Number(number) => Some(number),
            MetricMention::NotFinite(_) => None,
        }
    }
}

/// Prefixes that tensors, NumPy scalars and decimals print before their number.
const WRAPPERS: &[&[u8]] =
    &[b"tensor(", b"array(", b"np.float64(", b"np.float32(", b"np.float16(", b"numpy.float64(", b"Array(", b"Decimal("];

const NOT_FINITE: &[&[u8]] = &[b"infinity", b"inf", b"nan"];

/// Bytes behind a number that its scale and unit, or the further parts of a time, are in.
const BEHIND: usize = 64;

/// The value at the start of `text`, in quotes or a wrapper if it likes, and how many bytes it takes with its unit.
///
/// Its scale is multiplied out, and a time in several parts, such as `1m 7.5s`, is in seconds. Of an expression such as
/// `45 / 50 = 0.9` or `45/50 (90%)` the result counts. `1/20`, `1.2.3`, `1 500`, `1'000`, `2nd`, dates and times of day are
/// no numbers: taking their first digits would invent one.
pub(super) fn value_at(text: &[u8]) -> Option<(MetricMention, usize)> {
    let mut at = 0;
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| text.starts_with(wrapper)) {
        at = wrapper.len();
    }
    let quotes =
        text[at..].iter().take(4).take_while(|byte| matches!(byte, b'\'' | b'"' | b'`' | b'\\' | b'*')).count();
    at += quotes;
    let (value, length) = bare(&text[at..])?;
    Some((value, at + length))
}

/// The value at the start of `text` behind the sign of a currency, `$12.50`, as [`value_at`] reads others. Neither words nor
/// brackets follow: `$3.50 per call` is a price.
pub(super) fn amount_at(text: &[u8]) -> Option<(MetricMention, usize)> {
    let quote = usize::from(matches!(text.first(), Some(b'"' | b'\'')));
    let amount = valid(&text[quote..]);
    let behind_minus = amount.strip_prefix(['−', '-']);
    let unsigned = behind_minus.unwrap_or(amount);
    let digits = unsigned.strip_prefix(['$', '€', '£']).unwrap_or(unsigned);
    // `$1` is an argument of a script, and a minus alone a change.
    let number = digits.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').next().unwrap_or_default();
    let is_amount = number.trim_end_matches(['.', ',']).contains(['.', ',']);
    if digits.len() == unsigned.len() || !is_amount || digits.starts_with(['+', '-']) {
        return None;
    }
    let minus = if behind_minus.is_some() { "-" } else { "" };
    let (value, length) = bare(format!("{minus}{digits}").as_bytes())?;
    let rest = &digits[length - minus.len()..];
    let is_share =
        matches!(&value, MetricMention::Number(number) if number.unit.as_ref().is_some_and(Unit::is_percent));
    let ends = rest.trim_start().chars().next().is_none_or(|c| ".,;|│┃)]}\"'±".contains(c));
    (ends && !is_share).then_some((value, quote + amount.len() - rest.len()))
}

/// The value that all of `text` is, blanks around it aside.
pub(super) fn whole(text: &[u8]) -> Option<MetricMention> {
    let text = text.trim_ascii();
    let (value, length) = value_at(text)?;
    (length == text.len()).then_some(value)
}

fn bare(text: &[u8]) -> Option<(MetricMention, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    for word in NOT_FINITE {
        let end = sign + word.len();
        if text.get(sign..end).is_some_and(|found| found.eq_ignore_ascii_case(word)) {
            let bounded = next_char(&text[end..]).is_none_or(|c| !c.is_alphanumeric() && c != '_');
            return bounded.then(|| (MetricMention::NotFinite(ascii(&text[..end])), end));
        }
    }
    let window = valid(text);
    if let Some((seconds, length)) = duration(window).filter(|(_, length)| ends(&text[*length..], false)) {
        return Some((MetricMention::Number(Number::of_duration(seconds, &window[..length])), length));
    }
    let Digits { end, is_grouped, is_decimal, has_exponent } = Digits::of(text, sign)?;
    if let Some(length) = windows_length(&text[end..]) {
        return Some((MetricMention::NotFinite(ascii(&text[..end + length])), end + length));
    }
    let suffix = Suffix::of(valid(&text[end..]));
    let unit = suffix.length;
    if matches!(&text[end..end + unit], b"e" | b"E" | b"st" | b"nd" | b"rd" | b"th") {
        return None;
    }
    // A decimal point without digits: `1.` is a number, `1.bin` is none.
    let point = usize::from(unit == 0 && !is_decimal && text.get(end) == Some(&b'.'));
    let mut after = end + unit + point;
    if unit == 0 && is_decimal {
        after += spread_length(&text[after..]);
    }
    // `2312 ms / 134 tokens` says what the time was taken for.
    let is_for = is_time_for(&text[end..after], &text[after..]);
    if let Some(operation) = operation_length(&text[after..], !is_decimal).filter(|_| !is_for) {
        return result(&text[after + operation..]).map(|(value, length)| (value, after + operation + length));
    }
    if !ends(&text[after..], is_decimal || has_exponent || point > 0) {
        return None;
    }
    let mut raw = ascii(&text[..end]);
    if is_grouped {
        raw.retain(|c| c != ',');
    }
    let value = match Number::with_suffix(&raw, &ascii(&text[..end + unit]), suffix) {
        Some(number) => MetricMention::Number(number),
        None => MetricMention::NotFinite(raw),
    };
    let (unit, length) = deviation(&text[after..]).filter(|_| unit == 0).unzip();
    Some((value.with_unit(unit), after + length.unwrap_or_default()))
}

/// The length of what follows the 1 where Windows prints a value that is not finite: `1.#INF`, `-1.#IND00`.
fn windows_length(rest: &[u8]) -> Option<usize> {
    let word = rest.strip_prefix(b".#").filter(|word| word.first().is_some_and(u8::is_ascii_uppercase))?;
    Some(".#".len() + word.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count())
}

/// The sign, digits, point and exponent of a number.
struct Digits {
    end: usize,
    is_grouped: bool,
    is_decimal: bool,
    has_exponent: bool,
}

impl Digits {
    /// Reads them behind a sign of this length.
    fn of(text: &[u8], sign: usize) -> Option<Digits> {
        let (mut end, is_grouped) = integer_part(text, sign);
        let integer_digits = end - sign;
        let mut is_decimal = false;
        if text.get(end) == Some(&b'.') {
            let digits = count_digits(&text[end + 1..]);
            if digits > 0 {
                end += 1 + digits;
                is_decimal = true;
            }
        }
        if integer_digits == 0 && !is_decimal {
            return None;
        }
        if !is_decimal && integer_digits <= 3 && is_spaced(&text[end..]) {
            return None;
        }
        let mut has_exponent = false;
        if matches!(text.get(end), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
            let digits = count_digits(text.get(end + 1 + signed..).unwrap_or_default());
            if digits > 0 {
                end += 1 + signed + digits;
                has_exponent = true;
            } else if signed > 0 {
                return None;
            }
        }
        Some(Digits { end, is_grouped, is_decimal, has_exponent })
    }
}

/// The unit behind a standard deviation, which is that of the mean as well: `± 0.3 ms`; with the length of all.
fn deviation(text: &[u8]) -> Option<(Unit, usize)> {
    let mut at = blanks(text);
    let sign = ["±", "+/-", "+-"].into_iter().find(|sign| text[at..].starts_with(sign.as_bytes()))?;
    at += sign.len() + blanks(&text[at + sign.len()..]);
    at += text[at..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let suffix = Suffix::of(valid(&text[at..]));
    Some((suffix.unit.filter(Unit::is_known)?, at + suffix.length))
}

/// Signs and words between the numbers of an expression.
const OPERATORS: &[&str] = &["/", "*", "×", "÷", "+", "-", "−", "of ", "out of "];

/// The length of the operators and operands behind a number, as in `45 / 50`; absent if there are none. A sum or difference
/// has blanks around its sign and an equals sign behind it. Only whole numbers are `5 of 10`.
fn operation_length(text: &[u8], is_whole: bool) -> Option<usize> {
    let (mut at, mut is_certain) = (0, false);
    loop {
        let before = blanks(&text[at..]);
        let Some(operator) = OPERATORS.iter().find(|sign| text[at + before..].starts_with(sign.as_bytes())) else {
            break;
        };
        let behind = at + before + operator.len();
        let after = blanks(&text[behind..]);
        let start = behind + after;
        let (integer, _) = integer_part(&text[start..], 0);
        let is_product = !["+", "-", "−"].contains(operator);
        let is_word = operator.ends_with(' ');
        if integer == 0 || (is_word && !is_whole) || !(is_product || (before > 0 && after > 0)) {
            break;
        }
        let point = start + integer;
        let fraction = if text.get(point) == Some(&b'.') { 1 + count_digits(&text[point + 1..]) } else { 0 };
        let end = point + if fraction > 1 { fraction } else { 0 };
        is_certain |= is_product;
        at = end + Suffix::of(valid(&text[end..])).length;
    }
    (at > 0 && (is_certain || equals_length(&text[at..]).is_some())).then_some(at)
}

/// Returns whether a time with this unit is followed by what it was taken for: ` /   134 tokens`, but no other time.
fn is_time_for(unit: &[u8], rest: &[u8]) -> bool {
    let divisor = rest.strip_prefix(b" /").map(|divisor| &divisor[blanks(divisor)..]).unwrap_or_default();
    let word = &divisor[count_digits(divisor)..];
    let word: String = valid(word.trim_ascii_start()).chars().take_while(|c| c.is_alphabetic()).collect();
    ["ns", "us", "µs", "ms", "s"].contains(&valid(unit).trim()) && word.len() > 2 && !Unit::new(&word).is_known()
}

/// The length of the sign between an expression and its result, with the blanks around it.
fn equals_length(text: &[u8]) -> Option<usize> {
    let before = blanks(text);
    let sign = ["=", "≈", "~="].into_iter().find(|sign| text[before..].starts_with(sign.as_bytes()))?;
    let behind = before + sign.len();
    Some(behind + blanks(&text[behind..]))
}

/// The result behind an expression, after an equals sign or in brackets, and the bytes up to its end.
fn result(text: &[u8]) -> Option<(MetricMention, usize)> {
    let bracket = || (text.get(blanks(text)) == Some(&b'(')).then(|| blanks(text) + 1);
    let at = equals_length(text).or_else(bracket)?;
    value_at(&text[at..]).map(|(value, length)| (value, at + length))
}

fn blanks(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The first bytes that are valid UTF-8, without line breaks.
fn valid(text: &[u8]) -> &str {
    let text = &text[..text.len().min(BEHIND)];
    let line = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
    valid_text(&text[..line])
}

/// Everything up to the first byte that is no UTF-8.
pub(super) fn valid_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes)
        .unwrap_or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default())
}

/// The length of a standard deviation that is glued to its mean, as in `0.818192+0.011359`.
fn spread_length(text: &[u8]) -> usize {
    let Some(b'+') = text.first() else { return 0 };
    let integer = count_digits(&text[1..]);
    let point = 1 + integer;
    let fraction = text.get(point + 1..).map_or(0, count_digits);
    let is_decimal = integer > 0 && text.get(point) == Some(&b'.') && fraction > 0;
    if is_decimal { point + 1 + fraction } else { 0 }
}

/// Returns whether a number may end before `rest`; `decimal` means that a comma cannot be its decimal point.
fn ends(rest: &[u8], decimal: bool) -> bool {
    let Some(first) = next_char(rest) else { return true };
    let second = next_char(&rest[first.len_utf8()..]);
    let digit = second.is_some_and(|c| c.is_ascii_digit());
    match first {
        ',' => decimal || !digit,
        ':' | '+' | '^' | '*' | '.' => !digit,
        '-' | '/' => !second.is_some_and(char::is_alphanumeric),
        '_' => false,
        '\'' | '’' => !digit,
        _ => !first.is_alphanumeric(),
    }
}

/// The end of the digits in front of a decimal point, and whether commas group them in thousands.
fn integer_part(text: &[u8], start: usize) -> (usize, bool) {
    let mut end = start + count_digits(&text[start..]);
    let mut grouped = false;
    if (1..=3).contains(&(end - start)) {
        while text.get(end) == Some(&b',') && count_digits(&text[end + 1..]) == 3 {
            end += 4;
            grouped = true;
        }
    }
    (end, grouped)
}

/// Returns whether one blank and three digits follow, as where blanks group the digits in thousands.
fn is_spaced(rest: &[u8]) -> bool {
    let Some(blank @ (' ' | '\u{a0}' | '\u{2009}' | '\u{202f}')) = next_char(rest) else { return false };
    let group = &rest[blank.len_utf8()..];
    // `5 100/200` and `5 100%` tell of progress.
    count_digits(group) == 3 && !matches!(group.get(3), Some(b'/' | b'%' | b':' | b'-'))
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The first character; NUL, which is one byte long, for a byte that is no UTF-8.
pub(super) fn next_char(text: &[u8]) -> Option<char> {
    let first = *text.first()?;
    if first.is_ascii() {
        return Some(char::from(first));
    }
    valid_text(&text[..text.len().min(4)]).chars().next().or(Some('\u{0}'))
}

fn ascii(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Option<String> {
        match value_at(text.as_bytes())?.0 {
            MetricMention::Number(number) => Some(number.raw),
            MetricMention::NotFinite(raw) => Some(format!("not finite: {raw}")),
        }
    }

    #[test]
    fn numbers_end_where_a_reader_would_say() {
        for (text, expected) in [
            ("1.834200", "1.834200"),
            ("-3.2%", "-3.2"),
            ("12.5ms", "12.5"),
            ("1.65s/it]", "1.65"),
            ("4.5µs", "4.5"),
            ("+0.15 ", "+0.15"),
            (".5,", ".5"),
            ("1.,", "1"),
            ("1.83.", "1.83"),
            ("2.39e+08", "2.39e+08"),
            ("38,621 |", "38621"),
            ("1,234,567.5", "1234567.5"),
            ("1.83,14.3", "1.83"),
            ("'1.25'", "1.25"),
            ("np.float64(0.5)", "0.5"),
            ("tensor(0.3500, device='cuda:0')", "0.3500"),
            ("1.2±0.1", "1.2"),
            ("12.5\u{ff0c}", "12.5"),
            ("0e-999", "0e-999"),
            ("1  500", "1"),
            ("1 50", "1"),
            ("0.818192+0.011359", "0.818192"),
            ("-0.75+0.02\t", "-0.75"),
            ("1 5000", "1"),
            ("1.5 500", "1.5"),
            ("5 100/200", "5"),
            ("1234 500", "1234"),
            ("2,056", "2056"),
            ("5 at 11th", "5"),
            ("0.93#3", "0.93"),
            ("1.# done", "1"),
        ] {
            assert_eq!(raw(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["nan", "NaN,", "-inf", "Infinity}", "1e999", "1e-999", "-0.5e-400,", "1.#INF", "-1.#IND00,", "1.#J"]
        {
            assert!(raw(text).is_some_and(|raw| raw.starts_with("not finite")), "{text}");
        }
    }

    #[test]
    fn amounts_of_money_are_read_where_nothing_but_punctuation_follows() {
        for (text, expected) in [
            ("$12.50 |", Some(("12.50", 6))),
            ("-$3.5", Some(("-3.5", 5))),
            ("$9", None),
            ("$2, acc", None),
            ("−1.5", None),
            ("€1,234.50.", Some(("1234.50", 11))),
            ("$1.5M", Some(("1500000", 5))),
            ("−0.03 vs baseline", None),
            ("−0.03 (−6%)", None),
            ("−3%", None),
            ("− 3", None),
            ("−-5", None),
            ("$3.5 per call", None),
            ("$5/$10", None),
            ("$4-6", None),
            ("$COST", None),
            ("${COST}", None),
            ("$nan", None),
            ("1.5x", None),
        ] {
            let found = amount_at(text.as_bytes());
            let found = found.and_then(|(value, length)| Some((value.number()?.raw, length)));
            assert_eq!(found.as_ref().map(|(raw, length)| (&**raw, *length)), expected, "{text}");
        }
    }

    fn read(text: &str) -> Option<(f64, Option<String>, usize)> {
        match value_at(text.as_bytes())? {
            (MetricMention::Number(number), length) => {
                Some((number.value, number.unit.map(|unit| unit.to_string()), length))
            }
            (MetricMention::NotFinite(_), _) => None,
        }
    }

    #[test]
    fn a_number_has_the_unit_behind_it_and_its_scale_is_multiplied_out() {
        for (text, value, unit, length) in [
            ("12.5ms", 12.5, Some("ms"), 6),
            ("980 ms", 980.0, Some("ms"), 6),
            ("90.2%", 90.2, Some("%"), 5),
            ("1.65s/it]", 1.65, Some("s/it"), 8),
            ("99321 ns/op\t 120 B/op", 99321.0, Some("ns/op"), 11),
            ("4.8/s", 4.8, Some("/s"), 5),
            ("12.22k", 12220.0, None, 6),
            ("1.21M tok/s", 1_210_000.0, Some("tok/s"), 11),
            ("124 M params", 124e6, None, 5),
            ("2 B", 2e9, None, 3),
            ("1m7.5s", 67.5, Some("s"), 6),
            ("1h 2m", 3720.0, Some("s"), 5),
            ("00:01:05", 65.0, Some("s"), 8),
            ("1.2 (best 1.1)", 1.2, None, 3),
            ("0.5 s: 3", 0.5, None, 3),
            ("5 min 3 max 9", 5.0, None, 1),
            ("1,234.5 ms", 1234.5, Some("ms"), 10),
            ("3.2\u{a0}µs", 3.2, Some("µs"), 8),
            ("0.818192+0.011359", 0.818192, None, 17),
            ("12.5 ± 0.3 ms", 12.5, Some("ms"), 14),
            ("12.5±.3ms", 12.5, Some("ms"), 10),
            ("12.5 +/- 1.3 MB/s", 12.5, Some("MB/s"), 17),
            ("12.5 s ± 300 ms", 12.5, Some("s"), 6),
            ("12.5 ± 0.3", 12.5, None, 4),
            ("12.5 ± 1e-3 ms", 12.5, None, 4),
            ("12.5 ± 0.3 min 3 max 9", 12.5, None, 4),
        ] {
            assert_eq!(read(text), Some((value, unit.map(str::to_owned), length)), "{text}");
        }
    }

    #[test]
    fn of_an_expression_the_result_counts() {
        for (text, expected) in [
            ("1,000,000,000 / 2718 ≈ 367,917", Some(367_917.0)),
            ("1,000,000,000 / 2718 = 367,917 qps", Some(367_917.0)),
            ("45 / 50 (90.0%)", Some(90.0)),
            ("45/50 (90.0%), done", Some(90.0)),
            ("45/50 = 0.9", Some(0.9)),
            ("0.5 + 0.25 = 0.75", Some(0.75)),
            ("3 s * 2 = 6 s", Some(6.0)),
            ("1000/2.5 ~= 400", Some(400.0)),
            ("5 of 10 (50%)", Some(50.0)),
            ("5 out of 10", None),
            ("12 / 80 GB", None),
            ("5 offers", Some(5.0)),
            ("0.35 of 5 runs", Some(0.35)),
            ("45/50", None),
            ("45 / 50 done", None),
            ("0.5 - 0.3", Some(0.5)),
            ("1.2 (best 1.1 = 3)", Some(1.2)),
        ] {
            assert_eq!(read(text).map(|(value, ..)| value), expected, "{text}");
        }
    }

    #[test]
    fn what_only_begins_like_a_number_is_none() {
        for text in [
            "1/20",
            "45 / 50",
            "45/50 it/s",
            "11th",
            "2nd",
            "1st place",
            "v3",
            "1.2.3",
            "2026-01-01",
            "12:30:00",
            "0x1F",
            "1_000",
            "1 500",
            "1 234 567",
            "-1\u{a0}500.5",
            "1\u{202f}500 ms",
            "1'000",
            "1’000.5",
            "1.2e-",
            "1.2e",
            "1,5",
            "enabled",
            "",
            "-",
            "nano",
            "info",
            "1.bin",
            "--5",
            "3-fold",
            "0.5+1",
            "1+0.5",
            "0.5+0.1+0.2",
            "0.5+0.1x",
        ] {
            assert_eq!(raw(text), None, "{text}");
        }
    }
}
