//! Reading the output of an agent line by line, as what agents' formats contain.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::{aider, claude, codex, gemini, opencode};
use crate::domain::{Refusal, Usage};
use crate::fs::open_regular;
use crate::measure::plain_text;

/// The longest line, and the longest JSON document over several lines, that is understood, in bytes.
const LONGEST: usize = 4 << 20;

/// The number of last lines outside a stream to keep, and the most bytes of each.
const PLAIN_LINES: usize = 50;

const PLAIN_LINE: usize = 4096;

/// The bytes to read at once.
const CHUNK: usize = 64 << 10;

/// Reads the answer out of what stands in `log` from byte `from` on; an empty one where the log cannot be read.
pub fn read_answer(log: &Path, from: u64) -> Answer {
    let Some(mut progress) = Progress::of(log, from) else { return AnswerReader::default().finish() };
    progress.read();
    progress.reader.finish()
}

/// The output of an agent while it works.
pub struct Progress {
    log: File,
    reader: AnswerReader,
}

impl Progress {
    /// Reads what is written to `log` from byte `from` on; `None` where the log cannot be read.
    pub fn of(log: &Path, from: u64) -> Option<Progress> {
        let mut log = open_regular(log).ok()?;
        log.seek(SeekFrom::Start(from)).ok()?;
        Some(Progress { log, reader: AnswerReader::default() })
    }

    /// Reads what was written since. Returns whether that is anything.
    pub fn read(&mut self) -> bool {
        self.reader.push_all(&mut self.log)
    }

    /// The number of rounds that it has begun.
    pub fn rounds(&self) -> u32 {
        self.reader.answer.rounds
    }

    /// Returns whether the last line is the result with which its program ends.
    pub fn is_complete(&self) -> bool {
        self.reader.answer.is_complete
    }
}

/// Takes output in any pieces and makes an answer of it, in bounded memory.
#[derive(Default)]
struct AnswerReader {
    line: Vec<u8>,
    /// A JSON document over several lines that has begun.
    document: Option<Vec<u8>>,
    plain: VecDeque<Vec<u8>>,
    is_stream: bool,
    claude: claude::Stream,
    in_gemini_round: bool,
    aider: aider::AiderLines,
    answer: Answer,
}

impl AnswerReader {
    /// Takes all that a log has by now. Returns whether that is anything.
    fn push_all(&mut self, log: &mut File) -> bool {
        let mut chunk = vec![0; CHUNK];
        let mut has_more = false;
        while let Ok(count @ 1..) = log.read(&mut chunk) {
            self.push(&chunk[..count]);
            has_more = true;
        }
        has_more
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            let line = std::mem::take(&mut self.line);
            self.take_line(&line);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// Adds to the current line what there is room for.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn finish(mut self) -> Answer {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line);
        self.claude.finish(&mut self.answer);
        self.aider.finish(&mut self.answer);
        if self.is_stream {
            let plain = self.plain.iter().map(|line| plain_text(line));
            let words: Vec<String> = plain.chain(self.answer.text.clone()).collect();
            self.answer.words = Some(words.join("\n"));
        }
        self.answer
    }

    fn take_line(&mut self, line: &[u8]) {
        if line.len() > LONGEST {
            return;
        }
        self.answer.is_complete &= line.trim_ascii().is_empty();
        if let Some(document) = &mut self.document {
            document.extend_from_slice(line);
            if document.len() > LONGEST {
                self.document = None;
            } else if line.trim_ascii_end() == b"}" {
                let document = self.document.take().unwrap_or_default();
                self.is_stream |= gemini::take_document(&document, &mut self.answer);
            }
        }
        match line.trim_ascii() {
            b"" => {}
            b"{" if self.document.is_none() => self.document = Some(b"{".to_vec()),
            json if json.starts_with(b"{") && self.take_json(json) => self.is_stream = true,
            plain => {
                self.aider.take_line(&plain_text(&plain[..plain.len().min(PLAIN_LINE)]), &mut self.answer);
                if self.plain.len() == PLAIN_LINES {
                    self.plain.pop_front();
                }
                self.plain.push_back(plain[..plain.len().min(PLAIN_LINE)].to_vec());
            }
        }
    }

