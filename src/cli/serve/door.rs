//! Requests and answers: who gets in, and limits against clients that are slow, many or long-winded.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use autoresearch::report::{live_page, live_policy};

use super::desk::{Ask, Desk};

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
fn parameter(query: &str, name: &str) -> Option<String> {
    let (_, value) = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// Compares two texts in a time that says nothing about where they differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len() && given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// The most connections at once; one more is closed.
const CONNECTIONS: usize = 64;

/// The time for the head of a request, and for a whole connection, which has one request: a large page over a slow line.
const HEAD_TIME: Duration = Duration::from_secs(10);

const TIME: Duration = Duration::from_secs(120);

/// The most bytes of the head of a request, and of its headers.
const HEAD: usize = 16 << 10;

const HEADERS: usize = 64;

/// The pause after the system could give no connection.
const PAUSE: Duration = Duration::from_millis(200);

/// What all connections share.
struct Server {
    door: Door,
    desk: Desk,
    page: String,
    policy: HeaderValue,
}

/// Answers requests for ever.
pub(super) async fn serve(listener: TcpListener, door: Door, desk: Desk) {
    let policy = HeaderValue::try_from(live_policy()).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let server = Arc::new(Server { door, desk, page: live_page(), policy });
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let answer = service_fn(|request| server.answer(request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .keep_alive(false)
                .max_buf_size(HEAD)
                .max_headers(HEADERS)
                .serve_connection(TokioIo::new(stream), answer);
            // What a client does wrong concerns nobody else.
            let _ = timeout(TIME, connection).await;
            drop(place);
        });
    }
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<String>, Infallible> {
        let (status, body) = match self.refuse(&request) {
            Some((status, why)) => (status, why.to_owned()),
            None => self.found(&request).await,
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let is_page = status == StatusCode::OK;
        if is_page {
            let tag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(response.body())[..15]));
            if request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response.body_mut().clear();
            }
            if let Ok(tag) = HeaderValue::try_from(tag) {
                response.headers_mut().insert(header::ETAG, tag);
            }
        }
        self.dress(response.headers_mut(), is_page);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        Ok(response)
    }

    fn refuse(&self, request: &Request<Incoming>) -> Option<(StatusCode, &'static str)> {
        let named = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let hosts: Vec<&str> = named.chain(request.uri().authority().map(|authority| authority.as_str())).collect();
        let query = request.uri().query().unwrap_or_default();
        self.door.refuse(Knock { method: request.method(), hosts: &hosts, query })
    }

    async fn found(&self, request: &Request<Incoming>) -> (StatusCode, String) {
        let query = request.uri().query().unwrap_or_default();
        let session = parameter(query, "session");
        let ask = match request.uri().path() {
            "/" => return (StatusCode::OK, self.page.clone()),
            "/now" => Ask::Now,
            "/course" => Ask::Course { session },
            "/experiment" => Ask::Experiment { session, id: parameter(query, "id").unwrap_or_default() },
            _ => return (StatusCode::NOT_FOUND, "nothing is here\n".to_owned()),
        };
        match self.desk.ask(ask).await {
            Some(Ok(body)) => (StatusCode::OK, body),
            Some(Err(why)) => (StatusCode::NOT_FOUND, why + "\n"),
            None => (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n".to_owned()),
        }
    }

    /// Adds the headers that every answer has.
    fn dress(&self, headers: &mut HeaderMap, is_page: bool) {
        let kind = if is_page { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
        for (name, value) in [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
    }
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
