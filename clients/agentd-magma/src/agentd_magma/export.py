"""The exporters of agentd's two agents, for magma-gen.

A row is made of each internal step: of what the model was asked and what the agent decided. The columns of the
channels commander and summarizer are those that MAGMA's own agents use; rows of the channel chat are messages and
tools as chat templates take them.
"""

import json
import os
from hashlib import sha256
from itertools import dropwhile, pairwise
from typing import Any, ClassVar

from magma_core.protocol.agent import AgentDecision, JsonObject
from magma_core.protocol.agent_coaching import InternalStep
from magma_core.protocol.agent_export import (
    DatasetRenderer,
    ExportExample,
    ExportRecord,
    ExportResult,
    GenExporter,
)

from . import __version__

COMMANDER, SUMMARIZER, CHAT = "commander", "summarizer", "chat"

VERSION_VARIABLE = "AGENTD_AGENT_VERSION"
"""Where the version is found of an agentd that runs with --agent-version, or that is another release."""


class Renderer(DatasetRenderer):
    """Writes rows into the columns of their channel."""

    as_json: ClassVar[dict[str, Any]] = {
        "tools": [],
        "persistent_rules": [],
        "memory": {},
        "attributes": {},
        "history": [],
    }

    def __init__(self, *channels: str) -> None:
        names = {COMMANDER: "hr_data.json", SUMMARIZER: "summary_data.json", CHAT: "chat_data.json"}
        self.filenames = {channel: names[channel] for channel in channels}

    def render(self, channel: str, example: dict[str, Any]) -> JsonObject:
        if channel not in self.filenames:
            raise ValueError(f"there is no channel {channel!r}, but {', '.join(self.filenames)}")
        if channel == CHAT:
            return {"messages": example["messages"], "tools": example["tools"]}
        row: JsonObject = {name: _text(example.get(name, absent)) for name, absent in self.as_json.items()}
        row["instruction"] = example.get("instruction", "")
        row["instruction_role"] = example.get("instruction_role", "USER")
        row["output"] = _text(example["output"])
        return row


class Exporter(GenExporter):
    """What both agents have in common. The option chat, a boolean, adds the channel of that name."""

    channels: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.agent_version = os.environ.get(VERSION_VARIABLE) or __version__
        self.renderer = Renderer(*self.channels)

    def export(self, examples: list[ExportExample], *, options: JsonObject | None = None) -> list[ExportResult]:
        chat = (options or {}).get("chat", False)
        if unknown := set(options or {}) - {"chat"}:
            raise ValueError(f"unknown options {sorted(unknown)}: there is chat, a boolean")
        if not isinstance(chat, bool):
            raise ValueError("the option chat must be true or false")
        # magma-gen asks for the files' names after the export.
        self.renderer = Renderer(*self.channels, *[CHAT] * chat)
        return [self._result(example) for example in examples]

    def _result(self, example: ExportExample) -> ExportResult:
        try:
            records = [self._record(example, i, *row) for i, row in enumerate(self._rows(example))]
        except (ValueError, TypeError, LookupError) as error:
            return ExportResult(example_id=example.example_id, status="error", reason=str(error) or repr(error))
        if not records:
            return ExportResult(
                example_id=example.example_id, status="skipped", reason="no internal step of an agent that decided"
            )
        return ExportResult(example_id=example.example_id, status="exported", records=records)

    def _record(self, example: ExportExample, index: int, channel: str, row: dict[str, Any]) -> ExportRecord:
        data = self.renderer.render(channel, row)
        identity = json.dumps([example.example_id, channel, index, data], sort_keys=True)
        return ExportRecord(record_id=sha256(identity.encode()).hexdigest(), dataset=channel, data=data)

    def _rows(self, example: ExportExample) -> list[tuple[str, dict[str, Any]]]:
        rows: list[tuple[str, dict[str, Any]]] = []
        decision = example.candidate.output
        if decision is None:
            return rows
        steps = [InternalStep.model_validate(step) for step in example.candidate.internal_steps]
        memory: dict[str, Any] = example.input.memory
        common = {
            "tools": example.input.tools,
            "persistent_rules": memory.get("memory_list") or [],
            "attributes": example.input.attributes,
        }
        for step, following in zip(steps, [*steps[1:], None]):
            answer: dict[str, Any]
            if step.component == COMMANDER:
                said = {"say": decision.say, "action": _action(decision)}
                answer = _assistant(decision, step)
                asked = {
                    "instruction": example.input.instruction.content,
                    "instruction_role": "USER" if example.input.instruction.type == "user" else "SYSTEM",
                }
            elif step.component == SUMMARIZER and following is not None:
                summary = str(following.input_elements["summary"])
                said = {"summary": summary}
                answer = {"role": "assistant", "content": summary}
                asked = {"instruction": _messages(step)[-1]["content"]}
            else:
                continue
            if step.component in self.channels:
                history = memory.get("history") or []
                rows.append((step.component, {**common, **asked, "memory": memory, "history": history, "output": said}))
            if CHAT in self.renderer.filenames:
                rows.append((CHAT, {"messages": [*_messages(step), answer], "tools": _functions(step)}))
            if step.component == SUMMARIZER and following is not None:
                memory = _summarized(memory, following)
        return rows


