//! Settings of git's by which others have programs run or files changed: read as they stand in its files, to see which change.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;
use gix::config::file::Metadata;
use gix::config::{File, Source};
use serde::{Deserialize, Serialize};

use super::repo::Repo;
use crate::fs::{FileStamp, read_regular};

/// The settings that change how git treats files, or what it runs, by their keys; of a file that one names, what the file system
/// says of it, too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedSettings(BTreeMap<String, String>);

/// The effect of a changed setting, also as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum SettingEffect {
    /// Programs that change files when git reads or writes them.
    #[strum(to_string = "git and the next `ar` change files by these filters, except protected ones")]
    Filters,
    /// Files with attributes.
    #[strum(to_string = "git and `ar` take attributes such as filters from there, except for protected files")]
    Attributes,
    /// Programs that git starts at commits and the like.
    #[strum(to_string = "git runs the programs there, as at your commits; `ar` runs none")]
    Hooks,
    /// Any setting.
    #[strum(to_string = "git and the next `ar` take any setting from there")]
    Includes,
    /// The place of the working tree, and its existence.
    #[strum(to_string = "git works in another folder or in none, and the next `ar` refuses to start")]
    WorkingTree,
    /// Format extensions, which decide whether the repository can be opened.
    #[strum(to_string = "git and the next `ar` may refuse to open the repository")]
    Extensions,
}

impl SettingEffect {
    fn of(key: &str) -> Option<SettingEffect> {
        let is_include = || (key.starts_with("include.") || key.starts_with("includeif.")) && key.ends_with(".path");
        match key {
            "core.attributesfile" => Some(SettingEffect::Attributes),
            "core.hookspath" => Some(SettingEffect::Hooks),
            "core.worktree" | "core.bare" => Some(SettingEffect::WorkingTree),
            _ if key.starts_with("extensions.") => Some(SettingEffect::Extensions),
            _ if key.starts_with("filter.") => Some(SettingEffect::Filters),
            _ => is_include().then_some(SettingEffect::Includes),
        }
    }
}

impl Repo {
    /// Reads the watched settings from the files of this repository, of the user and of the machine. Does not read
    /// files that they include.
    pub fn watched_settings(&self) -> WatchedSettings {
        let mut files = vec![self.common_dir().join("config"), self.git_dir().join("config.worktree")];
        files.extend(Source::System.storage_location(&mut |name| env::var_os(name)));
        files.extend(files_of_user());
        let mut settings = BTreeMap::new();
        for file in files {
            // Git takes no setting from an unreadable file either; it only fails.
            let Ok(bytes) = read_regular(&file) else { continue };
            let Ok(config) = File::from_bytes_no_includes(&bytes, Metadata::default(), Default::default()) else {
                continue;
            };
            add(&mut settings, &config, file.parent().unwrap_or(Path::new("/")));
        }
        WatchedSettings(settings)
    }
}

/// The files with the user's own settings.
fn files_of_user() -> Vec<PathBuf> {
    if let Some(file) = env::var_os("GIT_CONFIG_GLOBAL") {
        return vec![file.into()];
    }
    let home = env::var_os("HOME").map(PathBuf::from);
    let xdg = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".config")));
    let files = [xdg.map(|folder| folder.join("git").join("config")), home.map(|home| home.join(".gitconfig"))];
    files.into_iter().flatten().collect()
}

/// Adds the watched settings of a configuration file in `folder`.
fn add(settings: &mut BTreeMap<String, String>, config: &File, folder: &Path) {
    for section in config.sections() {
        let section_name = section.header().name().to_string().to_ascii_lowercase();
        let subsection = section.header().subsection_name().map(|name| format!("{name}.")).unwrap_or_default();
        for value_name in section.value_names() {
            let key = format!("{section_name}.{subsection}{}", value_name.to_string().to_ascii_lowercase());
            let Some(effect) = SettingEffect::of(&key) else { continue };
            let values = section.values(&value_name.to_string());
            let mut text = values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join("\n");
            if matches!(effect, SettingEffect::Attributes | SettingEffect::Includes) {
                let stamps = values.iter().map(|value| FileStamp::of(&named(&value.to_str_lossy(), folder)));
                text.extend(stamps.map(|stamp| format!("\n{stamp:?}")));
            }
            settings.entry(key).or_default().push_str(&text);
        }
    }
}

/// The file that a setting in `folder` names.
fn named(value: &str, folder: &Path) -> PathBuf {
    match value.strip_prefix("~/").zip(env::var_os("HOME")) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => folder.join(value),
    }
}

impl WatchedSettings {
    /// The keys of those that are others `now`, or were put in or taken out, by what that brings about.
    pub fn changed(&self, now: &WatchedSettings) -> BTreeMap<SettingEffect, Vec<String>> {
        let mut changed: BTreeMap<SettingEffect, Vec<String>> = BTreeMap::new();
        let new = now.0.keys().filter(|key| !self.0.contains_key(*key));
        for key in self.0.keys().chain(new).filter(|key| self.0.get(*key) != now.0.get(*key)) {
            if let Some(effect) = SettingEffect::of(key) {
                changed.entry(effect).or_default().push(key.clone());
            }
        }
        changed.values_mut().for_each(|keys| keys.sort());
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> WatchedSettings {
        let config = File::from_bytes_no_includes(text.as_bytes(), Metadata::default(), Default::default()).unwrap();
        let mut settings = BTreeMap::new();
        add(&mut settings, &config, Path::new("/nowhere"));
        WatchedSettings(settings)
    }

    #[test]
    fn changed_settings_are_told_by_their_effect_and_others_are_not() {
        let before =
            settings("[core]\n\tautocrlf = false\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired\n");
        assert!(before.changed(&before).is_empty());
        let now = settings(
            "[core]\n\tautocrlf = true\n\tworktree = /tmp\n\tHooksPath = /tmp/hooks\n[Filter \"lfs\"]\n\tclean = cat\n\trequired\n\
             [include]\n\tpath = more\n[includeIf \"gitdir:x\"]\n\tpath = other\n[user]\n\tname = x\n",
        );
        let changed = before.changed(&now);
        assert_eq!(changed[&SettingEffect::Hooks], ["core.hookspath"]);
        assert_eq!(changed[&SettingEffect::Filters], ["filter.lfs.clean"]);
        assert_eq!(changed[&SettingEffect::Includes], ["include.path", "includeif.gitdir:x.path"]);
        assert_eq!(changed[&SettingEffect::WorkingTree], ["core.worktree"]);
        assert_eq!(changed.len(), 4);
        assert_eq!(now.changed(&before).len(), 4, "what is taken out is named, too");
    }
}
