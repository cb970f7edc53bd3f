//! The score of an artifact: from its claims, the kept ones, the earlier ones and the sources to axes and a composite.
//!
//! An iteration is scored, and decided, by its new claims. Beside it is the score of the artifact's full content.

use std::collections::{BTreeMap, BTreeSet};

use ar_core::domain::{Composite, Form, Number, RESEARCH_AXES, count_of, cut};
use ar_core::rules::{
    ArtifactPoint, AxisValues, NOVELTY, NOVELTY_WINDOW, composite_number, in_form, mean_novelty, worst_axis,
};

use super::artifact::{Artifact, Citation, Claim, Problem};
use super::explain::{share, source_diversity};
use super::library::Library;
use super::terms::ResearchTerms;
use super::text::{closest, nearest};

/// The axis that is there only where the composite has it: the mean date of publication of the sources that support claims, in years.
pub const FRESHNESS: &str = "freshness";

/// The number of cited sources past which diversity is warned of: the Madani adapter saw only noise past 25.
pub const NOISY_SOURCES: usize = 25;

/// Facts about a source, besides its name, by which the diversity of sources is counted too.
pub const DIVERSITY_BY: [&str; 3] = ["organisation", "medium", "year"];

/// Claims and cited sources of earlier iterations, kept or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Their claims: the text of each by its key.
    claims: BTreeMap<String, String>,
    /// The ids of the sources that they cited, in lower case.
    sources: BTreeSet<String>,
}

impl Earlier {
    /// Adds the artifact of an iteration, with the ids of the sources that were stored then, in lower case. Only what counts
    /// as a finding is one that others are compared with.
    pub fn add(&mut self, artifact: &Artifact, stored: &BTreeSet<String>, is_finding: impl Fn(&Claim) -> bool) {
        for claim in &artifact.claims {
            if is_finding(claim) {
                self.claims.entry(claim.key.clone()).or_insert_with(|| claim.text.clone());
            }
            let ids = claim.citations.iter().map(|citation| citation.id.to_lowercase());
            self.sources.extend(ids.filter(|id| stored.contains(id)));
        }
    }

    /// The texts of their claims.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.claims.values().map(String::as_str)
    }
}

/// A question to the `verify` command: whether a source supports a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The claim, without citations.
    pub claim: String,
    /// The id of the source, as it is written.
    pub id: String,
    /// The text that the claim quotes from it.
    pub quotation: Option<String>,
}

impl Request {
    /// Makes the request for a claim and one of its citations.
    pub fn of(claim: &Claim, citation: &Citation) -> Request {
        Request { claim: claim.text.clone(), id: citation.id.clone(), quotation: citation.quotation.clone() }
    }
}

/// Answers of the commands in the terms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdicts {
    /// Answers of `verify` by request, or the reason why it gives none. Absent if quotations decide.
    pub verify: Option<Result<BTreeMap<Request, bool>, String>>,
    /// Value from `novelty`, 0..1, or the reason why it gives none. Absent if the built-in measure decides.
    pub novelty: Option<Result<f64, String>>,
}

impl Verdicts {
    fn of_verify(&self) -> Result<Option<&BTreeMap<Request, bool>>, &String> {
        self.verify.as_ref().map(Result::as_ref).transpose()
    }

    /// The commands that gave no answer, each with the reason.
    fn failures(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let novelty = self.novelty.as_ref().and_then(|it| it.as_ref().err());
        [("verify", self.of_verify().err()), ("novelty", novelty)]
            .into_iter()
            .filter_map(|(name, why)| Some((name, why?)))
    }
}

/// The state before an iteration.
#[derive(Debug)]
pub struct Standing<'a> {
    /// The claims that the session kept so far.
    pub keeps: &'a Keeps,
    /// The ids of the sources that any earlier iteration stored, kept or not, in lower case.
    pub stored: BTreeSet<String>,
    /// The novelty of the earlier iterations that were decided on, in their order.
    pub novelties: Vec<f64>,
    /// The composite from which on an iteration is kept.
    pub threshold: f64,
    /// True for a baseline, which is kept whatever its score.
    pub is_baseline: bool,
}

