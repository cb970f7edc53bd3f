//! What each step of that world does to the disk.

use super::*;

impl World {
    pub(super) fn act(&mut self, process: &mut Process, act: Act) {
        match act {
            Act::Propose(seat) => {
                self.changes += 1;
                self.reset_seat(seat);
                let open = Open { change: self.changes, seat: Some(seat), ..self.new_open(process) };
                process.journal.given = process.journal.given.max(open.id);
                self.called.insert(open.id);
                process.journal.open.push(Open { phase: Phase::Proposing, ..open });
                self.journal = process.journal.clone();
            }
            Act::AwaitCall(id) => {
                process.get(id).seat = None;
                self.journal = process.journal.clone();
            }
            Act::CallAgain(id, seat) => {
                self.changes += 1;
                self.reset_seat(seat);
                let (change, base) = (self.changes, self.tip().id);
                let open = process.get(id);
                (open.change, open.base, open.seat) = (change, base, Some(seat));
                self.journal = process.journal.clone();
            }
            Act::Edit(seat) => {
                let open = process.journal.open.iter().find(|open| open.seat == Some(seat));
                let is_begun = self.seats[seat].change.is_some();
                self.seats[seat] = Seat { change: open.map(|open| (open.change, is_begun)), is_saved: false };
            }
            Act::PutRef(id) => {
                let open = process.get(id);
                let tree = open.tree.clone().unwrap_or_else(|| self.proposed(open));
                self.open_refs.insert(id, tree);
            }
            Act::EnterReady(id) => {
                let open = process.get(id);
                open.phase = Phase::Committing;
                open.tree = Some(open.tree.take().unwrap_or_else(|| self.proposed(open)));
                if let Some(seat) = open.seat.take() {
                    self.seats[seat].is_saved = true;
                }
                if open.trial.is_none() {
                    self.committed.insert(open.change);
                }
                process.journal.given = process.journal.given.max(id);
                self.journal = process.journal.clone();
            }
            Act::CheckOut(id) => {
                let open = process.get(id);
                self.slots[open.slot.unwrap_or(0)].clone_from(&open.tree);
            }
            Act::ClearRun(id) => {
                self.runs.remove(&id);
            }
            Act::EnterRunning(id) => {
                let open = process.get(id);
                (open.phase, open.runs) = (Phase::Running, open.runs + 1);
                self.journal = process.journal.clone();
            }
            Act::StartRun(id) => {
                process.jobs.insert(id, true);
                let open = process.get(id);
                let tree = self.slots[open.slot.unwrap_or(0)].clone();
                assert!(tree.is_none() || tree == open.tree, "another commit is run: {open:?}");
                // In a tree that was deleted just now it is lost.
                self.runs.entry(id).or_insert(tree.map_or(Run::Gone, Run::Going));
            }
            Act::EndJobs(id) => {
                if let Some(run @ Run::Going(_)) = self.runs.get_mut(&id) {
                    // It notes how it was ended.
                    *run = Run::Over(Tree::from([RUBBLE]));
                }
            }
            Act::EnterWaiting(id, value) => {
                let open = process.get(id);
                (open.phase, open.measured) = (Phase::Waiting, true);
                let (base, gain) = (open.base.into(), value - self.value(&self.base_tree(open.base)));
                process.journal.line.won(Car::new(id.into(), base, number(value), gain));
                process.jobs.remove(&id);
                self.journal = process.journal.clone();
            }
            Act::EndTrial(id, value) => {
                let open = process.get(id);
                (open.phase, open.measured) = (Phase::Waiting, true);
                if let Some(trial) = open.trial.clone() {
                    self.end_trial(&mut process.journal, &trial, value);
                }
                process.jobs.remove(&id);
                self.journal = process.journal.clone();
            }
            Act::EnterRecording(id, records) => {
                let open = process.get(id);
                (open.phase, open.recording, open.rows_from) = (Phase::Recording, records, self.rows.len());
                let open = open.clone();
                process.jobs.remove(&id);
                self.journal = process.journal.clone();
                finish_recording(process, &open);
            }
            Act::WriteRef(record) => {
                if !self.records.iter().any(|known| known.id == record.id) {
                    self.records.push(record);
                }
            }
            Act::WriteRow(record, from) => {
                if !self.rows[from..].contains(&record.id) {
                    self.rows.push(record.id);
                }
            }
            Act::MoveBranch => self.branch = self.tip().tree.clone(),
            Act::DropRef(id) => {
                self.open_refs.remove(&id);
            }
            Act::CloseAll(id, records) => {
                let of = |kept| records.iter().filter(move |it| it.kept == kept).map(|it| ExperimentId::from(it.id));
                of(false).for_each(|id| process.journal.line.left(id));
                let kept: Vec<ExperimentId> = of(true).collect();
                if !kept.is_empty() {
                    process.journal.line.kept(&kept);
                }
                records.iter().map(|record| record.id).chain([id]).for_each(|id| process.journal.close(id));
                self.journal = process.journal.clone();
            }
            Act::Close(id) => {
                process.journal.close(id);
                self.journal = process.journal.clone();
            }
            Act::SaveSeat(seat) => self.seats[seat].is_saved = true,
            Act::ResetSeat(seat) => self.reset_seat(seat),
            Act::Recover(id) => self.recover(process, id),
            Act::Resume(id) => {
                process.jobs.insert(id, false);
                let open = process.get(id);
                let slot = &mut self.slots[open.slot.unwrap_or(0)];
                *slot = slot.take().or_else(|| open.tree.clone());
            }
            Act::DropLeftRefs => self.open_refs.retain(|id, _| process.find(*id).is_some()),
        }
    }

