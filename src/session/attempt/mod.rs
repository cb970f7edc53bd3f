//! The stages of an attempt: call, check, run, guards, review, line of winners, record. Nothing here decides what comes next.

mod calling;
mod change_checks;
mod confirming;
mod during_call;
mod hidden_part;
mod incumbent_check;
mod left_over;
mod lifecycle;
mod line;
mod measuring;
mod proposing;
mod recording;
mod reviewing;
mod reworking;
mod running;
mod searching;
mod second_look;

pub(crate) use calling::*;
pub(crate) use change_checks::*;
pub(crate) use during_call::*;
pub(crate) use hidden_part::*;
pub(crate) use incumbent_check::*;
pub(crate) use left_over::*;
pub(crate) use lifecycle::*;
pub(crate) use line::*;
pub(crate) use measuring::*;
pub(crate) use proposing::*;
pub(crate) use recording::*;
pub(crate) use reviewing::*;
pub(crate) use reworking::*;
pub(crate) use running::*;
pub(crate) use searching::*;
pub(crate) use second_look::*;
