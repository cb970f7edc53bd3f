//! The server on standard input and output: its tools, each a process of this program, and the repository that they work in: its
//! folder, or one within the roots that the client announces.

#![expect(deprecated, reason = "clients have roots, and nothing else says where a server may work")]

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, Implementation, InputRequest,
    InputRequests, InputRequiredResult, JsonObject, ListRootsRequest, ListRootsResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strum::VariantArray;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;

use autoresearch::domain::{Clock, ExperimentId, FORMAT_VERSION, with_causes};
use autoresearch::exec::running_program;
use autoresearch::git::Repo;
use autoresearch::session::SessionError;

use super::driver::Drivers;
use super::tools;
use super::tools::{
    Begun, IdeaAction, IdeaArgs, LONGEST_WAIT, LogArgs, Name, NoArgs, NoteArgs, REPOSITORY, ShowArgs, StopArgs,
    TryArgs, WaitArgs,
};
use crate::cli::{CliError, Signals, current_dir, output, process, runtime, settings};

/// Text about the server for the client's agent.
const INSTRUCTIONS: &str = "Experiments on a git repository, measured and recorded by `ar`. Loop: call `brief`, edit files, call `try` \
    with a description of the change, then `wait` until it is recorded; repeat. `ar` commits, measures, keeps what is better and rolls \
    the rest back: do not commit or reset yourself. Where a text names `ar try`, call `try`. If `$AR_PROMPT` is set, follow it instead.";

/// The answer of a tool: a document, and the same in short for people.
struct Answer {
    text: String,
    document: Value,
}

/// The server of one client.
pub(super) struct Server {
    dir: PathBuf,
    /// True inside a job of a loop, which measures and records by itself.
    is_inside: bool,
    drivers: Arc<Drivers>,
}

impl Server {
    pub(super) fn new(dir: PathBuf, is_inside: bool, clock: Clock) -> Server {
        // As a client may name it, too.
        let dir = dir.canonicalize().unwrap_or(dir);
        Server { dir, is_inside, drivers: Arc::new(Drivers::new(clock)) }
    }

    pub(super) fn drivers(&self) -> Arc<Drivers> {
        Arc::clone(&self.drivers)
    }

