//! Reads a finished log from its end, as far back as anything can matter.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memchr2;

use crate::domain::{Composite, MetricSpec};
use crate::measure::{LogSummary, Scanner, has_mark};
use crate::session::errors::SessionError;
use crate::state::{is_compressed, plain_log};

/// Bytes of a log to read at once.
const CHUNK: usize = 256 * 1024;

/// Number of bytes searched for a line break at the start of a part.
const LINE: u64 = 64 * 1024;

/// The sizes of the parts that a log is read in, in bytes.
struct Parts {
    /// The last one: most runs print their result there.
    last: u64,
    /// Those before it.
    others: u64,
}

const PARTS: Parts = Parts { last: 1 << 20, others: 16 << 20 };

/// Summarises the log at `path` by its metric, or by the axes of a composite, compressed or not; `-` is standard input. If a
/// log is still growing, this is its summary so far.
///
/// # Errors
///
/// The log cannot be read, or the metric cannot be looked for.
pub fn read_log(path: &Path, metric: &MetricSpec, axes: Option<&Composite>) -> Result<LogSummary, SessionError> {
    let fresh = Scanner::new(metric)?.with_axes(axes);
    let read = || {
        if path == Path::new("-") {
            return forward(plain_log(io::stdin().lock())?, fresh);
        }
        let file = File::open(path)?;
        if is_text_file(&file)? { from_the_end(&file, &fresh, &PARTS) } else { forward(plain_log(file)?, fresh) }
    };
    let scanner = read().map_err(|source| SessionError::Io { action: "read", path: path.to_owned(), source })?;
    Ok(scanner.finish())
}

/// Returns whether a file can be read from any line on: a regular file, not compressed, without a byte order mark.
fn is_text_file(file: &File) -> io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut head = [0; 4];
    let length = file.read_at(&mut head, 0)?;
    Ok(!is_compressed(&head[..length]) && !has_mark(&head[..length]))
}

fn forward(mut log: impl Read, mut scanner: Scanner) -> io::Result<Scanner> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match log.read(&mut buffer)? {
            0 => return Ok(scanner),
            count => scanner.push(&buffer[..count]),
        }
    }
}

/// Reads a file part by part, the last one first, until nothing before them would change the summary.
fn from_the_end(file: &File, fresh: &Scanner, parts: &Parts) -> io::Result<Scanner> {
    let mut buffer = vec![0; CHUNK];
    let end = file.metadata()?.len();
    let mut start = part_start(file, end, parts.last)?;
    let mut known = fresh.for_part();
    read_part(file, start..end, &mut buffer, &mut known)?;
    while start > 0 && !known.is_settled() {
        let end = start;
        start = part_start(file, end, parts.others)?;
        let mut earlier = known.for_earlier();
        read_part(file, start..end, &mut buffer, &mut earlier)?;
        known.put_before(earlier);
    }
    Ok(known)
}

fn read_part(file: &File, part: Range<u64>, buffer: &mut [u8], scanner: &mut Scanner) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let wanted = usize::try_from(part.end - at).map_or(CHUNK, |left| left.min(CHUNK));
        match file.read_at(&mut buffer[..wanted], at)? {
            // The log was truncated meanwhile.
            0 => break,
            count => {
                scanner.push(&buffer[..count]);
                at += count as u64;
            }
        }
    }
    Ok(())
}

