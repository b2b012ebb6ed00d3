"""A scripted language model, by OpenAI's chat completions, for magma-gen's button tasks.

    python coach.py [PORT]

It answers whom a run with coaching asks: magma-gen's test prompt, its judge and its two diagnoses, and agentd as
coach. As coach it presses the button that the stage's goal names. Every other stage it declines. A real run has a model here.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def coach(question, schema):
    """The decision that agentd wants: its schema lists the points, the tools and the robots."""
    fields = schema["properties"]
    goal = re.search(r"goal of this stage is to press (\w+)", question)
    if not goal or "press_button" not in question:
        return {
            "why": "The goal names no button.",
            "outcome": "abandoned",
            "reinjection_point_id": "",
            "decision": {"say": "", "tool_calls": []},
        }
    calls = fields["decision"]["properties"]["tool_calls"]["items"]
    any_call = calls.get("anyOf", [calls])[0]  # several tools have a schema each
    robots = any_call["properties"]["target_robot_name"].get("enum", ["default"])
    call = {"name": "press_button", "arguments": {"id": goal[1]}, "target_robot_name": robots[0]}
    return {
        "why": f"The stage is done when {goal[1]} is pressed.",
        "outcome": "corrected",
        "reinjection_point_id": fields["reinjection_point_id"]["enum"][-1],
        "decision": {"say": "", "tool_calls": [call]},
    }


def answer(request):
    text = "\n".join(str(m["content"]) for m in request["messages"])
    if "response_format" in request:
        return coach(text, request["response_format"]["json_schema"]["schema"])
    if "analyzing whether a model answer satisfies" in text:
        return {"explanation": "This judge agrees with everything.", "verdict": True}
    if "You analyze a FAILED execution" in text:
        goal = re.search(r"goal of this stage is to [^\n.]+", text)
        return {
            "decision_index": 1,
            "reason": "It did not serve the goal.",
            "expected_decision": goal[0] if goal else "Do what was asked.",
        }
    if "analyzing a SUCCESSFUL agent trajectory" in text:
        return {"suboptimal": False, "decision_idx": None, "reason": "Nothing could be left out."}
    return "Fine, thank you."


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        content = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"role": "assistant", "content": content if isinstance(content, str) else json.dumps(content)}
        body = json.dumps(
            {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8001), Handler).serve_forever()