    /// Records the cars of a train, or a single winner as it was measured on the incumbent.
    pub(super) fn keep(&self, process: &mut Process, cars: &[ExperimentId]) {
        let trial = Trial::Train { on: self.tip().id.into(), cars: cars.to_vec() };
        let measured = process.journal.open.iter().find(|open| open.trial.as_ref() == Some(&trial));
        let id = measured.map_or(cars[0].number(), |open| open.id);
        let (mut tree, mut records) = (self.tip().tree.clone(), Vec::new());
        for car in cars.iter().filter_map(|id| process.find(id.number())) {
            tree.insert(car.change);
            records.push(Record { tree: tree.clone(), kept: true, ..not_kept(car) });
        }
        process.acts.push_back(Act::EnterRecording(id, records));
    }

    /// The commit of a change that an agent has made on its base.
    fn proposed(&self, open: &Open) -> Tree {
        &self.base_tree(open.base) | &Tree::from([open.change])
    }

    fn reset_seat(&mut self, seat: usize) {
        assert!(self.seats[seat].change.is_none() || self.seats[seat].is_saved, "a change is lost");
        self.seats[seat] = Seat::default();
    }

    fn end_trial(&self, journal: &mut Journal, trial: &Trial, value: Option<f64>) {
        let number = value.map(number);
        let line = &mut journal.line;
        if let Trial::Afresh(car) = trial {
            return line.ran_afresh(*car, number.map_or(Afresh::Nothing, Afresh::Value));
        }
        let best = line.cars().map(|car| car.number.value).fold(f64::MIN, f64::max);
        let tested = match number {
            Some(number) if number.value <= self.value(&self.tip().tree) => Tested::NotBetter(Some(number)),
            Some(number) if number.value < best => Tested::Better(number),
            Some(number) => Tested::Holds(number),
            None => Tested::NotBetter(None),
        };
        self.on_line(journal, |line, on| line.tested(on, trial, tested));
    }
}

impl Journal {
    fn close(&mut self, id: u32) {
        self.open.retain(|open| open.id != id);
        self.given = if self.open.is_empty() { 0 } else { self.given };
    }
}
