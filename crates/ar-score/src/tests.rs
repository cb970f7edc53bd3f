//! Whole artifacts, scored by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// An artifact to score, and everything that its score depends on.
#[derive(Clone, Default)]
struct Scene {
    terms: String,
    artifact: String,
    kept: String,
    earlier: Vec<String>,
    sources: Vec<(String, String)>,
    verdicts: Verdicts,
    is_batch: bool,
    /// The novelty of earlier iterations.
    novelties: Vec<f64>,
}

/// A source of an id that says this.
fn source(id: &str, text: &str) -> (String, String) {
    let year = 2000 + id.len();
    let front = format!("url: u\ntitle: t\norganisation: o-{id}\nmedium: paper\npublished: {year}\n");
    (id.to_owned(), format!("---\n{front}---\n{text}\n"))
}

/// Four sub-topics, and sources a to d that say `a1`, `a2`, … `d9`.
fn scene(artifact: &str) -> Scene {
    let says = |id: &str| (1..=9).map(|n| format!("{id}{n}")).collect::<Vec<_>>().join(" and ");
    Scene {
        terms: "question = \"Q\"\nsubtopics = [\"One\", \"Two\", \"Three\", \"Four\"]\n".into(),
        artifact: artifact.into(),
        sources: ["a", "b", "c", "d"].map(|id| source(id, &says(id))).into(),
        ..Scene::default()
    }
}

impl Scene {
    fn score(&self) -> Score {
        let terms = ResearchTerms::read(&self.terms).unwrap();
        let read = |text: &str| Artifact::read("research_artifact.md", text, &terms.topics);
        let (artifact, kept) = (read(&self.artifact), read(&self.kept));
        let stored: BTreeSet<String> = self.sources.iter().map(|(id, _)| id.to_lowercase()).collect();
        let mut earlier = Earlier::default();
        for text in self.earlier.iter().chain([&self.kept]) {
            earlier.add(&read(text), &stored, |_| true);
        }
        let paths = self.sources.iter().map(|(id, _)| PathBuf::from(format!("sources/{id}.md")));
        let catalogue = Catalogue::of(paths);
        let claims = artifact.claims.iter().chain(&kept.claims);
        let quotations = claims.flat_map(|claim| &claim.citations).filter_map(|it| it.quotation.as_deref());
        let mut library = Library::new(&catalogue, quotations);
        for (id, path) in &catalogue.files {
            let (_, text) = self.sources.iter().find(|(known, _)| known.to_lowercase() == *id).unwrap();
            library.add(id, path, text.as_bytes());
        }
        let of_kept = if self.kept.is_empty() { BTreeSet::new() } else { ["a", "b"].map(str::to_owned).into() };
        let mut keeps = Keeps::default();
        keeps.add(&kept);
        let standing = Standing {
            keeps: &keeps,
            stored: BTreeSet::new(),
            novelties: self.novelties.clone(),
            threshold: 0.45,
            is_baseline: false,
        };
        let (terms, artifact, kept, earlier) = (&terms, &artifact, &kept, &earlier);
        Scoring { terms, artifact, kept, earlier, library: &library, stored: &of_kept, standing: &standing }
            .score(&self.verdicts, self.is_batch)
    }

    /// The lines that are printed, on one.
    fn line(&self) -> String {
        line(&self.score())
    }

    /// Lists the problems with their lines.
    fn problems(&self) -> Vec<String> {
        self.score().problems.iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
    }
}

fn line(score: &Score) -> String {
    let number = |value: &Option<f64>| value.map_or("nan".into(), |value| format!("{value:.4}"));
    let axes: Vec<String> = score.axes.iter().map(|(_, value)| number(value)).collect();
    let composite = score.composite.as_ref().map_or("nan", |value| value.raw.as_str());
    format!("{} = {composite}", axes.join(" "))
}

