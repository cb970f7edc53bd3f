//! Recognises numbers in a log and finds where they end.

use crate::domain::Number;

/// A number in a log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A finite number.
    Finite(Number),
    /// `nan`, `inf` or a number too large or too small for a double, as it was written.
    NotFinite(String),
}

/// Prefixes that tensors, NumPy scalars and decimals print before their number.
const WRAPPERS: &[&[u8]] =
    &[b"tensor(", b"np.float64(", b"np.float32(", b"np.float16(", b"numpy.float64(", b"Array(", b"Decimal("];

const NOT_FINITE: &[&[u8]] = &[b"infinity", b"inf", b"nan"];

/// Longest unit on each side of its `/`, in characters.
const LONGEST_UNIT: usize = 16;

/// The value at the start of `text`, in quotes or a wrapper if it likes, and how many bytes it takes with its unit.
///
/// A glued unit or `%` is not part of the number. `1m7.5s`, `1/20`, `1.2.3`, `1 500`, `1'000`, dates and times are no
/// numbers: taking their first digits would invent one.
pub(super) fn value_at(text: &[u8]) -> Option<(Value, usize)> {
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

/// The value that all of `text` is, blanks around it aside.
pub(super) fn whole(text: &[u8]) -> Option<Value> {
    let text = text.trim_ascii();
    let (value, length) = value_at(text)?;
    (length == text.len()).then_some(value)
}

fn bare(text: &[u8]) -> Option<(Value, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    for word in NOT_FINITE {
        let end = sign + word.len();
        if text.get(sign..end).is_some_and(|found| found.eq_ignore_ascii_case(word)) {
            let bounded = next_char(&text[end..]).is_none_or(|c| !c.is_alphanumeric() && c != '_');
            return bounded.then(|| (Value::NotFinite(ascii(&text[..end])), end));
        }
    }
    let (mut end, grouped) = integer_part(text, sign);
    let integer_digits = end - sign;
    let mut fraction = false;
    if text.get(end) == Some(&b'.') {
        let digits = count_digits(&text[end + 1..]);
        if digits > 0 {
            end += 1 + digits;
            fraction = true;
        }
    }
    if integer_digits == 0 && !fraction {
        return None;
    }
    if !fraction && integer_digits <= 3 && is_grouped(&text[end..]) {
        return None;
    }
    let mut exponent = false;
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let digits = count_digits(text.get(end + 1 + signed..).unwrap_or_default());
        if digits > 0 {
            end += 1 + signed + digits;
            exponent = true;
        } else if signed > 0 {
            return None;
        }
    }
    let unit = unit_length(&text[end..]);
    if matches!(&text[end..end + unit], b"e" | b"E") {
        return None;
    }
    // A decimal point without digits: `1.` is a number, `1.bin` is none.
    let point = usize::from(unit == 0 && !fraction && text.get(end) == Some(&b'.'));
    let mut after = end + unit + point;
    if unit == 0 && fraction {
        after += spread_length(&text[after..]);
    }
    if !ends(&text[after..], fraction || exponent || point > 0) {
        return None;
    }
    let mut raw = ascii(&text[..end]);
    if grouped {
        raw.retain(|c| c != ',');
    }
    let value = match raw.parse::<Number>() {
        Ok(number) => Value::Finite(number),
        Err(_) => Value::NotFinite(raw),
    };
    Some((value, after))
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
fn is_grouped(rest: &[u8]) -> bool {
    let Some(blank @ (' ' | '\u{a0}' | '\u{2009}' | '\u{202f}')) = next_char(rest) else { return false };
    let group = &rest[blank.len_utf8()..];
    // `5 100/200` and `5 100%` tell of progress.
    count_digits(group) == 3 && !matches!(group.get(3), Some(b'/' | b'%' | b':' | b'-'))
}

/// The length of a unit such as `ms`, `%`, `µs` or `it/s`, in bytes.
fn unit_length(text: &[u8]) -> usize {
    let letters = |text: &[u8]| {
        let mut length = 0;
        for _ in 0..LONGEST_UNIT {
            match next_char(&text[length..]) {
                Some(c) if c.is_alphabetic() || c == '%' || c == '°' => length += c.len_utf8(),
                _ => break,
            }
        }
        length
    };
    let first = letters(text);
    if first > 0 && text.get(first) == Some(&b'/') {
        let second = letters(&text[first + 1..]);
        if second > 0 {
            return first + 1 + second;
        }
    }
    first
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
    let window = &text[..text.len().min(4)];
    match std::str::from_utf8(window) {
        Ok(valid) => valid.chars().next(),
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&window[..error.valid_up_to()]).ok().and_then(|valid| valid.chars().next())
        }
        Err(_) => Some('\u{0}'),
    }
}

fn ascii(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Option<String> {
        match value_at(text.as_bytes())?.0 {
            Value::Finite(number) => Some(number.raw),
            Value::NotFinite(raw) => Some(format!("not finite: {raw}")),
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
        ] {
            assert_eq!(raw(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["nan", "NaN,", "-inf", "Infinity}", "1e999", "1e-999", "-0.5e-400,"] {
            assert!(raw(text).is_some_and(|raw| raw.starts_with("not finite")), "{text}");
        }
    }

    #[test]
    fn what_only_begins_like_a_number_is_none() {
        for text in [
            "1m7.5s",
            "1/20",
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
