//! Opens a session again after it waited for an answer.

use super::session::Session;
use crate::domain::with_causes;
use crate::git::Repo;
use crate::rules::History;
use crate::session::errors::SessionError;
use crate::session::files::read_history;
use crate::session::plan::Plan;
use crate::session::store::Interrupts;
use crate::session::wait::{Alerted, Observer, needed, report_unopened, trouble_of};

/// Opens a session again after a wait for an answer. What keeps it from that is reported.
///
/// # Errors
///
/// Those of [`Session::open`].
pub async fn open_again<'a>(
    plan: Plan,
    observer: Observer<'a>,
    interrupts: Interrupts,
) -> Result<Session<'a>, SessionError> {
    let (root, folder, contract) = (plan.repo.worktree().to_owned(), plan.folder.clone(), plan.contract.clone());
    let (clock, listener) = (plan.clock, interrupts.listen());
    let opened = Session::open(plan, observer, interrupts).await;
    // A contradiction is reported already.
    if let Err(error) = &opened
        && let Some(kind) = trouble_of(error).filter(|_| !matches!(error, SessionError::Contradiction(_)))
    {
        let repo = Repo::discover(&root);
        let history = repo.map_err(SessionError::from).and_then(|repo| read_history(&repo, &contract.tag));
        let history = history.unwrap_or_else(|_| History::new(Vec::new()));
        let of = Alerted { contract: &contract, history: &history, root: &root, logs: folder.logs(), clock };
        report_unopened(&folder, &of, listener, kind, (&with_causes(error), &needed(error))).await;
    }
    opened
}
