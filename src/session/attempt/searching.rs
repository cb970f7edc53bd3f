//! The search step: commands that look for ideas outside the repository, asked side by side.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::str;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::agent::{SearchFinding, directive_text, goal_sentence};
use crate::crash;
use crate::domain::{
    Directive, Event, ExperimentId, FORMAT_VERSION, IdeaKind, LadderPosition, NewIdea, cut, ended_text, one_line,
    search_name, with_causes,
};
use crate::exec::{Job, Running};
use crate::fs::{create_folder, read_at_most, write_unsynced};
use crate::measure::plain_text;
use crate::rules::{JobPlaces, WalledRole, directions_tried, is_research};
use crate::session::errors::SessionError;
use crate::session::files::remove_file;
use crate::session::research::read_terms;
use crate::session::store::{Interrupt, Store};
use crate::session::wait::{Exited, SessionContext, WaitEnd, Waiter};

/// The name of a search command's job.
const SEARCH: &str = "search";

/// The file of its results, in its folder.
const RESULTS: &str = "results";

/// The file of its question.
const QUESTION: &str = "question.json";

/// Limit on the results in one prompt, in bytes for all commands together.
const ROOM: u64 = 64 * 1024;

/// Limits on the ideas of one command for the backlog: their number, as many as a draw considers, and the characters of each.
const IDEAS: usize = 50;
const IDEA: usize = 300;

/// Limit on the directions that a question names.
const TRIED: usize = 50;

/// Time for a command to end by itself after its time limit.
const GRACE: Duration = Duration::from_secs(1);

/// A result as a command prints it, one a line.
#[derive(Debug, Deserialize)]
struct ResultLine {
    text: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    score: Option<f64>,
}

/// Asks the search commands for an experiment whose directive allows research, or, in research, as often as the terms say.
/// Within the same step of the ladder, or for the same experiment, it returns the earlier results. The least covered of the
/// sub-topics in `coverage` comes first.
pub(crate) async fn search(
    shared: &SessionContext<'_>,
    id: ExperimentId,
    coverage: &[(String, usize)],
) -> Result<WaitEnd<Rc<[SearchFinding]>>, SessionError> {
    let (LadderPosition { directive, turns, .. }, commands, every) = {
        let store = shared.store();
        let terms = || read_terms(&store.repo, Some(&store.contract.start)).map(|terms| terms.search_every);
        let every = if is_research(&store.contract) { terms()? } else { 0 };
        (store.journal.ladder.position(), store.contract.search.clone(), every)
    };
    let is_due = every > 0 && (id.number() - 1).is_multiple_of(every);
    if commands.is_empty() || !(is_due || matches!(directive, Directive::Pivot { research: true, .. })) {
        return Ok(WaitEnd::Done(Rc::from([])));
    }
    let step = u64::from(turns) << 32 | u64::from(if is_due { id.number() } else { 0 });
    let known = shared.searched.borrow().clone().filter(|(of, _)| *of == step);
    if let Some((_, found)) = known {
        return Ok(WaitEnd::Done(found));
    }
    // Sub-topics that are covered as little as each other take turns.
    let least = coverage.iter().take_while(|(_, claims)| *claims == coverage[0].1).count().max(1);
    let topic = coverage.get(id.number() as usize % least).map(|(topic, _)| topic.as_str());
    let question = question(&shared.store(), directive, topic);
    let room = ROOM / commands.len() as u64;
    let asked = (1..).zip(&commands).map(|(number, command)| ask_command(shared, id, number, command, &question, room));
    let answers = join_all(asked).await;
    let (mut found, mut ideas) = (Vec::new(), Vec::new());
    for (command, answer) in commands.into_iter().zip(answers) {
        match answer?.done() {
            Ok(Ok(text)) => {
                ideas.extend(ideas_in(&text));
                found.push(SearchFinding { command, text });
            }
            Ok(Err(why)) => shared.store().note(format!("the search command `{command}` is left out: {why}")),
            Err(ending) => return Ok(ending),
        }
    }
    let by = search_name(shared.store().contract.tag.as_str(), &id.to_string());
    let new = shared.store().add_ideas_by(&by, &ideas)?;
    shared.emit(Event::Searched { id, answers: found.len(), ideas: new })?;
    let found: Rc<[SearchFinding]> = found.into();
    *shared.searched.borrow_mut() = Some((step, Rc::clone(&found)));
    Ok(WaitEnd::Done(found))
}

/// Asks one command and waits until all its processes are finished. Returns its output, or why that is not an answer.
async fn ask_command(
    shared: &SessionContext<'_>,
    id: ExperimentId,
    number: usize,
    command: &str,
    question: &str,
    room: u64,
) -> Result<WaitEnd<Result<String, String>>, SessionError> {
    let folder = shared.store().folder.create_run(id)?.join(format!("{SEARCH}-{number}"));
    // The search of a killed `ar` may still be running.
    shared.local.end_left_over(&folder, SEARCH).await;
    // A wall has mounts of what is there.
    create_folder(&folder)?;
    let job = job(&shared.store(), id, command, &folder, room);
    let start = || -> Result<Running, SessionError> {
        write_unsynced(&folder.join(QUESTION), question.as_bytes())?;
        remove_file(&job.log)?;
        Ok(shared.local.start(&job)?)
    };
    let mut job = match start() {
        Ok(job) => job,
        Err(error) if error.is_disk_full() => return Err(error),
        Err(error) => return Ok(WaitEnd::Done(Err(with_causes(&error)))),
    };
    let ended = shared.wait(&mut job, None, || Ok(Interrupt::None)).await?;
    Ok(match ended.done() {
        Ok(exited) => WaitEnd::Done(answered(exited, || read_at_most(&folder.join(RESULTS), ROOM))),
        Err(WaitEnd::Lost) => WaitEnd::Done(Err("it was killed".into())),
        Err(ending) => ending,
    })
}