#[test]
fn a_first_iteration_by_hand() {
    let scene = scene(
        "## One\n- Alpha is fast. [@a \"a1\"] [@b]\n- Beta is slow. [@b \"not said\"]\n## Two\n- Gamma is large. [@a \"a2\"] [@b \"b1\"]\n",
    );
    // 2 of 3 new claims are verified: 0.6667. Supporting citations: a twice, b once, of 2 sources cited so far:
    // −(2/3) ln (2/3) − (1/3) ln (1/3) = 0.270310 + 0.366204 = 0.636514; / ln 2 = 0.918296. 2 of 4 sub-topics. Nothing earlier.
    // Together (0.6667 + 0.9183 + 0.5 + 1) / 4 = 0.77125.
    assert_eq!(scene.line(), "0.6667 0.9183 0.5000 1.0000 = 0.7712");
    let score = scene.score();
    assert_eq!((score.claims, score.worst), ((3, 2), Some("topic_coverage".into())));
    assert_eq!(score.newly, [0, 1].into());
    assert_eq!(scene.problems(), ["3: \"not said\" is not in sources/b.md"]);
    // The types weigh the same numbers differently: 0.40 × 0.6667 + 0.10 × 0.9183 + 0.20 × 0.5 + 0.30 × 1 = 0.75851;
    // 0.35 × 0.6667 + 0.30 × 0.9183 + 0.20 × 0.5 + 0.15 × 1 = 0.758835.
    let with = |terms: &str| {
        Scene { terms: format!("{terms}{}", scene.terms), ..scene.clone() }.score().composite.unwrap().raw
    };
    assert_eq!([with("type = \"technical\"\n"), with("type = \"business\"\n")], ["0.7585", "0.7588"]);
    // 0.6667 × 0.9183 × 0.5 × 1 = 0.306115; √0.5 × 4 / (1/0.6667 + 1/0.9183 + 1/0.5 + 1) = 0.707107 × 4 / 5.588892 = 0.506080.
    let forms: Vec<_> = score.forms.into_iter().map(|(_, value)| value.unwrap().raw).collect();
    assert_eq!(forms, ["0.7712", "0.3061", "0.5061"]);
}

#[test]
fn a_later_iteration_by_hand() {
    let kept = "## One\n- Alpha is fast. [@a \"a1\"] [@b]\n";
    let scene = Scene {
        kept: kept.into(),
        earlier: vec!["## Two\n- quiet kiwi [@c \"c1\"]\n".into()],
        ..scene(&format!("{kept}## Three\n- alpha beta [@b \"b2\"]\n- zebra [@d \"d1\"] [@b \"b3\"]\n"))
    };
    // New are "alpha beta" and "zebra", both verified: 1. Citations: b twice, d once; cited so far: a, b, c, d. 0.636514 / ln
    // 4 = 0.459148. A sub-topic of 4: Three; One had a verified claim before. The closest pair is "alpha beta" with "Alpha is
    // fast": the word alpha and its 5 triples are common: 1 + 5 × 0.0625 = 1.3125. Squared lengths: 2.625 (two words, a pair
    // and 9 triples), and for "alpha is fast" 1 + 0.0625 + 1 for the words, 2 pairs, 5 + 2 + 4 triples: 2.0625 + 13 × 0.0625
    // = 2.875. 1.3125 / √(2.625 × 2.875) = 1.3125 / 2.747158 = 0.477766; novelty 0.522234.
    assert_eq!(scene.line(), "1.0000 0.4591 0.2500 0.5222 = 0.5578");
    let score = scene.score();
    assert_eq!((score.addressed, score.newly, score.added), ([0, 2].into(), [2].into(), [2].into()));
    // The new claims cite b and d; the kept state has only b of these.
    assert_eq!((score.sources, score.first_stored), ((4, 3), 1));
    assert_eq!(score.problems, []);
    let (claim, earlier, _) = score.closest.unwrap();
    assert_eq!((claim.as_str(), earlier.as_str()), ("alpha beta", "Alpha is fast."));
    // Freshness: the cited sources a, b and d were published in 2001: the middle of it is 2001.5. Of 2000 to 2010: 0.15.
    let freshness = "[composite.axes.freshness]\nweight = 1\nrange = [2000, 2010]\n";
    let score = Scene { terms: format!("{}{freshness}", scene.terms), ..scene }.score();
    assert_eq!(line(&score), "1.0000 0.4591 0.2500 0.5222 2001.5000 = 0.1500");
}

#[test]
fn an_artifact_without_claims_has_no_number() {
    for artifact in ["", "# Q\n\n## One\n\n## Two\n", "text\n- outside\n"] {
        let score = scene(artifact).score();
        assert_eq!(line(&score), "nan nan 0.0000 nan = nan");
        assert_eq!(score.problems, []);
        assert!(explain(&score, &ResearchTerms::read(&scene("").terms).unwrap()).len() > 5);
    }
    let kept = "## One\n- Alpha is fast. [@a \"a1\"]\n";
    assert_eq!(Scene { kept: kept.into(), ..scene(kept) }.line(), "nan nan 0.0000 nan = nan");
}