    async fn answer(&self, name: Name, dir: &Path, args: JsonObject) -> Result<Answer, Failure> {
        if self.is_inside && !name.is_for_calls() {
            return Err(Failure::new(
                format!("cannot call `{}` inside a call of the loop", <&str>::from(name)),
                "edit the files, describe the change in $AR_PROPOSAL, then exit: `ar` does the rest",
            ));
        }
        match name {
            Name::Try => {
                let args: TryArgs = read(args)?;
                checked("description", &args.description)?;
                args.direction.as_deref().map(|direction| checked("direction", direction)).transpose()?;
                let id = self.drivers().begin(dir.to_owned(), args).await?;
                let text = format!("experiment {id} has begun; call `wait` until it is recorded");
                Ok(Answer { text, document: json!(Begun { experiment: id.number() }) })
            }
            Name::Wait => {
                let WaitArgs { experiment, seconds } = read(args)?;
                let patience = Duration::from_secs(seconds.min(LONGEST_WAIT));
                let waited = self.drivers().wait(dir, ExperimentId::from(experiment), patience).await?;
                Ok(Answer { text: waited.sentence(), document: json!(waited) })
            }
            Name::Brief => {
                let NoArgs {} = read(args)?;
                let brief = tools::text(&answer(dir, &["brief"]).await?, "ar brief");
                Ok(Answer { document: json!({"version": FORMAT_VERSION, "text": brief}), text: brief })
            }
            Name::Log => log(dir, read(args)?).await,
            Name::Show => {
                let ShowArgs { experiment } = read(args)?;
                shown(dir, &["show", &experiment.to_string()]).await
            }
            Name::Report | Name::Status => {
                let NoArgs {} = read(args)?;
                shown(dir, &[name.into()]).await
            }
            Name::Idea => idea(dir, read(args)?).await,
            Name::Note => {
                let NoteArgs { experiment, text } = read(args)?;
                checked("text", &text)?;
                done(dir, &["note", &experiment.to_string(), "--", &text]).await
            }
            Name::Stop => {
                let StopArgs { now } = read(args)?;
                done(dir, if now { &["stop", "--now"] } else { &["stop"] }).await
            }
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info.server_info = Implementation::new("ar", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = Name::VARIANTS.iter().filter(|name| !self.is_inside || name.is_for_calls());
        Ok(ListToolsResult::with_all_items(listed.map(|name| name.tool()).collect()))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(name) = request.name.parse::<Name>() else {
            return Err(ErrorData::invalid_params(format!("no tool is called {}", request.name), None));
        };
        let mut args = request.arguments.take().unwrap_or_default();
        let working = async {
            let wanted = args.shift_remove(REPOSITORY);
            let dir = match place(&self.dir, wanted, &request, &context).await? {
                ToolFolder::At(dir) => dir,
                ToolFolder::Ask(question) => return Ok(question.into()),
            };
            let Answer { text, document } = self.answer(name, &dir, args).await?;
            let mut result = CallToolResult::structured(document);
            result.content = vec![ContentBlock::text(text)];
            Ok(CallToolResponse::from(result))
        };
        let answered: Result<CallToolResponse, Failure> = tokio::select! {
            answered = working => answered,
            // Nobody reads the answer.
            () = context.ct.cancelled() => Err(Failure("cancelled".to_owned())),
        };
        Ok(answered.unwrap_or_else(|failure| CallToolResult::error(vec![ContentBlock::text(failure.0)]).into()))
    }
}

/// Reads the arguments of a tool.
fn read<T: DeserializeOwned>(args: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(args))
        .map_err(|error| Failure::new(format!("wrong arguments: {error}"), "see the schema of the tool"))
}

/// The most characters of a text of the client.
const LONGEST: usize = 10_000;

/// Refuses a text that no command could take.
fn checked(name: &str, text: &str) -> Result<(), Failure> {
    let wrong = if text.trim().is_empty() {
        "is empty".to_owned()
    } else if text.contains('\0') {
        "contains a NUL".to_owned()
    } else if text.chars().count() > LONGEST {
        format!("has more than {LONGEST} characters")
    } else {
        return Ok(());
    };
    Err(Failure::new(format!("`{name}` {wrong}"), "pass a short text"))
}

/// The answer of a command that reads: its document, and its table.
async fn shown(dir: &Path, words: &[&str]) -> Result<Answer, Failure> {
    let line = format!("ar {}", words.join(" "));
    let document = answer(dir, &[words, &["--format", "json"]].concat()).await?;
    let document = serde_json::from_str(&document).map_err(|error| {
        Failure::new(
            format!("cannot read the answer of `{line}`: {error}"),
            "ask the user to start the server `ar mcp` again",
        )
    })?;
    let text = answer(dir, words).await?;
    Ok(Answer {
        text: tools::text(&text, &line),
        document: tools::long_document(document, &format!("{line} --format json")),
    })
}

async fn log(dir: &Path, LogArgs { top, outcome }: LogArgs) -> Result<Answer, Failure> {
    if top == Some(0) {
        return Err(Failure::new("`top` is 0", "pass 1 or more, or omit it"));
    }
    let top = top.map(|top| top.to_string());
    let mut words = match &top {
        Some(top) => vec!["log", "--sort", "best", "--top", top],
        None => vec!["log", "--sort", "time"],
    };
    words.extend(outcome.iter().flat_map(|outcome| ["--outcome", outcome.into()]));
    shown(dir, &words).await
}

/// The answer of a command that acts: the line that it prints.
async fn done(dir: &Path, words: &[&str]) -> Result<Answer, Failure> {
    let text = answer(dir, words).await?.trim_end().to_owned();
    Ok(Answer { document: json!({"version": FORMAT_VERSION, "done": text}), text })
}

/// Adds, drops or lists ideas, and answers with all of them.
async fn idea(dir: &Path, IdeaArgs { action, text, direction }: IdeaArgs) -> Result<Answer, Failure> {
    let text = text.unwrap_or_default();
    match action {
        IdeaAction::Add => checked("text", &text)?,
        IdeaAction::Drop if text.parse::<u32>().is_err() => {
            return Err(Failure::new("`text` is not the number of an idea", "call `idea` with the action `list`"));
        }
        IdeaAction::Drop | IdeaAction::List => {}
    }
    direction.as_deref().map(|direction| checked("direction", direction)).transpose()?;
    let direction = direction.map(|direction| format!("--direction={direction}"));
    let acted = match action {
        IdeaAction::Add => {
            let mut words = vec!["idea", "add"];
            words.extend(direction.as_deref());
            words.extend(["--", &text]);
            Some(answer(dir, &words).await?)
        }
        IdeaAction::Drop => Some(answer(dir, &["idea", "drop", "--", &text]).await?),
        IdeaAction::List => None,
    };
    let listed = shown(dir, &["idea", "list"]).await?;
    let text = acted.map_or(listed.text, |acted| acted.trim_end().to_owned());
    Ok(Answer { text, document: listed.document })
}

/// The failure of a tool, as text for the agent: error, causes and hint.
#[derive(Debug, Clone)]
pub(super) struct Failure(pub(super) String);

impl Failure {
    pub(super) fn new(error: impl AsRef<str>, hint: impl AsRef<str>) -> Failure {
        Failure(format!("error: {}\nhint: {}", error.as_ref(), hint.as_ref()))
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let text = with_causes(&error);
        match error.hint() {
            Some(hint) => Failure::new(text, hint),
            None => Failure(format!("error: {text}")),
        }
    }
}

/// A command of this program in a folder, with nothing to read.
pub(super) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(running_program());
    command.args(args).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end and returns its standard output. It is killed where the answer is no longer wanted.
pub(super) async fn answer(dir: &Path, args: &[&str]) -> Result<String, Failure> {
    let (name, rest) = args.split_at(1);
    let mut command = command(dir, &[name, &["--quiet"], rest].concat());
    let done = command.kill_on_drop(true).output().await.map_err(not_started)?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(said(&done.stderr)),
    }
}

