//! Decisions by a hidden split: an evaluator that no agent sees runs after each fresh run, and the rule of fresh runs decides on its
//! values. The visible values of the same runs are the bar of the next change's first run.
//!
//! Records have neither: while a session can go on, whatever an agent can read has the value of a first run alone.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    AblatingRun, CONFIRMED, Contender, Estimate, FreshStep, NextStep, Sample, Verdict, bar, baseline_with, estimate,
    fresh_groups, fresh_groups_besides, fresh_runs, judge, judge_pair, mean, next_step, noise, numbered_keep,
    step_before_verdict, too_little, with_runs,
};
use crate::domain::{
    Ablated, AblatedRun, CommitId, Contract, DiffStat, Direction, ExperimentId, Number, Outcome, Record, Run,
    RunResult, RunRole, VerifiedId, VerifiedPair, count_of,
};
use crate::rules::{History, Measurement};

/// A run that counts, with what the hidden evaluator gave on what it left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HiddenRun {
    /// The experiment or the trial that it is a run of.
    pub experiment: ExperimentId,
    /// True for the first run of an attempt, whose visible value its record has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_first: bool,
    /// The visible result, with the commit that was executed.
    pub visible: RunResult,
    /// The hidden value; absent where a slow evaluator was spared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Number>,
    /// The evaluator's duration, in seconds.
    #[serde(default)]
    pub seconds: f64,
}

impl HiddenRun {
    /// The commit that it executed.
    pub fn commit(&self) -> Option<&CommitId> {
        self.visible.run.commit.as_ref()
    }

    /// Returns whether it is the run of this experiment with this role and seed.
    pub fn is(&self, experiment: ExperimentId, role: RunRole, seed: Option<u64>) -> bool {
        (self.experiment, self.visible.run.role, self.visible.run.seed) == (experiment, Some(role), seed)
    }

    /// The result with the hidden value in place of the visible one.
    fn in_hidden(&self) -> Option<RunResult> {
        let hidden = self.hidden.clone()?;
        let mut result = RunResult { number: hidden.clone(), ..self.visible.clone() };
        (result.run.value, result.run.digits) = (Some(hidden.value), None);
        Some(result)
    }
}

/// The verdict on a change by its hidden values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HiddenVerdict {
    /// The experiment, or the trial that it was in.
    pub experiment: ExperimentId,
    /// The commit that was executed.
    pub commit: CommitId,
    /// The verdict.
    pub outcome: Outcome,
    /// The gain of the visible mean over the incumbent's, in the metric's unit; positive is better.
    pub visible: Option<f64>,
    /// The same of the hidden one; absent where its evaluator failed.
    pub hidden: Option<f64>,
    /// The standard error of the hidden gain.
    pub error: Option<f64>,
    /// The number of fresh runs.
    pub runs: u32,
    /// The end of an evaluator that gave no number, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// A hash of the evaluator's command and of the contents of all hidden files.
    pub split: String,
}

impl HiddenVerdict {
    /// Its gains, in words for a person: `visible +1.400, hidden -0.100 ± 0.800 on 3 runs`.
    pub fn gains(&self) -> String {
        if let Some(failure) = &self.failure {
            return format!("the hidden evaluator gave no number: {failure}");
        }
        let signed = |gain: Option<f64>| gain.map_or("unknown".to_owned(), |gain| format!("{gain:+.3}"));
        let error = self.error.map(|error| format!(" ± {error:.3}")).unwrap_or_default();
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        format!("visible {}, hidden {}{error} on {runs}", signed(self.visible), signed(self.hidden))
    }

    /// What came of it, in words for a person.
    pub fn sentence(&self) -> String {
        let what = if self.outcome == Outcome::Keep { "carried over" } else { "did not carry over" };
        format!("{what}: {}", self.gains())
    }
}

/// Two experiments by fresh runs of both, where an evaluator may follow each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedPair {
    /// By the visible values.
    pub visible: VerifiedPair,
    /// By the hidden ones, of runs whose evaluator ended; absent where none follows.
    pub hidden: Option<VerifiedPair>,
}

impl ComparedPair {
    /// A pair that was not run yet. An evaluator may follow each run.
    pub fn new(a: VerifiedId, b: VerifiedId, is_evaluated: bool) -> ComparedPair {
        let visible = VerifiedPair::new(a, b);
        ComparedPair { hidden: is_evaluated.then(|| visible.clone()), visible }
    }

