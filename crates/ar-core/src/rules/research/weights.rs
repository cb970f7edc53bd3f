//! The weights of axes that ratings of sessions speak for, by a ridge regression whose parameter cross-validation chooses.
//!
//! The estimate is that of Hastie, Tibshirani and Friedman, *The Elements of Statistical Learning*, second edition, section
//! 3.4.1: with inputs centred, the slopes are (XᵀX + λI)⁻¹Xᵀy, and the intercept, which is not shrunk, is the mean of y.
//! Here λ is the number of rows times a parameter, so that the same parameter shrinks as much with more rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::AxisValues;
use crate::domain::{Composite, Form, Tag};

/// The fewest ratings that weights are fitted to: two for each of the four axes of research. With fewer, the error that
/// cross-validation leaves says next to nothing.
const FEWEST_RATINGS: usize = 8;

/// The largest difference between means that are the same but for rounding.
const SAME: f64 = 1e-9;

/// The properties in which sessions must agree for their numbers to be comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Likeness {
    /// The axes, each with its range.
    pub axes: BTreeMap<String, Option<[f64; 2]>>,
    /// The type of the question, in research.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// A session that was rated.
#[derive(Debug, Clone, PartialEq)]
pub struct RatedSession {
    /// Its tag, after its repository where that is another one.
    pub name: String,
    /// Its rating, 0..1.
    pub rating: f64,
    /// The mean of each axis over its experiments, brought to 0..1.
    pub means: AxisValues,
}

/// The result of fitting weights of axes to ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// The number of sessions that the weights are fitted to, or could be.
    pub ratings: usize,
    /// The rated sessions that do not count, and why.
    pub left_out: Vec<(String, String)>,
    /// The axes that nothing can be learned of, and why.
    pub unlearned: Vec<(String, String)>,
    /// The weights.
    pub fit: Result<Fit, NoFit>,
}

/// The axes of a session, and the weights that ratings of it and of sessions like it suggest.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighed {
    /// The axes, as the session has them.
    pub composite: Composite,
    /// The type of its question, where it is one of research.
    pub kind: Option<String>,
    /// The rated sessions that have other axes, or another type.
    pub others: Vec<String>,
    /// The sessions that have the same axes and type, and no rating.
    pub unrated: Vec<Tag>,
    /// The sessions that cannot be read, and why.
    pub unread: Vec<(Tag, String)>,
    /// The result of the fit.
    pub weights: Weights,
}

/// Weights that ratings speak for.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The axes with the new weights, which have four decimals and sum to 1, in the weighted form.
    pub composite: Composite,
    /// The axes whose weights would be below 0, and are 0.
    pub negative: Vec<String>,
    /// The parameter of the ridge regression.
    pub parameter: f64,
    /// The root mean square of the errors of predicted ratings in leave-one-out cross-validation.
    pub error: f64,
    /// The same where each rating is predicted by the mean of the others. If it is not larger, the axes say nothing.
    pub error_of_mean: f64,
}

/// The reason why there are no weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// There are too few ratings.
    #[error("too early: {missing} more {} needed, {FEWEST_RATINGS} in all", if *.missing == 1 { "rating is" } else { "ratings are" })]
    TooEarly {
        /// The number of missing ratings.
        missing: usize,
    },
    /// All ratings are the same.
    #[error("all ratings are the same, so that there is nothing to learn")]
    SameRatings,
    /// Nothing can be learned of any axis.
    #[error("nothing can be learned of any axis")]
    NoAxis,
    /// Ratings do not rise with any axis.
    #[error("the ratings rise with none of the axes")]
    NoneRaises,
}

