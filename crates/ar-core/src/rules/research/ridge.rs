//! Ridge regression of a few numbers, with a parameter that cross-validation chooses.
//!
//! The estimate is that of Hastie, Tibshirani and Friedman, *The Elements of Statistical Learning*, second edition, section
//! 3.4.1: with inputs centred, the slopes are (XᵀX + λI)⁻¹Xᵀy, and the intercept, which is not shrunk, is the mean of y.
//! Here λ is the number of rows times a parameter, so that the same parameter shrinks as much with more rows.

/// The parameters that cross-validation chooses from, the strongest first. Numbers within 0..1 have a variance of at most 0.25,
/// so that 1 leaves a fifth of a slope or less; the last one changes next to nothing.
const PARAMETERS: [f64; 7] = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6];

/// A linear prediction: an intercept, and a slope for each input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) intercept: f64,
    pub(crate) slopes: Vec<f64>,
}

/// A line whose parameter cross-validation chose.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    /// The line without slopes below 0, which became 0.
    pub(crate) line: Line,
    /// The inputs whose slopes were below 0.
    pub(crate) negative: Vec<usize>,
    pub(crate) parameter: f64,
    /// The root mean square of the errors that leave-one-out cross-validation left. As it chose the parameter, too, it is a
    /// little too small.
    pub(crate) error: f64,
}

impl Line {
    /// Fits outputs to rows of inputs; all rows have the same length, there is at least one, and the parameter is above 0.
    pub(crate) fn fit(rows: &[Vec<f64>], outputs: &[f64], parameter: f64) -> Line {
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
        Line { intercept: output_mean - of_inputs, slopes }
    }

    /// The same without slopes below 0, still through the means of these rows, and the inputs that had them.
    fn without_negative(self, rows: &[Vec<f64>]) -> (Line, Vec<usize>) {
        let Line { mut intercept, mut slopes } = self;
        let negative: Vec<usize> = (0..slopes.len()).filter(|input| slopes[*input] < 0.0).collect();
        for input in &negative {
            let mean = rows.iter().map(|row| row[*input]).sum::<f64>() / rows.len() as f64;
            intercept += mean * slopes[*input];
            slopes[*input] = 0.0;
        }
        (Line { intercept, slopes }, negative)
    }

    pub(crate) fn predict(&self, row: &[f64]) -> f64 {
        self.intercept + row.iter().zip(&self.slopes).map(|(input, slope)| input * slope).sum::<f64>()
    }
}

/// The line, without slopes below 0, whose parameter leaves the smallest error by leave-one-out cross-validation; of equal ones
/// the strongest parameter. At least two rows are needed.
pub(crate) fn choose(rows: &[Vec<f64>], outputs: &[f64]) -> Option<Chosen> {
    let errors = PARAMETERS.map(|parameter| {
        let predicted = |rows: &[Vec<f64>], outputs: &[f64], left_out: &[f64]| {
            Line::fit(rows, outputs, parameter).without_negative(rows).0.predict(left_out)
        };
        (left_out_error(rows, outputs, predicted), parameter)
    });
    let (error, parameter) = errors.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let (line, negative) = Line::fit(rows, outputs, parameter).without_negative(rows);
    Some(Chosen { line, negative, parameter, error })
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
    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn slopes_shrink_as_the_formula_says() {
        // Two inputs without correlation, y = 5 + 2a + b. XᵀX = 4I and Xᵀy = (8, 4). With a parameter of 1, λ is 4: the
        // slopes are 8 / (4 + 4) = 1 and 4 / (4 + 4) = 0.5. The intercept is the mean, 5, as the inputs have a mean of 0.
        let rows = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]].map(Vec::from);
        let outputs = [2.0, 4.0, 6.0, 8.0];
        let line = Line::fit(&rows, &outputs, 1.0);
        assert!(near(line.slopes[0], 1.0) && near(line.slopes[1], 0.5) && near(line.intercept, 5.0), "{line:?}");
        // With inputs that are larger by 10, the slopes are the same and the intercept 5 − 10 × 1 − 10 × 0.5.
        let moved = rows.each_ref().map(|row| row.iter().map(|input| input + 10.0).collect::<Vec<f64>>());
        let line = Line::fit(&moved, &outputs, 1.0);
        assert!(near(line.slopes[0], 1.0) && near(line.intercept, -10.0), "{line:?}");
    }

    #[test]
    fn correlated_inputs_are_told_apart() {
        // Centred: a = (−1, 0, 1), b = (−1, 1, 0), y = 3a − b. XᵀX is ((2, 1), (1, 2)), Xᵀy = (3 × 2 − 1, 3 × 1 − 2) = (5, 1).
        // A parameter of 1/3 gives λ = 1: ((3, 1), (1, 3)) has the solution ((15 − 1) / 8, (3 − 5) / 8) = (1.75, −0.25).
        let rows = [[-1.0, -1.0], [0.0, 1.0], [1.0, 0.0]].map(Vec::from);
        let outputs = [-2.0, -1.0, 3.0];
        let line = Line::fit(&rows, &outputs, 1.0 / 3.0);
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