    /// The number of seeds that both have in full.
    pub fn common_seeds(&self) -> u32 {
        self.hidden.as_ref().unwrap_or(&self.visible).common_seeds()
    }

    /// The runs that ended and whose evaluator did not, each with which of the two it runs.
    pub fn unevaluated(&self) -> Vec<(usize, u64)> {
        let Some(hidden) = &self.hidden else { return Vec::new() };
        let of = |which: usize, all: &[(u64, f64)], known: &[(u64, f64)]| {
            let open = all.iter().filter(|(seed, _)| known.iter().all(|(other, _)| other != seed));
            open.map(|(seed, _)| (which, *seed)).collect::<Vec<_>>()
        };
        let VerifiedPair { values_a, values_b, .. } = &self.visible;
        [of(0, values_a, &hidden.values_a), of(1, values_b, &hidden.values_b)].concat()
    }

    /// Puts into it what all its runs say, beside those of `others` by the visible and the hidden values. Returns false while nothing is
    /// known of the noise.
    pub fn judge(&mut self, contract: &Contract, others: &[Vec<Vec<Sample>>; 2], takes_seeds: bool) -> bool {
        let is_known = judge_pair(&mut self.visible, contract.metric.direction, (&others[0], takes_seeds));
        let Some((hidden, own)) = self.hidden.as_mut().zip(contract.of_hidden()) else { return is_known };
        judge_pair(hidden, own.metric.direction, (&others[1], takes_seeds)) && is_known
    }

    /// Its gains with halves of 95% intervals, in words for a person: `experiment 4 against the baseline: visible better by 0.600 ± 0.050,
    /// hidden better by 0.900 ± 0.400 on 3 pairs`.
    pub fn sentence(&self) -> String {
        let ComparedPair { visible, hidden } = self;
        let hidden = hidden.iter().map(|hidden| format!(", hidden {}", hidden.gain_text())).collect::<String>();
        let (a, b, gain) = (visible.a.text(), visible.b.text(), visible.gain_text());
        format!("{b} against {a}: visible {gain}{hidden} on {}", count_of(self.common_seeds(), "pair"))
    }
}

/// An ablation where an evaluator may follow each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluatedAblation {
    /// The runs that ended and have an evaluator that follows, by their visible values.
    pub visible: Vec<AblatedRun>,
    /// By the values that count: where an evaluator follows, its own.
    #[serde(rename = "hidden")]
    pub found: Ablated,
}

impl EvaluatedAblation {
    /// The runs that ended and whose evaluator did not.
    pub fn unevaluated(&self) -> Vec<AblatingRun> {
        let open = self.visible.iter().filter(|run| !self.found.values.iter().any(|known| known.is(run)));
        open.map(|run| AblatingRun { without: run.without.clone(), step: run.step, seed: run.seed }).collect()
    }
}

/// A line of `hidden.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HiddenEntry {
    /// A run.
    Run(Box<HiddenRun>),
    /// A verdict.
    Verdict(HiddenVerdict),
    /// Two experiments that fresh runs compare.
    Verified(Box<ComparedPair>),
    /// The best experiment with and without kept changes.
    Ablated(Box<EvaluatedAblation>),
}

/// All runs and verdicts of a session that no agent may read.
#[derive(Debug, Clone, Default)]
pub struct HiddenBook {
    runs: Vec<HiddenRun>,
    verdicts: Vec<HiddenVerdict>,
    pairs: Vec<ComparedPair>,
    ablated: Vec<EvaluatedAblation>,
}

impl FromIterator<HiddenEntry> for HiddenBook {
    fn from_iter<T: IntoIterator<Item = HiddenEntry>>(entries: T) -> Self {
        let mut book = HiddenBook::default();
        entries.into_iter().for_each(|entry| book.add(entry));
        book
    }
}

impl HiddenBook {
    /// Adds an entry. A process that was killed may have added it before.
    pub fn add(&mut self, entry: HiddenEntry) {
        match entry {
            HiddenEntry::Run(run) => {
                self.runs.retain(|known| {
                    !known.visible.run.role.is_some_and(|role| {
                        known.commit() == run.commit() && run.is(known.experiment, role, known.visible.run.seed)
                    })
                });
                self.runs.push(*run);
            }
            HiddenEntry::Verdict(verdict) => {
                let is_same =
                    |known: &HiddenVerdict| (known.experiment, &known.commit) == (verdict.experiment, &verdict.commit);
                self.verdicts.retain(|known| !is_same(known));
                self.verdicts.push(verdict);
            }
            HiddenEntry::Verified(pair) => {
                let is_same = |known: &VerifiedPair| (&known.a, &known.b) == (&pair.visible.a, &pair.visible.b);
                self.pairs.retain(|known| !is_same(&known.visible));
                self.pairs.push(*pair);
            }
            HiddenEntry::Ablated(ablated) => {
                self.ablated.retain(|known| known.found.best != ablated.found.best);
                self.ablated.push(*ablated);
            }
        }
    }

