//! The refs of a session: its branch, its records, what was saved, and remains of experiments that were open, with their
//! linked working trees.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Facts, REPAIR, RecordRef, finding_of, repository};
use crate::domain::{Area, CommitId, ExperimentId, Finding, Phase, Severity, Tag, experiment_name, with_causes};
use crate::git::{BrokenRef, Head, Notes, Repo};
use crate::rules::{Tip, UnrecordedTip};
use crate::session::attempt::review_tree;
use crate::session::errors::SessionError;
use crate::session::files::{is_behind_wall, record_id};
use crate::session::{NOTES, Repair, RepairableFinding, UserCommits, checked_out_elsewhere, unrecorded_tip};
use crate::state::Journal;

/// The object that a torn ref named, where that is known: a branch is at the incumbent, and a record left its tag object
/// behind.
fn value_of(facts: &Facts, broken: &BrokenRef) -> Option<String> {
    if broken.name == facts.tag.branch_ref() {
        return facts.expected_tip().map(|tip| tip.to_string());
    }
    let record = facts.refs.iter().find(|found| found.name == broken.name).map(|found| found.object.clone());
    record.or_else(|| {
        let mut open = facts.known_journal().into_iter().flat_map(Journal::attempts);
        let open = open.find(|open| facts.tag.open_ref(open.id()) == broken.name)?;
        open.commit().map(ToString::to_string)
    })
}

/// Finds the differences between the refs of a session and the expected ones, or reports the branch if there are none.
pub(crate) fn inspect(repo: &Repo, facts: &Facts) -> Vec<RepairableFinding> {
    let differences = |found: Vec<Finding>| found.into_iter().map(RepairableFinding::from).collect();
    let mut found = broken(facts);
    found.extend(missing(facts).into_iter().map(RepairableFinding::from));
    for checked in [
        branch(repo, facts),
        saved(repo, facts).map(differences),
        Ok(differences(notes(repo, facts).into_iter().collect())),
    ] {
        found.extend(checked.unwrap_or_else(|error| vec![finding_of(Area::Refs, &error).into()]));
    }
    if found.is_empty() {
        let what = match (facts.is_imported(), facts.has_files()) {
            (true, _) => "imported; it has records and no branch".to_owned(),
            (false, false) => "fetched; it has records".to_owned(),
            (false, true) => {
                let tip = repo.refs.branch(&facts.tag.branch_ref()).ok().flatten();
                let tip = tip.map(|tip| format!(" at {}", tip.short(8))).unwrap_or_default();
                format!("{}{tip}", facts.tag.branch())
            }
        };
        found.push(Finding::ok(Area::Refs, what).into());
    }
    found
}

/// Reports unreadable notes of the user. Nothing else depends on them.
fn notes(repo: &Repo, facts: &Facts) -> Option<Finding> {
    let commits = facts.history().records().iter().map(|record| &record.commit);
    let error = Notes::new(&repo.refs, NOTES).on(commits).err()?;
    let what = format!("cannot read the notes on experiments: {}", with_causes(&error));
    let hint = format!("drop them with `git update-ref -d {NOTES}`; `git fsck --unreachable` finds their content");
    Some(Finding::error(Area::Refs, what).hint(hint))
}

/// Looks at what is left of a session that has neither terms nor records: its branch, and what it saved.
pub(crate) fn inspect_remains(repo: &Repo, facts: &Facts) -> Result<Vec<Finding>, SessionError> {
    let (tag, branch) = (&facts.tag, facts.tag.branch());
    let saved = repo.refs.readable_refs_under(&format!("{}/saved", tag.ref_prefix()))?;
    let names: Vec<&str> = saved.iter().map(|(name, _)| name.as_str()).collect();
    let all = names.join(", ");
    let free = format!("free the name for another session with `git branch -m {branch} NEW-NAME`");
    let back = |name: &str| {
        format!(
            "bring that change back with `git restore --source={name} --staged --worktree -- \
        .`"
        )
    };
    let is_there = repo.refs.branch(&tag.branch_ref())?.is_some();
    let finding = match (names.last(), is_there) {
        (None, false) => return Ok(Vec::new()),
        (None, true) => {
            let what = format!("the branch {branch} has neither terms nor records; no session can continue from it");
            Finding::damaged(Area::Refs, what).hint(free)
        }
        (Some(newest), true) => {
            let what = format!("only the branch {branch} and saved work remain of session {tag}: {all}");
            Finding::damaged(Area::Refs, what).hint(format!("{}; then {free}", back(newest)))
        }
        (Some(newest), false) => {
            let what = format!("session {tag} no longer exists; its saved work is in {all}");
            let forget = format!("drop it with `git update-ref -d {newest}`");
            Finding::warning(Area::Refs, what).hint(format!("{}; {forget}", back(newest)))
        }
    };
    Ok(vec![finding.of(tag)])
}

