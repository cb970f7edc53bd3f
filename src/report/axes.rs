//! The axes of an experiment, in words.

use crate::domain::{Composite, Form};
use crate::rules::{AxisValues, brought, four_decimals, in_form};

/// The axes from the worst to the best, each with its number; what a range makes of it stands behind. Those without a number
/// come first. `None` where no axis has one.
pub(super) fn axes_sentence(composite: &Composite, values: &AxisValues) -> Option<String> {
    let mut axes: Vec<(&str, Option<f64>)> = brought(composite, values).collect();
    if axes.iter().all(|(_, value)| value.is_none()) {
        return None;
    }
    axes.sort_by(|(_, one), (_, other)| one.unwrap_or(-1.0).total_cmp(&other.unwrap_or(-1.0)));
    let said = |(name, value): (&str, Option<f64>)| {
        let Some((value, number)) = value.zip(values.get(name).copied().flatten()) else {
            return format!("{name} without a number");
        };
        let has_range = composite.axes.get(name).is_some_and(|axis| axis.range.is_some());
        let of_range = if has_range { format!(" ({})", four_decimals(value)) } else { String::new() };
        format!("{name} {number}{of_range}")
    };
    Some(axes.into_iter().map(said).collect::<Vec<_>>().join(", "))
}

/// What the axes are together in each form; `None` where one has no number.
pub(super) fn forms_sentence(composite: &Composite, values: &AxisValues) -> Option<String> {
    let forms = [Form::Weighted, Form::Multiplicative, Form::V2];
    let each = forms.map(|form| Some(format!("{form} {}", four_decimals(in_form(composite, form, values)?))));
    Some(each.into_iter().collect::<Option<Vec<_>>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Axis;

    #[test]
    fn the_worst_axis_comes_first_and_one_without_a_number_before_it() {
        let mut composite = Composite::preset("equal").unwrap_or_default();
        composite.axes.insert("latency".into(), Axis { weight: 0.25, floor: 0.5, range: Some([200.0, 20.0]) });
        let numbers =
            [("claim_density", 0.77), ("source_diversity", 0.91), ("topic_coverage", 0.51), ("latency", 56.0)];
        let mut values: AxisValues = numbers.map(|(name, number)| (name.to_owned(), Some(number))).into();
        assert_eq!(
            axes_sentence(&composite, &values).as_deref(),
            Some(
                "novelty without a number, topic_coverage 0.51, claim_density 0.77, latency 56 (0.8000), \
                 source_diversity 0.91"
            )
        );
        assert_eq!(forms_sentence(&composite, &values), None);
        values.insert("novelty".into(), Some(0.77));
        composite.axes.remove("latency");
        // (0.77 + 0.91 + 0.51 + 0.77) / 4, their product, and √0.51 times their harmonic mean.
        assert_eq!(
            forms_sentence(&composite, &values).as_deref(),
            Some("weighted 0.7400, multiplicative 0.2752, v2 0.5050")
        );
        assert_eq!(axes_sentence(&composite, &AxisValues::new()), None);
    }
}