    /// All runs.
    pub fn runs(&self) -> &[HiddenRun] {
        &self.runs
    }

    /// All verdicts.
    pub fn verdicts(&self) -> &[HiddenVerdict] {
        &self.verdicts
    }

    /// All pairs that fresh runs compare.
    pub fn pairs(&self) -> &[ComparedPair] {
        &self.pairs
    }

    /// The pair of these two, in this order.
    pub fn pair(&self, a: &VerifiedId, b: &VerifiedId) -> Option<&ComparedPair> {
        self.pairs.iter().find(|pair| (&pair.visible.a, &pair.visible.b) == (a, b))
    }

    /// All ablations.
    pub fn ablated(&self) -> &[EvaluatedAblation] {
        &self.ablated
    }

    /// Returns whether a fresh run of a command ended and waits for its evaluator.
    pub fn awaits_evaluator(&self) -> bool {
        self.pairs.iter().any(|pair| !pair.unevaluated().is_empty())
            || self.ablated.iter().any(|ablated| !ablated.unevaluated().is_empty())
    }

    /// The fresh runs that each experiment has besides those of a pair, by their visible values and by their hidden ones.
    pub fn groups_besides(&self, history: &History, besides: Option<&VerifiedPair>) -> [Vec<Vec<Sample>>; 2] {
        let visible = history.verified().iter().chain(self.pairs.iter().map(|pair| &pair.visible)).cloned();
        let hidden = self.pairs.iter().filter_map(|pair| pair.hidden.clone());
        let histories = [
            self.visible(history).with_verified(visible.collect()),
            self.hidden(history).with_verified(hidden.collect()),
        ];
        histories.map(|history| fresh_groups_besides(&history, besides))
    }

    /// The verdict on a recorded experiment.
    pub fn verdict_on(&self, record: &Record) -> Option<&HiddenVerdict> {
        measured_commits(record).find_map(|commit| self.verdicts.iter().rfind(|verdict| verdict.commit == *commit))
    }

    /// The verdicts on kept changes, with the places of their records. The last change of a train has that on the whole train, and no
    /// change has the one that it got on an earlier base.
    pub fn of_kept(&self, records: &[Record]) -> Vec<(usize, &HiddenVerdict)> {
        let kept = records.iter().enumerate().filter(|(_, record)| record.outcome == Outcome::Keep);
        kept.filter_map(|(place, record)| {
            let verdict = self.verdicts.iter().rfind(|verdict| verdict.commit == record.commit);
            verdict.map(|verdict| (place, verdict))
        })
        .collect()
    }

    /// The runs of a commit in an attempt.
    fn of(&self, id: ExperimentId, commit: &CommitId) -> impl Iterator<Item = &HiddenRun> {
        self.runs.iter().filter(move |run| run.experiment == id && run.commit() == Some(commit))
    }

    /// The values of a candidate's runs, by seed.
    fn samples(&self, candidate: HiddenCandidate<'_>, value: impl Fn(&HiddenRun) -> Option<f64>) -> Vec<Sample> {
        let runs = self.of(candidate.id, candidate.commit);
        runs.filter_map(|run| Some(Sample { seed: run.visible.run.seed?, value: value(run)? })).collect()
    }

    /// Returns whether the evaluator is slow: it takes more than half of a run, and more than a second, by the medians over the
    /// baseline's runs.
    pub fn is_slow(&self) -> bool {
        let medians = self.usual_seconds().zip(self.usual(|run| run.visible.run.seconds));
        medians.is_some_and(|(evaluator, run)| evaluator >= 1.0 && evaluator > 0.5 * run)
    }

    /// The evaluator's usual duration in seconds, the median over the baseline's runs.
    pub fn usual_seconds(&self) -> Option<f64> {
        self.usual(|run| run.seconds)
    }

    /// The median of something over the baseline's evaluated runs.
    fn usual(&self, seconds: fn(&HiddenRun) -> f64) -> Option<f64> {
        let own = self.runs.iter().filter(|run| run.experiment.is_baseline() && run.hidden.is_some());
        let mut own: Vec<f64> = own.map(seconds).collect();
        own.sort_by(f64::total_cmp);
        own.get(own.len() / 2).copied()
    }