fn broken(facts: &Facts) -> Vec<RepairableFinding> {
    let difference = |broken: &BrokenRef| {
        let what = match broken.is_lost {
            true => format!("the ref {} leads to an object that is gone", broken.name),
            false => format!("the file of the ref {} is empty or damaged", broken.name),
        };
        let Some(object) = value_of(facts, broken) else {
            let hint = decide(&broken.name, &facts.tag_objects(&broken.name));
            return Finding::damaged(Area::Refs, what).hint(hint).into();
        };
        RepairableFinding::new(Finding::error(Area::Refs, what), Repair::Ref { broken: broken.clone(), object })
    };
    facts.broken.iter().map(difference).collect()
}

/// A hint to decide about a ref that may have named any of `objects`.
fn decide(name: &str, objects: &[&str]) -> String {
    match objects {
        [] => format!(
            "nothing tells what it named: look with `git fsck --lost-found`, then `git update-ref {name} OBJECT`, or \
                do \
             without it: `git update-ref -d {name}`"
        ),
        objects => format!(
            "decide which it is, looking with `git cat-file -p`: {}; then `git update-ref {name} OBJECT`",
            objects.join(", ")
        ),
    }
}

/// Records that should be there.
fn missing(facts: &Facts) -> Vec<Finding> {
    let broken: Vec<ExperimentId> =
        facts.broken.iter().filter_map(|broken| record_id(&broken.name, &facts.tag)).collect();
    let finding = |id: ExperimentId| {
        let name = facts.tag.record_ref(id);
        let what = format!("experiment {id} has no record, but a later one does");
        Finding::damaged(Area::Refs, what).hint(decide(&name, &facts.tag_objects(&name)))
    };
    facts.lost_ids().into_iter().filter(|id| !broken.contains(id)).map(finding).collect()
}

