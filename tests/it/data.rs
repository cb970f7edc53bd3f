//! Real ledgers and logs, where they are at hand.

use std::path::Path;
use std::process::Command;

use crate::support::AR;

#[test]
fn real_ledgers_and_logs_are_read_as_expected() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let check = data.join("check");
    if !check.exists() {
        eprintln!("skipped: there are no real ledgers and logs in {}", data.display());
        return;
    }
    let output = Command::new("python3").arg(check).arg(AR).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
