//! Axes whose numbers need a range and have none.

use super::axes::{AxisValues, bring};
use crate::domain::Composite;

/// The axes without a range whose numbers are not within 0..1, with their numbers and what these count as: a share in per cent
/// would count as 1 whatever it is.
pub fn unranged<'a>(
    composite: &'a Composite,
    values: &'a AxisValues,
) -> impl Iterator<Item = (&'a str, f64, f64)> + 'a {
    let plain = composite.axes.iter().filter(|(_, axis)| axis.range.is_none());
    plain.filter_map(|(name, _)| {
        let number = values.get(name).copied().flatten().filter(|number| number.is_finite())?;
        let counts = bring(number, None);
        (counts != number).then_some((name.as_str(), number, counts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Axis;

    #[test]
    fn numbers_outside_of_0_to_1_are_told_where_no_range_takes_them_there() {
        let axis = |range| Axis { weight: 0.5, floor: None, range };
        let axes = [("a", None), ("b", None), ("c", Some([0.0, 100.0])), ("d", None), ("e", None)];
        let axes = axes.map(|(name, range)| (name.to_owned(), axis(range))).into();
        let composite = Composite { axes, ..Composite::default() };
        let numbers = [("a", 1.7), ("b", -0.5), ("c", 93.0), ("d", 1.0), ("e", f64::NAN)];
        let values = numbers.map(|(name, number)| (name.to_owned(), Some(number))).into();
        assert_eq!(unranged(&composite, &values).collect::<Vec<_>>(), [("a", 1.7, 1.0), ("b", -0.5, 0.0)]);
    }
}