/// An artifact that is to be scored.
#[derive(Debug)]
pub struct Scoring<'a> {
    /// What the session asks for.
    pub terms: &'a ResearchTerms,
    /// The artifact.
    pub artifact: &'a Artifact,
    /// The artifact of the kept state.
    pub kept: &'a Artifact,
    /// What earlier iterations found and cited.
    pub earlier: &'a Earlier,
    /// The sources of the artifact.
    pub library: &'a Library,
    /// The ids of the sources of the kept state, in lower case.
    pub stored: &'a BTreeSet<String>,
    /// The state before this iteration.
    pub standing: &'a Standing<'a>,
}

/// The score of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The axes in the order in which they are printed, with four decimals; `None` for one without a number.
    pub axes: Vec<(&'static str, Option<f64>)>,
    /// The weighted composite of the axes, which decides.
    pub composite: Option<Number>,
    /// The same in each form.
    pub forms: Vec<(Form, Option<Number>)>,
    /// The worst axis: one without a number, or else the one with the smallest.
    pub worst: Option<String>,
    /// Number of new claims, and of those that are verified.
    pub claims: (usize, usize),
    /// Number of new claims that are like kept ones.
    pub repeats: usize,
    /// Number of claims of the kept artifact that are missing now.
    pub removed: usize,
    /// The sub-topics to which a new verified claim was added.
    pub added: BTreeSet<usize>,
    /// The sub-topics with a verified claim, and those of them that had none before.
    pub addressed: BTreeSet<usize>,
    /// Those that had none in the kept state.
    pub newly: BTreeSet<usize>,
    /// Number of sources cited so far, and of citations that support new claims.
    pub sources: (usize, usize),
    /// Number of kept sources, with this iteration's if it is kept, and of sources that any iteration stored so far.
    pub stored: (usize, usize),
    /// Number of sources that this iteration both stores and relies on.
    pub first_stored: usize,
    /// The diversity of the supporting citations by organisation, medium and year.
    pub diversity: Vec<(&'static str, Option<f64>)>,
    /// The pair of a new claim and an earlier one that is most alike, as texts, and how much.
    pub closest: Option<(String, String, f64)>,
    /// The score of the whole artifact, with this iteration if it is kept, else without it.
    pub artifact: ArtifactPoint,
    /// Number of citations that were verified again, and of problems found; absent unless that was due.
    pub batch: Option<(usize, usize)>,
    /// The commands of the terms that gave no answer, `verify` and `novelty`.
    pub failed: Vec<&'static str>,
    /// Warnings about the values.
    pub warnings: Vec<String>,
    /// Problems with the artifact and its sources.
    pub problems: Vec<Problem>,
}

impl<'a> Scoring<'a> {
    /// The sub-topics of the claims in the kept artifact, by their keys.
    fn kept_topics(&self) -> BTreeMap<&'a str, usize> {
        self.kept.claims.iter().map(|claim| (claim.key.as_str(), claim.topic)).collect()
    }

    /// The new claims: those whose text is not in the kept artifact.
    pub fn new_claims(&self) -> Vec<&'a Claim> {
        let known = self.kept_topics();
        self.artifact.claims.iter().filter(|claim| !known.contains_key(claim.key.as_str())).collect()
    }

    /// The new claims that a source supports, or all of them without an answer of `verify`. The others are new on no axis.
    pub fn supported(&self, verdicts: &Verdicts) -> Vec<&'a Claim> {
        let is_supported =
            |claim: &&Claim| verdicts.of_verify().is_err() || !self.supporting(claim, verdicts).is_empty();
        self.new_claims().into_iter().filter(is_supported).collect()
    }

    /// Lists the requests to `verify` for a claim: all of its citations, or none if one does not resolve, because the answer
    /// would change nothing.
    pub fn requests(&self, claim: &Claim) -> Vec<Request> {
        if !self.library.resolves(claim) {
            return Vec::new();
        }
        claim.citations.iter().map(|citation| Request::of(claim, citation)).collect()
    }

    /// The score, with what the commands said. With `is_batch` the citations of kept claims are verified anew, too.
    pub fn score(&self, verdicts: &Verdicts, is_batch: bool) -> Score {
        let known = self.kept_topics();
        let (new, all) = (self.new_claims(), &self.artifact.claims);
        // A claim that was kept once and came back is no finding either.
        let repeats = self.standing.keeps.repeats(all, |claim| !known.contains_key(claim.key.as_str()));
        let (verified, supporting) = self.judged(new.iter().copied(), &repeats, verdicts);
        let now: BTreeSet<usize> = verified.iter().map(|claim| claim.topic).collect();
        // A sub-topic was addressed before by what was kept below its heading, as it stands now. What is gone shows nothing.
        let (shown, dated) = self.judged(all, &repeats, verdicts);
        let before: BTreeSet<usize> = shown.iter().filter_map(|it| known.get(it.key.as_str()).copied()).collect();
        let (problems, batch) = self.problems(verdicts, &new, &repeats, is_batch);
        let addressed: BTreeSet<usize> = before.union(&now).copied().collect();
        let cited = self.cited(&self.artifact.claims);
        let so_far = self.earlier.sources.union(&cited).count();
        let supported = self.supported(verdicts);
        let closest = self.closest(&supported);
        // What no source supports is at the worst end of each axis.
        let unsupported = (supported.is_empty() && !new.is_empty()).then_some(0.0);
        let novelty = match &verdicts.novelty {
            _ if supported.is_empty() => unsupported,
            Some(value) => value.as_ref().ok().copied(),
            None => Some(closest.as_ref().map_or(1.0, |(_, _, similarity)| 1.0 - similarity)),
        };
        let judged = [
            share(verified.len(), new.len()),
            source_diversity(&counts(&supporting), so_far).or(unsupported),
            share(now.len(), self.terms.topics.len()),
        ];
        let mut axes = self.axes(judged, novelty, &dated, verdicts);
        for (name, value) in &mut axes {
            let range = self.terms.composite.axes.get(*name).and_then(|axis| axis.range);
            let oldest = range.filter(|_| unsupported.is_some() && *name == FRESHNESS).map(|[oldest, _]| oldest);
            *value = oldest.or(*value).and_then(four_decimals);
        }
        let values: AxisValues = axes.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let composite = &self.terms.composite;
        let of_form = |form| in_form(composite, form, &values).and_then(composite_number);
        let standing = self.standing;
        let whole = of_form(Form::Weighted);
        let is_kept = standing.is_baseline || whole.as_ref().is_some_and(|it| it.value >= standing.threshold);
        let of_iteration = values.get(NOVELTY).copied().flatten().filter(|_| whole.is_some() && !standing.is_baseline);
        let artifact = self.whole(is_kept.then_some(&repeats), of_iteration, verdicts);
        Score {
            failed: verdicts.failures().map(|(name, _)| name).collect(),
            composite: whole,
            artifact,
            forms: [Form::Weighted, Form::Multiplicative, Form::V2].map(|form| (form, of_form(form))).to_vec(),
            worst: worst(composite, &values),
            claims: (new.len(), verified.len()),
            repeats: new.iter().filter(|it| repeats.contains_key(it.key.as_str())).count(),
            removed: self.removed(),
            newly: now.difference(&before).copied().collect(),
            added: now,
            addressed,
            sources: (so_far, supporting.len()),
            stored: self.stored_sources(is_kept),
            first_stored: self.first_stored(&new),
            diversity: self.diversity(&supporting, &cited),
            closest,
            batch,
            warnings: self.warnings(&new, so_far),
            problems,
            axes,
        }
    }

    /// Of these claims the verified ones, and the ids under which the sources that support any of them count, one for each
    /// citation.
    fn judged<'c>(
        &self,
        claims: impl IntoIterator<Item = &'c Claim>,
        repeats: &Repeats<'_>,
        verdicts: &Verdicts,
    ) -> (Vec<&'c Claim>, Vec<String>) {
        let (mut verified, mut supporting) = (Vec::new(), Vec::new());
        for claim in claims {
            let ids = self.supporting(claim, verdicts);
            if !ids.is_empty() && !repeats.contains_key(claim.key.as_str()) {
                verified.push(claim);
            }
            supporting.extend(ids);
        }
        (verified, supporting)
    }

    /// The support of a claim, by quotations or the answers of `verify`; nothing where it gives none.
    fn supporting(&self, claim: &Claim, verdicts: &Verdicts) -> Vec<String> {
        verdicts.of_verify().map(|known| self.library.supporting(claim, known)).unwrap_or_default()
    }

    /// The problems with the artifact, its sources and the commands, sorted. A batch also has those of kept claims, and their
    /// number after that of all citations.
    fn problems(
        &self,
        verdicts: &Verdicts,
        new: &[&Claim],
        repeats: &Repeats<'_>,
        is_batch: bool,
    ) -> (Vec<Problem>, Option<(usize, usize)>) {
        let known = verdicts.of_verify().ok().flatten();
        let mut problems = self.artifact.problems.clone();
        problems.extend(self.library.problems.iter().cloned());
        // Without new claims novelty does not matter.
        let failures = verdicts.failures().filter(|(key, _)| *key != "novelty" || !new.is_empty());
        problems.extend(failures.map(|(key, why)| Problem::at(super::TERMS_FILE, 1, format!("{key}: {why}"))));
        problems.extend(new.iter().flat_map(|claim| self.problems_of(claim, known)));
        problems.extend(new.iter().filter_map(|claim| {
            let (similarity, kept) = repeats.get(claim.key.as_str())?;
            let what = format!(
                "this claim is {similarity:.2} like the kept \"{}\"; a repeat is never verified",
                cut(kept, 80)
            );
            Some(Problem::at(&self.terms.artifact.to_string_lossy(), claim.line, what))
        }));
        let batch = is_batch.then(|| {
            let all = &self.artifact.claims;
            let of_all: Vec<Problem> = all.iter().flat_map(|claim| self.problems_of(claim, known)).collect();
            let counts = (all.iter().map(|claim| claim.citations.len()).sum(), of_all.len());
            problems.extend(of_all);
            counts
        });
        problems.sort();
        problems.dedup();
        (problems, batch)
    }

    /// The axes in the order in which they are printed; the first three need the answers of `verify`.
    fn axes(
        &self,
        [density, diversity, coverage]: [Option<f64>; 3],
        novelty: Option<f64>,
        supporting: &[String],
        verdicts: &Verdicts,
    ) -> Vec<(&'static str, Option<f64>)> {
        let judged = [density, diversity, coverage].map(|value| value.filter(|_| verdicts.of_verify().is_ok()));
        let mut axes: Vec<_> = RESEARCH_AXES.into_iter().zip(judged.into_iter().chain([novelty])).collect();
        if self.terms.composite.axes.contains_key(FRESHNESS) {
            axes.push((FRESHNESS, self.freshness(supporting)));
        }
        axes
    }

    /// The ids under which the sources count that claims cite.
    fn cited(&self, claims: &[Claim]) -> BTreeSet<String> {
        let cited = claims.iter().flat_map(|claim| &claim.citations);
        cited.filter_map(|citation| self.library.counts_as(&citation.id)).map(str::to_owned).collect()
    }

    /// Counts the sources that the new claims cite and the kept state lacks.
    fn first_stored(&self, new: &[&Claim]) -> usize {
        let cited = new.iter().flat_map(|claim| &claim.citations).filter_map(|it| self.library.counts_as(&it.id));
        cited.filter(|id| !self.stored.contains(*id)).collect::<BTreeSet<_>>().len()
    }

    /// Counts the kept sources, and those that any iteration stored so far.
    fn stored_sources(&self, is_kept: bool) -> (usize, usize) {
        let stored: BTreeSet<&str> = self.library.ids().collect();
        let kept = if is_kept { stored.len() } else { self.stored.len() };
        (kept, stored.union(&self.standing.stored.iter().map(String::as_str).collect()).count())
    }

    /// Scores the whole artifact: with this iteration if it is kept, whose repeats are in `kept`, else as it was before.
    /// `novelty` is that of this iteration, `None` for a baseline or without a composite.
    fn whole(&self, kept: Option<&Repeats<'_>>, novelty: Option<f64>, verdicts: &Verdicts) -> ArtifactPoint {
        let claims = if kept.is_some() { &self.artifact.claims } else { &self.kept.claims };
        let repeats = kept.cloned().unwrap_or_else(|| self.standing.keeps.repeats(claims, |_| false));
        let (verified, supporting) = self.judged(claims, &repeats, verdicts);
        let topics: BTreeSet<usize> = verified.iter().map(|claim| claim.topic).collect();
        let novelties: Vec<f64> = self.standing.novelties.iter().copied().chain(novelty).collect();
        let judged = [
            share(verified.len(), claims.len()).or(Some(0.0)),
            source_diversity(&counts(&supporting), self.cited(claims).len()).or(Some(0.0)),
            share(topics.len(), self.terms.topics.len()),
        ];
        let novelty = mean_novelty(&novelties, NOVELTY_WINDOW);
        let axes = self.axes(judged, novelty, &supporting, verdicts);
        let axes = axes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        ArtifactPoint::new(&self.terms.composite, self.terms.composite.form, axes)
    }

    /// Lists the problems with the citations of a claim.
    fn problems_of(&self, claim: &Claim, verdicts: Option<&BTreeMap<Request, bool>>) -> Vec<Problem> {
        let file = self.terms.artifact.to_string_lossy();
        let mut problems = Vec::new();
        let mut say = |line, what: String| problems.push(Problem::at(&file, line, what));
        if claim.citations.is_empty() && claim.is_sound {
            say(claim.line, "this claim cites no source".into());
        }
        for citation in &claim.citations {
            let Citation { id, quotation, line } = citation;
            let Some((path, _)) = self.library.source(id) else {
                let sources = self.terms.sources.display();
                say(
                    *line,
                    match self.library.is_broken(id) {
                        true => format!("the source of [@{id}] is unusable; its own problem is listed, too"),
                        false => format!("[@{id}] has no source; store it as {sources}/{id}.md"),
                    },
                );
                continue;
            };
            let shown = path.display();
            match (verdicts, quotation) {
                (Some(verdicts), _) if verdicts.get(&Request::of(claim, citation)) == Some(&false) => {
                    say(*line, format!("`verify` says that {shown} does not support this claim"));
                }
                (None, Some(quotation)) if !self.library.holds(id, quotation) => {
                    let elsewhere = self.library.holding(quotation).next().map(|other| format!(", but in [@{other}]"));
                    let elsewhere = elsewhere.unwrap_or_default();
                    say(*line, format!("\"{}\" is not in {shown}{elsewhere}", cut(quotation, 80)));
                }
                _ => {}
            }
        }
        let quotes = |citation: &Citation| citation.quotation.is_some();
        if verdicts.is_none()
            && self.library.resolves(claim)
            && !claim.citations.is_empty()
            && !claim.citations.iter().any(quotes)
        {
            say(claim.line, "no citation of this claim quotes its source, as in [@id \"a quotation\"]".into());
        }
        problems
    }

    /// The new claim and the earlier one that are most alike.
    fn closest(&self, new: &[&Claim]) -> Option<(String, String, f64)> {
        let earlier: Vec<&str> = self.earlier.texts().collect();
        let texts: Vec<(&str, usize)> = new.iter().map(|claim| (claim.text.as_str(), earlier.len())).collect();
        let (text, place, similarity) = closest(&texts, &earlier)?;
        Some((text.to_owned(), earlier[place].to_owned(), similarity))
    }

    /// The mean date of publication of sources, in years; `None` where no source has a date.
    fn freshness(&self, sources: &[String]) -> Option<f64> {
        let sources: BTreeSet<&String> = sources.iter().collect();
        let years: Vec<f64> = sources.into_iter().filter_map(|id| self.library.source(id)?.1.year()).collect();
        (!years.is_empty()).then(|| years.iter().sum::<f64>() / years.len() as f64)
    }

    /// The diversity of citations by what is said of their sources.
    fn diversity(&self, supporting: &[String], cited: &BTreeSet<String>) -> Vec<(&'static str, Option<f64>)> {
        let said = |id: &str, by: &str| {
            let (_, front) = self.library.source(id)?;
            let text = match by {
                "organisation" => front.organisation.clone(),
                "medium" => front.medium.clone(),
                _ => front.year().map(|year| format!("{}", year.floor())),
            };
            text.map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty())
        };
        let by = |by: &'static str| {
            let all: BTreeSet<String> = cited.iter().filter_map(|id| said(id, by)).collect();
            let of: Vec<String> = supporting.iter().filter_map(|id| said(id, by)).collect();
            (by, source_diversity(&counts(&of), all.len()).and_then(four_decimals))
        };
        DIVERSITY_BY.map(by).to_vec()
    }

    fn warnings(&self, new: &[&Claim], sources: usize) -> Vec<String> {
        let mut warnings = self.terms.warnings.clone();
        if new.is_empty() {
            warnings.push("without new claims most axes have no number".into());
        }
        if sources > NOISY_SOURCES {
            warnings.push(format!(
                "{} were cited so far; past {NOISY_SOURCES}, source diversity is mostly noise",
                count_of(sources, "source")
            ));
        }
        let quotations = new.iter().flat_map(|claim| &claim.citations).filter_map(|it| it.quotation.as_deref());
        let short = quotations.filter(|quotation| is_short(quotation)).count();
        if short > 0 {
            let what = if short == 1 {
                "one quotation is a short word".into()
            } else {
                format!("{short} quotations are short words")
            };
            warnings.push(format!("{what}, and shows little: quote the phrase that the claim relies on"));
        }
        let removed = self.removed();
        if removed > 0 {
            warnings.push(format!("this artifact lacks {} of the kept one", count_of(removed, "claim")));
        }
        warnings
    }

    /// Counts the claims of the kept artifact that are missing now.
    fn removed(&self) -> usize {
        let now: BTreeSet<&str> = self.artifact.claims.iter().map(|claim| claim.key.as_str()).collect();
        self.kept.claims.iter().filter(|claim| !now.contains(claim.key.as_str())).count()
    }
}

