//! Student's t distribution.

/// Freedom beyond which the distribution is taken as this one's: it is then normal to within 0.00001.
const LARGEST_FREEDOM: f64 = 100_000.0;

/// The probability that a t-distributed value with `freedom` degrees of freedom (more than 0, also not whole) is below
/// `t`. With infinite freedom it is that of the normal distribution. Off by less than 0.00001.
///
/// By the incomplete beta function: Abramowitz and Stegun, 26.7.1 and 26.5.27.
pub(super) fn probability_below(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.min(LARGEST_FREEDOM);
    let beyond = incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    if t < 0.0 { beyond } else { 1.0 - beyond }
}

/// The value that a t-distributed one is below with `probability`, which is between 0 and 1. Off by less than 1e-9 of it.
pub(super) fn quantile(probability: f64, freedom: f64) -> f64 {
    if probability < 0.5 {
        return -quantile(1.0 - probability, freedom);
    }
    let mut high = 1.0;
    while probability_below(high, freedom) < probability && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each step halves the interval.
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if probability_below(middle, freedom) < probability { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction: NIST Digital Library of Mathematical Functions,
/// 8.17.22, which converges quickly below the mean; beyond it, by 8.17.4.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    front / fraction(x, a, b)
}

/// The continued fraction of the incomplete beta function, by the modified method of Lentz. Its terms are never 0 where it
/// is called.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let (mut value, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 1..1000 {
        let m = f64::from(step / 2);
        let term = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / (1.0 + term * d);
        c = 1.0 + term / c;
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function for positive numbers, by Stirling's series from 10 on: NIST Digital Library of
/// Mathematical Functions, 5.11.1. Off by less than 1e-12 there.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        // Two-sided 95% and one-sided 95% and 99.5%, as every textbook prints them.
        for (freedom, table) in [
            (1.0, [12.706, 6.314, 63.657]),
            (2.0, [4.303, 2.920, 9.925]),
            (3.0, [3.182, 2.353, 5.841]),
            (5.0, [2.571, 2.015, 4.032]),
            (10.0, [2.228, 1.812, 3.169]),
            (30.0, [2.042, 1.697, 2.750]),
            (120.0, [1.980, 1.658, 2.617]),
            (f64::INFINITY, [1.960, 1.645, 2.576]),
        ] {
            for (probability, expected) in [0.975, 0.95, 0.995].into_iter().zip(table) {
                let found = quantile(probability, freedom);
                assert!((found - expected).abs() < 0.0006, "{freedom} {probability}: {found}, not {expected}");
                assert!((quantile(1.0 - probability, freedom) + found).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn few_degrees_of_freedom_have_closed_forms() {
        for t in [-40.0, -3.0, -0.7, 0.0, 0.2, 1.0, 6.0_f64] {
            let cauchy = 0.5 + t.atan() / std::f64::consts::PI;
            assert!((probability_below(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 0.5 + t / (2.0 * (2.0 + t * t).sqrt());
            assert!((probability_below(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn the_ends_are_certain() {
        let ends = [f64::NEG_INFINITY, f64::INFINITY].map(|t| probability_below(t, 3.0));
        assert_eq!(ends, [0.0, 1.0]);
    }

    proptest::proptest! {
        #[test]
        fn a_larger_value_is_less_often_exceeded(t in -20.0..20.0, step in 0.001..5.0, freedom in 0.5..500.0) {
            let (low, high) = (probability_below(t, freedom), probability_below(t + step, freedom));
            proptest::prop_assert!(low <= high && (0.0..=1.0).contains(&low), "{low} {high}");
            proptest::prop_assert!((low + probability_below(-t, freedom) - 1.0).abs() < 1e-12);
        }
    }
}