/// Fits ratings to the means of axes by ridge regression, and makes weights of the slopes: those below 0 become 0, and the
/// others share what the axes that nothing can be learned of leave, which keep their weights.
///
/// An axis that has no number in half of the sessions or more counts as unlearned, and so does one with the same mean in all of
/// them. Sessions without a number for one of the other axes are left out.
pub fn weigh(composite: &Composite, sessions: &[RatedSession]) -> Weights {
    let mut left_out = Vec::new();
    let mut unlearned = Vec::new();
    let number = |session: &RatedSession, axis: &str| session.means.get(axis).copied().flatten();
    let mut axes: Vec<&str> = composite.axes.keys().map(String::as_str).collect();
    let mut used: Vec<&RatedSession> = Vec::new();
    for session in sessions {
        match axes.iter().any(|axis| number(session, axis).is_some()) {
            true => used.push(session),
            false => left_out.push((session.name.clone(), "no axis has a number".to_owned())),
        }
    }
    axes.retain(|axis| {
        let without = used.iter().filter(|session| number(session, axis).is_none()).count();
        let is_known = without == 0 || 2 * without < used.len();
        if !is_known {
            unlearned.push(((*axis).to_owned(), format!("no number in {without} of {} sessions", used.len())));
        }
        is_known
    });
    used.retain(|session| {
        let missing: Vec<&str> = axes.iter().copied().filter(|axis| number(session, axis).is_none()).collect();
        if !missing.is_empty() {
            left_out.push((session.name.clone(), format!("no number for {}", missing.join(", "))));
        }
        missing.is_empty()
    });
    let column = |axis: &str| -> Vec<f64> { used.iter().filter_map(|session| number(session, axis)).collect() };
    if used.len() >= FEWEST_RATINGS {
        axes.retain(|axis| {
            let same = same(&column(axis));
            if let Some(value) = same {
                unlearned.push(((*axis).to_owned(), format!("{value:.4} in all sessions")));
            }
            same.is_none()
        });
    }
    let rows: Vec<Vec<f64>> =
        used.iter().map(|session| axes.iter().filter_map(|axis| number(session, axis)).collect()).collect();
    let ratings: Vec<f64> = used.iter().map(|session| session.rating).collect();
    Weights { ratings: used.len(), left_out, unlearned, fit: fit(composite, &axes, &rows, &ratings) }
}

/// The value that all numbers have.
fn same(numbers: &[f64]) -> Option<f64> {
    let (first, rest) = numbers.split_first()?;
    rest.iter().all(|number| (number - first).abs() <= SAME).then_some(*first)
}

/// Fits ratings to rows of these axes.
fn fit(composite: &Composite, axes: &[&str], rows: &[Vec<f64>], ratings: &[f64]) -> Result<Fit, NoFit> {
    if rows.len() < FEWEST_RATINGS {
        return Err(NoFit::TooEarly { missing: FEWEST_RATINGS - rows.len() });
    }
    if same(ratings).is_some() {
        return Err(NoFit::SameRatings);
    }
    let chosen = choose(rows, ratings).filter(|_| !axes.is_empty()).ok_or(NoFit::NoAxis)?;
    let slopes: f64 = chosen.line.slopes.iter().sum();
    if slopes <= SAME {
        return Err(NoFit::NoneRaises);
    }
    let mut composite = Composite { form: Form::Weighted, ..composite.clone() };
    let unlearned = composite.axes.iter().filter(|(name, _)| !axes.contains(&name.as_str()));
    let shared = 1.0 - unlearned.map(|(_, axis)| axis.weight).sum::<f64>();
    for (name, slope) in axes.iter().zip(&chosen.line.slopes) {
        if let Some(axis) = composite.axes.get_mut(*name) {
            axis.weight = slope / slopes * shared;
        }
    }
    round(&mut composite);
    let negative = chosen.negative.iter().map(|place| axes[*place].to_owned()).collect();
    let (parameter, error) = (chosen.parameter, chosen.error);
    Ok(Fit { composite, negative, parameter, error, error_of_mean: error_of_mean(rows, ratings) })
}

/// Rounds weights to four decimals that sum to 1: the largest takes the rest.
fn round(composite: &mut Composite) {
    const UNITS: f64 = 10_000.0;
    let mut units: Vec<f64> = composite.axes.values().map(|axis| (axis.weight * UNITS).round().max(0.0)).collect();
    let rest = UNITS - units.iter().sum::<f64>();
    if let Some(largest) = units.iter_mut().max_by(|one, other| one.total_cmp(other)) {
        *largest += rest;
    }
    for (axis, units) in composite.axes.values_mut().zip(units) {
        axis.weight = units / UNITS;
    }
}

