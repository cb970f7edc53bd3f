//! The records that a client reads.

use std::collections::BTreeSet;
use std::time::Duration;

use autoresearch::domain::{Clock, ExperimentId, Record, json_text};
use autoresearch::exec::Helper;
use autoresearch::report::record_json;
use autoresearch::session::{SessionError, SessionView, StatusWatcher};
use tokio::time::sleep;

/// Poll interval of the session.
const INTERVAL: Duration = Duration::from_secs(1);

/// The records of a session, each given once.
pub(super) struct Feed<'a> {
    view: &'a SessionView,
    clock: Clock,
    given: BTreeSet<ExperimentId>,
}

/// The reason why records are left.
pub(super) enum Unfed {
    /// The client reads no more.
    Client,
    /// The session cannot be read.
    Session(SessionError),
}

impl<E: Into<SessionError>> From<E> for Unfed {
    fn from(error: E) -> Unfed {
        Unfed::Session(error.into())
    }
}

impl<'a> Feed<'a> {
    pub(super) fn new(view: &'a SessionView, clock: Clock) -> Feed<'a> {
        Feed { view, clock, given: BTreeSet::new() }
    }

    /// The number of records given.
    pub(super) fn count(&self) -> usize {
        self.given.len()
    }

    /// Gives all records to the client; with `follow` also new ones, until the loop ends in good order.
    pub(super) async fn give(&mut self, client: &mut Helper, follow: bool) -> Result<(), Unfed> {
        self.give_new(client, self.view.history.records()).await?;
        let mut watcher = StatusWatcher::new(&self.view.repo, self.view.tag.clone(), self.clock);
        let mut is_over = !follow;
        while !is_over {
            // Before the records: a loop that ends meanwhile has recorded all.
            is_over = self.view.is_over();
            if !watcher.is_there() {
                return Err(SessionError::NoSession { tag: Some(self.view.tag.clone()), there: Vec::new() }.into());
            }
            let history = watcher.look()?.history;
            self.give_new(client, history.records()).await?;
            if client.has_ended().map_err(|_| Unfed::Client)? {
                return Err(Unfed::Client);
            }
            if !is_over {
                sleep(INTERVAL).await;
            }
        }
        Ok(())
    }

    async fn give_new(&mut self, client: &mut Helper, records: &[Record]) -> Result<(), Unfed> {
        let new: Vec<&Record> = records.iter().filter(|record| !self.given.contains(&record.id)).collect();
        let notes = self.view.notes(new.iter().copied())?;
        for record in new {
            let line = json_text(&record_json(record, notes.get(&record.id)), false) + "\n";
            client.write(line.as_bytes()).await.map_err(|_| Unfed::Client)?;
            self.given.insert(record.id);
        }
        Ok(())
    }
}
