//! A copy of all refs, for another git folder.

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::Kind;
use gix::refs::{FullName, TargetRef};

use super::listing::{HEADER, PackedLines, packed_text};
use super::store::{PAUSE, Refs, TRIES};
use crate::git::error::{During, Result};

const WHAT: &str = "copying refs";

/// Refs that belong to one working tree alone.
const OF_ONE_TREE: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// All refs of a repository.
pub(in crate::git) struct CopiedRefs {
    /// Those that name objects, as the file of packed refs has them.
    pub(in crate::git) packed: Vec<u8>,
    /// Those that name another ref, each with that one.
    pub(in crate::git) symbolic: Vec<(FullName, FullName)>,
}

impl Refs {
    /// Copies all refs but those of one working tree and those whose files name nothing. Repeats that if a process packed refs
    /// meanwhile.
    pub(in crate::git) fn copied(&self) -> Result<CopiedRefs> {
        for _ in 1..TRIES {
            let before = self.packed_stamp();
            let copied = self.copy_once();
            if copied.is_ok() && self.packed_stamp() == before {
                return copied;
            }
            std::thread::sleep(PAUSE);
        }
        self.copy_once()
    }

    fn copy_once(&self) -> Result<CopiedRefs> {
        let packed = self.packed_lines()?;
        let is_fully_peeled = self.is_fully_peeled();
        let (mut lines, mut symbolic) = (PackedLines::new(), Vec::new());
        for reference in self.gix.references().during(WHAT)?.all().during(WHAT)? {
            let Ok(reference) = reference else { continue };
            let name = reference.name();
            if OF_ONE_TREE.iter().any(|prefix| name.as_bstr().starts_with_str(prefix)) {
                continue;
            }
            match reference.target() {
                TargetRef::Symbolic(to) => symbolic.push((name.to_owned(), to.to_owned())),
                TargetRef::Object(id) => {
                    let object = id.to_string();
                    let on = match packed.get(name.as_bstr().as_bytes()) {
                        Some((packed, on)) if is_fully_peeled && *packed == object => on.clone(),
                        _ => self.peeled(id.to_owned()).map(|on| on.to_string()),
                    };
                    lines.insert(name.as_bstr().to_vec(), (object, on));
                }
            }
        }
        Ok(CopiedRefs { packed: packed_text(lines, &[], HEADER), symbolic })
    }

    /// The object that an annotated tag is on; `None` for any other object.
    fn peeled(&self, id: ObjectId) -> Option<ObjectId> {
        let on = self.objects.read(|gix| match gix.find_header(id).during(WHAT)?.kind() {
            Kind::Tag => Ok(Some(gix.find_object(id).during(WHAT)?.peel_tags_to_end().during(WHAT)?.id)),
            _ => Ok(None),
        });
        on.ok().flatten()
    }
}