    /// The visible results of an attempt's further runs of a commit.
    pub fn further(&self, id: ExperimentId, commit: &CommitId) -> Vec<RunResult> {
        self.of(id, commit).filter(|run| !run.is_first).map(|run| run.visible.clone()).collect()
    }

    /// The runs of a record.
    fn of_record<'a>(&'a self, record: &'a Record) -> Vec<&'a HiddenRun> {
        let of = |commit| self.runs.iter().filter(|run| run.commit() == Some(commit)).collect::<Vec<_>>();
        measured_commits(record).map(of).find(|runs| !runs.is_empty()).unwrap_or_default()
    }

    /// A history whose records have the visible values of all runs that count.
    pub fn visible(&self, history: &History) -> History {
        history.with_each(|record| {
            let runs = self.of_record(record);
            let further: Vec<RunResult> =
                runs.iter().filter(|run| !run.is_first).map(|run| run.visible.clone()).collect();
            with_further(&first_alone(record, &runs), &further, runs.len() > further.len())
        })
    }

    /// A history whose records have the hidden values of those runs, and no other.
    pub fn hidden(&self, history: &History) -> History {
        history.with_each(|record| {
            let runs = self.of_record(record);
            let mut record = first_alone(record, &runs);
            let first = runs.iter().find(|run| run.is_first).and_then(|run| run.in_hidden());
            if let (Some(first), Some(last)) = (&first, record.runs.iter_mut().rfind(|run| !run.void)) {
                *last = first.run.clone();
            }
            record.metric.put(first.as_ref().map(|first| &first.number));
            let further: Vec<RunResult> =
                runs.iter().filter(|run| !run.is_first).filter_map(|run| run.in_hidden()).collect();
            with_further(&record, &further, first.is_some())
        })
    }
}

/// The commits as which a change was measured: that of its record, else those that it had on other bases.
fn measured_commits(record: &Record) -> impl Iterator<Item = &CommitId> {
    [&record.commit].into_iter().chain(record.beside.replays.iter().map(|replay| &replay.commit))
}

/// A record as it was after its first run, without further runs of the book that it has where hidden values never decide.
fn first_alone(record: &Record, runs: &[&HiddenRun]) -> Record {
    let is_further = |known: &Run| {
        let is_it = |run: &&HiddenRun| {
            !run.is_first && (run.visible.run.role, run.visible.run.seed) == (known.role, known.seed) && !known.void
        };
        runs.iter().any(is_it)
    };
    let mut alone = record.clone();
    alone.runs.retain(|known| !is_further(known));
    if alone.runs.len() < record.runs.len() {
        let unit = record.metric.unit.clone();
        let first = alone.runs.iter().rfind(|run| !run.void).and_then(Run::number);
        alone.metric.put(first.map(|number| Number { unit, ..number }).as_ref());
    }
    alone
}

/// A record with further runs; its own count if the first run `counts`.
fn with_further(record: &Record, further: &[RunResult], counts: bool) -> Record {
    match record.id.is_baseline() {
        true => baseline_with(record, further),
        false => with_runs(record, further, counts),
    }
}

/// The records of a session, and what no agent may read of it.
pub type Known<'a> = (&'a History, &'a HiddenBook);

/// A change whose fresh runs are compared.
#[derive(Debug, Clone, Copy)]
pub struct HiddenCandidate<'a> {
    /// Its attempt.
    pub id: ExperimentId,
    /// The commit that its runs execute.
    pub commit: &'a CommitId,
    /// The keep that it was made on; `None` for the incumbent.
    pub base: Option<ExperimentId>,
    /// Its size.
    pub diff: DiffStat,
}

impl HiddenCandidate<'_> {
    /// The records up to those on which it was made.
    fn records<'h>(&self, history: &'h History) -> &'h [Record] {
        self.base.map_or(history.records(), |base| history.as_of(base))
    }
}