/// The error of a command that failed.
pub(super) fn said(stderr: &[u8]) -> Failure {
    Failure(String::from_utf8_lossy(stderr).trim().to_owned())
}

/// The error of a command that could not be started.
pub(super) fn not_started(error: io::Error) -> Failure {
    Failure::new(format!("cannot start `ar`: {error}"), "ask the user to start the server `ar mcp` again")
}

/// Serves until standard input ends or a signal comes.
pub(in crate::cli) fn run() -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let server = Server::new(current_dir()?, process::is_inside(), clock);
    if output::is_interactive() {
        output::note(
            "serving the Model Context Protocol on standard input; an agent's program starts this command, Ctrl-C ends it",
        );
    }
    let runtime = runtime()?;
    let served = runtime.block_on(serve(server));
    // A read of standard input may go on.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

/// The longest wait for a client that reads no answer any more.
const LAST_WORDS: Duration = Duration::from_secs(5);

async fn serve(server: Server) -> Result<(), CliError> {
    let mut signals = Signals::listen(true).ok();
    let drivers = server.drivers();
    let (reader, writer) = stdio_pipes();
    let ((input, read), (written, output)) = (duplex(BETWEEN), duplex(BETWEEN));
    let (errors, wrong) = mpsc::unbounded_channel();
    tokio::spawn(read_lines(BufReader::new(reader), input, errors, Arc::clone(&drivers)));
    let writing = tokio::spawn(write_lines(BufReader::new(output), wrong, writer));
    let serving = async {
        let served = match server.serve((read, written)).await {
            Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            // The client left before it said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        // A client that is gone may not read.
        let _ = timeout(LAST_WORDS, writing).await;
        served
    };
    let served = tokio::select! {
        served = serving => served,
        () = async { match &mut signals { Some(signals) => signals.next().await, None => pending().await } } => Ok(()),
    };
    drivers.leave();
    served
        .map_err(|error| CliError::new(error, Some("start `ar mcp` by a client of the Model Context Protocol".into())))
}

/// The longest line of a client, in bytes.
const MOST_LINE: usize = 4 << 20;

/// The bytes that wait between the protocol's library and the pipes.
const BETWEEN: usize = 64 << 10;

/// Passes on the lines of the client that are JSON; the library would ignore the others, which get an error as their answer. At
/// the end nobody waits for an outcome any more; the library would go on with all calls for seconds.
async fn read_lines(
    mut from: impl AsyncBufRead + Unpin,
    mut to: DuplexStream,
    errors: mpsc::UnboundedSender<String>,
    drivers: Arc<Drivers>,
) {
    let mut line = Vec::new();
    loop {
        let longest = u64::try_from(MOST_LINE).unwrap_or(u64::MAX) + 1;
        let read = (&mut from).take(longest).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            break;
        }
        let is_long = line.len() > MOST_LINE && !line.ends_with(b"\n");
        let wrong = match str::from_utf8(&line) {
            _ if is_long => Some(format!("the line has more than {} MB", MOST_LINE >> 20)),
            Ok(text) if text.trim().is_empty() => None,
            Ok(text) => {
                serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')).err().map(|error| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        match wrong {
            Some(why) => {
                let error =
                    json!({"code": ErrorCode::PARSE_ERROR, "message": format!("cannot parse the message: {why}")});
                // The library would leave the id out.
                let _ = errors.send(json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string());
                if is_long {
                    skip_line(&mut from).await;
                }
            }
            None if to.write_all(&line).await.is_err() => break,
            None => {}
        }
        line.clear();
    }
    drivers.leave();
}

/// Reads the rest of a line without keeping it.
async fn skip_line(from: &mut (impl AsyncBufRead + Unpin)) {
    while let Ok(bytes @ [_, ..]) = from.fill_buf().await {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |at| at + 1);
        from.consume(used);
        if end.is_some() {
            break;
        }
    }
}

