//! Changes of refs while another process could move them.

use std::collections::BTreeMap;

/// Refs by name, with the objects before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefChanges {
    /// New refs, with their objects.
    pub foreign: Vec<(String, String)>,
    /// Moved refs, with their old and new objects.
    pub moved: Vec<(String, String, String)>,
    /// Deleted refs, with their old objects.
    pub gone: Vec<(String, String)>,
}

/// Compares refs with their earlier state, `were`.
pub fn compare_refs(were: &[(String, String)], are: &[(String, String)]) -> RefChanges {
    if were == are {
        return RefChanges::default();
    }
    let now: BTreeMap<&str, &str> = are.iter().map(|(name, object)| (name.as_str(), object.as_str())).collect();
    let before: BTreeMap<&str, &str> = were.iter().map(|(name, object)| (name.as_str(), object.as_str())).collect();
    let mut changes = RefChanges::default();
    for (name, was) in were {
        match now.get(name.as_str()) {
            None => changes.gone.push((name.clone(), was.clone())),
            Some(is) if is != was => changes.moved.push((name.clone(), was.clone(), (*is).to_owned())),
            Some(_) => {}
        }
    }
    changes.foreign = are.iter().filter(|(name, _)| !before.contains_key(name.as_str())).cloned().collect();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_known_for_what_it_is() {
        let refs = |refs: &[(&str, &str)]| -> Vec<(String, String)> {
            refs.iter().map(|(name, object)| ((*name).to_owned(), (*object).to_owned())).collect()
        };
        let were = refs(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(compare_refs(&were, &were), RefChanges::default());
        let changes = compare_refs(&were, &refs(&[("a", "1"), ("b", "9"), ("d", "4")]));
        assert_eq!(changes.foreign, refs(&[("d", "4")]));
        assert_eq!(changes.moved, [("b".to_owned(), "2".to_owned(), "9".to_owned())]);
        assert_eq!(changes.gone, refs(&[("c", "3")]));
    }
}