    /// Takes a line that holds a JSON object. Returns whether its form is known.
    fn take_json(&mut self, line: &[u8]) -> bool {
        let answer = &mut self.answer;
        // An error of codex is a message alone; what else has one, has more.
        self.claude.take_line(line, answer)
            || gemini::take_line(line, &mut self.in_gemini_round, answer)
            || opencode::take_line(line, answer)
            || codex::take_line(line, answer)
    }
}

/// The answer of an agent.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The refusal that its answer ends with, if any.
    pub refusal: Option<Refusal>,
    /// Its tokens and cost.
    pub usage: Usage,
    /// The number of rounds that it has begun: answers of its model, each with the actions that follow. 0 if its output
    /// does not show them.
    pub rounds: u32,
    /// True if its last line is the result with which its program ends.
    pub is_complete: bool,
    /// True if it ended itself after as many rounds as allowed.
    pub rounds_are_up: bool,
    /// Its final words.
    pub text: Option<String>,
    /// The last lines of its output that belong to no stream, and its final words; absent where the output is no
    /// machine-readable stream.
    pub words: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Tokens;

    fn read(output: &str) -> Answer {
        let mut reader = AnswerReader::default();
        reader.push(output.as_bytes());
        reader.finish()
    }

    fn tokens(input: u64, output: u64, cached: u64) -> Option<Tokens> {
        Some(Tokens { input, output, cached })
    }

    /// The refusal of an answer: its text and its status.
    fn refusal(answer: &Answer) -> Option<(&str, Option<u16>)> {
        answer.refusal.as_ref().map(|refusal| (refusal.said.as_str(), refusal.status))
    }

    const CLAUDE_INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/r","session_id":"s","tools":["Task"],"model":"claude-opus-4-8[1m]"}"#;

    const CLAUDE_MESSAGE: &str = r#"{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":10,"output_tokens":7}},"parent_tool_use_id":null,"session_id":"s"}"#;

    const CLAUDE_REFUSED: &str = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: Request rejected (429) · Rate limit reached. Please try again later.","session_id":"s","total_cost_usd":0.0003,"usage":{"input_tokens":0,"output_tokens":0}}"#;

    #[test]
    fn the_stream_of_claude() {
        let done = r#"{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"result":"raise the rate\nto 4","session_id":"s","total_cost_usd":0.0125,"usage":{"input_tokens":30,"cache_creation_input_tokens":200,"cache_read_input_tokens":1000,"output_tokens":40}}"#;
        let answer = read(&format!("{CLAUDE_INIT}\n{CLAUDE_MESSAGE}\nnote: a hook ran\n{CLAUDE_MESSAGE}\n{done}\n"));
        assert_eq!(answer.usage.model.as_deref(), Some("claude-opus-4-8[1m]"));
        assert_eq!((answer.usage.tokens, answer.usage.cost), (tokens(1230, 40, 1000), Some(0.0125)));
        assert_eq!((refusal(&answer), answer.text.as_deref()), (None, Some("raise the rate\nto 4")));
        assert_eq!(answer.words.as_deref(), Some("note: a hook ran\nraise the rate\nto 4"));

        let limit = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795233600,"rateLimitType":"five_hour"},"session_id":"s"}"#;
        let answer = read(&format!("{CLAUDE_INIT}\n{limit}\n{CLAUDE_REFUSED}\n"));
        let said = "API Error: Request rejected (429) · Rate limit reached. Please try again later.";
        assert_eq!(refusal(&answer), Some((said, Some(429))));
        assert_eq!(
            answer.refusal.and_then(|refusal| refusal.until).map(|until| until.as_second()),
            Some(1_795_233_600)
        );
        assert_eq!((answer.usage.cost, answer.text), (Some(0.0003), None));

        let killed =
            read(&format!("{CLAUDE_INIT}\n{CLAUDE_MESSAGE}\n{CLAUDE_MESSAGE}\n{}", CLAUDE_MESSAGE.replace("m1", "m2")));
        assert_eq!((killed.usage.tokens, killed.usage.cost), (tokens(20, 14, 0), None), "each message counts once");
    }

    #[test]
    fn the_last_result_completes_an_output_until_more_follows() {
        let complete = |output: &str| {
            let mut reader = AnswerReader::default();
            reader.push(output.as_bytes());
            reader.answer.is_complete
        };
        let claude = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\"}\n";
        let step = |reason| {
            format!(
                "{{\"type\":\"step_finish\",\"sessionID\":\"ses\",\"part\":{{\"reason\":\"{reason}\",\"cost\":0.25}}}}\n"
            )
        };
        for result in [
            claude,
            "{\"type\":\"turn.completed\",\"usage\":null}\n",
            "{\"type\":\"turn.failed\",\"error\":{\"message\":\"no\"}}\n",
            "{\"type\":\"result\",\"status\":\"success\",\"stats\":{}}\n",
            "{\n \"response\": \"done\"\n}\n",
            &step("stop"),
        ] {
            assert!(complete(result) && complete(&format!("before\n{result}\n\n")), "{result}");
            assert!(
                !complete(&format!("{result}make test\n")) && !complete(&format!("{result}{}", step("tool-calls")))
            );
        }
        let others = ["", "done\n", "{\"type\":\"error\",\"message\":\"reconnecting\"}\n", &step("tool-calls")];
        assert!(others.iter().all(|output| !complete(output)));
    }

    #[test]
    fn rounds_are_answers_of_the_model_itself() {
        let rounds = |output: &str| read(output).rounds;
        let message = |id: &str, parent: &str| {
            let message = CLAUDE_MESSAGE.replace("m1", id);
            message.replace("\"parent_tool_use_id\":null", &format!("\"parent_tool_use_id\":{parent}")) + "\n"
        };
        let claude =
            [message("m1", "null"), message("m1", "null"), message("s1", "\"t\""), message("m1", "null")].concat();
        assert_eq!(
            rounds(&(claude + &message("m2", "null"))),
            2,
            "parts of a message, and an agent of its own, are no rounds"
        );
        let gemini = |kinds: &[&str]| {
            let line = |kind: &&str| match *kind {
                "tool_use" | "tool_result" => format!("{{\"type\":\"{kind}\",\"tool_id\":\"r\"}}\n"),
                role => format!("{{\"type\":\"message\",\"role\":\"{role}\",\"content\":\"a\",\"delta\":true}}\n"),
            };
            rounds(&kinds.iter().map(line).collect::<String>())
        };
        let calls =
            ["user", "assistant", "assistant", "tool_use", "tool_use", "tool_result", "tool_result", "assistant"];
        assert_eq!([gemini(&calls), gemini(&calls[..5]), gemini(&calls[..1])], [2, 1, 0]);
        let step = "{\"type\":\"step_start\",\"timestamp\":1,\"sessionID\":\"ses\",\"part\":{}}\n";
        assert_eq!([rounds(&step.repeat(3)), rounds("no stream\n")], [3, 0]);
        let up = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":15,"session_id":"s","errors":["Reached maximum number of turns (15)"]}"#;
        assert_eq!([read(up), read(CLAUDE_REFUSED)].map(|answer| answer.rounds_are_up), [true, false]);
    }

    #[test]
    fn the_stream_of_codex() {
        let begun = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"error\",\"message\":\"Model metadata not found\"}}\n{\"type\":\"turn.started\"}\n{\"type\":\"error\",\"message\":\"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)\"}\n";
        let done = "{\"type\":\"item.completed\",\"item\":{\"id\":\"item_3\",\"type\":\"agent_message\",\"text\":\"raise the rate\"}}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1200,\"cached_input_tokens\":200,\"output_tokens\":345,\"reasoning_output_tokens\":5}}\n";
        let answer = read(&format!("{begun}{done}"));
        assert_eq!((refusal(&answer), answer.text.as_deref()), (None, Some("raise the rate")));
        assert_eq!((answer.usage.tokens, answer.usage.cost), (tokens(1200, 345, 200), None));
        let failed =
            "{\"type\":\"turn.failed\",\"error\":{\"message\":\"You've hit your usage limit. Try again at 3pm.\"}}\n";
        let answer = read(&format!("{begun}{failed}"));
        assert_eq!(refusal(&answer), Some(("You've hit your usage limit. Try again at 3pm.", None)));
    }

    #[test]
    fn the_stream_and_the_document_of_gemini() {
        let begun = "YOLO mode is enabled.\n{\"type\":\"init\",\"timestamp\":\"t\",\"session_id\":\"s\",\"model\":\"auto\"}\n{\"type\":\"message\",\"timestamp\":\"t\",\"role\":\"user\",\"content\":\"do it\"}\n";
        let said = |text: &str| {
            format!(
                "{{\"type\":\"message\",\"timestamp\":\"t\",\"role\":\"assistant\",\"content\":\"{text}\",\"delta\":true}}\n"
            )
        };
        let tool = "{\"type\":\"tool_use\",\"timestamp\":\"t\",\"tool_name\":\"read_file\",\"tool_id\":\"r\",\"parameters\":{}}\n";
        let done = "{\"type\":\"result\",\"timestamp\":\"t\",\"status\":\"success\",\"stats\":{\"total_tokens\":60,\"input_tokens\":40,\"output_tokens\":20,\"cached\":10,\"models\":{\"gemini-2.5-flash\":{\"total_tokens\":50},\"gemini-2.5-lite\":{\"total_tokens\":10}}}}\n";
        let answer = read(&[begun, &said("I look"), tool, &said("raise "), &said("the rate"), done].concat());
        assert_eq!((refusal(&answer), answer.text.as_deref()), (None, Some("raise the rate")));
        assert_eq!(
            (answer.usage.model.as_deref(), answer.usage.tokens),
            (Some("gemini-2.5-flash"), tokens(40, 20, 10))
        );
        let failed = "{\"type\":\"result\",\"timestamp\":\"t\",\"status\":\"error\",\"error\":{\"type\":\"Error\",\"message\":\"[API Error: quota exceeded]\"},\"stats\":{\"input_tokens\":0,\"output_tokens\":0,\"cached\":0}}\n";
        let answer = read(&format!("{begun}{failed}"));
        assert_eq!(refusal(&answer), Some(("[API Error: quota exceeded]", None)));

        let document = "{\n  \"session_id\": \"s\",\n  \"response\": \"raise\",\n  \"stats\": {\n    \"models\": {\n      \"pro\": {\n        \"tokens\": {\"prompt\": 9, \"candidates\": 2, \"thoughts\": 1, \"cached\": 3}\n      }\n    }\n  }\n}\n";
        let answer = read(document);
        assert_eq!((answer.text.as_deref(), answer.usage.tokens), (Some("raise"), tokens(9, 3, 3)));
        let refused =
            "{\n  \"error\": {\n    \"type\": \"ApiError\",\n    \"message\": \"quota\",\n    \"code\": 429\n  }\n}\n";
        assert_eq!(refusal(&read(refused)), Some(("quota", Some(429))));
    }

    #[test]
    fn the_stream_of_opencode() {
        let step = "{\"type\":\"step_finish\",\"timestamp\":1,\"sessionID\":\"ses\",\"part\":{\"reason\":\"stop\",\"tokens\":{\"total\":20,\"input\":10,\"output\":8,\"reasoning\":2,\"cache\":{\"write\":1,\"read\":5}},\"cost\":0.25}}\n";
        let text = "{\"type\":\"text\",\"timestamp\":1,\"sessionID\":\"ses\",\"part\":{\"type\":\"text\",\"text\":\"raise the rate\"}}\n";
        let error = "{\"type\":\"error\",\"timestamp\":1,\"sessionID\":\"ses\",\"error\":{\"name\":\"APIError\",\"data\":{\"message\":\"Too Many Requests\",\"statusCode\":429,\"responseHeaders\":{\"retry-after\":\"1\"}}}}\n";
        let answer = read(&[step, step, text].concat());
        assert_eq!((answer.usage.tokens, answer.usage.cost), (tokens(32, 20, 10), Some(0.5)));
        assert_eq!((refusal(&answer), answer.text.as_deref()), (None, Some("raise the rate")));
        assert_eq!(refusal(&read(&[step, error].concat())), Some(("Too Many Requests (retry-after: 1)", Some(429))));
        assert_eq!(refusal(&read(&[error, step].concat())), None, "it got over it");
    }

    #[test]
    fn the_lines_of_aider() {
        let begun = "Aider v0.86.2\nMain model: openai/gpt-5 with diff edit format\nRepo-map: using 4096 tokens\n";
        let refused = "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit\nreached.\nThe API provider has rate limited you.\nRetrying in 0.2 seconds...\n";
        let done = "I raised the rate.\nTokens: 12k sent, 1.5k cache write, 10k cache hit, 345 received.\nCost: $0.01 message, $0.01 session.\nApplied edit to train.py\nCommit 1234567 feat: raise the rate\n";
        let more = "Tokens: 1.2k sent, 55 received. Cost: $0.0023 message, $0.0123\nsession.\n";
        let answer = read(&[begun, refused, done, more].concat());
        assert_eq!(answer.usage.model.as_deref(), Some("openai/gpt-5"));
        assert_eq!((answer.usage.tokens, answer.usage.cost), (tokens(13_200, 400, 10_000), Some(0.0123)));
        assert_eq!((refusal(&answer), answer.text.as_deref()), (None, Some("I raised the rate.")));
        assert_eq!(answer.words, None);
        let answer = read(&[begun, refused].concat());
        let said = "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit";
        assert_eq!(refusal(&answer), Some((said, None)), "it gave up");
        assert_eq!(read(refused), Answer::default(), "somebody else's lines");
    }

    #[test]
    fn what_is_no_stream_has_no_answer() {
        for output in [
            "",
            "{\"type\":\"error\"}\n",
            "{\"loss\": 1.5}\n",
            "{\n  \"loss\": 1.5\n}\n",
            "[1]\nwords\n",
            "{\"type\":\"result\",\"result\":1}\n",
        ] {
            assert_eq!(read(output), Answer::default(), "{output}");
        }
    }

    #[test]
    fn a_long_line_is_passed_over_in_bounded_memory() {
        let mut reader = AnswerReader::default();
        reader.push(b"{\"type\":\"user\",\"session_id\":\"s\",\"message\":\"");
        for _ in 0..3 {
            reader.push(&vec![b'x'; LONGEST / 2]);
            assert!(reader.line.len() <= LONGEST + 1);
        }
        reader.push(format!("\"}}\n{CLAUDE_REFUSED}").as_bytes());
        assert_eq!(reader.finish().refusal.and_then(|refusal| refusal.status), Some(429));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_pieces_make_no_difference(cuts in prop::collection::vec(0usize..2000, 0..8)) {
            let output = format!("{CLAUDE_INIT}\nAider v1\n{CLAUDE_MESSAGE}\n{{\n \"error\": {{\"message\": \"é\"}}\n}}\n{CLAUDE_REFUSED}");
            let mut reader = AnswerReader::default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(output.len())).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts.into_iter().chain([output.len()]) {
                reader.push(&output.as_bytes()[from..cut]);
                from = cut;
            }
            prop_assert_eq!(reader.finish(), read(&output));
        }

        #[test]
        fn no_output_makes_it_panic(
            lines in prop::collection::vec(prop::sample::select(vec![
                CLAUDE_INIT, CLAUDE_MESSAGE, "{", "}", "Aider v1", "Tokens: -1k sent, 1e400k received. Cost: $nan session.",
                "Tokens:", "litellm.", "\u{1b}[31mModel:", "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":18446744073709551615}}",
                "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":-1}}", "{\"error\":{}}",
            ]), 0..12),
        ) {
            read(&lines.join("\n"));
        }
    }
}
