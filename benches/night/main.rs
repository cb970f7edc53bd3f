//! What the rules of deciding keep in a noisy night, by simulation: `cargo bench --bench night`.
//!
//! The unit is the standard deviation of one run. A night has 100 runs, those of the baseline and of confirming included.
//! The loop begins after one run of the baseline; its other three follow when a candidate first beats it. `confirmed` and
//! `strict` are decided by the functions that the loop calls.
//!
//! `--nights N` sets the number of nights (1,000; 300 for the hidden split), `--seed S` that of the random numbers (1). `--csv`
//! prints the frontier instead: many screens by many probabilities.

mod policy;
mod world;

use std::io::{self, Write};

use autoresearch::rules::{Bars, CONFIRMED, STRICT};

use policy::{Night, Policy, night};
use world::{Landscape, Scenario, USUAL, World};

const POLICIES: [(&str, Policy); 5] = [
    ("keep if better", Policy::One { margin: 0.0 }),
    ("two sigma", Policy::One { margin: 2.0 }),
    ("three repeats", Policy::Repeats(3)),
    ("`confirmed`", Policy::Fresh(CONFIRMED, 0)),
    ("`strict`", Policy::Fresh(STRICT, 0)),
];

const SCENARIOS: [Scenario; 15] = [
    USUAL,
    Scenario { name: "5% good ideas", good: 0.05, ..USUAL },
    Scenario { name: "baseline half as noisy", baseline: 0.5, ..USUAL },
    Scenario { name: "baseline twice as noisy", baseline: 2.0, ..USUAL },
    Scenario { name: "heavy tails", heavy: true, ..USUAL },
    Scenario { name: "drift down by 1", drift: -1.0, ..USUAL },
    Scenario { name: "drift up by 1", drift: 1.0, ..USUAL },
    Scenario { name: "seeds 0.3", pairing: 0.3, ..USUAL },
    Scenario { name: "seeds 0.6", pairing: 0.6, ..USUAL },
    Scenario { name: "seeds 0.9", pairing: 0.9, ..USUAL },
    Scenario { name: "seeds 0.3, unlucky", pairing: 0.3, screening_seed: Some(-2.0), ..USUAL },
    Scenario { name: "seeds 0.6, unlucky", pairing: 0.6, screening_seed: Some(-2.0), ..USUAL },
    Scenario { name: "seeds 0.9, unlucky", pairing: 0.9, screening_seed: Some(-2.0), ..USUAL },
    Scenario { name: "seeds 0.6, lucky", pairing: 0.6, screening_seed: Some(2.0), ..USUAL },
    Scenario { name: "5%, seeds 0.6, unlucky", good: 0.05, pairing: 0.6, screening_seed: Some(-2.0), ..USUAL },
];

/// The changes without a keep after which the loop takes a second look, unless told otherwise.
const LOOK: u32 = 15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut asked, mut seed, mut is_csv) = (None, 1, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or(format!("{argument} needs a number"))?.parse().map_err(to_text);
        match argument.as_str() {
            "--nights" => asked = Some(number()?),
            "--seed" => seed = number()?,
            "--csv" => is_csv = true,
            // Cargo's own.
            "--bench" => {}
            other => return Err(format!("unexpected argument {other}").into()),
        }
    }
    let mut out = io::stdout().lock();
    let nights = asked.unwrap_or(1000);
    if is_csv {
        frontier(&mut out, nights, seed)?
    } else {
        table(&mut out, nights, seed)?;
        second_looks(&mut out, nights, seed)?;
        hidden_splits(&mut out, asked.unwrap_or(300), seed)?
    }
    Ok(())
}

/// What second looks add to `confirmed` in nights of 100 and of 500 runs, with the error of the difference, in Markdown.
fn second_looks(out: &mut impl Write, nights: u64, seed: u64) -> io::Result<()> {
    writeln!(out, "\n| ideas | runs | gain without | with | more by | looks | kept |\n|---|---|---|---|---|---|---|")?;
    for (name, landscape) in
        [("additive", Landscape::Additive), ("valleys", Landscape::Valleys), ("regimes", Landscape::Regimes)]
    {
        for runs in [100, 500] {
            let scenario = Scenario { runs, landscape, ..USUAL };
            let play = |look| played(Policy::Fresh(CONFIRMED, look), scenario, nights, seed);
            let (without, with) = (play(0), play(LOOK));
            let (before, (gained, error)) = (mean(&without, |night| night.gain), more(&without, &with));
            let [looks, kept] = [|night: &Night| night.looks, |night: &Night| night.looks_kept]
                .map(|of| mean(&with, |night| f64::from(of(night))));
            writeln!(
                out,
                "| {name} | {runs} | {before:.2} | {:.2} | {:+.1}% ± {:.1}% | {looks:.1} | {kept:.2} |",
                before + gained,
                100.0 * gained / before,
                100.0 * error / before,
            )?;
        }
    }
    Ok(())
}

