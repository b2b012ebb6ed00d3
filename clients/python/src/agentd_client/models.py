"""Inputs and answers as dataclasses. Pydantic, where it is installed, reads arguments and makes tools."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a person said (user) or the environment reported (env)."""

    content: str
    type: Literal["user", "env"] = "user"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call for one robot."""

    name: str
    arguments: dict[str, Any]
    target_robot_name: str

    def parse(self, into: type[T]) -> T:
        """The arguments as a pydantic model, or as a dataclass, which checks their names only."""
        validate = getattr(into, "model_validate", None)
        return validate(self.arguments) if validate else into(**self.arguments)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Decision:
    """A reply or calls, never both."""

    say: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"say": self.say, "tool_calls": [call.to_json() for call in self.tool_calls]}


@dataclass(frozen=True, slots=True)
class AgentError:
    """Why a candidate has no decision."""

    code: str
    message: str
    component: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer to an input. `output` is there exactly when the status is completed, else `error` is."""

    request_id: str
    source_id: int
    candidate_index: int
    status: Literal["completed", "error"]
    memory: dict[str, Any]
    internal_steps: list[dict[str, Any]] = field(default_factory=list)
    output: Decision | None = None
    error: AgentError | None = None

    @property
    def decision(self) -> Decision:
        """The decision. A candidate without one raises ValueError with the reason."""
        if self.output is None:
            raise ValueError(f"the candidate has no decision: {self.error.code}: {self.error.message}")  # type: ignore[union-attr]
        return self.output

    def to_json(self) -> dict[str, Any]:
        """The candidate as it came."""
        whole = {
            name: getattr(self, name)
            for name in ("request_id", "source_id", "candidate_index", "status", "memory", "internal_steps")
        }
        if self.output is not None:
            whole["output"] = self.output.to_json()
        if self.error is not None:
            whole["error"] = {
                name: value for name, value in dataclasses.asdict(self.error).items() if value is not None
            }
        return whole


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a batch. A plain string is what a person says. Ids are given by position unless set."""

    instruction: Instruction | str
    tools: Sequence[Mapping[str, Any]] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    num_outputs: int = 1
    extra_keys: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None

    def next(self, candidate: Candidate, instruction: Instruction | str) -> "Input":
        """The input of the next turn: the same but for the candidate's memory and a new instruction."""
        extra = {name: value for name, value in self.extra_keys.items() if name != "coaching"}
        return dataclasses.replace(self, memory=candidate.memory, instruction=instruction, extra_keys=extra)

    def corrected(self, by: Decision | Mapping[str, Any]) -> "Input":
        """The same input with a correction: a decision, or the extra keys of a coaching proposal."""
        payload = {"kind": "replace_decision", "decision": by.to_json()} if isinstance(by, Decision) else by
        return dataclasses.replace(self, num_outputs=1, extra_keys={**self.extra_keys, "coaching": payload})

    def to_json(self, position: int = 0) -> dict[str, Any]:
        said = self.instruction if isinstance(self.instruction, Instruction) else Instruction(self.instruction)
        return {
            "id": position if self.id is None else self.id,
            "instruction": {"type": said.type, "content": said.content},
            "tools": list(self.tools),
            "attributes": self.attributes,
            "memory": self.memory,
            "num_outputs": self.num_outputs,
            "extra_keys": self.extra_keys,
        }


@dataclass(frozen=True, slots=True)
class Info:
    """What a server says about itself."""

    agent_id: str
    agent_version: str
    capabilities: dict[str, bool]
    protocol_version: str = "2.0"
    specialized_coaching: tuple[str, ...] = ()
    coaching_resume: bool = False
    coaching_session_version: str | None = None
    coaching_unavailable_reason: str | None = None


@dataclass(frozen=True, slots=True)
class CoachingProposal:
    """A correction at a point; Input.corrected takes its extra keys."""

    reinjection_point_id: str
    extra_keys: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CoachingLog:
    """A text for the records."""

    coaching_type: str
    content: str


@dataclass(frozen=True, slots=True)
class CoachingResponse:
    """The answer to a coaching request. `proposals` are there exactly when it is corrected, else a `reason`."""

    request_id: str
    status: Literal["corrected", "abandoned", "error"]
    proposals: tuple[CoachingProposal, ...] = ()
    reason: str | None = None
    logs: tuple[CoachingLog, ...] = ()


def tool(model: type[Any], name: str | None = None) -> dict[str, Any]:
    """A tool whose parameters are the fields of a pydantic model; its docstring is the description."""
    schema = model.model_json_schema()
    description = schema.pop("description", "")
    return {"name": name or schema.pop("title"), "description": description, "parameters": schema}
