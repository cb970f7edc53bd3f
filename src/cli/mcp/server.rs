//! The server: which tools it lists, in which repository they work, and what they answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoresearch::domain::{Clock, ExperimentId, FORMAT_VERSION};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strum::VariantArray;

use super::command::{Failure, answer};
use super::cut;
use super::driver::Drivers;
use super::roots::{Place, place};
use super::tools::{
    Begun, IdeaAction, IdeaArgs, LONGEST_WAIT, LogArgs, Name, NoArgs, NoteArgs, REPOSITORY, ShowArgs, StopArgs,
    TryArgs, WaitArgs,
};

/// What the client tells its agent about the server.
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
                let brief = cut::text(&answer(dir, &["brief"]).await?, "ar brief");
                Ok(Answer { document: json!({"version": FORMAT_VERSION, "text": brief}), text: brief })
            }
            Name::Log => log(dir, read(args)?).await,
            Name::Show => {
                let ShowArgs { experiment } = read(args)?;
                shown(dir, &["show", &experiment.to_string()]).await
            }
            Name::Report => {
                let NoArgs {} = read(args)?;
                shown(dir, &["report"]).await
            }
            Name::Status => {
                let NoArgs {} = read(args)?;
                shown(dir, &["status"]).await
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
                Place::At(dir) => dir,
                Place::Ask(question) => return Ok(question.into()),
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
    Ok(Answer { text: cut::text(&text, &line), document: cut::document(document, &format!("{line} --format json")) })
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
