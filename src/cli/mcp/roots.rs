//! The repository of a call: the server's working folder, or a folder within the roots that the client announces.

// The protocol calls roots deprecated, and has nothing in their place.
#![expect(deprecated, reason = "clients have roots, and nothing else says where a server may work")]

use std::path::{Path, PathBuf};

use autoresearch::git::Repo;
use percent_encoding::percent_decode_str;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, InputRequest, InputRequests, InputRequiredResult, ListRootsRequest, ListRootsResult,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::command::Failure;
use super::tools::REPOSITORY;

/// The key of the question for the roots, in versions of the protocol in which a server asks nothing by itself.
const ROOTS: &str = "roots";

/// Where a tool works.
pub(super) enum Place {
    At(PathBuf),
    /// Known once the client has answered.
    Ask(InputRequiredResult),
}

/// Finds the folder that a call is about.
pub(super) async fn place(
    own: &Path,
    wanted: Option<Value>,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Place, Failure> {
    let wanted = match wanted {
        None | Some(Value::Null) => return Ok(Place::At(own.to_owned())),
        Some(Value::String(wanted)) => own.join(wanted),
        Some(_) => return Err(Failure::new(format!("`{REPOSITORY}` is not a text"), "pass the path of a folder")),
    };
    let unreadable =
        |error| Failure::new(format!("cannot open {}: {error}", wanted.display()), "pass the path of a folder");
    let folder = wanted.canonicalize().map_err(unreadable)?;
    if folder == own {
        return Ok(Place::At(folder));
    }
    // A command works in the whole repository that its folder is in.
    let repository = Repo::discover(&folder).ok().and_then(|repo| repo.worktree().canonicalize().ok());
    let start_there = format!("start the server in that folder, or omit `{REPOSITORY}`");
    if context.client_capabilities().is_none_or(|capabilities| capabilities.roots.is_none()) {
        let error = format!("cannot work in {}: this client announces no roots", folder.display());
        return Err(Failure::new(error, start_there));
    }
    let answered = request.input_responses.as_ref().and_then(|answers| answers.get(ROOTS));
    let may_ask = context.protocol_version().is_none_or(|version| version.has_initialize());
    let roots: ListRootsResult = match (answered, may_ask) {
        (Some(answer), _) => serde_json::from_value(answer.clone()).map_err(|error| no_roots(&error.to_string()))?,
        (None, true) => context.peer.list_roots().await.map_err(|error| no_roots(&error.to_string()))?,
        (None, false) => {
            let question = InputRequest::ListRoots(ListRootsRequest::default());
            let questions = InputRequests::from([(ROOTS.to_owned(), question)]);
            return Ok(Place::Ask(InputRequiredResult::from_input_requests(questions)));
        }
    };
    let roots: Vec<PathBuf> = roots.roots.iter().filter_map(|root| folder_of(&root.uri)).collect();
    let whole = repository.as_ref().unwrap_or(&folder);
    match [&folder, whole].iter().all(|path| roots.iter().any(|root| path.starts_with(root))) {
        true => Ok(Place::At(folder)),
        false => {
            let named: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
            let error = format!("{} is outside of the client's roots: {}", whole.display(), named.join(", "));
            Err(Failure::new(error, start_there))
        }
    }
}

fn no_roots(error: &str) -> Failure {
    Failure::new(format!("cannot learn the client's roots: {error}"), format!("omit `{REPOSITORY}`"))
}

/// The folder of a `file:` URL, without links.
fn folder_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Path::new(&*path).has_root().then(|| Path::new(&*path).canonicalize().ok())?
}
