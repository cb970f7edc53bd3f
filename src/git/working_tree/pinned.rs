//! Comparing and writing protected files, whatever happened to git's settings and attribute files since the session began.
//!
//! A filter may show git the old content of a changed file, or change a file at checkout. So neither current settings
//! nor uncommitted attribute files apply to protected files. Their bytes are those of the blob, unless attributes of
//! the session's first commit have them filtered. Then the settings of the session's start apply.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use gix::bstr::{BString, ByteSlice};
use gix::glob::pattern::Case;
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stat};
use gix::worktree::Stack;
use gix::worktree::stack::state::attributes::Source;
use serde::{Deserialize, Serialize};

use super::{ChosenFilters, OnDisk, Scan, TreeFiles, is_attributes, refuse_encoding_in};
use crate::domain::CommitId;
use crate::git::{
    During, Edits, GitError, Program, Result, WhyLeftOut, WorkingTree, attributes_in, shell_line, to_git, to_path,
};

/// The settings of programs, in `filter.<driver>`, `gpg` and `gpg.<format>`.
const OF_PROGRAMS: [(&str, &[&str]); 2] =
    [("filter", &["clean", "smudge", "process", "required"]), ("gpg", &["format", "program", "defaultKeyCommand"])];

/// Other settings of line ends and signatures, with what holds where one is missing.
const OTHERS: [(&str, &str, &str); 5] = [
    ("core", "autocrlf", "false"),
    ("core", "eol", "native"),
    ("core", "safecrlf", "false"),
    ("commit", "gpgSign", "false"),
    ("user", "signingKey", ""),
];

/// The settings by which git converts files and signs commits, by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedSettings(BTreeMap<String, String>);

impl PinnedSettings {
    pub(in crate::git) fn of(gix: &gix::Repository) -> PinnedSettings {
        let config = gix.config_snapshot();
        let mut settings = BTreeMap::new();
        let sections = |kind: &str| config.plumbing().sections_by_name(kind).into_iter().flatten().collect::<Vec<_>>();
        let all =
            OF_PROGRAMS.iter().flat_map(|(kind, names)| sections(kind).into_iter().map(move |it| (kind, names, it)));
        for (kind, names, section) in all {
            let driver = section.header().subsection_name().map(|name| format!("{name}.")).unwrap_or_default();
            for name in *names {
                // One without a value is true.
                let value =
                    section.value_implicit(name).map(|value| value.map_or("true".into(), |value| value.to_string()));
                settings.extend(value.map(|value| (format!("{kind}.{driver}{name}"), value)));
            }
        }
        for (section, name, _) in OTHERS {
            let key = format!("{section}.{name}");
            let value = config.string(key.as_str()).map(|value| value.to_string());
            settings.extend(value.map(|value| (key, value)));
        }
        PinnedSettings(settings)
    }

    /// The same, with each filter started by a call that begins with these words.
    fn started_by(mut self, words: &[String]) -> PinnedSettings {
        for (_, line) in self.0.iter_mut().filter(|(key, line)| starts_program(key) && !line.is_empty()) {
            let shell = [
                "sh".to_owned(),
                "-c".to_owned(),
                line.replace("'%f'", "%f").replace("\"%f\"", "%f").replace("%f", "\"$1\""),
                "sh".to_owned(),
            ];
            *line = format!("{} %f", shell_line(&[words, &shell].concat()));
        }
        self
    }

    /// The command lines of all programs; of one that signs commits where commits are signed.
    fn lines(&self) -> Vec<(Program, String)> {
        let of = |program, line: &String| (program, line.clone());
        let filters = self.0.iter().filter(|(key, _)| starts_program(key)).map(|(_, line)| of(Program::Filter, line));
        if self.0.get("commit.gpgSign").is_none_or(|signs| ["false", "no", "off", "0"].contains(&&**signs)) {
            return filters.collect();
        }
        let named = self.0.iter().filter(|(key, _)| key.starts_with("gpg.") && !key.ends_with("format"));
        let default = match self.0.get("gpg.format").map(String::as_str) {
            Some("ssh") => "ssh-keygen",
            Some("x509") => "gpgsm",
            _ => "gpg",
        };
        let signers = named.map(|(_, line)| line.clone()).chain([default.to_owned()]);
        filters.chain(signers.map(|line| (Program::Signing, line))).collect()
    }

