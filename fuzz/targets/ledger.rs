//! Reads any bytes as a ledger. The first byte says what is said of it from outside.

#![no_main]

use autoresearch::domain::{Direction, one_line};
use autoresearch::ledger::{RowStatus, ReadOptions, examine, read};
use autoresearch::report::Report;
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many bytes reading may take for each byte of a ledger: the shortest rows are of two bytes.
const PER_BYTE: usize = 1024;

/// How many bytes reading may take for an empty ledger.
const AT_LEAST: usize = 64 * 1024;

/// The text that the reader sees.
fn text_of(bytes: &[u8]) -> String {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return String::from_utf8_lossy(bytes).into_owned(),
    };
    let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

/// Whether a number's text stands in the ledger, its thousands grouped or not. What a JSON escape stands for is not looked up.
fn stands_in(raw: &str, text: &str, plain: &str) -> bool {
    text.contains(raw) || plain.contains(raw) || text.contains("\\u")
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let said = ReadOptions {
        metric: [None, Some("val_bpb"), Some("loss"), Some("2")][usize::from(choice & 3)],
        direction: [None, Some(Direction::Lower), Some(Direction::Higher), None][usize::from(choice >> 2 & 3)],
        segment: [None, None, Some(1), Some(2)][usize::from(choice >> 4 & 3)],
    };
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let ledger = read(bytes, &said);
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken <= AT_LEAST + PER_BYTE * bytes.len(), "{taken} bytes of memory for {}", bytes.len());

    let text = text_of(bytes);
    let plain = text.replace(',', "");
    let lines = text.split(['\n', '\r']).count();
    assert!(ledger.rows.len() <= lines, "more rows than lines");
    for pair in ledger.rows.windows(2) {
        assert!(pair[0].line < pair[1].line, "rows out of order");
    }
    let mut length = 0;
    for row in &ledger.rows {
        assert!(row.line >= 1 && row.line <= lines as u64, "a line that is not there");
        assert!(row.status != RowStatus::Malformed || row.problem.is_some(), "malformed without a reason");
        length += row.description.len() + row.commit.as_ref().map_or(0, String::len);
        if let Some(number) = &row.value {
            assert!(number.value.is_finite(), "no finite number");
            assert_eq!(number.raw.parse(), Ok(number.value), "another number than its text");
            assert!(stands_in(&number.raw, &text, &plain), "a number that nobody wrote: {}", number.raw);
        }
        assert!(row.memory_gb.is_none_or(|memory| memory.is_finite() && memory > 0.0), "memory that is none");
    }
    assert!(length <= text.len() + 4 * ledger.rows.len(), "more text than there was");

    let report = Report::of_ledger(&ledger);
    let counts = report.counts();
    assert_eq!(counts.total, counts.keep + counts.discard + counts.crash + counts.other + counts.malformed);
    assert_eq!(counts.total as usize, ledger.rows.len());
    for point in [report.best(), report.baseline()].into_iter().flatten() {
        assert!(point.value.as_ref().is_none_or(|number| stands_in(&number.raw, &text, &plain)));
    }
    for finding in examine(&ledger) {
        assert!(!one_line(&finding.what).is_empty());
    }
});
