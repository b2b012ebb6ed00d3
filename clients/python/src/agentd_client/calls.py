"""The calls without input and output: generators that yield what to send and how long to wait.

`Client` and `AsyncClient` drive them, so both behave alike.
"""

import json
import logging
import time
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from . import retry, validate
from .errors import AgentServerError, ContractError, NetworkError, StatusError
from .models import Candidate, CoachingResponse, Info, Input
from .wire import CoachingRequest, SessionConfig

MAX_INPUTS = 1024
MAX_CANDIDATES = 4096
MAX_BODY = 64 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """A request. `repeatable`: sending it twice does what sending it once does."""

    method: str
    path: str
    body: bytes | None = None
    repeatable: bool = True
    patient: bool = False  # the answer may take as long as a person
    lines: bool = False  # the body of a success is read by the caller, line by line


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Answer:
    status: int
    retry_after: str | None
    body: bytes
    response: httpx.Response  # still open after a success with Send.lines


FAILURES = httpx.RequestError, httpx.InvalidURL
"""What httpx raises where no answer can be read; InvalidURL is a redirection's."""

Steps = Generator[Send | Wait, Answer | httpx.RequestError | httpx.InvalidURL | None, T]


def failed(call: str, error: Exception) -> AgentServerError:
    """The error of a call whose answer can't be read."""
    said = f"{call}: {error or type(error).__name__}"
    return ContractError((), said) if isinstance(error, httpx.DecodingError) else NetworkError(said)


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def exchange(send: Send, policy: retry.Retry, *expect: int) -> Steps[Answer]:
    began, attempt = time.monotonic(), 0
    while True:
        attempt += 1
        got = yield send
        if isinstance(got, FAILURES):
            wait = policy.pause(attempt, began, None) if retry.after_error(got, send.repeatable) else None
            if wait is None:
                raise failed(f"{send.method} {send.path}", got) from got
            if attempt == 3:
                logging.getLogger(__name__).warning(
                    "%s: trying again for %g s", got or type(got).__name__, policy.total
                )
        else:
            assert got is not None
            if got.status in expect:
                return got
            asked = retry.after_status(got.status, got.retry_after)
            wait = None if asked is None else policy.pause(attempt, began, asked)
            if wait is None:
                raise _refused(got, asked)
        yield Wait(wait)


def _refused(got: Answer, asked: float | None) -> StatusError:
    detail = got.body[:512].decode("utf-8", "replace")
    try:
        said = json.loads(got.body)["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        said = detail
    if not isinstance(said, list):
        return StatusError(got.status, str(said), [], asked)
    return StatusError(got.status, detail, [problem for problem in said if isinstance(problem, dict)], asked)


def health(policy: retry.Retry) -> Steps[str]:
    got = yield from exchange(Send("GET", "/health"), policy, 200, 503)
    return validate.health(got.body)


def info(policy: retry.Retry) -> Steps[Info]:
    got = yield from exchange(Send("GET", "/v1/info"), policy, 200)
    return validate.info(got.body)


def batches(inputs: Iterable[Input], request_id: str | None) -> list[dict[str, Any]]:
    """Requests for all inputs, each within the server's bounds. Ids are positions in the request unless set."""
    name = request_id or str(uuid.uuid4())
    groups: list[list[Input]] = []
    candidates = size = 0
    for one in inputs:
        length = len(encode(one.to_json())) + 16
        candidates, size = candidates + one.num_outputs, size + length
        if (
            not groups
            or len(groups[-1]) == MAX_INPUTS
            or candidates > MAX_CANDIDATES
            or size > MAX_BODY - 4 * len(name) - 64
        ):
            groups.append([])
            candidates, size = one.num_outputs, length
        groups[-1].append(one)
    return [
        {
            "request_id": name if len(groups) == 1 else f"{name}-{i}",
            "inputs": [one.to_json(position) for position, one in enumerate(group)],
        }
        for i, group in enumerate(groups)
    ]


def respond(request: Mapping[str, Any], policy: retry.Retry) -> Steps[list[Candidate]]:
    # Servers keep nothing between requests, so a repeated one has no effect but its answer.
    got = yield from exchange(Send("POST", "/v1/responses", encode(request)), policy, 200)
    return validate.responses(got.body, request)


def stream(request: Mapping[str, Any], policy: retry.Retry) -> Steps[httpx.Response]:
    got = yield from exchange(Send("POST", "/v1/responses", encode(request), lines=True), policy, 200)
    return got.response


def grouped(requests: Sequence[Mapping[str, Any]], answers: Iterable[list[Candidate]]) -> list[list[Candidate]]:
    """The candidates of each input."""
    lists: list[list[Candidate]] = []
    for request, answer in zip(requests, answers):
        at = 0
        for one in request["inputs"]:
            lists.append(answer[at : at + one["num_outputs"]])
            at += one["num_outputs"]
    return lists


def _session(run_id: str) -> str:
    return "/v1/coaching/sessions/" + quote(run_id, safe="")


def put_session(run_id: str, config: SessionConfig, policy: retry.Retry) -> Steps[None]:
    # The same configuration again is a 204.
    yield from exchange(Send("PUT", _session(run_id), encode(config)), policy, 204)


def delete_session(run_id: str, policy: retry.Retry) -> Steps[None]:
    # Sent again after a broken connection, it could end a session that somebody opened meanwhile.
    yield from exchange(Send("DELETE", _session(run_id), repeatable=False, patient=True), policy, 204)


def coach(request: CoachingRequest, policy: retry.Retry) -> Steps[CoachingResponse]:
    # The same request_id and content get the same answer while the session lives.
    got = yield from exchange(Send("POST", "/v1/coaching", encode(request), patient=True), policy, 200)
    return validate.coached(got.body, request)
