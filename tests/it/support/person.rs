//! A person at a terminal of their own.

use std::process::{Child, Command, Stdio};

use super::{CLOCK, TestRepo, WAITS};

/// Runs each script that calls ask for, one after the other, for as long as the test is there.
const TERMINAL: &str = "while kill -0 $PPID 2> /dev/null && sleep 0.02; do
    for ask in \"$0\"/ask-*; do
        [ -e \"$ask\" ] || continue
        mv \"$ask\" \"$0/script\"; sh \"$0/script\"; : > \"$0/done-${ask##*/ask-}\"
    done
done";

/// A shell that descends from no call of a loop, in the root of the working tree, as a person in another terminal has it.
#[derive(Debug)]
pub(crate) struct Person {
    terminal: Child,
    folder: String,
}

impl Person {
    pub(crate) fn at(repo: &TestRepo) -> Person {
        let folder = repo.outside().to_str().unwrap().to_owned();
        let mut terminal = Command::new("sh");
        repo.environment(&mut terminal);
        terminal.env("AR_CLOCK", CLOCK).env("AR_NO_PAUSES", "1").env("AR_WAITS", WAITS).current_dir(repo.path());
        let terminal =
            terminal.args(["-c", TERMINAL, &folder]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Person { terminal, folder }
    }

    /// Shell by which a call has the person type something, and waits until that is done.
    pub(crate) fn types(&self, command: &str) -> String {
        let folder = &self.folder;
        format!(
            "{{ cat > {folder}/new-$$ <<'TYPED'\n{command}\nTYPED\nmv {folder}/new-$$ {folder}/ask-$$; \
             until [ -e {folder}/done-$$ ]; do sleep 0.02; done; rm {folder}/done-$$; }}"
        )
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.terminal.kill().unwrap();
        self.terminal.wait().unwrap();
    }
}
