//! A composite: several numbers of a log, the axes, that are one number together, and the user's ratings of sessions.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ErrorKind, UserError, refuse};

/// The name of the metric that `ar` works out from the axes.
pub const COMPOSITE: &str = "composite";

/// The value below which an axis counts as weak unless its description says otherwise: 0.5, the second signal of the
/// Madani adapter's revised kill rule.
pub const DEFAULT_FLOOR: f64 = 0.5;

/// The largest distance of the weights' sum from 1 before the weights are scaled with a warning. It is above the
/// rounding error of decimal weights, and below the last digit of a weight written with four decimals.
const SUM_TOLERANCE: f64 = 1e-6;

/// The axes of research, in the order of the weights in [`PRESETS`].
pub const RESEARCH_AXES: [&str; 4] = ["claim_density", "source_diversity", "topic_coverage", "novelty"];

/// The weights of the axes of research by the type of the question, as the Madani adapter has them; the first is the
/// default.
pub const PRESETS: [(&str, [f64; 4]); 3] =
    [("equal", [0.25; 4]), ("business", [0.35, 0.30, 0.20, 0.15]), ("technical", [0.40, 0.10, 0.20, 0.30])];

/// The form in which axes are put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Form {
    /// The mean by weight. The thresholds of the Madani adapter are those of this form.
    #[default]
    Weighted,
    /// The plain product, without weights.
    Multiplicative,
    /// The root of the smallest axis times the harmonic mean of all.
    V2,
}

/// An axis of a composite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its share in the weighted form; 0 or more. In a settled composite the weights sum to 1.
    pub weight: f64,
    /// The value, 0..1, below which the axis is weak; absent for that of who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// The numbers that become 0 and 1, in this order; the larger one comes first where less is better. Absent for
    /// numbers that are 0..1 already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

impl Axis {
    /// The value below which it is weak.
    pub fn floor(&self) -> f64 {
        self.floor.unwrap_or(DEFAULT_FLOOR)
    }
}

/// The axes of a session and their form: `[composite]` in `ar.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composite {
    /// The form.
    #[serde(default)]
    pub form: Form,
    /// The axes, by the names under which the log prints them.
    #[serde(default)]
    pub axes: BTreeMap<String, Axis>,
}

impl Composite {
    /// The axes of research with the weights for a type of question; `None` for a type that is not in [`PRESETS`].
    pub fn preset(name: &str) -> Option<Composite> {
        let (_, weights) = PRESETS.into_iter().find(|(known, _)| *known == name)?;
        let axis = |weight| Axis { weight, floor: None, range: None };
        let axes = RESEARCH_AXES.into_iter().zip(weights).map(|(name, weight)| (name.to_owned(), axis(weight)));
        Some(Composite { form: Form::default(), axes: axes.collect() })
    }

    /// Checks it, and brings weights that do not sum to 1 to that: the composite, and a warning where it did.
    pub fn settled(mut self) -> Result<(Composite, Option<String>), UserError> {
        let refused = |text, hint: &str| Err(refuse(ErrorKind::Usage, text).hint(hint));
        for (axis, Axis { weight, floor, range }) in &self.axes {
            if !weight.is_finite() || *weight < 0.0 {
                let text = format!("invalid weight of `{axis}`: {weight}");
                return refused(text, "write a weight of 0 or more, as in `weight = 0.25`");
            }
            if let Some(floor) = floor.filter(|floor| !(0.0..=1.0).contains(floor)) {
                let text = format!("invalid floor of `{axis}`: {floor}");
                return refused(text, "write a floor from 0 to 1, as in `floor = 0.5`");
            }
            if let Some([lo, hi]) = *range
                && (lo == hi || !(hi - lo).is_finite())
            {
                return refused(
                    format!("invalid range of `{axis}`: {lo} to {hi}"),
                    "write the numbers that become 0 and 1, as in `range = [0, 40]`, or `range = [40, 0]` where less is better",
                );
            }
        }
        if self.axes.is_empty() {
            let hint = "describe each axis, as in `[composite.axes.novelty]` and `weight = 0.25` below it";
            return refused("the composite has no axes".into(), hint);
        }
        let sum: f64 = self.axes.values().map(|axis| axis.weight).sum();
        if sum == 0.0 {
            return refused("all weights are 0".into(), "give an axis a weight above 0, as in `weight = 0.25`");
        }
        if (sum - 1.0).abs() <= SUM_TOLERANCE {
            return Ok((self, None));
        }
        // Divided before they are added, the largest weights do not overflow.
        let largest = self.axes.values().map(|axis| axis.weight).fold(0.0, f64::max);
        let of_largest: f64 = self.axes.values().map(|axis| axis.weight / largest).sum();
        for axis in self.axes.values_mut() {
            axis.weight = axis.weight / largest / of_largest;
        }
        let weights: Vec<String> = self.axes.iter().map(|(name, axis)| format!("{name} {:.4}", axis.weight)).collect();
        let warning = format!("scaled the composite's weights, which sum to {sum}, to 1: {}", weights.join(", "));
        Ok((self, Some(warning)))
    }
}

impl fmt::Display for Composite {
    /// Writes `weighted of claim_density 0.25 (0..40), novelty 0.75 (floor 0.3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of", self.form)?;
        for (place, (name, Axis { weight, floor, range })) in self.axes.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma} {name} {weight}")?;
            if let Some([lo, hi]) = range {
                write!(f, " ({lo}..{hi})")?;
            }
            if let Some(floor) = floor.filter(|floor| *floor != DEFAULT_FLOOR) {
                write!(f, " (floor {floor})")?;
            }
        }
        Ok(())
    }
}

