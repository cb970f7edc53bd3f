//! Whole sessions over the real rules: scorer, verdict and stop rules, with the ends worked out by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::json;

use super::*;
use ar_core::domain::{COMPOSITE, Composite, Contract, DiffStat, Direction, Form, Metrics, Outcome, Record};
use ar_core::rules::{
    ArtifactPoint, History, Measurement, artifact_course, artifact_metric, decided_novelty, ended_by_course, judge,
};

/// A session of research that nobody but this file runs.
struct Session {
    contract: Contract,
    history: History,
    /// The artifact that was kept last.
    kept: String,
    keeps: Keeps,
    earlier: Earlier,
    last: Option<Score>,
}

const TOPICS: [&str; 6] = ["One", "Two", "Three", "Four", "Five", "Six"];

fn terms(kind: &str) -> ResearchTerms {
    ResearchTerms::read(&format!("question = \"Q\"\ntype = \"{kind}\"\nsubtopics = {TOPICS:?}\n")).unwrap()
}

impl Session {
    fn new(kind: &str, form: Form, rules: &[&str]) -> Session {
        let baseline = json!({
            "metric": {"name": COMPOSITE, "direction": "higher", "value": null, "raw": null},
            "metrics": {"artifact_claim_density": 0, "artifact_source_diversity": 0, "artifact_topic_coverage": 0},
        });
        let mut contract = ar_core::rules::sample::contract("ar score");
        contract.metric.name = COMPOSITE.into();
        contract.metric.direction = Direction::Higher;
        contract.composite = Composite::preset(kind);
        contract.artifact_form = Some(form);
        contract.keep_above = Some(0.45.into());
        contract.stop_rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Session {
            contract,
            history: History::new(vec![ar_core::rules::sample::record(baseline)]),
            kept: TOPICS.map(|topic| format!("## {topic}\n")).concat(),
            keeps: Keeps::default(),
            earlier: Earlier::default(),
            last: None,
        }
    }

    /// One iteration: adds claims below sub-topics, each with the sources that it quotes, and says how new they are if the
    /// built-in measure does not. Returns whether it was kept.
    fn iterate(&mut self, claims: &[(usize, String, Vec<String>)], novelty: Option<f64>) -> bool {
        let mut terms = terms("equal");
        terms.composite = self.contract.asked_composite().unwrap();
        let mut text = self.kept.clone();
        for (topic, claim, sources) in claims {
            let heading = format!("## {}\n", TOPICS[*topic]);
            let cites: String = sources.iter().map(|id| format!(" [@{id} \"{id} says so\"]")).collect();
            text = text.replace(&heading, &format!("{heading}- {claim}{cites}\n"));
        }
        let read = |text: &str| Artifact::read("research_artifact.md", text, &terms.topics);
        let (artifact, kept) = (read(&text), read(&self.kept));
        let ids: BTreeSet<String> =
            artifact.claims.iter().flat_map(|claim| &claim.citations).map(|citation| citation.id.clone()).collect();
        let catalogue = Catalogue::of(ids.iter().map(|id| PathBuf::from(format!("sources/{id}.md"))));
        let quotations = artifact.claims.iter().flat_map(|claim| &claim.citations);
        let quotations = quotations.filter_map(|citation| citation.quotation.as_deref());
        let mut library = Library::new(&catalogue, quotations);
        for (id, path) in &catalogue.files {
            library.add(id, path, format!("---\nurl: u\ntitle: {id}\n---\n{id} says so.\n").as_bytes());
        }
        let records = self.history.records();
        let standing = Standing {
            keeps: &self.keeps,
            stored: BTreeSet::new(),
            novelties: records.iter().filter_map(decided_novelty).collect(),
            threshold: 0.45,
            is_baseline: false,
        };
        let (terms, artifact, kept, library) = (&terms, &artifact, &kept, &library);
        let scoring =
            Scoring { terms, artifact, kept, earlier: &self.earlier, library, stored: &ids, standing: &standing };
        let score = scoring.score(&Verdicts { novelty: novelty.map(Ok), ..Verdicts::default() }, false);

        let of_artifact = score.artifact.clone();
        let of_artifact = of_artifact.axes.iter().map(|(name, value)| (artifact_metric(name), *value));
        let axes = score.axes.iter().map(|(name, value)| ((*name).to_owned(), *value)).chain(of_artifact);
        let numbers: BTreeMap<String, f64> = axes.filter_map(|(name, value)| Some((name, value?))).collect();
        let metrics: Metrics = serde_json::from_value(json!(numbers)).unwrap();
        let id = self.history.next_id();
        let measured = Measurement { value: score.composite.clone(), metrics, ..Measurement::default() };
        let (verdict, _) =
            judge(&self.contract, (&self.history, self.history.records()), id, DiffStat::default(), &measured);
        let (value, raw) = score.composite.as_ref().map(|number| (number.value, number.raw.clone())).unzip();
        self.history.push(ar_core::rules::sample::record(json!({
            "id": id.number(), "sequence": id.number(), "outcome": verdict.outcome, "metrics": numbers,
            "metric": {"name": COMPOSITE, "direction": "higher", "value": value, "raw": raw},
        })));
        let judged = |claim: &Claim| !library.supporting(claim, None).is_empty();
        let is_kept = verdict.outcome == Outcome::Keep;
        if is_kept {
            self.earlier.add(artifact, &ids, |_| true);
            self.keeps.add(artifact);
            self.kept = text;
        } else {
            let is_finding = |claim: &Claim| {
                !self.keeps.has(claim) && judged(claim) && !self.keeps.is_repeated_by(claim, self.keeps.len())
            };
            self.earlier.add(artifact, &ids, is_finding);
        }
        self.last = Some(score);
        is_kept
    }