class FullHistory(Exporter):
    """agentd --agent full-history, the default."""

    agent_id = "full-history-agent"
    channels = (COMMANDER,)


class HistorySummarized(Exporter):
    """agentd --agent history-summarized."""

    agent_id = "history-summarized-agent"
    channels = (COMMANDER, SUMMARIZER)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _action(decision: AgentDecision) -> dict[str, Any] | list[dict[str, Any]]:
    """The calls as a memory holds them: by robot, or a list when a robot has more than one."""
    calls = [{call.target_robot_name: {"name": call.name, "arguments": call.arguments}} for call in decision.tool_calls]
    by_robot = {robot: call for one in calls for robot, call in one.items()}
    return by_robot if len(by_robot) == len(calls) else calls


def _messages(step: InternalStep) -> list[dict[str, Any]]:
    messages = step.input_elements.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError(f"internal step {step.id} has no messages among its input elements")
    return messages


def _functions(step: InternalStep) -> list[dict[str, Any]]:
    tools = step.input_elements.get("tools", [])
    if not isinstance(tools, list) or any(
        not isinstance(tool, dict) or tool.get("type") != "function" for tool in tools
    ):
        raise ValueError("there are no chat rows of a model in the format template: it has its tools in another form")
    return tools


def _assistant(decision: AgentDecision, step: InternalStep) -> dict[str, Any]:
    """The decision as a message of the assistant. The model is shown an argument more, the last one: the robot."""
    message: dict[str, Any] = {"role": "assistant", "content": decision.say}
    if not decision.tool_calls:
        return message
    robot = {}
    for tool in step.input_elements.get("tools") or []:
        if isinstance(tool, dict) and isinstance(function := tool.get("function"), dict):
            properties = function["parameters"]["properties"]
            robot[function["name"]] = list(properties)[-1]
    message["tool_calls"] = [
        {
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": {**call.arguments, robot.get(call.name, "target_robot"): call.target_robot_name},
            },
        }
        for call in decision.tool_calls
    ]
    return message


def _summarized(memory: dict[str, Any], step: InternalStep) -> dict[str, Any]:
    """The memory with which a commander decided behind a summary: of the history there is what its messages hold."""
    history = memory.get("history") or []
    roles = [message["role"] for message in _messages(step)]
    roles = list(dropwhile(lambda role: role in ("system", "developer"), roles))
    # A result that no decision follows was not in the history: agentd puts it where a person spoke while a call ran.
    shown = [role for role, following in pairwise(roles) if role != "tool" or following == "assistant"]
    kept = history[len(history) - len(shown) :]
    if [str(entry.get("author", "")).upper() in ("MODEL", "ASSISTANT") for entry in kept] != [
        role == "assistant" for role in shown
    ]:
        raise ValueError(f"the messages of internal step {step.id} are not the newest of the history")
    return {**memory, "summary": step.input_elements["summary"], "history": kept}
