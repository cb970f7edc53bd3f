//! The contract: what the user approves before a session starts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::settings::ALL;
use super::{COMPOSITE, CommitId, Composite, Contract, MetricSource, Tag, WordList, word_list};

/// Files that pin the versions of what a project depends on, in the order of their names.
pub static LOCK_FILES: WordList = WordList::new(|| word_list(include_str!("lists/lock_files.txt")));

/// What to do about a lock file of uv among files that a run changed, as the end of a sentence.
pub fn stale_lock_clause(changed: &[PathBuf]) -> String {
    let Some(lock) = changed.iter().find(|path| path.file_name().is_some_and(|name| name == "uv.lock")) else {
        return String::new();
    };
    format!(
        "; `uv run` rewrites {}, which is older than its pyproject.toml: run `uv lock` and commit it, or pass --frozen to \
         `uv run`",
        lock.display()
    )
}

/// The session before one that starts from the user's commits on its branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// Its tag.
    pub tag: Tag,
    /// Its incumbent, to which its branch goes back.
    pub incumbent: CommitId,
    /// The user's own branch when the first of these sessions began, as a full ref name.
    pub branch: Option<String>,
    /// The commit that it was at.
    pub at: CommitId,
}

impl Contract {
    /// The user's own branch when the session began, or the first one of those that it follows, and its commit.
    pub fn home(&self) -> (Option<&str>, &CommitId) {
        match &self.follows {
            Some(follows) => (follows.branch.as_deref(), &follows.at),
            None => (self.started_from.as_deref(), &self.start),
        }
    }

    /// The axes that the metric is worked out from; absent where the log prints the metric itself.
    pub fn deciding_composite(&self) -> Option<&Composite> {
        self.composite.as_ref().filter(|_| self.metric.name == COMPOSITE)
    }

    /// The axes of a research session's artifact, and the form in which they are put together; `None` where the artifact has
    /// no composite of its own.
    pub fn artifact(&self) -> Option<(&Composite, super::composite::Form)> {
        self.deciding_composite().zip(self.artifact_form)
    }

    /// The axes as they were asked for: those of research in the form of its artifact, whatever decides on iterations.
    pub fn asked_composite(&self) -> Option<Composite> {
        let composite = self.composite.clone()?;
        Some(Composite { form: self.artifact_form.unwrap_or(composite.form), ..composite })
    }

    /// Returns whether a step of the ladder may look outside the repository: the agent itself, or search commands for
    /// an agent that `ar` calls.
    pub fn allows_research(&self) -> bool {
        self.allow_search || !self.search.is_empty() && self.agent.is_some()
    }

    /// The commit that the session starts from, with its branch where HEAD was on one.
    pub fn start_text(&self) -> String {
        let commit = self.start.short(8);
        match &self.started_from {
            Some(branch) => format!("{} at {commit}", branch.trim_start_matches("refs/heads/")),
            None => commit.to_owned(),
        }
    }

    /// The agent's command line, after the name of its preset where it is one.
    pub fn agent_text(&self) -> Option<String> {
        let command = self.agent.as_ref()?;
        Some(match &self.agent_preset {
            Some(preset) => format!("{preset}: {command}"),
            None => command.clone(),
        })
    }

    /// What is agreed on by each setting, as lines for a person.
    pub fn lines(&self) -> Vec<String> {
        ALL.iter().flat_map(|setting| (setting.lines)(self)).collect()
    }

    /// Whether one of its terms ends a loop in good order some time.
    pub fn ends_loop(&self) -> bool {
        let is_set = |texts: Vec<String>| texts.iter().any(|text| text != "false");
        ALL.iter().any(|setting| setting.ends_loop && is_set((setting.stored)(self)))
    }

