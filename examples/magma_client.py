#!/usr/bin/env python3
"""Talks to a running agentd through MAGMA's own protocol models, and checks every answer with them.

    pip install --no-deps magma_core && pip install pydantic     # Python 3.12
    python3 examples/magma_client.py [http://127.0.0.1:8888]

`--no-deps` because only the protocol models are used here; magma_core itself asks for PyTorch.
The script plays three turns of one run: it passes each returned memory back in, then restarts a
branch with a correction, as an orchestrator does after coaching.
"""
import json
import sys
import urllib.request

from magma_core.protocol.agent import AgentHealth, AgentInfo, AgentRequest, AgentResponse
from magma_core.protocol.agent_coaching import InternalStep, ReplaceSay

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8888"
TOOLS = [
    {"name": "go_to", "description": "Drive to a place.",
     "parameters": {"place": {"description": "Where to", "type": "string"}}},
    {"name": "pick_up", "description": "Pick up an object.",
     "parameters": {"object": {"description": "What", "type": "str"},
                    "force": {"description": "Newton", "type": "float"}}},
]
ATTRIBUTES = {"known_robots": ["rob1", "rob2"], "objects": ["cup", "plate"]}


def call(path: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(URL + path, data=body, headers={"Content-Type": "application/json"})
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
    return {"id": 1, "instruction": {"type": kind, "content": content}, "tools": TOOLS,
            "attributes": ATTRIBUTES, "memory": memory, "num_outputs": n, "extra_keys": extra or {}}


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

correction = {"kind": "replace_decision", "decision": {"say": "", "tool_calls": [
    {"name": "go_to", "arguments": {"place": "kitchen"}, "target_robot_name": "rob1"}]}}
answer = decide(AgentRequest(request_id="turn-1b", inputs=[
    one_input("Bring me the cup.", "user", memory, {"coaching": correction})]))
show("the same input, corrected:", answer)
assert answer.root[0].output.tool_calls[0].name == "go_to"
assert answer.root[0].memory["private"] == memory["private"]

answer = decide(AgentRequest(request_id="turn-2", inputs=[
    one_input('{"status": "arrived"}', "env", answer.root[0].memory, {"inference_mode": True}, n=2)]))
show("after the environment's answer, deterministic:", answer)

say = ReplaceSay(text="The cup is on the table.").model_dump()
answer = decide(AgentRequest(request_id="turn-3", inputs=[
    one_input("Where is it?", "user", memory, {"coaching": say})]))
show("a replaced reply:", answer)
assert answer.root[0].output.say == "The cup is on the table."
print("every answer is valid for magma_core")