#[test]
fn the_mean_decides_whatever_the_form_of_the_artifact() {
    let kept = "## One\n- Alpha is fast. [@a \"a1\"]\n";
    let scene = Scene { kept: kept.into(), ..scene(&format!("{kept}## Two\n- Kiwi. [@b \"b1\"] [@c \"c1\"]\n")) };
    let terms = format!("{}[composite]\nform = \"multiplicative\"\n", scene.terms);
    let scene = Scene { terms, ..scene };
    // 1 of 1; two of three sources, ln 2 / ln 3 = 0.6309; one sub-topic of four; nothing alike. Its mean decides.
    let score = scene.score();
    assert_eq!(line(&score), "1.0000 0.6309 0.2500 1.0000 = 0.7202");
}

#[test]
fn claims_without_sources_gain_nothing() {
    let honest = scene("## One\n- Alpha is fast. [@a \"a1\"]\n");
    assert_eq!(honest.line(), "1.0000 0.0000 0.2500 1.0000 = 0.5625");
    let padded = scene(
        "## One\n- Alpha is fast. [@a \"a1\"]\n## Two\n- Beta.\n## Three\n- Gamma. [@x \"a1\"]\n## Four\n- Delta. [@a]\n",
    );
    assert_eq!(padded.line(), "0.2500 0.0000 0.2500 1.0000 = 0.3750");
    let expected = [
        "4: this claim cites no source",
        "6: [@x] has no source; store it as sources/x.md",
        "8: no citation of this claim quotes its source, as in [@id \"a quotation\"]",
    ];
    assert_eq!(padded.problems(), expected);
    // One citation without a source spoils a claim that is verified otherwise.
    assert!(scene("## One\n- Alpha. [@a \"a1\"] [@x]\n").line().starts_with("0.0000 "));
    assert!(scene("## One\n- Alpha. [@a \"a1\"] [@a; @b]\n").line().starts_with("0.0000 "));
    assert_eq!(scene("## One\n- Alpha.\n").line(), "0.0000 0.0000 0.0000 0.0000 = 0.0000");
    // So does one with a source that says so, and another that is missing: it counts for no axis.
    assert_eq!(scene("## One\n- Alpha. [@a \"a1\"] [@x]\n").line(), "0.0000 0.0000 0.0000 0.0000 = 0.0000");
}

#[test]
fn quotations_that_are_not_there_gain_nothing() {
    let wrong = scene("## One\n- Alpha. [@a \"b1\"]\n- Beta. [@a \"invented\"]\n- Gamma. [@a \"a1 and\"]\n");
    // 1 of 3; one source.
    assert_eq!(wrong.line(), "0.3333 0.0000 0.2500 1.0000 = 0.3958");
    let expected = ["2: \"b1\" is not in sources/a.md, but in [@b]", "3: \"invented\" is not in sources/a.md"];
    assert_eq!(wrong.problems(), expected);
    // The front matter is no text of the source.
    assert_eq!(scene("## One\n- Alpha. [@a \"o-a\"]\n").line(), "0.0000 0.0000 0.0000 0.0000 = 0.0000");
}

#[test]
fn what_no_source_supports_raises_no_axis() {
    let kept = "## One\n- Alpha is fast. [@a \"a1\"]\n";
    let verdict = |more: &str, novelty: Option<f64>| {
        let verdicts = Verdicts { novelty: novelty.map(Ok), ..Verdicts::default() };
        let terms =
            "[composite.axes.freshness]\nweight = 0.8\nrange = [2000, 2010]\n[composite.axes.novelty]\nweight = 0.2\n";
        let scene = Scene { kept: kept.into(), verdicts, ..scene(&format!("{kept}## Two\n{more}")) };
        let mut scene = Scene { terms: format!("{}{terms}", scene.terms), novelties: vec![0.5], ..scene };
        scene.sources.push(source("newer9", "x"));
        scene.score()
    };
    // A command that finds it new, and kept sources that are fresh, help an invented claim to nothing; nor the artifact.
    let invented = verdict("- Zulu. [@newer9 \"y\"]\n", Some(0.9));
    assert_eq!(line(&invented), "0.0000 0.0000 0.0000 0.0000 2000.0000 = 0.0000");
    assert_eq!(invented.artifact.axes["novelty"], Some(0.25));
    // Beside a verified one it lowers the density, and neither is new nor dates anything.
    let with = |more: &str| verdict(&format!("- Kiwi. [@b \"b1\"]\n{more}"), None);
    let (alone, mixed) = (with(""), with("- Alpha is fast now. [@newer9 \"y\"]\n"));
    assert_eq!((alone.axes[0].1, mixed.axes[0].1), (Some(1.0), Some(0.5)));
    assert_eq!(alone.axes[3..], mixed.axes[3..]);
}