    /// The terms that decide what is kept. They hold for the whole session; limits, agent and reviewer may change.
    pub fn fixed_terms(&self) -> Vec<FixedTerm> {
        let term = |name, flag, text| FixedTerm { name, flag, text };
        let direction = self.metric.direction.to_string();
        let source = match &self.metric.source {
            MetricSource::File { .. } => "metric-file",
            MetricSource::Log | MetricSource::Regex(_) => "metric-regex",
        };
        let mut terms = vec![
            term("metric", Some("metric".to_owned()), self.metric.name.clone()),
            term("direction", Some(direction.clone()), direction),
            term("metric source", Some(source.to_owned()), self.metric.source.to_string()),
            term("command", Some("cmd".to_owned()), self.command.clone()),
            term("composite", None, self.asked_composite().map_or("none".to_owned(), |it| it.to_string())),
        ];
        terms.extend(ALL.iter().filter_map(|setting| {
            let texts = (setting.stored)(self);
            let text = if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
            Some(term(setting.fixed?, Some(setting.key.to_owned()), text))
        }));
        terms.extend(
            [("session", self.tag.to_string()), ("start", self.start.to_string())]
                .map(|(name, text)| term(name, None, text)),
        );
        terms
    }
}

/// A term that decides what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedTerm {
    /// The name of the term.
    name: &'static str,
    /// The flag that asks for it, without its dashes; absent for what no flag says.
    flag: Option<String>,
    /// The value of the term, as text.
    text: String,
}

/// A fixed term on which two contracts of a session do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The name of the term.
    pub field: &'static str,
    /// The approved value.
    pub approved: String,
    /// The value found instead.
    pub found: String,
    /// The flag that asks for it; absent for what no flag says.
    pub flag: Option<String>,
}

impl Drift {
    /// All fixed terms that differ from those that were approved.
    pub fn all(approved: &Contract, found: &Contract) -> Vec<Drift> {
        let pairs = approved.fixed_terms().into_iter().zip(found.fixed_terms());
        let differing = pairs.filter(|(approved, found)| approved.text != found.text);
        let drift = |(approved, found): (FixedTerm, FixedTerm)| Drift {
            field: found.name,
            approved: approved.text,
            found: found.text,
            flag: found.flag.map(|flag| format!("--{flag}")),
        };
        differing.map(drift).collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::{Direction, MetricSpec, Sandbox};

    fn contract() -> Contract {
        let metric = MetricSpec { name: "m".into(), direction: Direction::Lower, source: MetricSource::Log };
        let start = CommitId::new("1a2b3c4d5e6f");
        Contract::new("t".parse().unwrap(), metric, "c".into(), start, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_cap_of_the_night_or_of_all_nights_ends_a_loop_and_a_pause_does_not() {
        let of_night = Contract { max_experiments: Some(0), ..contract() };
        let mut of_all = contract();
        of_all.caps.session_max_cost = Some(1.0);
        let mut others = Contract { unattended: true, ..contract() };
        others.caps.agent_rounds = Some(3);
        assert_eq!([&of_night, &of_all, &others, &contract()].map(Contract::ends_loop), [true, true, false, false]);
    }

    #[test]
    fn a_contract_names_its_walls_unless_they_are_those_of_contracts_without_the_setting() {
        let stored = |contract: &Contract| serde_json::to_string(contract).unwrap();
        let read = |text: &str| serde_json::from_str::<Contract>(text).unwrap();
        assert_eq!(contract().sandbox, Sandbox::Auto);
        assert!(!stored(&contract()).contains("sandbox"));
        for (sandbox, word) in [(Sandbox::Require, "require"), (Sandbox::Off, "off")] {
            let contract = Contract { sandbox, ..contract() };
            assert!(stored(&contract).contains(&format!("\"sandbox\":\"{word}\"")));
            assert_eq!(read(&stored(&contract)), contract);
            assert!(contract.lines().contains(&format!("sandbox   {word}")));
            assert_eq!(Drift::all(&contract, &self::contract()), [], "it may change between nights");
        }
        assert_eq!(read(&stored(&contract())), contract());
        assert!(!contract().lines().iter().any(|line| line.starts_with("sandbox")));
    }
}
