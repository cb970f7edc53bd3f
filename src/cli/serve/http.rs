//! Requests and answers, with limits against clients that are slow, many or long-winded.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use autoresearch::report::{live_page, live_policy};

use super::desk::{Ask, Desk};
use super::door::{Door, Knock, parameter};

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
