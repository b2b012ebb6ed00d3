"""The bodies of coaching as they are sent; docs/protocol.md of agentd has the rules."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class _Backend(TypedDict):
    type: Literal["ollama", "openai", "anthropic", "local"]
    default_model: str


class Backend(_Backend, total=False):
    """One model that coaches; every type but local needs an endpoint."""

    endpoint: str
    headers: Mapping[str, str]
    timeout: float
    max_retry: int


class SessionConfig(TypedDict, total=False):
    """Who coaches a run. Backends are asked in their order."""

    provider: Literal["llm", "human"]
    backends: Mapping[str, Backend]
    endpoint: str
    connect_timeout: float
    capture_logs: bool


class _Step(TypedDict):
    id: int
    input: Mapping[str, Any]


class TrajectoryStep(_Step, total=False):
    """One decision of the agent with its result; Input.to_json and Candidate.to_json make the parts."""

    output: Mapping[str, Any]
    error: Mapping[str, Any]
    internal_steps: Sequence[Mapping[str, Any]]
    execution: Mapping[str, Any]


class _Point(TypedDict):
    id: str


class ReinjectionPoint(_Point, total=False):
    """Where a correction can be applied. Exactly one of the two is set."""

    input: Mapping[str, Any]
    input_step_id: int


class _CoachingRequest(TypedDict):
    run_id: str
    request_id: str
    kind: Literal["failure", "suboptimal", "format"]
    stage: Mapping[str, Any] | str
    target_step_id: int
    trajectory: Sequence[TrajectoryStep]
    reinjection_points: Sequence[ReinjectionPoint]


class CoachingRequest(_CoachingRequest, total=False):
    """A request for the repair of one step."""

    active_errors: Sequence[Any]
    diagnosis: Any
    additional_info: Mapping[str, Any]
