//! The claims that a session kept, iteration by iteration, and the claims that repeat them.

use std::collections::BTreeMap;

use super::artifact::{Artifact, Claim};
use super::similarity::nearest;

/// From which similarity on a claim repeats a kept one. Rewordings with the same words are above 0.7, and new findings on the
/// same ground below.
pub const REPEAT: f64 = 0.7;

/// The claims that a session kept, also those that are gone, in the order in which they were first kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeps {
    texts: Vec<String>,
    /// By the key of each claim how many had been kept before the iteration that brought it.
    before: BTreeMap<String, usize>,
}

/// The kept claim that another one repeats.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Repeat {
    /// Similarity of the two, 0..1.
    pub similarity: f64,
    /// The kept claim.
    pub kept: String,
}

impl Keeps {
    /// Adds the artifact that an iteration left behind.
    pub fn add(&mut self, artifact: &Artifact) {
        let before = self.texts.len();
        for claim in &artifact.claims {
            if !self.before.contains_key(&claim.key) {
                self.before.insert(claim.key.clone(), before);
                self.texts.push(claim.text.clone());
            }
        }
    }

    /// Returns the number of claims that were kept.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns whether no claim was kept.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The claims of these that are like ones that were kept before them, by their keys. A claim that `is_new` comes after all
    /// that was kept, and one of unknown age, too.
    pub(super) fn repeats<'c>(
        &self,
        claims: &'c [Claim],
        is_new: impl Fn(&Claim) -> bool,
    ) -> BTreeMap<&'c str, Repeat> {
        let before = |claim: &Claim| self.before.get(&claim.key).copied().filter(|_| !is_new(claim));
        let new: Vec<(&str, usize)> =
            claims.iter().map(|claim| (claim.text.as_str(), before(claim).unwrap_or(self.len()))).collect();
        let earlier: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let repeat = |(claim, found): (&'c Claim, Option<(usize, f64)>)| {
            let (place, similarity) = found.filter(|(_, similarity)| *similarity >= REPEAT)?;
            Some((claim.key.as_str(), Repeat { similarity, kept: self.texts[place].clone() }))
        };
        claims.iter().zip(nearest(&new, &earlier)).filter_map(repeat).collect()
    }

    /// Returns whether a claim repeats one of the first `count` that were kept.
    pub fn is_repeated_by(&self, claim: &Claim, count: usize) -> bool {
        let earlier: Vec<&str> = self.texts.iter().take(count).map(String::as_str).collect();
        let found = nearest(&[(claim.text.as_str(), count)], &earlier);
        found.into_iter().flatten().any(|(_, similarity)| similarity >= REPEAT)
    }

    /// Returns whether a claim was kept.
    pub fn has(&self, claim: &Claim) -> bool {
        self.before.contains_key(&claim.key)
    }
}