#[test]
fn the_same_claim_again_gains_nothing() {
    let claim = "- PagedAttention wastes under 4% of memory. [@a \"a1\"]\n";
    let kept = format!("## One\n{claim}");
    let with = |more: &str| Scene { kept: kept.clone(), ..scene(&format!("{kept}{more}")) };
    // Kept already, with other punctuation, and below another heading: it is not new, and addresses nothing.
    assert_eq!(
        with("## Two\n- pagedattention wastes, under 4 % of *memory*! [@b \"b1\"]\n").line(),
        "nan nan 0.0000 nan = nan"
    );
    // Reworded it repeats the kept one: not verified, and for no sub-topic, whatever it quotes.
    let reworded = with("## Two\n- Under 4% of memory is wasted by PagedAttention. [@b \"b1\"]\n");
    let score = reworded.score();
    assert_eq!((score.claims, score.repeats, score.sources.1), ((1, 0), 1, 1));
    assert_eq!((score.added.len(), score.newly.len(), &score.addressed), (0, 0, &[0].into()));
    assert!(score.axes[3].1.unwrap() < 0.3, "{score:?}");
    let problem =
        "4: this claim is 0.81 like the kept \"PagedAttention wastes under 4% of memory.\"; a repeat is never verified";
    assert_eq!(reworded.problems(), [problem]);
    // One that was discarded is no novelty either.
    let again = Scene { earlier: vec![kept.clone()], ..scene(&kept) };
    assert!(again.line().starts_with("1.0000 0.0000 0.2500 0.0000 ="), "{}", again.line());
    // Twice in one artifact it counts once.
    assert_eq!(scene(&format!("{kept}{claim}## Two\n{claim}")).score().claims, (1, 1));
}

#[test]
fn one_source_cited_twelve_times_gains_nothing() {
    let cites: String = (0..12).map(|n| format!(" [@a \"a{}\"]", n % 9 + 1)).collect();
    let many = scene(&format!("## One\n- Alpha.{cites}\n- Beta. [@a \"a1\"]\n"));
    let few = scene("## One\n- Alpha. [@a \"a1\"]\n- Beta. [@a \"a1\"]\n");
    assert_eq!(many.line(), few.line());
    assert_eq!(few.score().axes[1].1, Some(0.0));
    // Beside another source it makes the mixture worse: 12 + 1 of 2: 0.271189 / ln 2 = 0.391244.
    let mixed = scene(&format!("## One\n- Alpha.{cites}\n- Beta. [@b \"b1\"]\n"));
    assert_eq!(mixed.score().axes[1].1, Some(0.3912));
    // Stored twelve times under other names it is still one source.
    let ids: Vec<String> = (0..12).map(|n| format!("copy{n}")).collect();
    let cites: String = ids.iter().map(|id| format!(" [@{id} \"a1\"]")).collect();
    let mut copied = scene(&format!("## One\n- Alpha.{cites}\n- Beta. [@a \"a1\"]\n"));
    let (_, text) = copied.sources[0].clone();
    copied.sources.extend(ids.into_iter().map(|id| (id, text.clone())));
    assert_eq!(copied.line(), few.line());
}

#[test]
fn what_was_kept_stays_addressed_where_it_was() {
    let kept = "## One\n- Alpha. [@a \"a1\"]\n";
    let removed = Scene { kept: kept.into(), ..scene("## Two\n- Beta. [@b \"b1\"]\n") }.score();
    assert_eq!((&removed.addressed, removed.removed), (&[1].into(), 1), "a claim that is gone shows nothing");
    let stripped = Scene { kept: kept.into(), ..scene("## One\n- Alpha.\n") }.score();
    assert_eq!(stripped.addressed, BTreeSet::new(), "nor does one whose citations are");
    assert!(removed.warnings.contains(&"this artifact lacks 1 claim of the kept one".to_owned()), "{removed:?}");
    let moved = Scene { kept: kept.into(), ..scene("## Two\n- Alpha. [@a \"a1\"]\n") }.score();
    assert_eq!((moved.addressed, moved.newly), ([0].into(), BTreeSet::new()));
    // A kept claim that was not verified counts once it is.
    let before = "## One\n- Alpha. [@a]\n";
    let mended = Scene { kept: before.into(), ..scene(kept) }.score();
    assert_eq!((mended.addressed, mended.newly), ([0].into(), BTreeSet::new()));
}

#[test]
fn a_batch_names_what_fails_among_kept_claims() {
    let kept = "## One\n- Alpha. [@a \"gone\"]\n- Beta. [@b \"b1\"]\n";
    let mut scene = Scene { kept: kept.into(), ..scene(&format!("{kept}- Gamma. [@c \"c1\"]\n")) };
    assert_eq!((scene.score().batch, scene.problems()), (None, Vec::<String>::new()));
    scene.is_batch = true;
    assert_eq!(scene.score().batch, Some((3, 1)));
    assert_eq!(scene.problems(), ["2: \"gone\" is not in sources/a.md"]);
}

