//! Reads any bytes as a log, in one piece and in many. The first two bytes say what is looked for and how the log is cut.

#![no_main]

use autoresearch::domain::{Direction, MetricSource, MetricSpec, Number};
use autoresearch::measure::{RunEnd, MetricMention, LogSummary, Scanner, judge};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many bytes a scanner may take, whatever the log: what its documentation says.
const MOST: usize = 6 << 20;

/// How long a log is made by repeating it, in bytes, to look at the memory that it takes: every buffer is full by then.
const LONG: usize = 6 << 20;

/// How much of that is read at once, in bytes.
const PIECE: usize = 64 * 1024;

fn scan<'a>(spec: &MetricSpec, pieces: impl Iterator<Item = &'a [u8]>) -> LogSummary {
    let mut scanner = Scanner::new(spec).expect("a name or pattern that can be looked for");
    pieces.for_each(|piece| scanner.push(piece));
    scanner.finish()
}

/// Whether the digits of a number stand in the log one behind the other, and side by side where nothing in it is dropped.
fn stands_in(number: &Number, log: &[u8], plain: &[u8]) -> bool {
    let raw = number.raw.as_bytes();
    let mut rest = log.iter();
    let in_order = raw.iter().all(|digit| rest.any(|byte| byte == digit));
    let is_changed = log.contains(&0x1b) || matches!(log, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    in_order && (is_changed || plain.windows(raw.len()).any(|window| window == raw))
}

fuzz_target!(|data: &[u8]| {
    let [choice, cut, log @ ..] = data else { return };
    let source = match choice & 3 {
        0 | 1 => MetricSource::Log,
        2 => MetricSource::Regex("(?:bpb|gb).{0,3}?([0-9.]+)".to_owned()),
        _ => MetricSource::Regex("^loss (\\S+)".to_owned()),
    };
    let name = if choice & 1 == 0 { "val_bpb" } else { "loss" };
    let spec = MetricSpec { name: name.to_owned(), direction: Direction::Lower, source };

    let whole = scan(&spec, std::iter::once(log));
    let size = usize::from(*cut) + 1;
    assert_eq!(whole, scan(&spec, log.chunks(size)), "what is read depends on how the log is cut");

    let plain: Vec<u8> = log.iter().copied().filter(|byte| *byte != b',').collect();
    if let Some(MetricMention::Number(number)) = &whole.found {
        assert!(number.value.is_finite() && number.raw.parse() == Ok(number.value), "another number than its text");
        assert!(stands_in(number, log, &plain), "a number that nobody wrote: {number}");
    }
    for (name, number) in &whole.metrics {
        assert!(
            number.value.is_finite() && stands_in(number, log, &plain),
            "a number that nobody wrote: {name} {number}"
        );
    }
    assert!(whole.metrics.len() <= 257 && whole.tail.len() <= 64 * 1024, "a summary that grows with the log");
    assert!(whole.memory_gb.is_none_or(|memory| memory.is_finite() && memory >= 0.0), "memory that is none");
    for status in [0, 1, 137, 255] {
        judge(&whole, &RunEnd::from_status(status));
    }

    if choice & 0xf0 == 0xf0 && !log.is_empty() {
        let piece = log.repeat(PIECE.div_ceil(log.len()));
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let mut scanner = Scanner::new(&spec).expect("a name or pattern that can be looked for");
        (0..LONG / PIECE).for_each(|_| scanner.push(&piece));
        let taken = MEMORY.peak_usage().saturating_sub(before);
        assert!(taken <= MOST, "{taken} bytes of memory");
    }
});