/// What deciding by a hidden split changes in `confirmed`, with the error of the difference, in Markdown. **gap** is by how
/// much the kept fresh runs overstate the gain of the branch.
fn hidden_splits(out: &mut impl Write, nights: u64, seed: u64) -> io::Result<()> {
    writeln!(out, "\n| correlation | gaming | true gain without | with | difference | gap without | with |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    let cells = [0.9, 0.7, 0.4].map(|correlation| [0.0, 0.1].map(|gaming| Scenario { correlation, gaming, ..USUAL }));
    let useless = Scenario { name: "nothing to find", good: 0.0, correlation: 0.7, ..USUAL };
    for scenario in cells.into_iter().flatten().chain([USUAL, useless]) {
        let [without, with] = [Policy::Fresh(CONFIRMED, 0), Policy::Hidden(CONFIRMED)]
            .map(|policy| played(policy, scenario, nights, seed));
        let [before, after] = [&without, &with].map(|all| mean(all, |night| night.gain));
        let [gap, gap_after] = [&without, &with].map(|all| mean(all, |night| night.overstated));
        let (gained, error) = more(&without, &with);
        let Scenario { name, good, correlation, gaming, .. } = scenario;
        let note = if good > 0.0 { String::new() } else { format!(", {name}") };
        writeln!(
            out,
            "| {correlation}{note} | {:.0}% | {before:.2} | {after:.2} | {gained:+.2} ± {error:.2} | {gap:.2} | {gap_after:.2} |",
            100.0 * gaming,
        )?;
    }
    Ok(())
}

/// The nights of a policy. Those of another one have the same ideas and noise.
fn played(policy: Policy, scenario: Scenario, nights: u64, seed: u64) -> Vec<Night> {
    (0..nights).map(|number| night(policy, World::new(scenario, seed, number))).collect()
}

fn mean(nights: &[Night], of: impl Fn(&Night) -> f64) -> f64 {
    nights.iter().map(of).sum::<f64>() / nights.len() as f64
}

/// The mean of how much more the same nights gain `with` something than `without` it, and its standard error.
fn more(without: &[Night], with: &[Night]) -> (f64, f64) {
    let more: Vec<f64> = without.iter().zip(with).map(|(before, after)| after.gain - before.gain).collect();
    let count = more.len() as f64;
    let gained = more.iter().sum::<f64>() / count;
    let squares = more.iter().map(|it| (it - gained).powi(2)).sum::<f64>();
    (gained, (squares / count / (count - 1.0)).sqrt())
}

fn to_text(error: std::num::ParseIntError) -> String {
    error.to_string()
}

/// Every rule in every scenario, in Markdown.
fn table(out: &mut impl Write, nights: u64, seed: u64) -> io::Result<()> {
    writeln!(
        out,
        "| nights | rule | keeps | false | overstated | true gain | against the first | runs per keep | verified, off by | covered |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for scenario in SCENARIOS {
        let mut first = None;
        for (name, policy) in POLICIES {
            let found = Nights::of(policy, scenario, nights, seed);
            let label = if first.is_none() { scenario.name } else { "" };
            let ratio = found.gain / *first.get_or_insert(found.gain);
            writeln!(
                out,
                "| {label} | {name} | {:.2} | {:.0}% | {:.2} | {:.2} ± {:.2} | {ratio:.2} | {:.1} | {:+.3} | {:.1}% |",
                found.keeps,
                100.0 * found.false_share,
                found.overstated,
                found.gain,
                found.error,
                found.runs_per_keep,
                found.bias,
                100.0 * found.covered,
            )?;
        }
    }
    Ok(())
}

/// Screens by probabilities, and the other rules, in CSV.
fn frontier(out: &mut impl Write, nights: u64, seed: u64) -> io::Result<()> {
    writeln!(out, "scenario,rule,screen,sure,keeps,false,overstated,gain,error")?;
    for scenario in &SCENARIOS[..2] {
        let mut line = |rule: &str, bars: Option<Bars>, policy| {
            let found = Nights::of(policy, *scenario, nights, seed);
            let constants = bars.map_or(",".to_owned(), |bars| format!("{},{}", bars.screen, bars.sure));
            let Nights { keeps, false_share, overstated, gain, error, .. } = found;
            let name = scenario.name;
            writeln!(out, "{name},{rule},{constants},{keeps:.3},{false_share:.4},{overstated:.3},{gain:.3},{error:.3}")
        };
        for (name, policy) in POLICIES {
            let bars = if let Policy::Fresh(bars, _) = policy { Some(bars) } else { None };
            line(name.trim_matches('`'), bars, policy)?;
        }
        for screen in [0.0, 0.3, 0.6, 0.8, 1.0, 1.2] {
            for sure in [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] {
                // As hopeful as both rules that have a name.
                let hope = [0.8, 1.0].map(|part| part * f64::min(sure, 0.6));
                let bars = Bars { screen, hope, sure };
                line("frontier", Some(bars), Policy::Fresh(bars, 0))?;
            }
        }
    }
    Ok(())
}

/// What many nights gave, as means.
struct Nights {
    keeps: f64,
    false_share: f64,
    overstated: f64,
    gain: f64,
    /// The standard error of the true gain.
    error: f64,
    runs_per_keep: f64,
    bias: f64,
    covered: f64,
}

impl Nights {
    fn of(policy: Policy, scenario: Scenario, nights: u64, seed: u64) -> Nights {
        let all = played(policy, scenario, nights, seed);
        let sum = |of: &dyn Fn(&Night) -> f64| all.iter().map(of).sum::<f64>();
        let count = nights as f64;
        let keeps = sum(&|night| f64::from(night.keeps));
        let gain = sum(&|night| night.gain) / count;
        let squares = sum(&|night| (night.gain - gain).powi(2));
        let verified = sum(&|night| f64::from(u8::from(night.verified.is_some())));
        Nights {
            keeps: keeps / count,
            false_share: sum(&|night| f64::from(night.false_keeps)) / keeps,
            overstated: sum(&|night| night.overstated) / count,
            gain,
            error: (squares / (count - 1.0) / count).sqrt(),
            runs_per_keep: sum(&|night| f64::from(night.runs)) / keeps,
            bias: sum(&|night| night.verified.map_or(0.0, |verified| verified.0)) / verified,
            covered: sum(&|night| f64::from(u8::from(night.verified.is_some_and(|verified| verified.1)))) / verified,
        }
    }
}