#[test]
fn commands_decide_where_there_are_some() {
    let mut scene = scene("## One\n- Alpha. [@a]\n- Beta. [@b \"invented\"]\n## Two\n- Gamma. [@c]\n");
    let request = |claim: &str, id: &str, quotation: Option<&str>| Request {
        claim: claim.into(),
        id: id.into(),
        quotation: quotation.map(Into::into),
    };
    let verdicts = [
        (request("Alpha.", "a", None), true),
        (request("Beta.", "b", Some("invented")), true),
        (request("Gamma.", "c", None), false),
    ];
    scene.verdicts.verify = Some(Ok(BTreeMap::from(verdicts)));
    scene.verdicts.novelty = Some(Ok(0.25));
    // 2 of 3; ln 2 / ln 3 = 0.630930; 1 of 4.
    assert_eq!(scene.line(), "0.6667 0.6309 0.2500 0.2500 = 0.4494");
    assert_eq!(scene.problems(), ["5: `verify` says that sources/c.md does not support this claim"]);
    scene.verdicts.verify = Some(Err("it hangs".into()));
    assert_eq!(scene.line(), "nan nan nan 0.2500 = nan");
    assert_eq!(scene.problems()[0], "1: verify: it hangs");
    scene.verdicts = Verdicts { novelty: Some(Err("it lies".into())), ..Verdicts::default() };
    scene.artifact += "- Delta. [@a \"a1\"]\n";
    assert!(scene.line().ends_with(" nan = nan"), "{}", scene.line());
}

#[test]
fn broken_sources_and_noise_are_named() {
    let mut scene = scene("## One\n- Alpha. [@e \"x\"]\n- Beta. [@F \"x\"]\n");
    scene.sources.extend([("e".into(), "no front matter".into()), source("f", "x"), source("F", "x")]);
    let expected = [
        "2: the source of [@e] is unusable; its own problem is listed, too",
        "3: the source of [@F] is unusable; its own problem is listed, too",
        "1: several sources have the id f: sources/F.md, sources/f.md",
        "1: a source begins with `---`, url, title and so on, and another `---`",
    ];
    assert_eq!(scene.problems(), expected);
    let ids: Vec<String> = (0..26).map(|n| format!("s{n}")).collect();
    let cites: String = ids.iter().map(|id| format!(" [@{id} \"x\"]")).collect();
    let mut noisy = self::scene(&format!("## One\n- Alpha.{cites}\n"));
    noisy.sources.extend(ids.iter().map(|id| source(id, "x")));
    let score = noisy.score();
    assert_eq!((score.axes[1].1, score.sources), (Some(1.0), (26, 26)));
    assert!(score.warnings[0].contains("26 sources were cited so far"), "{:?}", score.warnings);
    assert_eq!(score.diversity[1], ("medium", Some(0.0)));
}

/// Text that is likely to be read as something.
fn markdown() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("## One\n".to_owned()),
        Just("## two\n".to_owned()),
        Just("- ".to_owned()),
        Just("\n  - ".to_owned()),
        Just("[@a \"a1\"]".to_owned()),
        Just("[@b \"x".to_owned()),
        Just("[@".to_owned()),
        Just("\"]\n".to_owned()),
        Just("alpha beta\n".to_owned()),
        Just("```\n".to_owned()),
        "\\PC{0,12}",
        any::<String>(),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_text_scores_within_0_and_1_or_nothing(
        artifact in markdown(), kept in markdown(), earlier in markdown(), text in any::<String>(), front in any::<String>(),
    ) {
        let mut scene = Scene { kept, earlier: vec![earlier], is_batch: true, ..scene(&artifact) };
        scene.sources.push(source("odd", &text));
        scene.sources.push(("front".into(), format!("---\n{front}\n---\n{text}")));
        let score = scene.score();
        for (name, value) in &score.axes {
            prop_assert!(value.is_none_or(|value| (0.0..=1.0).contains(&value) && value.is_sign_positive()), "{name} {value:?}");
        }
        prop_assert!(!line(&score).contains('-'));
        prop_assert!(score.claims.1 <= score.claims.0);
        let explained = explain(&score, &ResearchTerms::read(&scene.terms).unwrap());
        prop_assert!(explained.iter().all(|line| !line.contains('\n')));
        prop_assert_eq!(score, scene.score());
    }
}