fn branch(repo: &Repo, facts: &Facts) -> Result<Vec<RepairableFinding>, SessionError> {
    let branch = facts.tag.branch_ref();
    let (Some(judged), Some(expected)) = (facts.tip(repo)?, facts.expected_tip()) else { return Ok(Vec::new()) };
    let name = facts.tag.branch();
    let resume = format!("ar resume {}", facts.tag);
    let tip = repo.refs.branch(&branch)?;
    let mut found = Vec::new();
    match judged {
        Tip::Expected | Tip::Open => {}
        // The look at the journal says what that means.
        Tip::Unsettled if facts.has_lost_journal() => {}
        Tip::Unrecorded if facts.left_at_tip(repo)?.is_some() => {}
        Tip::Unsettled => {
            let what = format!("the branch {name} is at the last experiment, which was not kept");
            let hint = format!("move the branch back: git reset --keep {}", expected.short(12));
            found.push(Finding::damaged(Area::Refs, what).hint(hint).into());
        }
        // Before its baseline is measured a session may have none yet.
        Tip::Missing if facts.refs.is_empty() => {}
        Tip::Missing => {
            let hint = format!(
                "{REPAIR} brings it back; `ar delete {}` removes the session, after a bundle of its refs in \
                 .autoresearch/deleted",
                facts.tag
            );
            let finding = Finding::warning(Area::Refs, format!("the branch {name} is missing")).hint(hint);
            found.push(RepairableFinding::new(finding, Repair::Branch(expected.clone())));
        }
        Tip::Unrecorded => {
            let tip = tip.unwrap_or_else(|| expected.clone());
            let is_on_top = repo.objects.leads_to(&expected, &tip)?;
            let subject = repo.objects.subject(&tip)?;
            let finding = match next_session(repo, facts)? {
                Some(next) => of_user(facts, &format!("{}: {subject}", tip.short(8)), &next),
                None => {
                    let commits = UserCommits { tip, incumbent: expected.clone(), is_on_top };
                    // The user decides whether to measure it or give it up.
                    let error = commits.refusal(&facts.tag, &subject, Journal::is_lost(facts.known_journal())).into();
                    Finding { level: Severity::Damaged, ..finding_of(Area::Refs, &error) }
                }
            };
            found.push(finding.into());
        }
    }
    if let Some(worktree) = repo.refs.checked_out_elsewhere(&branch)? {
        let finding = finding_of(Area::Refs, &checked_out_elsewhere(&name, &worktree).into());
        found.push(Finding { level: Severity::Warning, ..finding }.into());
    } else if facts.is_only
        && !facts.is_fetched
        && facts.tree_owner().follows_branch()
        // Behind the wall of a call, HEAD is the call's own.
        && !is_behind_wall(repo)
        && let Some(elsewhere) = elsewhere(&repo.refs.head()?, &branch)
    {
        let what = format!("HEAD is {elsewhere}, not on the session's branch");
        found.push(Finding::warning(Area::Refs, what).hint(resume).into());
    }
    Ok(found)
}

/// The session that a typed `ar run` begins, or continues, with the user's commits on top of the incumbent.
fn next_session(repo: &Repo, facts: &Facts) -> Result<Option<Tag>, SessionError> {
    let (Some(terms), Ok(Some(journal))) = (facts.terms(), &facts.journal) else { return Ok(None) };
    Ok(match unrecorded_tip(repo, &terms, journal, facts.history())? {
        Some(UnrecordedTip::OfUser(tag)) => Some(tag),
        Some(UnrecordedTip::Moved) | None => None,
    })
}

/// The user's commits on a session's branch, up to `last`: nothing is damaged, and the user decides what becomes of them.
fn of_user(facts: &Facts, last: &str, next: &Tag) -> Finding {
    let (tag, branch) = (&facts.tag, facts.tag.branch());
    let adopt = match facts.tree_owner().has_user() {
        true => format!(", or `ar run --tag {tag} --adopt` to measure them in session {tag}"),
        false => String::new(),
    };
    Finding::warning(Area::Refs, format!("branch {branch} has commits of yours after its last keep, the last {last}"))
        .hint(format!("run `ar run --tag {tag}` to begin session {next} with them{adopt}; `ar resume` refuses"))
}

/// Describes the position of HEAD, unless it is on `branch`.
fn elsewhere(head: &Head, branch: &str) -> Option<String> {
    match head {
        _ if head.branch() == Some(branch) => None,
        Head::Branch { name, .. } | Head::Unborn { name } => {
            Some(format!("on {}", name.trim_start_matches("refs/heads/")))
        }
        Head::Detached { commit } => Some(format!("at {}", commit.short(8))),
    }
}

/// Reports missing commits of saved, open and merged work, and of records.
fn saved(repo: &Repo, facts: &Facts) -> Result<Vec<Finding>, SessionError> {
    const LOST: &str = "look with `git fsck --full`, and fetch it from a copy of the repository; without one, decide \
                        whether to go on without it";
    let lost = |what: String| Finding::damaged(Area::Refs, what).hint(LOST);
    let mut found = Vec::new();
    for folder in ["saved", "open", "merged"] {
        for (name, object) in repo.refs.readable_refs_under(&format!("{}/{folder}", facts.tag.ref_prefix()))? {
            if !repo.objects.has_commit(&CommitId::new(object)) {
                found.push(lost(format!("the work saved under {name} is not in the repository")));
            }
        }
    }
    // The base of one is the commit of another.
    let mut looked = HashSet::new();
    for RecordRef { id, record, .. } in &facts.refs {
        let Ok(record) = record else { continue };
        for (commit, what) in [(&record.commit, "commit"), (&record.base, "base")] {
            if commit.is_known() && looked.insert(commit) && !repo.objects.has_commit(commit) {
                found.push(lost(format!("the {what} {} of experiment {id} is not in the repository", commit.short(8))));
            }
        }
    }
    Ok(found)
}