/// The start of the part that ends at `end`: behind a line break about `length` bytes before, or further back if there is none.
fn part_start(file: &File, end: u64, length: u64) -> io::Result<u64> {
    let mut at = end.saturating_sub(length);
    let mut buffer = Vec::new();
    while at > 0 {
        // The break in front of `end` starts no part.
        buffer.resize(LINE.min(end - at - 1) as usize, 0);
        let count = file.read_at(&mut buffer, at)?;
        if let Some(brk) = memchr2(b'\n', b'\r', &buffer[..count]) {
            return Ok(at + brk as u64 + 1);
        }
        at = at.saturating_sub(length);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::{Axis, Direction, MetricSource};

    fn metric(source: MetricSource) -> MetricSpec {
        MetricSpec { name: "val_bpb".to_owned(), direction: Direction::Lower, source }
    }

    fn file_with(log: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(log).unwrap();
        file
    }

    /// Bytes that look like logs, with line breaks, names, and escapes that no line break may hide in.
    fn log_bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"val_bpb: 1.5".to_vec()),
            Just(b"val_bpb".to_vec()),
            proptest::sample::select(vec![
                "\nMean val_bpb: 1\n",
                "\nfold 1 val_bpb: 2\n",
                "\nfold 2 val_bpb: 3\n",
                "\n[rank1] val_bpb: 4\n",
                "\n[rank2] val_bpb: nan\n",
                "\n(pid=7) val_bpb: 5\n",
                "\n(pid=8) val_bpb: 6\n",
                "\nval_bpb 1 2\n",
            ])
            .prop_map(|text| text.as_bytes().to_vec()),
            Just(b"memory_gb=3".to_vec()),
            Just(b"peak_vram_mb: 2048".to_vec()),
            Just(b"nan".to_vec()),
            Just(b": ".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\x1b[1m".to_vec()),
            Just(b"\x1b[2A".to_vec()),
            Just(b"\x1b[".to_vec()),
            Just(b"\x1b]0;t".to_vec()),
            Just(b"\x1b".to_vec()),
            Just("±µ最".as_bytes().to_vec()),
            Just(vec![b' '; 300]),
            Just(b"step 7 loss: 2.5\n".repeat(4100)),
            "[0-9]{1,3}(\\.[0-9]{1,3})?".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn from_the_end_a_log_says_the_same(log in log_bytes(), last in 1..1000u64, others in 1..100_000u64) {
            let file = file_with(&log);
            prop_assume!(is_text_file(&file).unwrap());
            // Thousands of parts would only take time.
            let parts = Parts { last, others: others.max(log.len() as u64 / 100) };
            for source in [MetricSource::Log, MetricSource::Regex("(?:bpb|gb).{0,3}?([0-9.]+)".to_owned())] {
                let axis = Axis { weight: 1.0, floor: None, range: None };
                let axes = ["gb", "memory_gb", "loss"].map(|name| (name.to_owned(), axis)).into();
                let composite = Composite { axes, ..Composite::default() };
                let fresh = Scanner::new(&metric(source)).unwrap().with_axes(Some(&composite));
                let same = fresh.for_part();
                let whole = forward(&log[..], same).unwrap().finish();
                prop_assert_eq!(from_the_end(&file, &fresh, &parts).unwrap().finish(), whole);
            }
        }
    }

    #[test]
    fn what_stands_before_the_end_is_read_where_it_matters() {
        let filler = b"\rstep 7 loss: 2.5".repeat(70_000);
        let summary = b"\nval_bpb: 1.25\npeak_vram_mb: 2048\n".to_vec();
        let fresh = Scanner::new(&metric(MetricSource::Log)).unwrap();
        for log in [[&summary[..], &filler].concat(), [&filler[..], &summary, &filler].concat()] {
            let read = from_the_end(&file_with(&log), &fresh, &PARTS).unwrap().finish();
            assert_eq!(read, forward(&log[..], fresh.for_part()).unwrap().finish());
            assert_eq!(read.memory_gb, Some(2.0));
        }
        // Nothing before that is read: it would take minutes.
        let file = file_with(b"val_bpb: 7\n");
        file.set_len(1 << 40).unwrap();
        file.write_all_at(&[&filler[..], &summary].concat(), 1 << 40).unwrap();
        let read = from_the_end(&file, &fresh, &PARTS).unwrap().finish();
        assert_eq!((read.memory_gb, read.tail.lines().last()), (Some(2.0), Some("peak_vram_mb: 2048")));
    }
}