/// The worst axis, of equal ones the first by name.
fn worst(composite: &Composite, values: &AxisValues) -> Option<String> {
    let without = composite.axes.keys().find(|name| values.get(*name).is_some_and(Option::is_none));
    without.cloned().or_else(|| Some(worst_axis(composite, values)?.0.to_owned()))
}

/// Returns whether a quotation is so short that most texts contain it.
fn is_short(quotation: &str) -> bool {
    quotation.chars().filter(|c| c.is_alphanumeric()).count() < 4
}

/// Counts how often each text occurs.
fn counts(texts: &[String]) -> Vec<usize> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts.into_values().collect()
}

/// A number as it is printed, and never a zero with a sign.
fn four_decimals(value: f64) -> Option<f64> {
    composite_number(value).map(|number| number.value + 0.0)
}

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

/// Claims that repeat kept ones, by their keys: how alike the two are, 0..1, and the kept one.
type Repeats<'a> = BTreeMap<&'a str, (f64, &'a str)>;

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
    fn repeats<'c>(&'c self, claims: &'c [Claim], is_new: impl Fn(&Claim) -> bool) -> Repeats<'c> {
        let before = |claim: &Claim| self.before.get(&claim.key).copied().filter(|_| !is_new(claim));
        let new: Vec<(&str, usize)> =
            claims.iter().map(|claim| (claim.text.as_str(), before(claim).unwrap_or(self.len()))).collect();
        let earlier: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let repeat = |(claim, found): (&'c Claim, Option<(usize, f64)>)| {
            let (place, similarity) = found.filter(|(_, similarity)| *similarity >= REPEAT)?;
            Some((claim.key.as_str(), (similarity, self.texts[place].as_str())))
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