/// Lists commits and working trees that are no longer needed. The repair saves the commits to refs. Finds nothing while
/// the session is active or its journal is unreadable.
pub(crate) fn inspect_open(repo: &Repo, facts: &Facts) -> Vec<RepairableFinding> {
    if facts.holder.is_some() || repository::in_the_way(repo).is_some() || !facts.has_files() {
        return Vec::new();
    }
    let looked = left_refs(repo, facts).and_then(|refs| Ok((refs, left_trees(repo, facts)?)));
    let (refs, trees) = match looked {
        Ok(found) => found,
        Err(error) => return vec![finding_of(Area::Journal, &error).into()],
    };
    let refs = refs.into_iter().map(|(id, name, commit)| {
        let what = format!("{name} keeps a commit of {}, which is neither open nor recorded", experiment_name(id));
        let finding = Finding::warning(Area::Refs, what).hint(format!("{REPAIR} moves it to the saved work"));
        RepairableFinding::new(finding, Repair::Save { id, name, commit })
    });
    let trees = trees.into_iter().map(|tree| {
        let what = format!("the working tree {} was left behind; nothing is open in it", tree.display());
        RepairableFinding::new(Finding::warning(Area::Journal, what), Repair::Tree(tree))
    });
    refs.chain(trees).collect()
}

/// The refs of attempts that the journal does not have, each with its experiment and commit.
fn left_refs(repo: &Repo, facts: &Facts) -> Result<Vec<(ExperimentId, String, CommitId)>, SessionError> {
    let Some(open) = facts.known_journal().map(Journal::open_ids) else { return Ok(Vec::new()) };
    let prefix = format!("{}/open", facts.tag.ref_prefix());
    let found = repo.refs.readable_refs_under(&prefix)?.into_iter().filter_map(|(name, object)| {
        let id: ExperimentId = name.strip_prefix(&prefix)?.strip_prefix('/')?.parse().ok()?;
        let is_known = open.contains(&id) || facts.refs.iter().any(|it| it.id == id);
        let commit = CommitId::new(object);
        // One that is lost has no commit that could be moved.
        (!is_known && repo.objects.has_commit(&commit)).then_some((id, name, commit))
    });
    Ok(found.collect())
}

/// The linked working trees in the session's folder, registered or not, in whose slot or seat no attempt is open.
fn left_trees(repo: &Repo, facts: &Facts) -> Result<Vec<PathBuf>, SessionError> {
    let Some(journal) = facts.known_journal().filter(|journal| journal.attempts.trouble().is_none()) else {
        return Ok(Vec::new());
    };
    let above = facts.folder.trees();
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let mut trees: Vec<PathBuf> =
        fs::read_dir(&above).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    trees.retain(|path| is_folder(path));
    let real = above.canonicalize().unwrap_or_else(|_| above.clone());
    let registered = repo.linked_worktrees()?.into_iter().map(|(_, root)| root);
    // Git still lists a tree after its folder was deleted.
    trees.extend(registered.filter_map(|root| {
        let name = root.strip_prefix(&above).or_else(|_| root.strip_prefix(&real)).ok()?;
        Some(above.join(name))
    }));
    trees.sort();
    trees.dedup();
    let used: Vec<PathBuf> = journal
        .attempts()
        .filter_map(|open| match open.phase() {
            Phase::Proposing => open.head().seat.map(|seat| facts.folder.seat(seat)),
            Phase::Running | Phase::Guarding | Phase::Confirming => {
                open.head().beside.slot.map(|slot| facts.folder.slot(slot))
            }
            Phase::Reviewing => Some(review_tree(&facts.folder, open.id())),
            _ => None,
        })
        .collect();
    trees.retain(|tree| !used.contains(tree));
    Ok(trees)
}
