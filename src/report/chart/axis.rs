//! Positions and labels of the ticks of an axis.

use super::series::Limits;

/// A tick of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Its value on the axis.
    pub(super) value: f64,
    /// Its label, with enough digits to tell it from its neighbours.
    pub(super) label: String,
}

/// From this on a number is written with an exponent.
const LARGE: f64 = 1e7;

/// The most decimals of a number that is written without an exponent.
const MOST_DECIMALS: i32 = 7;

/// At most `most` ticks between the limits, at multiples of 1, 2 or 5 times a power of ten; at the limits themselves
/// where there are not two such numbers between them.
pub(super) fn ticks(limits: Limits, most: usize) -> Vec<Tick> {
    let most = most.max(2);
    let (step, exponent) = step_of((limits.high - limits.low) / most as f64);
    let decimals = usize::try_from(-exponent).unwrap_or(0);
    let largest = limits.low.abs().max(limits.high.abs());
    let digits = (largest.log10().floor() - f64::from(exponent)).clamp(0.0, 16.0) as usize;
    let is_plain = largest < LARGE && exponent >= -MOST_DECIMALS;
    let first = (limits.low / step).ceil();
    let mut ticks: Vec<Tick> = (0..most)
        // Adding zero turns -0 into 0.
        .map(|index| (first + index as f64) * step + 0.0)
        .filter(|value| limits.beyond(*value).is_none())
        .map(|value| Tick {
            value,
            label: if is_plain || value == 0.0 { format!("{value:.decimals$}") } else { format!("{value:.digits$e}") },
        })
        .collect();
    ticks.dedup_by(|a, b| a.label == b.label);
    if ticks.len() < 2 {
        // Two digits of what is between the limits.
        let decimals = (1.0 - (limits.high - limits.low).log10().floor()).clamp(0.0, 16.0) as usize;
        let at =
            |label: &dyn Fn(f64) -> String| [limits.low, limits.high].map(|value| Tick { value, label: label(value) });
        ticks = at(&|value| if is_plain { format!("{value:.decimals$}") } else { format!("{value:e}") }).into();
        if ticks[0].label == ticks[1].label {
            ticks = at(&|value| format!("{value:e}")).into();
        }
    }
    ticks
}

/// At most `most` ticks at whole numbers from `first` to `last`.
pub(super) fn whole_ticks(first: u32, last: u32, most: usize) -> Vec<Tick> {
    let (step, _) = step_of((f64::from(last - first) / most.max(2) as f64).max(1.0));
    let step = step as u32;
    (first.div_ceil(step)..=last / step)
        .take(most)
        .map(|index| index * step)
        .map(|number| Tick { value: f64::from(number), label: number.to_string() })
        .collect()
}

/// The smallest 1, 2 or 5 times a power of ten that is no less than `least`, and the exponent of that power.
/// Below the smallest number that an `f64` holds the step is 0.
fn step_of(least: f64) -> (f64, i32) {
    let exponent = least.log10().floor();
    let power = 10f64.powf(exponent);
    let (factor, exponent) = match least / power {
        // A rounding error of the division must not lead to the next step.
        share if share <= 1.0 + 1e-9 => (1.0, exponent),
        share if share <= 2.0 + 1e-9 => (2.0, exponent),
        share if share <= 5.0 + 1e-9 => (5.0, exponent),
        _ => (1.0, exponent + 1.0),
    };
    (factor * 10f64.powf(exponent), exponent.max(-400.0) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, most: usize) -> Vec<String> {
        ticks(Limits { low, high }, most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn labels_have_the_digits_that_tell_neighbours_apart() {
        assert_eq!(labels(0.9969, 0.9983, 4), ["0.9970", "0.9975", "0.9980"]);
        assert_eq!(labels(-1.0, 1.0, 5), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(17.0, 240.0, 5), ["50", "100", "150", "200"]);
        assert_eq!(labels(1.2e-9, 3.1e-9, 4), ["1.5e-9", "2.0e-9", "2.5e-9", "3.0e-9"]);
        assert_eq!(labels(0.9057, 1.0123, 2), ["0.91", "1.01"]);
        assert_eq!(labels(1e10, 1.00004e10, 4), ["1.00000e10", "1.00001e10", "1.00002e10", "1.00003e10"]);
    }

    #[test]
    fn there_are_labels_however_close_or_far_the_limits_are() {
        let cases = [(1.0, 1.0 + f64::EPSILON), (-1e306, 1e306), (0.0, 5e-324), (1e17, 1.000_000_000_000_000_1e17)];
        for (low, high) in cases {
            let found = labels(low, high, 6);
            assert!((2..=6).contains(&found.len()), "{low} {high}: {found:?}");
            assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{low} {high}: {found:?}");
        }
    }

    #[test]
    fn numbers_of_experiments_are_whole() {
        let labels =
            |first, last| -> Vec<_> { whole_ticks(first, last, 5).into_iter().map(|tick| tick.label).collect() };
        assert_eq!(labels(0, 3), ["0", "1", "2", "3"]);
        assert_eq!(labels(0, 300), ["0", "100", "200", "300"]);
        assert_eq!(labels(7, 7), ["7"]);
        assert_eq!(labels(0, 10_000), ["0", "2000", "4000", "6000", "8000"]);
    }
}
