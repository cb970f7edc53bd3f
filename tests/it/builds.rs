//! What a first build costs.

use std::collections::BTreeSet;
use std::process::Command;

/// The packages that are built for these kinds of dependencies, each with its features.
fn packages(kinds: &str) -> BTreeSet<String> {
    let args = ["tree", "--offline", "--locked", "--edges", kinds, "--format", "{p} {f}", "--prefix", "none"];
    let output = Command::new(env!("CARGO")).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)").trim_end().to_owned()).collect()
}

#[test]
fn the_tests_build_no_package_of_the_program_a_second_time() {
    let (program, tests) = (packages("normal,build"), packages("normal,build,dev"));
    assert!(program.len() > 200 && tests.len() > program.len(), "{} and {}", program.len(), tests.len());
    // With other features it is another package to Cargo.
    let again: Vec<_> = program.difference(&tests).collect();
    assert!(again.is_empty(), "`cargo test` asks for more features of {again:?}: name them in Cargo.toml");
}