/// Judges a change's first run where a hidden split decides. The bar is the visible mean of the incumbent's fresh runs, and the
/// reason names first runs alone.
pub fn judge_before_hidden(
    contract: &Contract,
    (history, book): Known<'_>,
    candidate: HiddenCandidate<'_>,
    measured: &Measurement,
) -> (Verdict, Vec<String>) {
    let HiddenCandidate { id, diff, .. } = candidate;
    let of = |history: &History| judge(contract, (history, candidate.records(history)), id, diff, measured);
    let (said, unmet) = of(history);
    let (decided, _) = of(&book.visible(history));
    if said.outcome == decided.outcome || id.is_baseline() {
        return (said, unmet);
    }
    let but = match decided.outcome {
        Outcome::Keep => ", but one run cannot tell it from the best one",
        Outcome::Discard | Outcome::Crash => return (too_little(&said.reason), unmet),
    };
    (Verdict { outcome: decided.outcome, reason: format!("{}{but}", said.reason) }, unmet)
}

/// A change against its incumbent by values of one kind.
struct HiddenComparison {
    against: Vec<Sample>,
    fresh: Vec<Sample>,
    found: Option<Estimate>,
    step: NextStep,
}

impl HiddenComparison {
    /// Compares by the visible values.
    fn visible(contract: &Contract, (history, book): Known<'_>, candidate: HiddenCandidate<'_>) -> HiddenComparison {
        HiddenComparison::by(
            contract,
            &book.visible(history),
            candidate,
            book.samples(candidate, |run| Some(run.visible.number.value)),
        )
    }

    /// Compares by the hidden values.
    fn hidden(contract: &Contract, (history, book): Known<'_>, candidate: HiddenCandidate<'_>) -> HiddenComparison {
        let own = contract.of_hidden();
        let (contract, fresh) =
            (own.as_ref().unwrap_or(contract), book.samples(candidate, |run| Some(run.hidden.as_ref()?.value)));
        HiddenComparison::by(contract, &book.hidden(history), candidate, fresh)
    }

    fn by(
        contract: &Contract,
        history: &History,
        candidate: HiddenCandidate<'_>,
        fresh: Vec<Sample>,
    ) -> HiddenComparison {
        let records = candidate.records(history);
        let against = numbered_keep(records).map(fresh_runs).unwrap_or_default();
        let mut all = fresh_groups(history);
        all.push(fresh.clone());
        let noise = noise(&all, history.takes_seeds());
        let bar = bar(contract, records, candidate.diff);
        let step = next_step(&bar, &against, &fresh, noise.as_ref());
        HiddenComparison { found: estimate(&bar, &against, &fresh, noise.as_ref()), step, against, fresh }
    }

    /// The gain of its mean over the incumbent's.
    fn gain(&self, direction: Direction) -> Option<f64> {
        let of = |samples: &[Sample]| mean(samples.iter().map(|run| run.value));
        of(&self.fresh).zip(of(&self.against)).map(|(now, before)| direction.gain(now, before))
    }

    /// Returns whether one hidden run speaks against a change that the visible values would keep: it is better with a smaller
    /// probability than lets a change go on after two fresh runs. Where nothing is known of the noise, it is worse.
    fn speaks_against(&self, contract: &Contract) -> bool {
        match self.found {
            Some(found) => found.sure < CONFIRMED.hope[0],
            None => self.gain(contract.metric.direction).is_some_and(|gain| gain < 0.0),
        }
    }
}

/// The next step for a change that its first run selected, or for a trial, where a hidden split decides: as
/// [`fresh_step`](super::fresh_step) on the hidden values of both. Where the evaluator is slow, it is that on the visible values, and
/// the one hidden value of a change that would be kept may discard it.
pub fn hidden_step(
    contract: &Contract,
    known: Known<'_>,
    candidate: HiddenCandidate<'_>,
    contender: Contender<'_>,
) -> FreshStep {
    let (history, book) = known;
    let visible = book.visible(history);
    let records = candidate.records(&visible);
    let reason = &contender.draft.reason;
    match step_before_verdict(contract, &visible, records, candidate.diff, contender) {
        // Its own reason has values of fresh runs.
        Some(FreshStep::Decided(Verdict { outcome: Outcome::Discard | Outcome::Crash, .. })) => {
            return FreshStep::Decided(match contender.results {
                [] => too_little(reason),
                _ => not_held(reason),
            });
        }
        Some(step) => return step,
        None => {}
    }
    let is_slow = book.is_slow();
    let by = if is_slow { HiddenComparison::visible } else { HiddenComparison::hidden };
    match by(contract, known, candidate).step {
        NextStep::Run => FreshStep::Another(contender.results.len() as u32 + 1),
        NextStep::Keep if !is_slow || !hidden_speaks_against(contract, known, candidate) => {
            let reason = format!("{reason}; it held on fresh runs");
            FreshStep::Decided(Verdict { outcome: Outcome::Keep, reason })
        }
        NextStep::Keep | NextStep::Discard => FreshStep::Decided(not_held(reason)),
    }
}

