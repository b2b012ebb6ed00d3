#!/usr/bin/env python3
"""Talks to a running agentd through MAGMA's own protocol models, and checks every answer with them.

    pip install --no-deps magma_core==2.0.1 && pip install pydantic     # Python 3.12 or newer
    python3 examples/magma_client.py [http://127.0.0.1:8888/magma]

`--no-deps` because only the protocol models are used here; magma_core itself asks for PyTorch.
The base path /magma is for these packages: their AgentInfo forbids a field that the specification
has and that the server shows at the root.

The script plays three turns of one run: it passes each returned memory back in, then restarts a
branch with a correction. Then it configures a coaching session, asks for the repair of a step, puts
the proposal back in where it belongs, and deletes the session. The coach is a few lines of this
script, so the server has to run on the same machine.
"""

import http.server
import json
import sys
import threading
import urllib.request

from magma_core.protocol.agent import AgentHealth, AgentInfo, AgentRequest, AgentResponse
from magma_core.protocol.agent_coaching import (
    CoachingSessionConfig,
    InternalStep,
    ReplaceSay,
    SpecializedCoachingRequest,
    SpecializedCoachingResponse,
)

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8888/magma"
TOOLS = [
    {
        "name": "go_to",
        "description": "Drive to a place.",
        "parameters": {"place": {"description": "Where to", "type": "string"}},
    },
    {
        "name": "pick_up",
        "description": "Pick up an object.",
        "parameters": {
            "object": {"description": "What", "type": "str"},
            "force": {"description": "Newton", "type": "float"},
        },
    },
]
ATTRIBUTES = {"known_robots": ["rob1", "rob2"], "objects": ["cup", "plate"]}


def call(path: str, body: bytes | None = None, method: str | None = None) -> bytes:
    request = urllib.request.Request(URL + path, data=body, headers={"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as response:
        return response.read()


def decide(request: AgentRequest) -> AgentResponse:
    response = AgentResponse.model_validate_json(call("/v1/responses", request.model_dump_json().encode()))
    response.validate_request(request)
    for output in response.root:
        for step in output.internal_steps:
            InternalStep.model_validate(step)
        if output.status == "completed":
            last = json.loads(output.memory["history"][-1]["content"])
            assert set(last) == {"say", "action"}, last
    return response


def one_input(content: str, kind: str, memory: dict, extra: dict | None = None, n: int = 1) -> dict:
    return {
        "id": 1,
        "instruction": {"type": kind, "content": content},
        "tools": TOOLS,
        "attributes": ATTRIBUTES,
        "memory": memory,
        "num_outputs": n,
        "extra_keys": extra or {},
    }


def show(title: str, response: AgentResponse) -> None:
    print(title)
    for output in response.root:
        text = output.error.message if output.error else output.output.model_dump_json()
        print(f"  candidate {output.candidate_index}: {output.status}  {text[:100]}")


assert AgentHealth.model_validate_json(call("/health")).status == "ready"
info = AgentInfo.model_validate_json(call("/v1/info"))
print(f"{info.agent_id} {info.agent_version}, protocol {info.protocol_version}, {info.capabilities}")

memory = {"memory_list": ["Speak briefly."], "private": {"kept": 1.50}}
answer = decide(AgentRequest(request_id="turn-1", inputs=[one_input("Bring me the cup.", "user", memory, n=3)]))
show("three sampled candidates:", answer)

correction = {
    "kind": "replace_decision",
    "decision": {
        "say": "",
        "tool_calls": [{"name": "go_to", "arguments": {"place": "kitchen"}, "target_robot_name": "rob1"}],
    },
}
answer = decide(
    AgentRequest(
        request_id="turn-1b", inputs=[one_input("Bring me the cup.", "user", memory, {"coaching": correction})]
    )
)
show("the same input, corrected:", answer)
assert answer.root[0].output.tool_calls[0].name == "go_to"
assert answer.root[0].memory["private"] == memory["private"]

answer = decide(
    AgentRequest(
        request_id="turn-2",
        inputs=[one_input('{"status": "arrived"}', "env", answer.root[0].memory, {"inference_mode": True}, n=2)],
    )
)
show("after the environment's answer, deterministic:", answer)

say = ReplaceSay(text="The cup is on the table.").model_dump()
answer = decide(
    AgentRequest(request_id="turn-3", inputs=[one_input("Where is it?", "user", memory, {"coaching": say})])
)
show("a replaced reply:", answer)
assert answer.root[0].output.say == "The cup is on the table."


class Coach(http.server.BaseHTTPRequestHandler):
    """Answers every chat completion with the same repair, in the form that agentd asks coaches for."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        repair = {
            "outcome": "corrected",
            "why": "The cup is in the kitchen.",
            "reinjection_point_id": "again",
            "decision": {
                "say": "",
                "tool_calls": [{"name": "go_to", "arguments": '{"place": "kitchen"}', "target_robot_name": "rob2"}],
            },
        }
        body = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "scripted",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": json.dumps(repair)},
                    }
                ],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Says nothing: agentd's log of the coaching says more."""


if not info.capabilities.get("coaching"):
    sys.exit(f"this server does not coach: {info.coaching_unavailable_reason}")
coach = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coach)
threading.Thread(target=coach.serve_forever, daemon=True).start()

session = "/v1/coaching/sessions/magma-client"
config = CoachingSessionConfig.model_validate(
    {
        "backends": {
            "scripted": {
                "type": "openai",
                "endpoint": f"http://127.0.0.1:{coach.server_port}/v1",
                "default_model": "scripted",
                "headers": {"Content-type": "application/json"},
            }
        }
    }
)
call(session, config.model_dump_json().encode(), "PUT")
try:
    failed_input = one_input("Bring me the cup.", "user", memory, {"inference_mode": True})
    question = SpecializedCoachingRequest.model_validate(
        {
            "run_id": "magma-client",
            "request_id": "repair-1",
            "kind": "failure",
            "stage": {"id": 1, "goal": "Bring the cup.", "hint": None},
            "active_errors": [{"code": "not_found", "description": "There is no cup in the hall."}],
            "target_step_id": 1,
            "trajectory": [
                {
                    "id": 1,
                    "input": failed_input,
                    "output": {
                        "say": "",
                        "tool_calls": [{"name": "go_to", "arguments": {"place": "hall"}, "target_robot_name": "rob1"}],
                    },
                }
            ],
            "reinjection_points": [{"id": "again", "input_step_id": 1}],
        }
    )
    repaired = SpecializedCoachingResponse.model_validate_json(
        call("/v1/coaching", question.model_dump_json().encode())
    )
    repaired.validate_request(question)
    assert repaired.status == "corrected", repaired
    proposal = repaired.proposals[0]
    print(f"the coach at {proposal.reinjection_point_id!r}: {proposal.extra_keys}")

    failed_input["extra_keys"]["coaching"] = proposal.extra_keys
    answer = decide(AgentRequest(request_id="turn-1c", inputs=[failed_input]))
    show("the same input, repaired by the coach:", answer)
    assert answer.root[0].output.tool_calls[0].target_robot_name == "rob2"
finally:
    call(session, method="DELETE")
    coach.shutdown()
print("every answer is valid for magma_core")