/// The question for the commands, as a line of JSON.
fn question(store: &Store, directive: Directive, topic: Option<&str>) -> String {
    let (contract, history) = (&store.contract, &store.history);
    let directive = match directive {
        // The commands look outside, and not the agent.
        Directive::Pivot { perturbation, .. } => Directive::Pivot { perturbation, research: false },
        directive => directive,
    };
    let directive = directive_text(directive, contract, history);
    let goal = goal_sentence(contract);
    let tried = directions_tried(history.records());
    let tried: Vec<&str> = tried.iter().take(TRIED).map(|known| known.direction.as_str()).collect();
    let question = json!({
        "version": FORMAT_VERSION,
        "question": topic.map_or(goal.clone(), |topic| format!("{topic}: {goal}")),
        "directive": directive,
        "metric": contract.metric.name,
        "direction": contract.metric.direction,
        "best": history.best_kept().map(|number| number.value),
        "tried": tried,
    });
    format!("{question}\n")
}

/// The job of a search command.
fn job(store: &Store, id: ExperimentId, command: &str, folder: &Path, room: u64) -> Job {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let own = ["lock", "search.job.json", "search.started.json", QUESTION, RESULTS].map(str::to_owned).into();
    let places = JobPlaces { own, ..JobPlaces::default() };
    Job {
        name: SEARCH.into(),
        wall: store.walls.of_job(folder, folder, places, &WalledRole::Run),
        // Only what it prints as a result is one.
        command: format!("exec 2>/dev/null\n{command}"),
        // Files that it leaves in the working tree would count as the agent's.
        cwd: folder.to_owned(),
        folder: folder.to_owned(),
        log: folder.join(RESULTS),
        log_limit: Some(room),
        stdin: Some(folder.join(QUESTION)),
        env: vec![
            ("AR_TAG".into(), store.contract.tag.to_string()),
            ("AR_EXPERIMENT".into(), id.to_string()),
            ("AR_ROOT".into(), path(store.repo.worktree())),
        ],
        timeout: store.contract.search_timeout,
        grace: crash::wait(GRACE),
        tied: true,
        ..Job::default()
    }
}

/// Reads the output of a finished command. The error says why it is not an answer.
fn answered(exited: Exited, read: impl FnOnce() -> io::Result<Vec<u8>>) -> Result<String, String> {
    let exit = exited.map_err(|error| with_causes(&error))?;
    if exit.timed_out || exit.exit != Some(0) {
        return Err(ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds));
    }
    text_in(&read().map_err(|error| with_causes(&error))?)
}

/// The text of what was printed, which may be cut at its end.
fn text_in(printed: &[u8]) -> Result<String, String> {
    let text = match str::from_utf8(printed) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&printed[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Err("its output is not valid UTF-8".into()),
    };
    if text.contains('\0') {
        return Err("its output is not text".into());
    }
    let text = plain_text(text.as_bytes());
    if text.trim().is_empty() { Err("it printed nothing".into()) } else { Ok(text) }
}

/// The ideas in what a command printed: one for each line of JSON, which is a source where it has a `url`; or else all of it
/// as one.
fn ideas_in(text: &str) -> Vec<NewIdea> {
    let of = |text: &str, kind, score| NewIdea { text: cut(&one_line(text), IDEA), kind, direction: None, score };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<ResultLine>(line).ok());
    let found = lines.filter(|line| !line.text.trim().is_empty()).take(IDEAS).map(|line| {
        let kind = if line.url.is_some() { IdeaKind::Source } else { IdeaKind::Idea };
        let url = line.url.map(|url| format!(" ({url})")).unwrap_or_default();
        of(&format!("{}{url}", line.text), kind, line.score)
    });
    let found: Vec<NewIdea> = found.collect();
    if found.is_empty() { vec![of(text, IdeaKind::Idea, None)] } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_json_is_an_idea_and_all_other_text_one() {
        let printed = "{\"text\":\"a warm\\nrestart\",\"url\":\"https://e.org/1\",\"score\":0.5,\"more\":1}\nnoise\n\
                       {\"text\":\"half the rate\"}\n{\"text\":\" \"}\n{\"text\":\"cut o";
        let ideas = ideas_in(printed);
        let ideas: Vec<_> = ideas.iter().map(|idea| (idea.text.as_str(), idea.score)).collect();
        assert_eq!(ideas, [("a warm restart (https://e.org/1)", Some(0.5)), ("half the rate", None)]);
        let ideas = ideas_in("Try a warm restart.\nOr half the rate.\n");
        assert_eq!((ideas.len(), ideas[0].text.as_str()), (1, "Try a warm restart. Or half the rate."));
        assert_eq!(ideas_in(&"word ".repeat(1000))[0].text.chars().count(), IDEA + 1, "with an ellipsis");
        assert_eq!(ideas_in(&"{\"text\":\"x\"}\n".repeat(100)).len(), IDEAS);
    }

    #[test]
    fn what_is_no_text_is_no_answer() {
        assert_eq!(text_in(b"caf\xc3\xa9\n").as_deref(), Ok("café"));
        assert_eq!(text_in(b"caf\xc3").as_deref(), Ok("caf"), "it was cut");
        for printed in [&b"a\0b"[..], b"\xff\xfe", b" \n", b""] {
            assert!(text_in(printed).is_err(), "{printed:?}");
        }
    }
}
