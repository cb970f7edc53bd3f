//! Who gets in: a request with the token, by a name that leads here, that only reads.

use std::net::IpAddr;

use hyper::http::uri::Authority;
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;

/// The number of random bytes in a token.
const TOKEN: usize = 24;

/// What a request must have to get an answer.
#[derive(Debug)]
pub(super) struct Door {
    token: String,
    bound: IpAddr,
}

/// What of a request decides whether it gets in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Knock<'a> {
    pub(super) method: &'a Method,
    /// The names by which the request calls this server: of its `Host` headers and of its address, if that has one.
    pub(super) hosts: &'a [&'a str],
    pub(super) query: &'a str,
}

impl Door {
    /// Makes a new token for a server at this address.
    pub(super) fn new(bound: IpAddr) -> Result<Door, getrandom::Error> {
        let mut bytes = [0; TOKEN];
        getrandom::fill(&mut bytes)?;
        Ok(Door { token: bytes.iter().map(|byte| format!("{byte:02x}")).collect(), bound })
    }

    /// The address to open. A server at all addresses is named by the one of this machine itself.
    pub(super) fn url(&self, port: u16) -> String {
        let host = match self.bound {
            address if address.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(address) => format!("[{address}]"),
            IpAddr::V4(address) => address.to_string(),
        };
        format!("http://{host}:{port}/?token={}", self.token)
    }

    /// Refuses a request with a status and a sentence, or lets it in.
    pub(super) fn refuse(&self, knock: Knock) -> Option<(StatusCode, &'static str)> {
        if !matches!(*knock.method, Method::GET | Method::HEAD) {
            return Some((StatusCode::METHOD_NOT_ALLOWED, "this page only reads: GET and HEAD\n"));
        }
        // A page of elsewhere can have its own name lead here, but it cannot have that name be one of these.
        if knock.hosts.is_empty() || !knock.hosts.iter().all(|host| self.is_own_name(host)) {
            return Some((StatusCode::FORBIDDEN, "open this page by localhost or by the address that it listens at\n"));
        }
        let given = parameter(knock.query, "token").unwrap_or_default();
        if !is_same(given.as_bytes(), self.token.as_bytes()) {
            return Some((StatusCode::FORBIDDEN, "open the address that `ar serve` printed, with its token\n"));
        }
        None
    }

    /// Returns whether a name leads here without a name server. The port may be that of another end of a tunnel.
    fn is_own_name(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) => address.is_loopback() || address == self.bound || self.bound.is_unspecified(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// The value of a parameter of a query; the first of several.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let (_, value) = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// Compares two texts in a time that says nothing about where they differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len() && given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(bound: &str) -> Door {
        Door { token: "abc123".into(), bound: bound.parse().unwrap() }
    }

    fn status(door: &Door, method: &Method, hosts: &[&str], query: &str) -> u16 {
        door.refuse(Knock { method, hosts, query }).map_or(200, |(status, _)| status.as_u16())
    }

    #[test]
    fn the_token_opens_and_nothing_like_it() {
        let door = door("127.0.0.1");
        let status = |query| status(&door, &Method::GET, &["127.0.0.1:8765"], query);
        assert_eq!(status("token=abc123"), 200);
        assert_eq!(status("session=t&token=abc12%33"), 200);
        for query in ["", "token=", "token=abc124", "token=abc12", "token=abc1234", "Token=abc123", "token=ABC123"] {
            assert_eq!(status(query), 403, "{query}");
        }
    }

    #[test]
    fn only_names_that_need_no_name_server_lead_here() {
        let at = |bound, host: &str| status(&door(bound), &Method::GET, &[host], "token=abc123");
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:80", "127.8.8.8"] {
            assert_eq!(at("127.0.0.1", host), 200, "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:8765", "10.0.0.7:8765", "", "a@localhost", "127.0.0.1.nip.io"]
        {
            assert_eq!(at("127.0.0.1", host), 403, "{host}");
        }
        assert_eq!(
            [at("10.0.0.7", "10.0.0.7:8765"), at("10.0.0.7", "10.0.0.8"), at("10.0.0.7", "localhost")],
            [200, 403, 200]
        );
        assert_eq!([at("0.0.0.0", "10.0.0.7:8765"), at("0.0.0.0", "box")], [200, 403]);
        let two = ["localhost", "evil.example"];
        assert_eq!(status(&door("127.0.0.1"), &Method::GET, &two, "token=abc123"), 403);
        assert_eq!(status(&door("127.0.0.1"), &Method::GET, &[], "token=abc123"), 403);
    }

    #[test]
    fn only_reading_is_allowed_and_tokens_are_long_and_new() {
        let door = door("127.0.0.1");
        for (method, expected) in [(Method::HEAD, 200), (Method::POST, 405), (Method::PUT, 405), (Method::OPTIONS, 405)]
        {
            assert_eq!(status(&door, &method, &["localhost"], "token=abc123"), expected);
        }
        let new = || Door::new("::1".parse().unwrap()).unwrap();
        assert!(new().token.len() >= 32 && new().token != new().token);
        assert!(new().url(7).starts_with("http://[::1]:7/?token="));
    }
}
