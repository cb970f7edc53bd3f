//! Reading many tags out of a pack, as `git gc` leaves them.
//!
//! There most records are written as what tells them from another one, that one from a third and so on. In the order of the pack
//! each comes behind what it is made from, which was read then and is held.

use std::collections::HashMap;
use std::fs;

use gix::objs::Kind;
use gix::odb::pack::cache::DecodeEntry;
use gix::odb::pack::index;

use crate::git::path::parse_id;

/// How many bytes of objects a thread holds: those of some ten thousand records.
const HELD: usize = 16 * 1024 * 1024;

/// How many objects are looked for to learn whether they are packed.
const ASKED: usize = 16;

/// The objects that were read last, whole, by pack and place, with the sizes that they have there.
#[derive(Default)]
pub(super) struct LastRead {
    objects: HashMap<(u32, u64), (Vec<u8>, Kind, usize)>,
    bytes: usize,
}

impl DecodeEntry for LastRead {
    fn put(&mut self, pack: u32, offset: u64, data: &[u8], kind: Kind, compressed: usize) {
        if self.bytes + data.len() > HELD {
            self.objects.clear();
            self.bytes = 0;
        }
        self.bytes += data.len();
        self.objects.insert((pack, offset), (data.to_owned(), kind, compressed));
    }

    fn get(&mut self, pack: u32, offset: u64, out: &mut Vec<u8>) -> Option<(Kind, usize)> {
        let (data, kind, compressed) = self.objects.get(&(pack, offset))?;
        out.clear();
        out.extend_from_slice(data);
        Some((*kind, *compressed))
    }
}

/// The places of refs in their list in the order in which their objects stand in the largest pack, those that are not in
/// there first, each with whether it is; nothing where most are not.
pub(super) fn order_in_pack(gix: &gix::Repository, refs: &[(String, String)]) -> Option<Vec<(usize, bool)>> {
    let files = fs::read_dir(gix.objects.store_ref().path().join("pack")).ok()?.flatten();
    let packs = files.map(|file| file.path()).filter(|path| path.extension() == Some("pack".as_ref()));
    let largest = packs.max_by_key(|path| fs::metadata(path).map_or(0, |meta| meta.len()))?;
    let index = index::File::at(largest.with_extension("idx"), gix.object_hash()).ok()?;
    let place = |(_, object): &(String, String)| {
        let id = parse_id(object).ok()?;
        Some(index.pack_offset_at_index(index.lookup(id)?))
    };
    let asked = refs.iter().step_by(refs.len().div_ceil(ASKED).max(1));
    let (packed, others): (Vec<_>, Vec<_>) = asked.map(place).partition(Option::is_some);
    if packed.len() <= others.len() {
        return None;
    }
    let mut places: Vec<(Option<u64>, usize)> = refs.iter().map(place).zip(0..).collect();
    places.sort_unstable();
    Some(places.into_iter().map(|(place, at)| (at, place.is_some())).collect())
}
