//! Files that Python imports instead of a module.

use std::path::{Path, PathBuf};

/// The modules that a path shadows: Python looks for a package, then a compiled module, then the source, and prefers
/// the source's bytecode if it exists. A link or a nested repository may be a package: `is_opaque` marks those, whose
/// content is not examined. A plain folder shadows nothing.
pub fn modules_behind(path: &Path, is_opaque: bool) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().unwrap_or(Path::new(""));
    let stem = name.split('.').next().unwrap_or(name);
    let source = |folder: &Path, stem: &str| folder.join(format!("{stem}.py"));
    let mut modules = Vec::new();
    if is_bytecode(name) && folder.ends_with("__pycache__") {
        modules.extend(folder.parent().map(|folder| source(folder, stem)));
    } else if stem == "__init__" && stem != name {
        let package = folder.file_name().and_then(|package| package.to_str());
        modules.extend(folder.parent().zip(package).map(|(above, package)| source(above, package)));
    }
    if is_compiled(name) || (is_opaque && stem == name) {
        modules.push(source(folder, stem));
    }
    modules
}

/// Returns whether a file name is that of a compiled module.
pub fn is_compiled(name: &str) -> bool {
    [".so", ".pyd"].iter().any(|end| name.ends_with(end))
}

/// Returns whether a file name is that of Python bytecode.
pub fn is_bytecode(name: &str) -> bool {
    name.ends_with(".pyc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_python_would_import_first() {
        let behind = |path: &str, is_opaque| modules_behind(Path::new(path), is_opaque);
        let modules = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        for path in ["prepare/__init__.py", "prepare.so", "prepare.cpython-312-x86_64-linux-gnu.so", "prepare.pyd"] {
            assert_eq!(behind(path, false), modules(&["prepare.py"]), "{path}");
        }
        assert_eq!(behind("lib/__pycache__/eval.cpython-312.pyc", false), modules(&["lib/eval.py"]));
        assert_eq!(behind("lib/__pycache__/__init__.cpython-312.pyc", false), modules(&["lib/__init__.py"]));
        assert_eq!(behind("lib/eval/__init__.abi3.so", false), modules(&["lib/eval.py", "lib/eval/__init__.py"]));
        assert_eq!(behind("prepare", true), modules(&["prepare.py"]));
        // A data folder beside the module, the source itself, and bytecode that Python does not load.
        for path in ["data/train.bin", "prepare", "prepare.py", "prepare.pyc", "prepare/eval.py"] {
            assert!(behind(path, false).is_empty(), "{path}");
        }
        assert!(behind("link.txt", true).is_empty());
    }
}
