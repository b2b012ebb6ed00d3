"""Reads answers and checks them as a whole: every field, every type, and what the request asked for."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from .errors import ContractError, NetworkError
from .models import (
    AgentError,
    Candidate,
    CoachingLog,
    CoachingProposal,
    CoachingResponse,
    Decision,
    Info,
    ToolCall,
)

T = TypeVar("T")
Path = tuple[str | int, ...]

_missing: Any = object()
_coaching_type = re.compile(r"[a-z][a-z0-9_]*")
_kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}


def parse(body: bytes) -> Any:
    """The JSON of a body. A name twice in an object, NaN and invalid UTF-8 break the contract."""

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        if len(found) != len(members):
            raise ContractError((), "an object has a name twice")
        return found

    def constant(text: str) -> NoReturn:
        raise ContractError((), f"{text} is no JSON")

    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:  # also of a number with too many digits
        raise ContractError((), f"is no JSON: {error}") from error


def _typed(value: Any, kind: type[T], path: Path) -> T:
    if type(value) is not kind:
        raise ContractError(path, f"must be {_kinds[kind]}, not {json.dumps(value)[:64]}")
    return value


class _Fields:
    """The members of an object; each is taken once, and none may be left."""

    def __init__(self, value: Any, path: Path) -> None:
        self.left = dict(_typed(value, dict, path))
        self.path = path

    def take(self, name: str, kind: type[T], default: T = _missing) -> T:
        value = self.left.pop(name, default)
        if value is _missing:
            raise ContractError((*self.path, name), "is missing")
        return _typed(value, kind, (*self.path, name))

    def text_or_null(self, name: str) -> str | None:
        value = self.left.pop(name, None)
        return None if value is None else _typed(value, str, (*self.path, name))

    def word(self, name: str, words: Sequence[str]) -> Any:
        value = self.take(name, str)
        if value not in words:
            raise ContractError((*self.path, name), f"must be one of {', '.join(words)}, not {value[:64]!r}")
        return value

    def nonempty(self, name: str) -> str:
        value = self.take(name, str)
        if not value:
            raise ContractError((*self.path, name), "must not be empty")
        return value

    def each(self, name: str, read: Callable[[Any, Path], T]) -> list[T]:
        return [read(value, (*self.path, name, i)) for i, value in enumerate(self.take(name, list, []))]

    def end(self) -> None:
        for name in self.left:
            raise ContractError((*self.path, name), "is an unknown field")


def _call(value: Any, path: Path) -> ToolCall:
    f = _Fields(value, path)
    call = ToolCall(f.nonempty("name"), f.take("arguments", dict), f.nonempty("target_robot_name"))
    f.end()
    return call


def decision(value: Any, path: Path) -> Decision:
    f = _Fields(value, path)
    made = Decision(f.take("say", str, ""), tuple(f.each("tool_calls", _call)))
    f.end()
    if made.say and made.tool_calls:
        raise ContractError(path, "has both say and tool_calls")
    return made


def _error(value: Any, path: Path) -> AgentError:
    f = _Fields(value, path)
    made = AgentError(f.nonempty("code"), f.nonempty("message"), f.text_or_null("component"))
    f.end()
    return made


def candidate(value: Any, path: Path) -> Candidate:
    f = _Fields(value, path)
    output, error = f.left.pop("output", None), f.left.pop("error", None)
    made = Candidate(
        request_id=f.nonempty("request_id"),
        source_id=f.take("source_id", int),
        candidate_index=f.take("candidate_index", int),
        status=f.word("status", ("completed", "error")),
        memory=f.take("memory", dict),
        internal_steps=f.each("internal_steps", lambda value, at: _typed(value, dict, at)),
        output=None if output is None else decision(output, (*path, "output")),
        error=None if error is None else _error(error, (*path, "error")),
    )
    f.end()
    completed = made.status == "completed"
    if completed != (made.output is not None):
        raise ContractError(
            (*path, "output"), f"is {'missing' if completed else 'forbidden'} with status {made.status}"
        )
    if completed != (made.error is None):
        raise ContractError((*path, "error"), f"is {'forbidden' if completed else 'missing'} with status {made.status}")
    return made


def responses(body: bytes, request: Mapping[str, Any]) -> list[Candidate]:
    """The candidates for a request: all that it asked for, in their order."""
    asked = [(one["id"], i) for one in request["inputs"] for i in range(one.get("num_outputs", 1))]
    found = [candidate(value, (i,)) for i, value in enumerate(_typed(parse(body), list, ()))]
    if len(found) != len(asked):
        raise ContractError((), f"has {len(found)} candidates; the request asks for {len(asked)}")
    for i, (made, (source, index)) in enumerate(zip(found, asked)):
        _answers(made, request, source, index, (i,))
    return found


def _answers(made: Candidate, request: Mapping[str, Any], source: int, index: int, path: Path) -> None:
    for name, want in (("request_id", request["request_id"]), ("source_id", source), ("candidate_index", index)):
        if getattr(made, name) != want:
            raise ContractError((*path, name), f"must be {want!r}, not {getattr(made, name)!r}")


class Lines:
    """The lines of an answer that arrives in parts. The request's first input has the index `first`."""

    def __init__(self, request: Mapping[str, Any], first: int = 0) -> None:
        self._request, self._first = request, first
        self._parts: list[bytes] = []  # of the line that has not ended
        self._asked = {(i, k) for i, one in enumerate(request["inputs"]) for k in range(one.get("num_outputs", 1))}
        self._number, self._ended = len(self._asked), False

    def feed(self, part: bytes) -> list[tuple[int, Candidate]]:
        """The candidates of the lines that a part completes, each with the index of its input."""
        *whole, rest = part.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts.clear()
        self._parts.append(rest)
        return [made for line in whole if (made := self._line(line)) is not None]

    def _line(self, line: bytes) -> tuple[int, Candidate] | None:
        f = _Fields(parse(line), ())
        if self._ended:
            raise ContractError((), "has a line after its end")
        if "candidates" in f.left:
            if self._asked or f.take("candidates", int) != self._number:
                raise ContractError(("candidates",), f"must be {self._number}, after as many candidates")
            f.end()
            self._ended = True
            return None
        at = f.take("input_index", int), f.take("candidate_index", int)
        if at not in self._asked:
            raise ContractError((), f"has candidate {at[1]} of input {at[0]}, not asked for or not again")
        self._asked.remove(at)
        made = candidate(f.left.pop("candidate", None), ("candidate",))
        f.end()
        _answers(made, self._request, self._request["inputs"][at[0]]["id"], at[1], ("candidate",))
        return self._first + at[0], made

    def end(self) -> None:
        """Checks that nothing is missing."""
        left = b"".join(self._parts)
        if left.startswith(b"["):
            raise ContractError((), "is an array: the server sends no lines; call decide")
        if not self._ended or left.strip():
            raise NetworkError("POST /v1/responses: the lines ended before the last one")


