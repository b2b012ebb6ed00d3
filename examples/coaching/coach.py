"""A scripted coach: chat completions without a model, with a plan for the house of household.py.

It finds in the question how things stand, and answers with the right next decision as JSON. The same question always
gets the same answer.
"""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The agent server writes the question in its own form. These are in plain words in it: the description of the house
# (House.__str__) under the name that the orchestrator gives it, the code, and the point of a correction.
HOUSE = re.compile(
    r"house_now.{0,40}?The rover is in the (hall|kitchen|lounge) and holds (nothing|the medicine|the plate)\. "
    r"The cupboard is (locked|shut|open)\. The medicine is (in the cupboard|on the table|with the rover)\.",
    re.DOTALL,
)
CODE = re.compile(r"code of the cupboard's lock is (\d{4})")
POINT = re.compile(r"again-at-step-\d+")


def plan(question: str) -> dict:
    """The answer to a question: one decision. Its calls can start at the same moment."""
    found, point, code = HOUSE.search(question), POINT.search(question), CODE.search(question)
    if not found:
        return answer("abandoned", "The question does not say how things stand in the house.")
    if not point:
        return answer("abandoned", "The question names no point where a correction can be put in.")
    room, holds, cupboard, medicine = found.groups()

    def corrected(why: str, *calls: dict, say: str = "") -> dict:
        return answer("corrected", why, point[0], say, calls)

    rover = [] if room == "kitchen" else [call("rover", "go_to", room="kitchen")]
    if medicine == "on the table":
        why = "The medicine is where it should be. The agent only has to say so."
        return corrected(why, say="The medicine is on the table in the lounge.")
    if holds != "nothing" and room != "lounge":
        why = f"The rover holds {holds}, which belongs into the lounge."
        return corrected(why, call("rover", "go_to", room="lounge"))
    if holds != "nothing":
        why = f"The rover holds {holds} and stands beside the table."
        return corrected(why, call("rover", "put_down", furniture="table"))
    if cupboard == "locked" and not code:
        return answer("abandoned", "The cupboard is locked, and the question does not give its code.")
    if cupboard == "locked":
        why = "The medicine is in the locked cupboard. The arm can unlock it with the code."
        return corrected(why, call("arm", "unlock", furniture="cupboard", code=code[1]), *rover)
    if rover:
        return corrected("The medicine is in the kitchen, the rover is not.", *rover)
    if cupboard == "shut":
        why = "The cupboard is not locked any more, but it is shut."
        return corrected(why, call("rover", "open", furniture="cupboard"))
    return corrected("The rover stands before the open cupboard.", call("rover", "pick_up", object="medicine"))


def answer(outcome: str, why: str, point: str = "", say: str = "", calls: tuple = ()) -> dict:
    decision = {"say": say, "tool_calls": list(calls)}
    return {"outcome": outcome, "why": why, "reinjection_point_id": point, "decision": decision}


def call(robot: str, name: str, **arguments: str) -> dict:
    return {"name": name, "arguments": arguments, "target_robot_name": robot}


class Handler(BaseHTTPRequestHandler):
    """Answers POST /v1/chat/completions, and prints why in the orchestrator's transcript."""

    def do_POST(self) -> None:
        try:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            question = "\n".join(message["content"] for message in request["messages"])
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            self.send(400, {"error": {"message": f"no chat completion request: {error!r}"}})
            return
        made = plan(question)
        print(f"  coach   {json.dumps(made['why'])}", flush=True)
        message = {"role": "assistant", "content": json.dumps(made)}
        tokens = {"prompt_tokens": len(question) // 4, "completion_tokens": len(message["content"]) // 4}
        self.send(
            200,
            {
                "id": "chatcmpl-scripted",
                "object": "chat.completion",
                "created": 0,
                "model": request.get("model", ""),
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": tokens | {"total_tokens": sum(tokens.values())},
            },
        )

    def send(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing: the transcript is enough."""


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The base URL of a coach on a free port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
