//! Killed at any moment, a session goes on as if nothing had been.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::outcome::{assert_outcome, outcome};
use crate::run_loop::{agent, training_repo};
use crate::support::{TestRepo, ar, ar_command};

const STEPS: &str = "better worse new-better crash delete-worse commit-better nan rename-better space-worse equal";

fn first_call(repo: &TestRepo) -> Vec<String> {
    let count = STEPS.split_whitespace().count();
    let args = format!("run --yes --metric val_bpb --tag t --max-experiments {count} --cmd");
    let mut args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let train = format!("echo run >> {}; sh train.sh", repo.outside().join("runs").display());
    args.extend([train, "--agent".into(), agent(STEPS)]);
    args
}

/// How many kills a longer run asks for with `AR_SOAK`.
pub(crate) fn soak() -> Option<u64> {
    std::env::var("AR_SOAK").ok().and_then(|text| text.parse().ok())
}

/// Each thing with each of these variants; in a suite that is called often, with one of them in turn.
pub(crate) fn in_turn<T: Copy, V: Copy>(things: &[T], variants: &[V]) -> Vec<(T, V)> {
    let with = |(index, thing): (usize, &T)| {
        let all = variants.iter().enumerate();
        let chosen = all.filter(|(place, _)| soak().is_some() || index % variants.len() == *place);
        chosen.map(|(_, variant)| (*thing, *variant)).collect::<Vec<_>>()
    };
    things.iter().enumerate().flat_map(with).collect()
}

#[test]
fn random_kills_change_nothing_about_a_session() {
    let whole = training_repo();
    ar(&whole, first_call(&whole)).ok();
    let expected = outcome(&whole);
    let mut kills = 0;
    while kills < soak().unwrap_or(15) {
        let repo = training_repo();
        kills += run_and_kill(&repo, kills, [5, 37, 71], first_call);
        assert_outcome(&outcome(&repo), &expected, "killed at random");
    }
}

/// Brings a session to its end with the calls that `call` gives, killing whoever is at work on it again and again; gives the
/// number of kills. The moments are `first` milliseconds and later, spread over `span` of them, otherwise for each `salt`, and
/// come later while nothing gets done between them, and on a slow machine the more kills there were.
pub(crate) fn run_and_kill(
    repo: &TestRepo,
    salt: u64,
    moments: [u64; 3],
    call: impl Fn(&TestRepo) -> Vec<String>,
) -> u64 {
    run_and_kill_by(repo, salt, moments, call, |child| child.kill().unwrap())
}

/// Does the same, and kills as it is told.
pub(crate) fn run_and_kill_by(
    repo: &TestRepo,
    salt: u64,
    [first, step, span]: [u64; 3],
    call: impl Fn(&TestRepo) -> Vec<String>,
    mut kill: impl FnMut(&mut Child),
) -> u64 {
    // On slots each recovery writes the journal: there only a commit or a record is progress.
    let progress = || {
        let journal = fs::read_to_string(repo.file(".autoresearch/t/state/progress.json")).unwrap_or_default();
        if journal.contains("\"layout\"") { repo.git(["for-each-ref", "refs/autoresearch"]) } else { journal }
    };
    let (mut kills, mut stuck) = (0_u64, 0);
    loop {
        assert!(kills < 400, "it does not come to an end");
        let before = progress();
        let begun = repo.exists(".autoresearch/t/state/contract.json");
        let args = if begun { vec!["resume".to_owned(), "t".to_owned()] } else { call(repo) };
        let mut child = ar_command(repo, &repo.path(), args)
            .stdout(Stdio::null())
            .stderr(fs::File::create(repo.outside().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let patience = stuck * stuck * 15 + kills.saturating_sub(12) * 30;
        std::thread::sleep(Duration::from_millis(first + (salt + kills) * step % span + patience));
        match child.try_wait().unwrap() {
            Some(status) if status.success() => return kills,
            Some(status) => {
                let said = fs::read_to_string(repo.outside().join("stderr")).unwrap();
                panic!("after {kills} kills: {status}: {said}");
            }
            None => {
                kill(&mut child);
                child.wait().unwrap();
                kills += 1;
                stuck = if progress() == before { stuck + 1 } else { 0 };
            }
        }
    }
}
