//! Author and committer of commits, and the time.

use gix::actor::Signature;
use gix::bstr::{BStr, BString};
use gix::date::Time;

use crate::git::error::{During, Result};

/// The name and address of commits where git has none configured.
const FALLBACK: (&str, &str) = ("ar", "ar@localhost");

/// Author and committer of a commit made now.
pub(in crate::git) struct Identity {
    pub(in crate::git) author: Signature,
    pub(in crate::git) committer: Signature,
}

/// Author and committer as `GIT_AUTHOR_*`, `GIT_COMMITTER_*` and `user.*` say; the time is now unless
/// `GIT_AUTHOR_DATE` or `GIT_COMMITTER_DATE` says otherwise, and never before 1970, of which git makes no dates.
pub(in crate::git) fn identity(gix: &gix::Repository) -> Result<Identity> {
    let committer = signature(gix.committer(), "GIT_COMMITTER_DATE")?;
    let author = signature(gix.author(), "GIT_AUTHOR_DATE")?;
    let fallback = || Signature { name: FALLBACK.0.into(), email: FALLBACK.1.into(), time: Time::now_local_or_utc() };
    let committer = committer.unwrap_or_else(fallback);
    let author = author.unwrap_or_else(|| Signature { time: Time::now_local_or_utc(), ..committer.clone() });
    let from_1970 = |who: Signature| Signature { time: Time { seconds: who.time.seconds.max(0), ..who.time }, ..who };
    Ok(Identity { author: from_1970(author), committer: from_1970(committer) })
}

/// A name or an address as git writes it: without the characters that separate them in a commit, and without punctuation at
/// either end.
fn cleaned(text: &BStr) -> BString {
    let is_crud = |byte: u8| byte <= b' ' || b".,:;<>\"\\'".contains(&byte);
    let start = text.iter().position(|byte| !is_crud(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_crud(*byte)).map_or(start, |last| last + 1);
    text[start..end].iter().copied().filter(|byte| !b"<>\n".contains(byte)).collect::<Vec<u8>>().into()
}

/// gix takes the time once, when the repository is opened; that is right only where the environment sets it.
fn signature(configured: Option<gix::Result<gix::actor::SignatureRef<'_>>>, date: &str) -> Result<Option<Signature>> {
    let Some(configured) = configured else { return Ok(None) };
    let configured = configured.during("reading the identity")?;
    let time = match std::env::var_os(date) {
        Some(_) => configured.time().during("reading the identity")?,
        None => Time::now_local_or_utc(),
    };
    Ok(Some(Signature { name: cleaned(configured.name), email: cleaned(configured.email), time }))
}
