use super::*;

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

#[test]
fn absolute_paths_into_a_working_tree_are_found_wherever_a_command_has_them() {
    let roots = paths(&["/home/me/repo", "/mnt/disk/repo"]);
    for (line, found) in [
        ("python /home/me/repo/train.py", &["/home/me/repo/train.py"][..]),
        ("cd /home/me/repo && python train.py", &["/home/me/repo"]),
        ("cd /home/me/repo; make", &["/home/me/repo"]),
        ("python train.py --data=/mnt/disk/repo/data/", &["/mnt/disk/repo/data/"]),
        ("PYTHONPATH=/opt/x:/home/me/repo/src python a.py", &["/home/me/repo/src"]),
        ("sh -c 'python \"/home/me/repo/a.py\"'", &["/home/me/repo/a.py"]),
        ("python ~/repo/a.py $HOME/repo/b ${HOME}/repo", &["/home/me/repo/a.py", "/home/me/repo/b", "/home/me/repo"]),
        ("~/repo/run.sh --out=~/repo/x", &["/home/me/repo/run.sh", "/home/me/repo/x"]),
        ("python /home/me/repository/a.py /home/me/repo2 /home/me/repo-old/x /home/me/repo.bak", &[]),
        ("python /backup/home/me/repo/a.py x/home/me/repo", &[]),
        ("python train.py --data ../data", &[]),
    ] {
        assert_eq!(paths_into(line, &roots, Some("/home/me")), paths(found), "{line}");
    }
    assert_eq!(paths_into("python ~/repo/a.py", &roots, None), paths(&[]));
}

#[test]
fn a_search_path_leads_into_a_working_tree_by_its_absolute_entries() {
    let roots = paths(&["/repo"]);
    assert_eq!(entries_into("src:/repo/src::/repo:/repository", &roots), paths(&["/repo/src", "/repo"]));
    assert_eq!(entries_into("", &roots), paths(&[]));
}

#[test]
fn a_command_may_have_python_look_in_the_tree_first() {
    for line in
        ["PYTHONPATH=src python a.py", "env \"PYTHONPATH=.:/x\" python a.py", "PYTHONPATH=$PWD/src:$PYTHONPATH a"]
    {
        assert!(looks_in_tree(line), "{line}");
    }
    for line in ["python a.py", "PYTHONPATH=/x:src python a.py", "PYTHONPATH= python a.py", "PYTHONPATH=$X:src python"]
    {
        assert!(!looks_in_tree(line), "{line}");
    }
}

#[test]
fn uv_run_installs_a_package_unless_told_not_to() {
    assert!(syncs_environment("cd sub && uv run train.py") && syncs_environment("/opt/bin/uv sync"));
    assert!(links_from_cache("uv run train.py") && !links_from_cache("uv run --no-sync train.py"));
    for chosen in ["UV_LINK_MODE=copy uv run train.py", "uv sync --link-mode symlink && uv run train.py"] {
        assert!(!links_from_cache(chosen), "{chosen}");
    }
    assert!(!syncs_environment("uv run --no-sync train.py") && !syncs_environment("uvx run train.py"));
    assert!(is_package("[project]\nname = \"a\"\n[build-system]\nrequires = []\n"));
    assert!(is_package("[tool.uv]\npackage = true\n"));
    for text in ["[project]\nname = \"a\"\n", "[build-system]\n[tool.uv]\npackage = false\n", "[", ""] {
        assert!(!is_package(text), "{text}");
    }
}

#[test]
fn files_of_editable_installs_are_known() {
    let names =
        ["__editable__.x-1.pth", "easy-install.pth", "x.egg-link", "__editable___x_1_finder.py", "_x_editable.py"];
    assert!(names.into_iter().all(says_where));
    assert!(!["x.py", "editable", "editable.pyc", "x-1.dist-info"].into_iter().any(says_where));
    let said = |url: &str, info: &str| editable_path(&format!("{{\"url\": \"{url}\", {info}}}"));
    let editable = "\"dir_info\": {\"editable\": true}";
    assert_eq!(said("file:///a%20b/c", editable), Some("/a b/c".into()));
    assert_eq!(said("file://localhost/a", editable), Some("/a".into()));
    assert_eq!(said("https://host/a", editable), None);
    assert_eq!(said("file:///a", "\"dir_info\": {}"), None);
    assert_eq!(said("file:///a", "\"archive_info\": {}"), None);
    assert_eq!(editable_path("{"), None);
}

#[test]
fn what_git_and_ar_read_is_no_code() {
    assert!(
        ["train.py", "src/a.yaml", "Makefile", "lib/x.so", "sub/pyproject.toml"]
            .iter()
            .all(|path| may_be_code(Path::new(path)))
    );
    let others =
        [".gitignore", "src/.gitattributes", "ar.toml", "program.md", "README.rst", "sub/uv.lock", "pyproject.toml"];
    assert!(!others.iter().any(|path| may_be_code(Path::new(path))));
}

#[test]
fn links_are_relative_to_the_root_and_within_it() {
    for (path, plain) in [("data", Some("data")), ("./a/./b/", Some("a/b")), (".", None), ("", None)] {
        assert_eq!(within(Path::new(path)), plain.map(PathBuf::from), "{path}");
    }
    assert!(["/data", "../data", "a/../b"].iter().all(|path| within(Path::new(path)).is_none()));
}

#[test]
fn candidates_for_links_are_named_or_look_like_data() {
    let ignored =
        paths(&[".env", ".venv", "build", "cache", "corpus.bin", "data", "local.yaml", "my", "runs/a.pt", "sub/data"]);
    let found = |lines: &[&str], links: &[&str]| {
        let is_environment = |path: &Path| path == Path::new("my");
        candidates(&ignored, lines, &paths(links), is_environment)
    };
    assert_eq!(found(&[], &[]), paths(&[".venv", "corpus.bin", "data", "my", "runs/a.pt", "sub/data"]));
    let lines = ["python train.py --config=local.yaml", "sh guard.sh cache/x"];
    let expected = ["cache", "local.yaml", "my", "runs/a.pt", "sub/data"];
    assert_eq!(found(&lines, &[".venv", "corpus.bin", "data/small"]), paths(&expected));
}

#[test]
fn a_slot_has_ports_temporary_files_and_an_environment_of_its_own_unless_the_user_set_them() {
    let tree = Path::new("/r/.autoresearch/t/trees/slot-3");
    let of = |tree: &Path, linked: bool, set: &[(&str, &str)]| {
        let get = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        variables_of_slot(tree, 3, linked, get)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    let port = "MASTER_PORT=29503";
    let temporary = "TMPDIR=/r/.autoresearch/t/trees/tmp-3";
    assert_eq!(
        of(tree, false, &[("TMPDIR", "")]),
        [port, temporary, "UV_PROJECT_ENVIRONMENT=/r/.autoresearch/t/trees/venv-3"]
    );
    assert_eq!(of(tree, true, &[]), [port, temporary]);
    assert_eq!(of(tree, true, &[("MASTER_PORT", "1"), ("TMPDIR", "/t")]), Vec::<String>::new());
    let deep = PathBuf::from(format!("/{}/trees/slot-3", "a".repeat(60)));
    assert_eq!(of(&deep, true, &[]), [port], "sockets below it would have names that are too long");
}
