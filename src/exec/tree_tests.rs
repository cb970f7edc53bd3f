use std::collections::BTreeSet;

use super::*;

#[test]
fn both_ways_of_finding_descendants_agree() {
    let script = "sleep 60 & (sleep 60 & wait) & wait";
    let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
    let leader = Pid::from_child(&child);
    let deadline = time::Instant::now() + Duration::from_secs(10);
    let found = loop {
        let found = below(leader, children);
        if found.len() == 3 || time::Instant::now() > deadline {
            break found;
        }
        thread::yield_now();
    };
    let parents = parents();
    let slow = below(leader, |pid| children_among(&parents, pid));
    for pid in found.iter().chain([&leader]) {
        kill_process(*pid, Signal::KILL).unwrap();
    }
    child.wait().unwrap();
    let [fast, slow] = [found, slow].map(|pids| pids.into_iter().map(Pid::as_raw_pid).collect::<BTreeSet<_>>());
    assert_eq!(fast.len(), 3, "{fast:?}");
    assert_eq!(fast, slow);
}
