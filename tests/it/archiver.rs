//! With this program first on the PATH as `ar`, builds that call the archiver must not notice.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/archiver");

/// A folder for a build, and a PATH on which `ar` is this program.
struct Build {
    folder: TempDir,
    path: std::ffi::OsString,
}

impl Build {
    fn new() -> Build {
        let folder = tempfile::tempdir().unwrap();
        for file in fs::read_dir(FIXTURES).unwrap().flatten() {
            fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_ar"), bin.join("ar")).unwrap();
        let rest = env::var_os("PATH").unwrap();
        let path = env::join_paths([bin].into_iter().chain(env::split_paths(&rest))).unwrap();
        Build { folder, path }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).env("PATH", &self.path).env_remove("AR");
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(program, arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
        output
    }

    /// Checks that a program can be linked with the library and runs.
    fn links(&self, library: &str) {
        let symbols = text(&self.run("nm", &["-s", library]).stdout);
        assert!(symbols.contains("one in ") && symbols.contains("two in "), "no symbol table in {library}: {symbols}");
        self.run("cc", &["main.c", library, "-o", "program"]);
        self.run("./program", &[]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn under_its_other_name_no_call_is_the_archivers() {
    let build = Build::new();
    let autoresearch = env!("CARGO_BIN_EXE_autoresearch");
    let call = |arguments: &[&str]| build.command(autoresearch, arguments).output().unwrap();
    for arguments in [&["rcs", "libparts.a", "one.c"][..], &["t", "libparts.a"], &["-crD", "libparts.a", "one.c"]] {
        let output = call(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(!build.folder.path().join("libparts.a").exists());
    }
    let output = call(&["report", "--help"]);
    assert!(output.status.success() && text(&output.stdout).contains("ar report"), "{}", text(&output.stdout));
    assert_eq!(call(&["--version"]).stdout, build.run("ar", &["--version"]).stdout);
    // Alone it says what is missing.
    let alone = build.folder.path().join("autoresearch");
    // What this process copies could not be started while a child that another test forks holds it open for writing.
    assert!(Command::new("cp").arg(autoresearch).arg(&alone).status().unwrap().success());
    let output = Command::new(alone).arg("report").output().unwrap();
    let told = text(&output.stderr);
    assert!(
        !output.status.success() && told.starts_with("error: cannot start the `ar`") && told.contains("hint: "),
        "{told}"
    );
}

/// A PATH of one folder with this program in it, under a name of its own if it is a copy.
fn lonely(bin: &Path) -> PathBuf {
    fs::create_dir_all(bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_ar"), bin.join("ar")).unwrap();
    bin.to_owned()
}

/// Makes an executable by a process of its own: while this one has it open for writing, another test may fork, and
/// what is open for writing anywhere cannot be executed.
fn shell(script: &str, arguments: &[&Path]) {
    assert!(Command::new("sh").args(["-c", script]).args(arguments).status().unwrap().success());
}

#[test]
fn make_builds_libraries_by_its_own_rule_and_by_a_response_file() {
    let build = Build::new();
    if Command::new("make").arg("--version").output().is_err() {
        // Nothing to be broken on a machine without make.
        return;
    }
    build.run("make", &[]);
    build.links("libimplicit.a");
    build.links("libexplicit.a");
    let members = text(&build.run("ar", &["t", "libexplicit.a"]).stdout);
    assert_eq!(members, "one.o\ntwo.o\n");
}

#[test]
fn the_cc_crate_builds_a_library() {
    const FOLDER: &str = "AR_TEST_CC_FOLDER";
    if let Some(folder) = env::var_os(FOLDER) {
        let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
        let mut build = cc::Build::new();
        build.file("one.c").file("two.c").out_dir(folder).target(&target).host(&target).opt_level(0);
        build.cargo_metadata(false).compile("built");
        return;
    }
    let build = Build::new();
    let test = env::current_exe().unwrap();
    let name = "archiver::the_cc_crate_builds_a_library";
    let mut command = build.command(test.to_str().unwrap(), &["--exact", name]);
    let output = command.env(FOLDER, build.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
    build.links("libbuilt.a");
}

#[test]
fn the_archivers_exit_status_and_messages_are_its_own() {
    let build = Build::new();
    let output = build.command("ar", &["t", "missing.a"]).output().unwrap();
    let real = Command::new("ar").args(["t", "missing.a"]).current_dir(build.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), real.status.code());
    assert!(text(&output.stderr).contains("missing.a"), "{}", text(&output.stderr));
}

#[test]
fn without_another_archiver_the_error_is_clear() {
    let folder = tempfile::tempdir().unwrap();
    let bin = lonely(&folder.path().join("bin"));
    let output = Command::new(bin.join("ar")).args(["rcs", "x.a"]).env("PATH", &bin).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("but the PATH has no other `ar`") && message.contains("hint: "), "{message}");
}

#[test]
fn two_copies_of_this_program_do_not_call_each_other_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let first = lonely(&folder.path().join("first"));
    let second = folder.path().join("second");
    fs::create_dir(&second).unwrap();
    shell("cp \"$0\" \"$1\"", &[Path::new(env!("CARGO_BIN_EXE_ar")), &second.join("ar")]);
    let path = env::join_paths([&first, &second]).unwrap();
    let output = Command::new(first.join("ar")).arg("t").env("PATH", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no other `ar`"));

    let rest = env::var_os("PATH").unwrap();
    let path = env::join_paths([first.clone(), second].into_iter().chain(env::split_paths(&rest))).unwrap();
    let output = Command::new(first.join("ar")).args(["t", "missing.a"]).env("PATH", &path).output().unwrap();
    assert!(text(&output.stderr).contains("missing.a"), "{}", text(&output.stderr));
    let version = Command::new(first.join("ar")).arg("--version").env("PATH", &path).output().unwrap();
    assert_eq!(text(&version.stdout).matches("autoresearch").count(), 1, "{}", text(&version.stdout));
}

#[test]
fn the_version_names_the_archiver() {
    let build = Build::new();
    let real = text(&Command::new("ar").arg("--version").output().unwrap().stdout);
    let version = text(&build.run("ar", &["--version"]).stdout);
    assert!(version.starts_with("ar (autoresearch) "), "{version}");
    assert!(version.contains(real.lines().next().unwrap()), "{version}");
}

#[test]
fn an_archiver_that_hangs_does_not_hold_up_the_version() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    shell("printf '#!/bin/sh\nexec /bin/sleep 600\n' > \"$0\" && chmod 755 \"$0\"", &[&bin.join("ar")]);
    let version = Command::new(env!("CARGO_BIN_EXE_ar")).arg("--version").env("PATH", &bin).output().unwrap();
    assert!(version.status.success());
    assert!(text(&version.stdout).starts_with("ar (autoresearch) "));
}