/// Returns whether one hidden run of a change speaks against keeping it.
pub fn hidden_speaks_against(contract: &Contract, known: Known<'_>, candidate: HiddenCandidate<'_>) -> bool {
    let own = contract.of_hidden();
    HiddenComparison::hidden(contract, known, candidate).speaks_against(own.as_ref().unwrap_or(contract))
}

/// The verdict on a change that did not hold, with the reason for its first run.
pub fn not_held(reason: &str) -> Verdict {
    Verdict { outcome: Outcome::Discard, reason: format!("{reason}, but it did not hold on fresh runs") }
}

/// The verdict on a change as `hidden.jsonl` has it: `outcome` with the gains by which it was reached.
pub fn hidden_verdict(
    contract: &Contract,
    known: Known<'_>,
    candidate: HiddenCandidate<'_>,
    outcome: Outcome,
) -> HiddenVerdict {
    let (visible, hidden) =
        (HiddenComparison::visible(contract, known, candidate), HiddenComparison::hidden(contract, known, candidate));
    let own = contract.of_hidden();
    HiddenVerdict {
        experiment: candidate.id,
        commit: candidate.commit.clone(),
        outcome,
        visible: visible.gain(contract.metric.direction),
        hidden: hidden.gain(own.as_ref().unwrap_or(contract).metric.direction),
        error: hidden.found.map(|found| found.error),
        runs: hidden.fresh.len() as u32,
        failure: None,
        split: String::new(),
    }
}

/// The fewest verdicts by which visible and hidden gains are compared.
const VERDICTS: usize = 10;

/// The correlation of visible and hidden gains below which the visible metric leads astray. Own judgement.
const CARRIES: f64 = 0.7;

impl HiddenBook {
    /// The doubts about a hidden split, a sentence each.
    pub fn doubts(&self) -> Vec<String> {
        let gains: Vec<(f64, f64)> =
            self.verdicts.iter().filter_map(|verdict| verdict.visible.zip(verdict.hidden)).collect();
        let values: Vec<f64> = self.runs.iter().filter_map(|run| Some(run.hidden.as_ref()?.value)).collect();
        let commits: BTreeSet<&CommitId> = self.runs.iter().filter_map(HiddenRun::commit).collect();
        let is_constant = commits.len() > 1 && values.windows(2).all(|pair| pair[0] == pair[1]);
        let groups: Vec<Vec<Sample>> = commits
            .iter()
            .map(|commit| {
                let own = self.runs.iter().filter(|run| run.commit() == Some(commit));
                own.filter_map(|run| Some(Sample { seed: run.visible.run.seed?, value: run.hidden.as_ref()?.value }))
                    .collect()
            })
            .collect();
        let usual = mean(gains.iter().map(|(visible, _)| visible.abs()));
        let noise = noise(&groups, true).zip(usual).filter(|(noise, usual)| noise.deviation > 2.0 * usual);
        let correlation = correlation(&gains).filter(|_| gains.len() >= VERDICTS).filter(|found| *found < CARRIES);
        let constant = is_constant.then(|| "the hidden value is the same whatever the code is".to_owned());
        let noisy = noise.map(|(noise, usual)| {
            format!(
                "the hidden value varies by {:.3} from run to run, and changes gain {usual:.3}: hardly any can be kept",
                noise.deviation
            )
        });
        let astray = correlation.map(|found| {
            format!(
                "visible and hidden gains have a correlation of {found:.2} over {} verdicts: make the hidden command the metric, \
                 and hold out a third split",
                gains.len()
            )
        });
        [constant, noisy, astray].into_iter().flatten().collect()
    }
}

