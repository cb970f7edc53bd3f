//! The median.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The middle one of some finite numbers, or the mean of the two middle ones; `None` where there are none.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    Some(if numbers.len().is_multiple_of(2) { f64::midpoint(numbers[numbers.len() / 2 - 1], upper) } else { upper })
}

/// The running median of a stream of numbers.
#[derive(Debug, Default)]
pub(crate) struct RunningMedian {
    /// The bits of the lower half, the largest first.
    low: BinaryHeap<u64>,
    /// The bits of the upper half, which holds the middle one too, the smallest first.
    high: BinaryHeap<Reverse<u64>>,
}

impl RunningMedian {
    /// Adds a number that is not negative: the bits of such numbers sort like the numbers.
    pub(crate) fn add(&mut self, number: f64) {
        let bits = number.to_bits();
        if self.low.peek().is_some_and(|below| bits < *below) {
            self.low.push(bits);
        } else {
            self.high.push(Reverse(bits));
        }
        if self.low.len() > self.high.len() {
            self.high.extend(self.low.pop().map(Reverse));
        } else if self.high.len() > self.low.len() + 1 {
            self.low.extend(self.high.pop().map(|Reverse(bits)| bits));
        }
    }

    /// The count.
    pub(crate) fn count(&self) -> usize {
        self.low.len() + self.high.len()
    }

    /// Their [`median`].
    pub(crate) fn get(&self) -> Option<f64> {
        let upper = self.high.peek().map(|Reverse(bits)| f64::from_bits(*bits))?;
        let lower = self.low.peek().filter(|_| self.low.len() == self.high.len());
        Some(lower.map_or(upper, |bits| f64::midpoint(f64::from_bits(*bits), upper)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_what_came_so_far_is_the_median_of_that() {
        let mut running = RunningMedian::default();
        let mut so_far = Vec::new();
        for number in [3.0, 1.0, 2.0, 2.0, 0.5, 1e-300, 7.0, 7.0, 6.5, 0.0, 1e300] {
            assert_eq!((running.count(), running.get()), (so_far.len(), median(so_far.iter().copied())));
            running.add(number);
            so_far.push(number);
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
