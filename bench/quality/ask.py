"""The two ways to ask a server: OpenAI's chat completions, and agentd's own protocol."""

import dataclasses
import json
import time
import urllib.error
import urllib.request

ROBOT = "robot"


@dataclasses.dataclass
class Answer:
    calls: list[dict] = dataclasses.field(default_factory=list)  # {name: arguments}
    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut: bool = False  # at the limit of tokens
    error: str = ""
    form: str = ""  # how the calls were written, where the server says so
    seconds: float = 0.0
    ids: list[str] = dataclasses.field(default_factory=list)  # of the calls, in chat completions
    broken: str = ""  # calls that can't be carried out


def exchange(url: str, body: dict | None, timeout: float) -> object:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        raise OSError(f"status {e.code}: {e.read(2000).decode(errors='replace')}") from e


class Way:
    """A way to ask. several: right answers may have several calls."""

    def __init__(self, url: str, tool_choice: str, max_tokens: int, timeout: float):
        self.url, self.tool_choice, self.max_tokens, self.timeout = url, tool_choice, max_tokens, timeout

    def ask(self, messages: list[dict], tools: list[dict], several: bool) -> Answer:
        start = time.monotonic()
        try:
            answer = self.read(exchange(self.url + self.path, self.body(messages, tools, several), self.timeout))
        except (OSError, ValueError, KeyError, TypeError) as e:
            answer = Answer(error=f"{type(e).__name__}: {e}")
        answer.seconds = time.monotonic() - start
        return answer


class Chat(Way):
    path = "/v1/chat/completions"

    def __init__(self, *args):
        super().__init__(*args)
        self.model = exchange(self.url + "/v1/models", None, self.timeout)["data"][0]["id"]

    def body(self, messages: list[dict], tools: list[dict], several: bool) -> dict:
        body = {
            "model": self.model,
            "messages": messages,
            "tools": [{"type": "function", "function": t} for t in tools],
            "temperature": 0,
            "max_tokens": self.max_tokens,
            "parallel_tool_calls": several,
        }
        return body | ({"tool_choice": self.tool_choice} if self.tool_choice else {})

    def read(self, answer: dict) -> Answer:
        choice = answer["choices"][0]
        message = choice["message"]
        found = Answer(text=message.get("content") or "", cut=choice["finish_reason"] == "length")
        found.prompt_tokens = answer["usage"]["prompt_tokens"]
        found.completion_tokens = answer["usage"]["completion_tokens"]
        for call in message.get("tool_calls") or []:
            try:
                arguments = json.loads(call["function"]["arguments"])
            except ValueError:
                arguments = None
            if not isinstance(arguments, dict):
                found.broken += f" {call['function']}"
                continue
            found.calls.append({call["function"]["name"]: arguments})
            found.ids.append(call.get("id"))
        return found


class Responses(Way):
    path = "/v1/responses"

    def body(self, messages: list[dict], tools: list[dict], several: bool) -> dict:
        rules = [m["content"] for m in messages if m["role"] == "system"]
        others = [m for m in messages if m["role"] != "system"]
        if self.tool_choice or [m["role"] for m in others[-1:]] != ["user"]:
            raise ValueError("the protocol has no tool_choice, and asks with an instruction")
        history = [{"author": m["role"].upper(), "content": m["content"]} for m in others[:-1]]
        return {
            "request_id": "quality",
            "inputs": [
                {
                    "id": 1,
                    "instruction": {"type": "user", "content": others[-1]["content"]},
                    "tools": tools,
                    "attributes": {"known_robots": [ROBOT]},
                    "memory": {"memory_list": rules, "history": history},
                    "extra_keys": {"inference_mode": True},
                }
            ],
        }

    def read(self, answer: list) -> Answer:
        output = answer[0]
        found = Answer()
        for step in output["internal_steps"]:
            generation = step["input_elements"].get("generation", {})
            found.prompt_tokens += generation.get("prompt_tokens", 0)
            found.completion_tokens += generation.get("completion_tokens", 0)
            found.form = generation.get("call_form", found.form)
            found.text = step["output_raw"]
        if output["status"] == "error":
            found.cut = output["error"]["code"] == "truncated"
            found.error = "" if found.cut else f"{output['error']['code']}: {output['error']['message']}"
            return found
        found.calls = [{c["name"]: c["arguments"]} for c in output["output"]["tool_calls"]]
        return found


WAYS = {"chat": Chat, "responses": Responses}