/// The correlation of pairs (Pearson's); `None` for fewer than three or without variance.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let of = |value: fn(&(f64, f64)) -> f64| mean(pairs.iter().map(value));
    let (x, y) = of(|pair| pair.0).zip(of(|pair| pair.1)).filter(|_| pairs.len() > 2)?;
    let sum = |product: fn(f64, f64) -> f64| pairs.iter().map(|pair| product(pair.0 - x, pair.1 - y)).sum::<f64>();
    let scale = (sum(|x, _| x * x) * sum(|_, y| y * y)).sqrt();
    (scale > 0.0).then(|| sum(|x, y| x * y) / scale)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::Decide;
    use crate::rules::sample;

    const CANDIDATE: u32 = 3;

    /// The contract of a metric of which lower values are better, with a hidden one of which higher values are.
    fn contract() -> Contract {
        let holdout = Some("sh hidden.sh".to_owned());
        Contract { decide: Decide::Confirmed, holdout, holdout_higher: true, ..sample::contract("true") }
    }

    fn run(role: &str, seed: u64, value: f64) -> Value {
        let mut run = sample::run(1.0, Some(value));
        (run["role"], run["seed"]) = (json!(role), json!(seed));
        run
    }

    fn record(id: u32, role: &str, value: f64, more: Value) -> Record {
        let mut fields = json!({"id": id, "sequence": id, "commit": format!("c{id}"), "base": "c0", "value": format!("{value:.1}"),
            "outcome": "keep", "runs": [run(role, 1, value)]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sample::record(fields)
    }

    /// A run of an experiment with its visible and its hidden value.
    fn hidden(id: u32, role: &str, seed: u64, visible: f64, hidden: Option<f64>) -> HiddenEntry {
        let mut run: Run = serde_json::from_value(run(role, seed, visible)).unwrap();
        run.commit = Some(CommitId::new(format!("c{id}")));
        let number = Number::of(visible);
        let visible = RunResult {
            run,
            number,
            metrics: crate::domain::Metrics::default(),
            units: std::collections::BTreeMap::new(),
            memory_gb: None,
            sandbox: None,
        };
        let is_first = role == "baseline" && seed == 1;
        let hidden = hidden.map(Number::of);
        HiddenEntry::Run(Box::new(HiddenRun { experiment: id.into(), is_first, visible, hidden, seconds: 0.1 }))
    }

    /// A baseline of 10 with hidden values around 50, on four runs each with a deviation of about 1.
    fn baseline() -> (History, Vec<HiddenEntry>) {
        let runs = [(11.0, 49.0), (9.0, 51.0), (9.2, 50.8), (10.8, 49.2)];
        let runs =
            (1..).zip(runs).map(|(seed, (visible, of_hidden))| hidden(0, "baseline", seed, visible, Some(of_hidden)));
        (History::new(vec![record(0, "baseline", 11.0, json!({}))]), runs.collect())
    }

    /// The step for a candidate whose first run is better by 3, after fresh runs with these hidden values.
    fn step(values: &[f64]) -> FreshStep {
        let (history, entries) = baseline();
        let fresh = (2..).zip(values).map(|(seed, value)| hidden(CANDIDATE, "confirm", seed, 7.0, Some(*value)));
        let book: HiddenBook = entries.into_iter().chain(fresh).collect();
        let draft = record(CANDIDATE, "screen", 6.0, json!({}));
        let commit = CommitId::new(format!("c{CANDIDATE}"));
        let candidate = HiddenCandidate {
            id: CANDIDATE.into(),
            commit: &commit,
            base: Some(ExperimentId::BASELINE),
            diff: DiffStat::default(),
        };
        let results = book.further(CANDIDATE.into(), &commit);
        let contender = Contender { draft: &draft, results: &results, first_counts: false, begun: None, beside: &[] };
        hidden_step(&contract(), (&history, &book), candidate, contender)
    }

    fn outcome(values: &[f64]) -> Option<Outcome> {
        match step(values) {
            FreshStep::Decided(verdict) => Some(verdict.outcome),
            FreshStep::Another(_) | FreshStep::Baseline(_) | FreshStep::Await => None,
        }
    }

    #[test]
    fn hidden_values_decide_in_their_own_direction_whatever_the_visible_ones_are() {
        assert_eq!(step(&[]), FreshStep::Another(1));
        assert_eq!(outcome(&[50.9, 49.8]), None, "better with P 0.66: go on");
        assert_eq!(outcome(&[50.9, 49.8, 49.0]), Some(Outcome::Discard), "P 0.45 after three");
        assert_eq!(
            outcome(&[48.7, 49.2]),
            Some(Outcome::Discard),
            "a change that games the visible split: P 0.11 after two"
        );
        assert_eq!(outcome(&[51.5, 52.0, 51.8, 52.2]), Some(Outcome::Keep));
        let FreshStep::Decided(verdict) = step(&[48.7, 49.2]) else { panic!("it goes on") };
        assert!(
            verdict.reason.ends_with(", but it did not hold on fresh runs") && !verdict.reason.contains("48"),
            "{verdict:?}"
        );
    }

    #[test]
    fn the_bar_of_a_first_run_is_the_visible_mean_and_its_reason_has_no_fresh_value() {
        let (history, entries) = baseline();
        let book: HiddenBook = entries.into_iter().collect();
        let commit = CommitId::new("c9");
        let candidate = HiddenCandidate { id: 9.into(), commit: &commit, base: None, diff: DiffStat::default() };
        let judged = |value: f64| {
            let run = serde_json::from_value(run("screen", 1, value)).unwrap();
            let measured = Measurement { value: Some(Number::of(value)), run: Some(run), ..Measurement::default() };
            judge_before_hidden(&contract(), (&history, &book), candidate, &measured).0
        };
        // By its first run the baseline is 11.0, by all four it is 10.0.
        let verdict = judged(10.5);
        assert_eq!(verdict.outcome, Outcome::Discard, "{verdict:?}");
        assert!(verdict.reason.contains("11.0") && !verdict.reason.contains("10.0"), "{verdict:?}");
        assert_eq!(judged(7.0).outcome, Outcome::Keep);
    }

    #[test]
    fn an_entry_that_was_written_twice_counts_once() {
        let (_, entries) = baseline();
        let book: HiddenBook = entries.iter().chain(&entries).cloned().collect();
        assert_eq!(book.runs().len(), 4);
    }

    #[test]
    fn a_kept_change_has_the_verdict_on_what_was_kept_and_a_train_has_one() {
        let verdict = |id: u32, commit: &str| {
            let fields = json!({"kind": "verdict", "experiment": id, "commit": commit, "outcome": "keep", "visible": 0.5,
                "hidden": 0.4, "error": 0.1, "runs": 4, "split": ""});
            serde_json::from_value::<HiddenEntry>(fields).unwrap()
        };
        // On its first base each was a winner; the train of 1 and 2 was kept as the commit of 2, and 3 does not add to it.
        let all = [(1, "c1-first"), (2, "c2-first"), (3, "c3"), (4, "c2")];
        let book: HiddenBook = all.into_iter().map(|(id, commit)| verdict(id, commit)).collect();
        let (last, discard) = (json!({}), json!({"outcome": "discard"}));
        let records =
            [record(1, "screen", 6.0, json!({})), record(2, "screen", 5.0, last), record(3, "screen", 4.0, discard)];
        let found: Vec<_> = book.of_kept(&records).into_iter().map(|(place, it)| (place, it.experiment)).collect();
        assert_eq!(found, [(1, 4.into())]);
    }

    #[test]
    fn a_slow_evaluator_takes_more_than_a_second_and_half_of_a_run() {
        let is_slow = |seconds: f64| {
            let (_, mut entries) = baseline();
            for entry in &mut entries {
                let HiddenEntry::Run(run) = entry else { continue };
                (run.seconds, run.visible.run.seconds) = (seconds, 1.5);
            }
            entries.into_iter().collect::<HiddenBook>().is_slow()
        };
        assert_eq!([0.9, 1.2, 0.7].map(is_slow), [false, true, false]);
    }

    #[test]
    fn doubts_name_a_constant_value_noise_and_gains_that_do_not_carry_over() {
        let book = |entries: Vec<HiddenEntry>| entries.into_iter().collect::<HiddenBook>();
        let same = vec![hidden(0, "baseline", 1, 9.0, Some(5.0)), hidden(1, "confirm", 2, 8.0, Some(5.0))];
        assert!(book(same).doubts()[0].starts_with("the hidden value is the same"));
        let verdict = |id: u32, visible: f64, hidden: f64| {
            HiddenEntry::Verdict(HiddenVerdict {
                experiment: id.into(),
                commit: CommitId::new(format!("c{id}")),
                outcome: Outcome::Keep,
                visible: Some(visible),
                hidden: Some(hidden),
                error: Some(0.1),
                runs: 4,
                failure: None,
                split: String::new(),
            })
        };
        let (_, entries) = baseline();
        let noisy = book(entries.into_iter().chain([verdict(1, 0.1, 0.1)]).collect());
        assert!(noisy.doubts()[0].contains("hardly any can be kept"), "{:?}", noisy.doubts());
        let apart = (1..=10).map(|id| verdict(id, f64::from(id), f64::from(id % 3)));
        assert!(book(apart.collect()).doubts()[0].contains("make the hidden command the metric"));
        let along = (1..=10).map(|id| verdict(id, f64::from(id), f64::from(id) * 0.9));
        assert!(book(along.collect()).doubts().is_empty());
    }
}