def coached(body: bytes, request: Mapping[str, Any]) -> CoachingResponse:
    """The answer to a coaching request; its proposals are for points of the request."""
    f = _Fields(parse(body), ())
    made = CoachingResponse(
        request_id=f.nonempty("request_id"),
        status=f.word("status", ("corrected", "abandoned", "error")),
        proposals=tuple(f.each("proposals", _proposal)),
        reason=f.text_or_null("reason"),
        logs=tuple(f.each("logs", _log)),
    )
    f.end()
    if made.request_id != request["request_id"]:
        raise ContractError(("request_id",), f"must be {request['request_id']!r}, not {made.request_id!r}")
    if (made.status == "corrected") != bool(made.proposals):
        raise ContractError(
            ("proposals",), f"must {'not ' if made.proposals else ''}be there with status {made.status}"
        )
    if made.status != "corrected" and not made.reason:
        raise ContractError(("reason",), f"is missing with status {made.status}")
    points = {point["id"] for point in request["reinjection_points"]}
    for i, proposal in enumerate(made.proposals):
        if proposal.reinjection_point_id not in points:
            raise ContractError(("proposals", i, "reinjection_point_id"), "is no point of the request")
    return made


def _proposal(value: Any, path: Path) -> CoachingProposal:
    f = _Fields(value, path)
    made = CoachingProposal(f.nonempty("reinjection_point_id"), f.take("extra_keys", dict))
    f.end()
    return made


def _log(value: Any, path: Path) -> CoachingLog:
    f = _Fields(value, path)
    made = CoachingLog(f.take("coaching_type", str), f.take("content", str))
    f.end()
    if not _coaching_type.fullmatch(made.coaching_type):
        raise ContractError(
            (*path, "coaching_type"), "must be lower-case letters, digits and underscores, a letter first"
        )
    return made


def _kind(value: Any, path: Path) -> str:
    kind = _typed(value, str, path)
    if kind not in ("failure", "suboptimal", "format"):
        raise ContractError(path, "must be failure, suboptimal or format")
    return kind


def info(body: bytes) -> Info:
    f = _Fields(parse(body), ())
    capabilities = f.take("capabilities", dict)
    made = Info(
        agent_id=f.nonempty("agent_id"),
        agent_version=f.nonempty("agent_version"),
        capabilities={name: _typed(value, bool, ("capabilities", name)) for name, value in capabilities.items()},
        protocol_version=f.take("protocol_version", str, "2.0"),
        specialized_coaching=tuple(f.each("specialized_coaching", _kind)),
        coaching_resume=f.take("coaching_resume", bool, False),
        coaching_session_version=f.text_or_null("coaching_session_version"),
        coaching_unavailable_reason=f.text_or_null("coaching_unavailable_reason"),
    )
    f.end()
    return made


def health(body: bytes) -> str:
    f = _Fields(parse(body), ())
    status = f.nonempty("status")
    f.take("asking", int, 0)
    f.end()
    return status
