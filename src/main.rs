//! Entry of the `ar` binary.

fn main() {}
