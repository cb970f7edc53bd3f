//! What all areas share: hermetic repositories, and calls of the binary.

mod ar;
mod clock;
mod disk;
mod gpus;
mod person;
mod repo;
mod template;
mod wait;

pub(crate) use ar::{AR, CLOCK, Called, WAITS, ar, ar_command, ar_in_time, in_time};
pub(crate) use clock::MovableClock;
pub(crate) use disk::SmallDisk;
pub(crate) use gpus::FakeGpus;
pub(crate) use person::Person;
pub(crate) use repo::{TestRepo, can_have_walls, path_without_agents};
pub(crate) use template::Template;
pub(crate) use wait::{hears_hang_ups, until};

/// A script that signs as gpg does.
pub(crate) const SIGNS: &str = "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo SIGNED-BY-TEST";

/// Has the shell of an agent or a command find the `ar` that called it, as `$owner`: the parent of the shell is its shim,
/// which `ar` started.
pub(crate) const FIND_OWNER: &str = "read -r _ _ _ owner _ < /proc/$PPID/stat";
