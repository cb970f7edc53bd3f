//! Agents and training runs that try to change what is measured, each attack beside an honest session.

mod attributes;
mod between;
mod evaluator;
mod files;
mod harness;
mod logs;
mod odd;
mod others;
mod processes;
mod refs;
mod rows;
mod runs;
mod settings;
mod shadows;
mod swaps;