/// The parameters that cross-validation chooses from, the strongest first. Numbers within 0..1 have a variance of at most 0.25,
/// so that 1 leaves a fifth of a slope or less; the last one changes next to nothing.
const PARAMETERS: [f64; 7] = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6];

/// A linear prediction: an intercept, and a slope for each input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinearFit {
    pub(crate) intercept: f64,
    pub(crate) slopes: Vec<f64>,
}

/// A line whose parameter cross-validation chose.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChosenFit {
    /// The line without slopes below 0, which became 0.
    pub(crate) line: LinearFit,
    /// The inputs whose slopes were below 0.
    pub(crate) negative: Vec<usize>,
    pub(crate) parameter: f64,
    /// The root mean square of the errors that leave-one-out cross-validation left. As it chose the parameter, too, it is a
    /// little too small.
    pub(crate) error: f64,
}

impl LinearFit {
    /// Fits outputs to rows of inputs; all rows have the same length, there is at least one, and the parameter is above 0.
    pub(crate) fn fit(rows: &[Vec<f64>], outputs: &[f64], parameter: f64) -> LinearFit {
        let count = rows.len() as f64;
        let inputs = rows.first().map_or(0, Vec::len);
        let mean = |input: usize| rows.iter().map(|row| row[input]).sum::<f64>() / count;
        let means: Vec<f64> = (0..inputs).map(mean).collect();
        let output_mean = outputs.iter().sum::<f64>() / count;
        let centred = |row: &[f64], input: usize| row[input] - means[input];
        let products = |one: usize, other: usize| -> f64 {
            let shrunk = if one == other { count * parameter } else { 0.0 };
            shrunk + rows.iter().map(|row| centred(row, one) * centred(row, other)).sum::<f64>()
        };
        let matrix = (0..inputs).map(|one| (0..inputs).map(|other| products(one, other)).collect()).collect();
        let with_outputs = |input: usize| {
            let each = rows.iter().zip(outputs);
            each.map(|(row, output)| centred(row, input) * (output - output_mean)).sum()
        };
        let slopes = solve(matrix, (0..inputs).map(with_outputs).collect());
        let of_inputs: f64 = means.iter().zip(&slopes).map(|(mean, slope)| mean * slope).sum();
        LinearFit { intercept: output_mean - of_inputs, slopes }
    }

    /// The same without slopes below 0, still through the means of these rows, and the inputs that had them.
    fn without_negative(self, rows: &[Vec<f64>]) -> (LinearFit, Vec<usize>) {
        let LinearFit { mut intercept, mut slopes } = self;
        let negative: Vec<usize> = (0..slopes.len()).filter(|input| slopes[*input] < 0.0).collect();
        for input in &negative {
            let mean = rows.iter().map(|row| row[*input]).sum::<f64>() / rows.len() as f64;
            intercept += mean * slopes[*input];
            slopes[*input] = 0.0;
        }
        (LinearFit { intercept, slopes }, negative)
    }

    pub(crate) fn predict(&self, row: &[f64]) -> f64 {
        self.intercept + row.iter().zip(&self.slopes).map(|(input, slope)| input * slope).sum::<f64>()
    }
}

/// The line, without slopes below 0, whose parameter leaves the smallest error by leave-one-out cross-validation; of equal ones
/// the strongest parameter. At least two rows are needed.
pub(crate) fn choose(rows: &[Vec<f64>], outputs: &[f64]) -> Option<ChosenFit> {
    let errors = PARAMETERS.map(|parameter| {
        let predicted = |rows: &[Vec<f64>], outputs: &[f64], left_out: &[f64]| {
            LinearFit::fit(rows, outputs, parameter).without_negative(rows).0.predict(left_out)
        };
        (left_out_error(rows, outputs, predicted), parameter)
    });
    let (error, parameter) = errors.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let (line, negative) = LinearFit::fit(rows, outputs, parameter).without_negative(rows);
    Some(ChosenFit { line, negative, parameter, error })
}