/// Writes the library's lines, and those about lines that cannot be parsed.
async fn write_lines(
    mut from: impl AsyncBufRead + Unpin,
    mut errors: mpsc::UnboundedReceiver<String>,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    // A read that is cut off leaves its bytes there.
    let mut line = Vec::new();
    loop {
        tokio::select! {
            read = from.read_until(b'\n', &mut line) => {
                let is_end = read? == 0;
                to.write_all(&line).await?;
                line.clear();
                if is_end {
                    break;
                }
            }
            Some(error) = errors.recv() => to.write_all(format!("{error}\n").as_bytes()).await?,
        }
        to.flush().await?;
    }
    while let Ok(error) = errors.try_recv() {
        to.write_all(format!("{error}\n").as_bytes()).await?;
    }
    to.flush().await
}

// The protocol calls roots deprecated, and has nothing in their place.

/// The key of the question for the roots, in versions of the protocol in which a server asks nothing by itself.
const ROOTS: &str = "roots";

/// The folder in which a tool works.
pub(super) enum ToolFolder {
    At(PathBuf),
    /// Known once the client has answered.
    Ask(InputRequiredResult),
}

/// Finds the folder that a call is about.
async fn place(
    own: &Path,
    wanted: Option<Value>,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<ToolFolder, Failure> {
    let wanted = match wanted {
        None | Some(Value::Null) => return Ok(ToolFolder::At(own.to_owned())),
        Some(Value::String(wanted)) => own.join(wanted),
        Some(_) => return Err(Failure::new(format!("`{REPOSITORY}` is not a text"), "pass the path of a folder")),
    };
    let unreadable =
        |error| Failure::new(format!("cannot open {}: {error}", wanted.display()), "pass the path of a folder");
    let folder = wanted.canonicalize().map_err(unreadable)?;
    if folder == own {
        return Ok(ToolFolder::At(folder));
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
            return Ok(ToolFolder::Ask(InputRequiredResult::from_input_requests(questions)));
        }
    };
    let roots: Vec<PathBuf> = roots.roots.iter().filter_map(|root| folder_of(&root.uri)).collect();
    let whole = repository.as_ref().unwrap_or(&folder);
    match [&folder, whole].iter().all(|path| roots.iter().any(|root| path.starts_with(root))) {
        true => Ok(ToolFolder::At(folder)),
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
