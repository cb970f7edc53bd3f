//! What `ar verify` and `ar ablate` tell of their runs.

use autoresearch::domain::{count_of, span_text};
use autoresearch::session::FreshNews;

use super::output;

/// Tells on the standard error stream what becomes of fresh runs.
pub(super) fn announce(news: &FreshNews<'_>) {
    match news {
        FreshNews::Planned { runs: 0, .. } => output::note("all runs were made before"),
        FreshNews::Planned { runs, more, slots, seconds } => {
            let count = |runs: u64| count_of(u32::try_from(runs).unwrap_or(u32::MAX), "run");
            let span = |runs: u64| span_text(runs.div_ceil((*slots).into()) as f64 * seconds);
            let beside = if *slots > 1 { format!(", {slots} at a time") } else { String::new() };
            let more = match more {
                0 => String::new(),
                more => format!("; then at most {more} more, about {}, to drop what carries nothing", span(*more)),
            };
            output::note(&format!("{}{beside}, about {}{more}", count(*runs), span(*runs)));
        }
        FreshNews::Repeated { what, seed, why } => {
            output::note(&format!("repeating the run of {what} with seed {seed}: {why}"));
        }
        FreshNews::Ended { what, seed, value: Ok(value) } => output::note(&format!("{what} with seed {seed}: {value}")),
        FreshNews::Ended { what, seed, value: Err(why) } => {
            output::note(&format!("{what} with seed {seed}: no number: {why}"));
        }
    }
}