/// The root mean square error of predicting each output from the other rows by nothing but the mean of their outputs.
pub(crate) fn error_of_mean(rows: &[Vec<f64>], outputs: &[f64]) -> f64 {
    left_out_error(rows, outputs, |_, outputs, _| outputs.iter().sum::<f64>() / outputs.len() as f64)
}

/// The root mean square of the errors when each row is predicted from all others.
fn left_out_error(rows: &[Vec<f64>], outputs: &[f64], predicted: impl Fn(&[Vec<f64>], &[f64], &[f64]) -> f64) -> f64 {
    let squares = (0..rows.len()).map(|place| {
        let (mut other_rows, mut other_outputs) = (rows.to_vec(), outputs.to_vec());
        let (row, output) = (other_rows.remove(place), other_outputs.remove(place));
        (predicted(&other_rows, &other_outputs, &row) - output).powi(2)
    });
    (squares.sum::<f64>() / rows.len() as f64).sqrt()
}

/// Solves equations with a symmetric positive definite matrix by Cholesky's decomposition (Golub and Van Loan, *Matrix
/// Computations*, fourth edition, section 4.2): with A = LLᵀ, first Ly = b, then Lᵀx = y.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for row in 0..size {
        for column in 0..=row {
            let products: f64 = (0..column).map(|k| matrix[row][k] * matrix[column][k]).sum();
            let rest = matrix[row][column] - products;
            matrix[row][column] = if row == column { rest.sqrt() } else { rest / matrix[column][column] };
        }
    }
    for row in 0..size {
        let known: f64 = (0..row).map(|k| matrix[row][k] * right[k]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|k| matrix[k][row] * right[k]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::RESEARCH_AXES;

    /// Numbers that look like chance and are always the same, 0..1.
    fn spread(session: u32, axis: u32) -> f64 {
        f64::from((session * 7919 + axis * 104_729 + session * session * (axis + 3) * 31) % 997) / 997.0
    }

    /// Sessions whose axes are spread, with ratings that `rated` makes of them.
    fn sessions(count: u32, rated: impl Fn(&[f64]) -> f64) -> Vec<RatedSession> {
        let session = |n: u32| {
            let means: Vec<f64> = (0..4).map(|axis| spread(n, axis)).collect();
            let rating = rated(&means);
            let means = RESEARCH_AXES.into_iter().map(str::to_owned).zip(means.into_iter().map(Some)).collect();
            RatedSession { name: format!("s{n}"), rating, means }
        };
        (1..=count).map(session).collect()
    }

    fn equal() -> Composite {
        Composite::preset("equal").unwrap()
    }

    /// The weights in the order of the presets.
    fn weights(fit: &Fit) -> [f64; 4] {
        RESEARCH_AXES.map(|axis| fit.composite.axes[axis].weight)
    }

    fn sum(weights: &[f64], means: &[f64]) -> f64 {
        weights.iter().zip(means).map(|(weight, mean)| weight * mean).sum()
    }

    #[test]
    fn weights_come_from_slopes_by_hand() {
        // Ratings that are 0.1 + 0.1 × claims + 0.3 × topics − 0.2 × novelty: the slopes 0.1, 0, 0.3 and −0.2 become
        // 0.1 / 0.4 = 0.25, 0, 0.3 / 0.4 = 0.75 and 0. What novelty takes away cannot be predicted with a weight of 0.
        let rated = weigh(&equal(), &sessions(20, |means| 0.3 + sum(&[0.1, 0.0, 0.3, -0.2], means)));
        let fit = rated.fit.unwrap();
        assert_eq!((rated.ratings, fit.negative.contains(&"novelty".to_owned())), (20, true), "{fit:?}");
        for (weight, known) in weights(&fit).into_iter().zip([0.25, 0.0, 0.75, 0.0]) {
            assert!((weight - known).abs() < 0.15, "{fit:?}");
        }
        assert!(fit.error > 0.0 && fit.error < fit.error_of_mean, "{fit:?}");
    }

    #[test]
    fn seven_are_too_few_and_eight_are_enough() {
        let of = |count: u32| weigh(&equal(), &sessions(count, |means| sum(&[0.4, 0.1, 0.2, 0.3], means))).fit;
        assert_eq!(of(7).unwrap_err().to_string(), "too early: 1 more rating is needed, 8 in all");
        assert_eq!(of(0).unwrap_err(), NoFit::TooEarly { missing: 8 });
        let fit = of(8).unwrap();
        assert!(
            weights(&fit).into_iter().zip([0.4, 0.1, 0.2, 0.3]).all(|(one, other)| (one - other).abs() < 0.002),
            "{fit:?}"
        );
    }

    #[test]
    fn what_says_nothing_is_left_out_and_said() {
        let mut rated = sessions(12, |means| 0.2 + sum(&[0.2, 0.0, 0.0, 0.6], means));
        for (n, session) in rated.iter_mut().enumerate() {
            session.means.insert("source_diversity".into(), Some(0.8));
            if n % 2 == 0 {
                session.means.insert("topic_coverage".into(), None);
            }
        }
        rated[0].means.insert("novelty".into(), None);
        rated[2].means.values_mut().for_each(|mean| *mean = None);
        let found = weigh(&equal(), &rated);
        let left_out: Vec<String> = found.left_out.iter().map(|(tag, why)| format!("{tag}: {why}")).collect();
        let no_topics = ["s5", "s7", "s9", "s11"].map(|tag| format!("{tag}: no number for topic_coverage"));
        assert_eq!(left_out[..2], ["s3: no axis has a number", "s1: no number for novelty, topic_coverage"]);
        assert_eq!(left_out[2..], no_topics);
        assert_eq!((found.ratings, found.unlearned), (6, vec![]), "whether an axis is constant is not looked at yet");
        assert_eq!(found.fit.unwrap_err(), NoFit::TooEarly { missing: 2 });
    }

    #[test]
    fn an_unlearned_axis_keeps_its_weight() {
        let mut rated = sessions(12, |means| 0.1 + sum(&[0.2, 0.0, 0.0, 0.6], means));
        for (n, session) in rated.iter_mut().enumerate() {
            session.means.insert("source_diversity".into(), Some(0.8));
            if n < 6 {
                session.means.insert("topic_coverage".into(), None);
            }
        }
        let found = weigh(&equal(), &rated);
        let unlearned: Vec<&str> = found.unlearned.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!((found.ratings, unlearned), (12, vec!["no number in 6 of 12 sessions", "0.8000 in all sessions"]));
        // Half of the weight is kept, and the rest is shared as 0.2 to 0.6.
        assert_eq!(weights(&found.fit.unwrap()), [0.125, 0.25, 0.25, 0.375]);
    }

    #[test]
    fn no_weights_are_made_up() {
        let of = |rated: fn(&[f64]) -> f64| weigh(&equal(), &sessions(12, rated)).fit.unwrap_err();
        assert_eq!(of(|_| 0.5), NoFit::SameRatings);
        assert_eq!(of(|means| 1.0 - sum(&[0.25; 4], means)), NoFit::NoneRaises);
        let mut constant = sessions(12, |means| means[0]);
        constant.iter_mut().for_each(|session| session.means.values_mut().for_each(|mean| *mean = Some(0.5)));
        assert_eq!(weigh(&equal(), &constant).fit.unwrap_err(), NoFit::NoAxis);
    }

    proptest! {
        #[test]
        fn known_weights_are_recovered(shares in prop::array::uniform4(0_u32..100), lift in 0.0..0.2, scale in 0.3..0.8) {
            prop_assume!(shares.iter().sum::<u32>() > 0);
            let whole = f64::from(shares.iter().sum::<u32>());
            let known = shares.map(|share| f64::from(share) / whole);
            let fit = weigh(&equal(), &sessions(24, |means| lift + scale * sum(&known, means))).fit.unwrap();
            for (weight, known) in weights(&fit).into_iter().zip(known) {
                prop_assert!((weight - known).abs() < 0.001, "{fit:?}");
            }
            prop_assert!((weights(&fit).iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(fit.error < 0.001 && fit.error < fit.error_of_mean, "{fit:?}");
        }

        #[test]
        fn weights_of_any_ratings_are_a_composite(ratings in prop::collection::vec(0.0..1.0, 8..20)) {
            let mut rated = sessions(u32::try_from(ratings.len()).unwrap(), |_| 0.0);
            rated.iter_mut().zip(&ratings).for_each(|(session, rating)| session.rating = *rating);
            if let Ok(fit) = weigh(&equal(), &rated).fit {
                prop_assert!(weights(&fit).iter().all(|weight| (0.0..=1.0).contains(weight)), "{fit:?}");
                let (_, warning) = fit.composite.settled().unwrap();
                prop_assert_eq!(warning, None);
            }
        }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn slopes_shrink_as_the_formula_says() {
        // Two inputs without correlation, y = 5 + 2a + b. XᵀX = 4I and Xᵀy = (8, 4). With a parameter of 1, λ is 4: the
        // slopes are 8 / (4 + 4) = 1 and 4 / (4 + 4) = 0.5. The intercept is the mean, 5, as the inputs have a mean of 0.
        let rows = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]].map(Vec::from);
        let outputs = [2.0, 4.0, 6.0, 8.0];
        let line = LinearFit::fit(&rows, &outputs, 1.0);
        assert!(near(line.slopes[0], 1.0) && near(line.slopes[1], 0.5) && near(line.intercept, 5.0), "{line:?}");
        // With inputs that are larger by 10, the slopes are the same and the intercept 5 − 10 × 1 − 10 × 0.5.
        let moved = rows.each_ref().map(|row| row.iter().map(|input| input + 10.0).collect::<Vec<f64>>());
        let line = LinearFit::fit(&moved, &outputs, 1.0);
        assert!(near(line.slopes[0], 1.0) && near(line.intercept, -10.0), "{line:?}");
    }

    #[test]
    fn correlated_inputs_are_told_apart() {
        // Centred: a = (−1, 0, 1), b = (−1, 1, 0), y = 3a − b. XᵀX is ((2, 1), (1, 2)), Xᵀy = (3 × 2 − 1, 3 × 1 − 2) = (5, 1).
        // A parameter of 1/3 gives λ = 1: ((3, 1), (1, 3)) has the solution ((15 − 1) / 8, (3 − 5) / 8) = (1.75, −0.25).
        let rows = [[-1.0, -1.0], [0.0, 1.0], [1.0, 0.0]].map(Vec::from);
        let outputs = [-2.0, -1.0, 3.0];
        let line = LinearFit::fit(&rows, &outputs, 1.0 / 3.0);
        assert!(near(line.slopes[0], 1.75) && near(line.slopes[1], -0.25), "{line:?}");
        let (line, negative) = line.without_negative(&rows);
        assert_eq!((negative, line.slopes[1]), (vec![1], 0.0));
    }

    #[test]
    fn the_error_is_that_of_what_was_not_seen() {
        // Each from the mean of the two others: 1.5 for 0, 1 for 1, 0.5 for 2; √((1.5² + 0 + 1.5²) / 3) = √1.5.
        let rows = [[0.0], [0.0], [0.0]].map(Vec::from);
        let error = error_of_mean(&rows, &[0.0, 1.0, 2.0]);
        assert!(near(error, 1.5_f64.sqrt()), "{error}");
        // An input that says nothing leaves the same, and the strongest parameter is taken.
        let chosen = choose(&rows, &[0.0, 1.0, 2.0]).unwrap();
        assert!(near(chosen.error, error) && chosen.line.slopes == [0.0], "{chosen:?}");
        assert_eq!(chosen.parameter.to_bits(), PARAMETERS[0].to_bits());
    }

    #[test]
    fn an_input_that_follows_from_another_shares_its_slope() {
        let rows: Vec<Vec<f64>> = (0..9).map(|n| vec![f64::from(n) / 8.0; 2]).collect();
        let outputs: Vec<f64> = rows.iter().map(|row| 0.2 + 0.6 * row[0]).collect();
        let chosen = choose(&rows, &outputs).unwrap();
        let [one, other] = chosen.line.slopes[..] else { panic!("{chosen:?}") };
        assert!((one - 0.3).abs() < 1e-3 && (other - 0.3).abs() < 1e-3, "{chosen:?}");
    }
}