    /// Returns whether there is a filter of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.keys().any(|key| key.starts_with(&format!("filter.{name}.")))
    }

    /// Has `gix` convert files and sign commits by these settings and no others.
    pub(in crate::git) fn apply(&self, gix: &mut gix::Repository) -> Result<()> {
        const WHAT: &str = "setting up the filters";
        let mut config = gix.config_snapshot_mut();
        for (kind, _) in OF_PROGRAMS {
            let drivers = config.sections_by_name(kind).into_iter().flatten();
            let drivers: Vec<Option<BString>> =
                drivers.map(|section| section.header().subsection_name().map(ToOwned::to_owned)).collect();
            for driver in drivers {
                config.remove_section(kind, driver.as_ref().map(|driver| driver.as_bstr()));
            }
            for (key, value) in &self.0 {
                let Some(rest) = key.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')) else { continue };
                let (driver, name) = rest.rsplit_once('.').map_or((None, rest), |(driver, name)| (Some(driver), name));
                let driver = driver.map(|driver| driver.as_bytes().as_bstr());
                config.set_raw_value_by(kind, driver, name, value.as_str()).during(WHAT)?;
            }
        }
        for (section, name, default) in OTHERS {
            let value = self.0.get(&format!("{section}.{name}")).map_or(default, String::as_str);
            config.set_raw_value_by(section, None::<&gix::bstr::BStr>, name, value).during(WHAT)?;
        }
        config.commit().during(WHAT)?;
        Ok(())
    }
}

/// Returns whether a setting names a program.
fn starts_program(key: &str) -> bool {
    key.starts_with("filter.") && [".clean", ".smudge", ".process"].iter().any(|name| key.ends_with(name))
}

/// The settings and attributes by which protected files are converted.
#[derive(Debug)]
pub struct PinnedFilters {
    pub(super) gix: Rc<gix::Repository>,
    /// The attribute files of the session's first commit.
    attributes: State,
}

impl PinnedFilters {
    /// Returns the source of a path's attributes: those of the commit alone.
    pub(super) fn stack(&self, tree: &WorkingTree) -> Result<Stack> {
        let folds = self.gix.filesystem_options().during("reading attributes")?.ignore_case;
        let case = if folds { Case::Fold } else { Case::Sensitive };
        attributes_in(&tree.root, &self.attributes, None, case)
    }
}

impl WorkingTree {
    /// The settings by which files are converted here.
    pub fn filter_settings(&self) -> PinnedSettings {
        PinnedSettings::of(&self.gix)
    }

    /// Converts files and signs commits by these settings from here on, with programs started by calls that begin with these
    /// words.
    pub fn convert_by(&mut self, settings: PinnedSettings, words: Vec<String>) -> Result<()> {
        let mut gix = (*self.gix).clone();
        self.objects.programs.configure(settings.lines());
        let settings = if words.is_empty() { settings } else { settings.started_by(&words) };
        settings.apply(&mut gix)?;
        self.converting = Rc::new(gix);
        self.objects.sign_by(Rc::clone(&self.converting), words);
        Ok(())
    }

    /// Pins the attributes that the files `attributes` of `commit` give, and the settings of now.
    pub fn pin_filters(&self, commit: &CommitId, attributes: &[PathBuf]) -> Result<PinnedFilters> {
        let gix = Rc::clone(&self.converting);
        let tree = self.objects.tree_id(commit)?;
        let mut state = State::new(gix.object_hash());
        for path in attributes {
            let path = to_git(path)?;
            if let Some((mode, id)) = self.objects.version_in(tree, path.as_ref())? {
                state.dangerously_push_entry(Stat::default(), id, Flags::empty(), mode, path.as_ref());
            }
        }
        state.sort_entries();
        Ok(PinnedFilters { gix, attributes: state })
    }

