"""A model server on loopback that answers from a script, in the wire formats that agent programs speak.

The script is a list of answers, taken one after the other by the requests that carry the agent's prompt:

    ("read", path)              call the tool that reads a file
    ("write", path, content)    call the tool that writes a file; as text for an agent that has no tools
    ("say", text)               answer with text: the agent's turn is over
    ("limit", seconds)          429, with Retry-After
    ("hang",)                   no answer until the connection is closed

Other requests, such as those for the title of a session, get a line and take nothing from the script.
"""

import json
import shlex
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What stands in every prompt of `ar`.
MARK = "## The contract"

# What stands in requests that carry the prompt along and are for something else: the subject of a commit, a summary.
ASIDES = ("Git commit messages", "summarize this partial conversation")

# What such other requests are answered with.
LINE = "try another rate"


def shell_tool(name, key, **more):
    """The steps of an agent that does everything with a shell."""
    return {
        "read": lambda path: (name, {key: f"cat {shlex.quote(path)}", **more}),
        "write": lambda path, content: (name, {key: f"printf %s {shlex.quote(content)} > {shlex.quote(path)}", **more}),
    }


def file_tools(read, write, path_key):
    """The steps of an agent with a tool for reading and one for writing."""
    return {
        "read": lambda path: (read, {path_key: path}),
        "write": lambda path, content: (write, {path_key: path, "content": content}),
    }


# How agents call the tools of the steps.
TOOLS = {
    "claude": file_tools("Read", "Write", "file_path"),
    "codex": shell_tool("exec_command", "cmd"),
    "gemini": file_tools("read_file", "write_file", "file_path"),
    "opencode": file_tools("read", "write", "filePath"),
}


class Model:
    """The server; `url` is its address, `script` what it still has to say, `taken` the steps that it has begun."""

    def __init__(self, agent):
        self.agent = agent
        self.script = []
        self.taken = []
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"model": self})
        self.server = Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def step(self):
        """The next answer of the script."""
        with self.lock:
            step = self.script.pop(0) if self.script else ("say", "the script is over")
            # An agent without tools was shown the file, and says what it changed in the same breath.
            if self.agent not in TOOLS:
                while step[0] == "read":
                    step = self.script.pop(0)
                if step[0] == "write" and self.script and self.script[0][0] == "say":
                    step = (*step, self.script.pop(0)[1])
            self.taken.append(step)
            return step

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Server(ThreadingHTTPServer):
    """Says nothing when an agent is killed in the middle of a request."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer(200, {})

    def do_GET(self):
        self.answer(200, {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 1, "owned_by": "ar"}]})

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path = self.path.split("?")[0]
        if path.endswith("count_tokens") or path.endswith(":countTokens"):
            return self.answer(200, {"input_tokens": 10, "totalTokens": 10})
        body = json.loads(text or "{}")
        # Agents that have tools offer them, except for titles and summaries.
        tools = TOOLS.get(self.model.agent)
        is_aside = MARK not in text or any(words in text for words in ASIDES) or (tools and not body.get("tools"))
        step = ("say", LINE) if is_aside else self.model.step()
        if step[0] == "limit":
            error = {"error": {"message": "Rate limit reached. Please try again later.", "type": "rate_limit_error",
                               "code": "rate_limit_exceeded", "status": "RESOURCE_EXHAUSTED"}, "type": "error"}
            return self.answer(429, error, {"Retry-After": str(step[1])})
        if step[0] == "hang":
            # The agent is killed and closes the connection.
            while self.connection.recv(1):
                pass
            self.close_connection = True
            return None
        call, said = None, ""
        if step[0] == "say":
            said = step[1]
        elif tools:
            call = tools[step[0]](*step[1:])
        else:
            said = "\n".join([step[1], "```", step[2].rstrip("\n"), "```", *step[3:]])
        if "/chat/completions" in path:
            return self.answer_chat(body, said, call)
        if path.endswith("/messages"):
            return self.answer_messages(body, said, call)
        if path.endswith("/responses"):
            return self.answer_responses(said, call)
        if "enerateContent" in path:
            return self.answer_gemini(path, said, call)
        return self.answer(404, {"error": {"message": f"no such path: {path}"}})

    def answer(self, status, body, headers=None):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, events):
        """Server-sent events: each a (name, document), the name left out where it is None."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, document in events:
            line = document if isinstance(document, str) else json.dumps(document)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode())
        self.close_connection = True

    def answer_chat(self, body, said, call):
        """OpenAI's chat completions, streamed or whole."""
        message = {"role": "assistant", "content": said or None}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            message["tool_calls"] = [{"index": 0, "id": new_id("call"), "type": "function", "function": function}]
        reason = "tool_calls" if call else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        head = {"id": new_id("chatcmpl"), "created": 1, "model": body.get("model", "scripted")}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return self.answer(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        head["object"] = "chat.completion.chunk"
        first = {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
        return self.stream([(None, first), (None, last), (None, "[DONE]")])

    def answer_messages(self, body, said, call):
        """Anthropic's messages, streamed or whole."""
        block = {"type": "text", "text": said}
        if call:
            block = {"type": "tool_use", "id": new_id("toolu"), "name": call[0], "input": call[1]}
        reason = "tool_use" if call else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 10}
        message = {"id": new_id("msg"), "type": "message", "role": "assistant", "model": body.get("model", "scripted"),
                   "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return self.answer(200, message)
        empty = {**block, "input": {}} if call else {"type": "text", "text": ""}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])} if call else \
            {"type": "text_delta", "text": said}
        return self.stream((event["type"], event) for event in [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ])

    def answer_responses(self, said, call):
        """OpenAI's responses, always streamed."""
        item = {"type": "message", "id": new_id("msg"), "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": said, "annotations": []}]}
        if call:
            item = {"type": "function_call", "id": new_id("fc"), "call_id": new_id("call"), "name": call[0],
                    "arguments": json.dumps(call[1]), "status": "completed"}
        usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
        response = {"id": new_id("resp"), "object": "response", "output": [item], "usage": usage, "status": "completed"}
        return self.stream((event["type"], event) for event in [
            {"type": "response.created", "response": {**response, "output": [], "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ])

    def answer_gemini(self, path, said, call):
        """Google's generateContent and streamGenerateContent."""
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": said}
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
        document = {"candidates": [candidate], "usageMetadata": usage}
        return self.stream([(None, document)]) if "stream" in path else self.answer(200, document)


counter = iter(range(1, 1 << 30))


def new_id(kind):
    return f"{kind}_{next(counter):08d}"