/// A rating of a session: 0 for useless, 1 for as good as it could be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rating {
    /// The rating, 0..1.
    pub value: f64,
    /// When it was given.
    #[serde(with = "crate::domain::millis")]
    pub at: Timestamp,
    /// The author of the rating.
    pub by: String,
}

impl Rating {
    /// Parses a rating as the user writes it: a number from 0 to 1.
    ///
    /// # Errors
    ///
    /// It is not such a number; what to write instead.
    pub fn value(text: &str) -> Result<f64, String> {
        match text.trim().parse::<f64>() {
            // Adding 0 turns -0 into 0.
            Ok(value) if (0.0..=1.0).contains(&value) => Ok(value + 0.0),
            _ => Err("must be a number from 0 to 1, such as 0.8".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Composite, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    fn weights(composite: &Composite) -> Vec<f64> {
        composite.axes.values().map(|axis| axis.weight).collect()
    }

    #[test]
    fn a_composite_is_read_as_the_settings_file_has_it() {
        let composite = read(
            "form = \"v2\"\n[axes.latency]\nweight = 1\nrange = [200, 20]\n[axes.accuracy]\nweight = 3\nfloor = 0.8\n",
        )
        .unwrap();
        assert_eq!(composite.form, Form::V2);
        assert_eq!(composite.axes["latency"], Axis { weight: 1.0, floor: None, range: Some([200.0, 20.0]) });
        assert_eq!(composite.axes["accuracy"], Axis { weight: 3.0, floor: Some(0.8), range: None });
        let stored = serde_json::to_string(&composite).unwrap();
        assert_eq!(serde_json::from_str::<Composite>(&stored).unwrap(), composite);
        assert_eq!(composite.to_string(), "v2 of accuracy 3 (floor 0.8), latency 1 (200..20)");
        for wrong in [
            "form = \"mean\"",
            "shape = \"v2\"",
            "[axes.a]\nweight = 1\ncolour = 2",
            "[axes.a]\nfloor = 0.5",
            "[axes.a]\nweight = \"1\"",
            "[axes.a]\nweight = 1\nrange = [1]",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn presets_have_the_weights_of_their_type() {
        for (name, weights) in PRESETS {
            let composite = Composite::preset(name).unwrap();
            for (axis, weight) in RESEARCH_AXES.into_iter().zip(weights) {
                assert_eq!(composite.axes[axis].weight, weight, "{name}: {axis}");
            }
            assert_eq!(composite.clone().settled().unwrap(), (composite, None), "{name}");
        }
        assert_eq!(Composite::preset("other"), None);
    }

    #[test]
    fn weights_are_brought_to_one_and_that_is_said() {
        let composite = read("[axes.a]\nweight = 1\n[axes.b]\nweight = 3\n").unwrap();
        let (composite, warning) = composite.settled().unwrap();
        assert_eq!(weights(&composite), [0.25, 0.75]);
        assert_eq!(
            warning.as_deref(),
            Some("scaled the composite's weights, which sum to 4, to 1: a 0.2500, b 0.7500")
        );
        // Three thirds, written with digits enough, are 1.
        let thirds = read("[axes.a]\nweight = 0.3333333\n[axes.b]\nweight = 0.3333333\n[axes.c]\nweight = 0.3333333\n");
        assert_eq!(thirds.unwrap().settled().unwrap().1, None);
        let huge = read("[axes.a]\nweight = 1e308\n[axes.b]\nweight = 1e308\n").unwrap();
        assert_eq!(weights(&huge.settled().unwrap().0), [0.5, 0.5]);
    }

    #[test]
    fn what_cannot_be_worked_out_is_refused_with_what_to_write() {
        for (text, what) in [
            ("", "the composite has no axes"),
            ("[axes.a]\nweight = -0.5\n", "invalid weight of `a`: -0.5"),
            ("[axes.a]\nweight = nan\n", "invalid weight of `a`: NaN"),
            ("[axes.a]\nweight = inf\n", "invalid weight of `a`: inf"),
            ("[axes.a]\nweight = 0\n[axes.b]\nweight = 0\n", "all weights are 0"),
            ("[axes.a]\nweight = 1\nrange = [2, 2]\n", "invalid range of `a`: 2 to 2"),
            ("[axes.a]\nweight = 1\nrange = [0, inf]\n", "invalid range of `a`: 0 to inf"),
            ("[axes.a]\nweight = 1\nfloor = 1.5\n", "invalid floor of `a`: 1.5"),
        ] {
            let error = read(text).unwrap().settled().unwrap_err();
            assert_eq!(error.to_string(), what);
            assert!(error.hint.is_some_and(|hint| hint.contains('`')), "{what}");
        }
    }

    #[test]
    fn a_rating_is_a_number_from_0_to_1() {
        assert_eq!(
            ["0", "-0", " 0.80 ", "1", "1e-1"].map(|text| Rating::value(text).unwrap()),
            [0.0, 0.0, 0.8, 1.0, 0.1]
        );
        assert!(Rating::value("-0").unwrap().is_sign_positive());
        for wrong in ["", "8", "-0.1", "1.01", "nan", "inf", "80%", "0,8", "good"] {
            assert!(Rating::value(wrong).is_err(), "{wrong}");
        }
    }
}