    /// Returns the reason if the loop ends.
    fn ended(&self) -> Option<String> {
        ended_by_course(&self.contract, &self.history).map(|reason| reason.to_string())
    }

    /// The artifact after each iteration with a number.
    fn course(&self) -> Vec<ArtifactPoint> {
        artifact_course(&self.contract, &self.history).into_iter().flatten().collect()
    }

    fn iterations(&self) -> u32 {
        self.history.experiments()
    }
}

/// Words that have little in common: `count` of them for each `n`.
fn words(n: u64, count: u64) -> String {
    let word = |k: u64| {
        let mut state = (n * count + k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
        };
        (0..8).map(letter).collect::<String>()
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the additions of the honest researcher in iteration `n`, from 1: two claims from two new sources, below the
/// sub-topic that it opens or an open one. It opens them in iterations 1, 2, 3, 5, 7 and 9.
fn honest(n: u64) -> Vec<(usize, String, Vec<String>)> {
    let open = [1, 2, 3, 5, 7, 9].iter().filter(|at| **at <= n).count();
    let topic = if [1, 2, 3, 5, 7, 9].contains(&n) { open - 1 } else { usize::try_from(n).unwrap() % open };
    [2 * n, 2 * n + 1].map(|claim| (topic, words(claim, 3), vec![format!("s{claim}")])).into()
}

/// Returns the additions of the repeater: always the same claim, in another order and with another first word.
fn repeated(n: usize, sources: &[&str]) -> Vec<(usize, String, Vec<String>)> {
    let mut known: Vec<&str> =
        "paged attention wastes under four percent of the memory which caches keys and values".split(' ').collect();
    let length = known.len();
    known.rotate_left(n % length);
    let first = ["indeed", "clearly", "moreover", "again", "surely", "notably"][n / length % 6];
    let claim = format!("{first} {}", known.join(" "));
    vec![(n % 6, claim, sources.iter().map(|id| (*id).to_owned()).collect())]
}

#[test]
fn sixty_honest_iterations_are_all_kept_in_each_preset() {
    // At the end two of twelve and more sources, ln 2 / ln 12 = 0.278943; one sub-topic of six, 0.166667; a novelty of 0.40.
    // technical: 0.40 + 0.10 × 0.2789 + 0.20 × 0.1667 + 0.30 × 0.40 = 0.58123; business: 0.35 + 0.30 × 0.2789 + 0.20 ×
    // 0.1667 + 0.15 × 0.40 = 0.52701; equal: (1 + 0.2789 + 0.1667 + 0.40) / 4 = 0.4614.
    for (kind, end) in [("technical", "0.5812"), ("business", "0.5270"), ("equal", "0.4614")] {
        let mut session = Session::new(kind, Form::Weighted, &[]);
        for n in 1..=60 {
            // From 0.8 down to 0.4.
            let novelty = 0.8 - 0.4 * (n - 1) as f64 / 59.0;
            assert!(session.iterate(&honest(n), Some(novelty)), "{kind}: {n}: {:?}", session.last);
        }
        let last = session.last.as_ref().unwrap();
        assert_eq!(last.composite.as_ref().unwrap().raw, end, "{kind}");
        assert_eq!((last.claims, last.repeats, last.newly.len(), last.added.len()), ((2, 2), 0, 0, 1));
        // The artifact: all of it verified, all sub-topics covered, 120 sources once each.
        let artifact = &last.artifact;
        let axes: Vec<f64> =
            ["claim_density", "source_diversity", "topic_coverage"].map(|it| artifact.axes[it].unwrap()).into();
        assert_eq!(axes, [1.0, 1.0, 1.0]);
        assert_eq!(session.course().last(), Some(artifact), "the records say the same as the scorer");
    }
}

#[test]
fn of_eighty_rewordings_one_is_kept() {
    for kind in ["technical", "business", "equal"] {
        for sources in [&["a"][..], &["a", "b"]] {
            let mut session = Session::new(kind, Form::Weighted, &[]);
            let kept: Vec<usize> = (0..80).filter(|n| session.iterate(&repeated(*n, sources), None)).collect();
            assert_eq!(kept, [0], "{kind} {sources:?}");
            let last = session.last.unwrap();
            assert_eq!((last.claims, last.repeats, last.added.len()), ((1, 0), 1, 0));
            // Its quotations still count for diversity: two of two sources.
            assert_eq!(last.axes[1].1, Some(if sources.len() == 2 { 1.0 } else { 0.0 }));
        }
    }
}

#[test]
fn the_repeater_ends_at_ten() {
    for kind in ["technical", "business", "equal"] {
        let mut session = Session::new(kind, Form::Weighted, &["kill2", "plateau:30"]);
        let mut n = 0;
        while session.ended().is_none() && n < 80 {
            session.iterate(&repeated(n, &["a", "b"]), None);
            n += 1;
        }
        assert_eq!(session.iterations(), 10, "{kind}");
        let reason = session.ended().unwrap();
        assert!(reason.starts_with("kill2: over the last 5 numbers artifact_composite changed by "), "{reason}");
        assert!(reason.ends_with(": the agent repeats or invents claims"), "{reason}");
    }
}

#[test]
fn the_honest_one_ends_by_plateau_at_39_while_it_still_finds_something() {
    // At 9 the last sub-topic is opened, all sources of 6 and later are as diverse as can be, and novelty does not rise: the
    // artifact is at its best. 9 + 30 = 39.
    for kind in ["technical", "business", "equal"] {
        let mut session = Session::new(kind, Form::Weighted, &["kill2", "plateau:30"]);
        while session.ended().is_none() && session.iterations() < 60 {
            let n = u64::from(session.iterations()) + 1;
            assert!(session.iterate(&honest(n), Some(0.8 - 0.4 * (n - 1) as f64 / 59.0)), "{kind}: {n}");
        }
        assert_eq!(session.iterations(), 39, "{kind}: {:?}", session.ended());
        let reason = session.ended().unwrap();
        assert!(
            reason.starts_with("plateau: no new best in 30 experiments; the best artifact_composite is "),
            "{reason}"
        );
        assert!(reason.ends_with(" of experiment 9"), "{reason}");
    }
}

#[test]
fn kill2_ends_what_finds_less_and_less_once_nothing_else_is_weak() {
    // To 38 the mean novelty of five iterations is 0.8. At 42 it is (0.8 + 4 × 0.45) / 5 = 0.52, and at 43 it is 0.45.
    let mut session = Session::new("equal", Form::Weighted, &["kill2"]);
    while session.ended().is_none() && session.iterations() < 60 {
        let n = u64::from(session.iterations()) + 1;
        session.iterate(&honest(n), Some(if n <= 38 { 0.8 } else { 0.45 }));
    }
    assert_eq!(session.iterations(), 43);
    let reason = session.ended().unwrap();
    assert!(
        reason.ends_with("the mean novelty is 0.4500, below 0.5, and no other axis is below its floor"),
        "{reason}"
    );
    // With a lower floor it goes on, and with an axis that is weak, too.
    session.contract.stop_rules = vec!["kill2:5:0.01:0.4".parse().unwrap()];
    assert_eq!(session.ended(), None);
    session.contract.stop_rules = vec!["kill2".parse().unwrap()];
    let axes = &mut session.contract.composite.as_mut().unwrap().axes;
    axes.get_mut("novelty").unwrap().floor = Some(0.45);
    assert_eq!(session.ended(), None, "the floor that an axis names comes first");
}

#[test]
fn the_form_is_that_of_the_artifact_and_decides_on_no_iteration() {
    let mut session = Session::new("equal", Form::V2, &[]);
    for n in 1..=9 {
        assert!(session.iterate(&honest(n), Some(0.8)), "{n}");
    }
    let last = session.last.as_ref().unwrap();
    // (1 + 0.2789 + 0.1667 + 0.8) / 4
    assert_eq!(last.composite.as_ref().unwrap().raw, "0.5614");
    // √0.8 × 4 / (1 + 1 + 1 + 1/0.8) = 0.894427 × 4 / 4.25
    assert_eq!(last.artifact.composite.as_ref().unwrap().raw, "0.8418");
}

#[test]
fn the_artifact_counts_what_was_kept_and_novelty_what_was_discarded_too() {
    let mut session = Session::new("equal", Form::Weighted, &[]);
    session.iterate(&honest(1), Some(1.0));
    session.iterate(&honest(2), Some(0.5));
    let before = session.course().pop().unwrap();
    // Two of four sources of one sub-topic each: entropy 1, coverage 2/6, novelty (1 + 0.5) / 2: (1 + 1 + 0.3333 + 0.75) / 4.
    assert_eq!(before.composite.as_ref().unwrap().raw, "0.7708");
    // A repeat, new only by its novelty: (0 + 0 + 0 + 0.9) / 4 is discarded. Novelty is (1 + 0.5 + 0.9) / 3 = 0.8 then.
    let (topic, claim, _) = honest(2).remove(0);
    assert!(!session.iterate(&[(topic, format!("{claim} also"), vec!["s4".into()])], Some(0.9)));
    let after = session.course().pop().unwrap();
    assert_eq!(after.composite.as_ref().unwrap().raw, "0.7833");
    let others =
        |point: &ArtifactPoint| ["claim_density", "source_diversity", "topic_coverage"].map(|it| point.axes[it]);
    assert_eq!(others(&after), others(&before));
    // A change that a guard or a reviewer rolls back is not in the artifact, whatever the scorer printed.
    session.iterate(&honest(3), Some(0.8));
    let mut record: Record = session.history.records().last().unwrap().clone();
    record.outcome = Outcome::Discard;
    session.history.push(record);
    assert_eq!(others(session.course().last().unwrap()), others(&before));
}

/// Two claims of iteration `n` whose quotations no source has.
fn invented(n: u64) -> Vec<(usize, String, Vec<String>)> {
    [2 * n, 2 * n + 1].map(|claim| (1, words(1000 + claim, 3), vec![])).into()
}

#[test]
fn invented_claims_raise_nothing() {
    let mut session = Session::new("equal", Form::Weighted, &[]);
    let artifact = |session: &Session| session.course().pop().unwrap().composite.unwrap().raw;
    // All new from two sources: (1 + 1 + 0.1667 + 1) / 4.
    assert!(session.iterate(&honest(1), None));
    assert_eq!(artifact(&session), "0.7917");
    // Nothing at all, and a discard. The artifact is the same, and its novelty (1 + 0) / 2: (1 + 1 + 0.1667 + 0.5) / 4.
    assert!(!session.iterate(&invented(2), None));
    assert_eq!(line_of(&session), "0.0000 0.0000 0.0000 0.0000");
    assert_eq!(artifact(&session), "0.6667");
    // One of two is invented: (0.5 + 0 + 0.1667 + 0.9) / 4 = 0.3917 is a discard; novelty (1 + 0 + 0.9) / 3.
    let mixed = vec![honest(3).remove(0), invented(3).remove(0)];
    assert!(!session.iterate(&mixed, Some(0.9)));
    assert_eq!(artifact(&session), "0.7000");
    assert_eq!(session.last.as_ref().unwrap().artifact.composite.as_ref().unwrap().raw, "0.7000");
}

/// The axes of the last iteration.
fn line_of(session: &Session) -> String {
    let axes = session.last.as_ref().unwrap().axes.iter();
    axes.map(|(_, value)| format!("{:.4}", value.unwrap())).collect::<Vec<_>>().join(" ")
}

#[test]
fn kill2_ends_an_agent_that_invents_its_quotations() {
    // Of the last five none is new; before the tenth number no rule acts. With a first finding or without one.
    for first in [honest(1), invented(1)] {
        let mut session = Session::new("equal", Form::Weighted, &["kill2", "plateau:30"]);
        session.iterate(&first, None);
        while session.ended().is_none() && session.iterations() < 30 {
            session.iterate(&invented(u64::from(session.iterations()) + 1), Some(0.9));
        }
        assert_eq!(session.iterations(), 10, "{:?}", session.ended());
        assert!(session.ended().unwrap().contains("the mean novelty of these iterations is 0.0000, below 0.3"));
    }
}

#[test]
fn what_was_unverified_and_discarded_can_be_found_anew() {
    let mut session = Session::new("equal", Form::Weighted, &[]);
    assert!(session.iterate(&honest(1), None));
    // Six claims without a quotation that is found, beside one that is verified: 1/7 of them.
    let mut claims: Vec<_> = (50..56).map(|n| (0, words(n, 3), vec![])).collect();
    claims.push((0, words(60, 3), vec!["s2".to_owned()]));
    assert!(!session.iterate(&claims, Some(0.2)));
    let found = vec![(1, words(50, 3), vec!["s50".to_owned()]), (1, words(51, 3), vec!["s51".to_owned()])];
    assert!(session.iterate(&found, None));
    assert!(session.last.as_ref().unwrap().axes[3].1.unwrap() > 0.8, "{:?}", session.last);
    // The verified one was found before.
    session.iterate(&[(2, words(60, 3), vec!["s2".to_owned()])], None);
    assert_eq!(session.last.unwrap().axes[3].1, Some(0.0));
}

#[test]
fn an_artifact_without_iterations_with_a_number_has_no_composite() {
    let session = Session::new("equal", Form::Weighted, &["kill", "kill2", "plateau:1", "above:0.1:1"]);
    assert_eq!((session.course(), session.ended()), (vec![], None));
    assert_eq!(session.iterations(), 0);
}