    /// Those of `paths` that are not in the working tree as `commit` has them: changed, gone, or a link in their place.
    /// Their content is read, whatever the index says of their times.
    pub fn differing(&self, commit: &CommitId, paths: &[PathBuf], filters: &PinnedFilters) -> Result<Vec<PathBuf>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.objects.tree_id(commit)?;
        let staged = self.index.read()?;
        let mut files = TreeFiles::pinned(self, filters)?;
        let mut differing = Vec::new();
        for native in paths {
            let path = to_git(native)?;
            if files.version(path.as_ref(), &staged)? != self.objects.version_in(tree, path.as_ref())? {
                differing.push(native.clone());
            }
        }
        Ok(differing)
    }

    /// Writes `paths` as `commit` has them, in working tree and index. Their present content is lost.
    pub fn write_as_pinned(&self, commit: &CommitId, paths: &[PathBuf], filters: &PinnedFilters) -> Result<()> {
        let tree = self.objects.tree_id(commit)?;
        let lock = self.index.lock()?;
        let mut staged = self.index.own()?;
        let mut files = TreeFiles::pinned(self, filters)?;
        let mut edits = Edits::default();
        for native in paths {
            let path = to_git(native)?;
            if let Some(version) = self.objects.version_in(tree, path.as_ref())? {
                let stat = files.write(path.as_ref(), version)?;
                edits.set.insert(path, (version, stat));
            }
        }
        drop(files);
        let fresh: Vec<BString> = edits.set.keys().cloned().collect();
        let known = staged.tree;
        staged.apply(edits, known.filter(|known| *known == tree));
        self.index.write(&lock, staged, &fresh)
    }
}

/// Returns whether a path, relative to the working tree, is that of an attribute file.
pub fn names_attributes(path: &std::path::Path) -> bool {
    to_git(path).is_ok_and(|path| is_attributes(path.as_ref()))
}

impl WorkingTree {
    /// The attribute files among those that were `found` to differ from the tree `base` with which files could not be checked
    /// out, or not as they are: any asks for a wide encoding, or all of them together for a filter that fails.
    pub(super) fn unusable_attributes(
        &self,
        base: gix::ObjectId,
        index: &State,
        found: BTreeSet<&BString>,
        scan: &Scan,
    ) -> Result<Vec<(BString, WhyLeftOut)>> {
        let files: Vec<&BString> = found.into_iter().filter(|path| is_attributes(path.as_bstr())).collect();
        let mut unusable = Vec::new();
        for path in &files {
            match refuse_encoding_in(&self.root, &to_path(path.as_ref())) {
                Err(GitError::WorkingTreeEncoding { .. }) => unusable.push(((*path).clone(), WhyLeftOut::Encoding)),
                checked => checked?,
            }
        }
        if unusable.is_empty() && !files.is_empty() && self.has_failing_filter(base, index, scan)? {
            unusable.extend(files.into_iter().map(|path| (path.clone(), WhyLeftOut::Attributes)));
        }
        Ok(unusable)
    }

    /// Returns whether a filter fails for a file that has another filter, or none, in `base`. One that an agent has made
    /// meanwhile is not started, and counts as one that fails.
    fn has_failing_filter(&self, base: gix::ObjectId, index: &State, scan: &Scan) -> Result<bool> {
        const WHAT: &str = "reading the configuration";
        let gix = &*self.converting;
        let names = |gix: &gix::Repository| -> Result<BTreeSet<BString>> {
            let drivers = gix::filter::Pipeline::options(gix).during(WHAT)?.drivers;
            Ok(drivers.into_iter().map(|driver| driver.name).collect())
        };
        let (known, now) = (names(gix)?, names(&gix::open(&self.root).during(WHAT)?)?);
        if known.is_empty() && now.is_empty() {
            return Ok(false);
        }
        let base = self.objects.read(|gix| gix.index_from_tree(&base).during("reading a tree"))?;
        let stack = gix.attributes_only(index, Source::WorktreeThenIdMapping).during("reading attributes")?.detach();
        let before = self.gix.attributes_only(&base, Source::IdMapping).during("reading attributes")?.detach();
        let (mut new, mut old) = (ChosenFilters::by(stack.clone()), ChosenFilters::by(before));
        let mut files = TreeFiles::with(self, gix, stack, self.objects.programs.call(Program::Filter))?;
        let tracked = index.entries().iter().filter(|entry| entry.mode != Mode::COMMIT);
        let tracked = tracked.map(|entry| entry.path(index));
        for path in tracked.chain(scan.untracked.iter().map(|path| path.as_bstr())) {
            let Some(filter) = new.filter(gix, path)? else { continue };
            if !known.contains(&filter) && !now.contains(&filter)
                || Some(&filter) == old.filter(&self.gix, path)?.as_ref()
            {
                continue;
            }
            if !known.contains(&filter) {
                return Ok(true);
            }
            let works = match files.read(path, index) {
                Ok(OnDisk::File(content)) => files.as_checked_out(&content, path).map(drop),
                read => read.map(drop),
            };
            match works {
                Err(GitError::Filter { .. }) => return Ok(true),
                works => works?,
            }
        }
        Ok(false)
    }
}
