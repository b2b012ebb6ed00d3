"""Sampled completions that survive their server."""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx

from . import proxies
from .calls import FAILURES, encode
from .errors import ContractError, NetworkError, StatusError

_AWAY = (429, 500, 502, 503, 504)
"""Statuses after which another server may answer, or the same one later."""


@dataclass
class Rollout:
    """A completion. `logprobs` has None for tokens that a grammar forced."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""
    sampling_mask: list[list[int] | None] = field(default_factory=list)  # with return_sampling_mask
    resumed: int = field(default=0, compare=False)  # how often another call went on with it


class Rollouts:
    """Completions of several servers with the same weights and options.

    Tokens are kept as they come. When a server dies, pauses or is silent, another one goes on after them. Draws depend
    on the seed and the token's position only, so the result has the bytes of an undisturbed run (docs/learn.md says
    where). It is safe to use from several threads; each call uses one.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None = None,
        timeout: float = 60.0,
        patience: float = 600.0,
        wait: float = 0.25,
        http: Mapping[str, Any] | None = None,
    ) -> None:
        """`timeout` bounds the silence of a server, in seconds, and `patience` that of all: then NetworkError is raised.

        A server that failed is left alone for `wait` seconds. `http` are further arguments of httpx's client.
        """
        if not urls:
            raise ValueError("urls: at least one server is needed")
        self._urls = [url.rstrip("/") for url in urls]
        self._patience, self._wait = patience, wait
        options: dict[str, Any] = dict(http or {})
        for url in self._urls:
            options = proxies.without(httpx.URL(url), options)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        options = {"limits": httpx.Limits(max_connections=None), **options}
        self._http = httpx.Client(
            headers=headers, timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)), **options
        )
        self._lock = threading.Lock()
        self._busy = [0] * len(urls)  # calls
        self._away = [0.0] * len(urls)  # until then

    def __enter__(self) -> "Rollouts":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def complete(self, prompt: str | Sequence[int], *, seed: int, **fields: Any) -> Rollout:
        """One completion of a text or of token ids. `fields` are others of /v1/completions, such as max_tokens.

        A request that no server takes raises StatusError.
        """
        for name in ("n", "stream", "continue", "echo", "prompt_logprobs"):
            if name in fields:
                raise ValueError(f"{name}: is not for one completion that goes on; leave it out")
        asked = {"return_token_ids": True, "logprobs": 0, **fields, "prompt": prompt, "seed": seed, "stream": True}
        done, heard = Rollout(), time.monotonic()
        while True:
            at = self._choose()
            known = len(done.token_ids)
            try:
                said = self._go_on(at, asked, done)
            finally:
                with self._lock:
                    self._busy[at] -= 1
            if done.finish_reason:
                return done
            done.resumed += 1
            if len(done.token_ids) > known:
                heard = time.monotonic()
            elif time.monotonic() - heard > self._patience:
                raise NetworkError(
                    f"POST /v1/completions: no server went on for {self._patience:g} s; the last one: {said}"
                )
            with self._lock:
                self._away[at] = time.monotonic() + self._wait

    def _choose(self) -> int:
        """The server with the fewest calls. It waits while all are away."""
        while True:
            with self._lock:
                now = time.monotonic()
                here = [i for i, until in enumerate(self._away) if until <= now]
                if here:
                    at = min(here, key=lambda i: self._busy[i])
                    self._busy[at] += 1
                    return at
                pause = min(self._away) - now
            time.sleep(max(0.0, pause))

    def _go_on(self, at: int, asked: Mapping[str, Any], done: Rollout) -> str:
        """Add to a rollout what a server streams, until it ends or breaks off: then the reason is returned."""
        body = {**asked, "continue": [done.token_ids]} if done.token_ids else asked
        try:
            with self._http.stream(
                "POST",
                self._urls[at] + "/v1/completions",
                content=encode(body),
                headers={"Content-Type": "application/json"},
            ) as response:
                if response.status_code != 200:
                    return self._refused(response.status_code, response.read().decode("utf-8", "replace"))
                for event in _events(response):
                    if "error" in event:
                        return self._refused(int(event["error"].get("code", 500)), json.dumps(event))
                    for choice in event["choices"]:
                        _add(done, choice)
                return "the stream broke off"
        except FAILURES as error:
            return str(error) or type(error).__name__
        except (KeyError, TypeError, ValueError) as error:
            raise ContractError(("choices",), f"an event of /v1/completions: {error!r}") from error

    def _refused(self, status: int, said: str) -> str:
        if status in _AWAY:
            return said[:512]
        try:
            said = json.loads(said)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            pass
        raise StatusError(status, said[:512], [], None)


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[len("data: ") :])


def _add(done: Rollout, choice: Mapping[str, Any]) -> None:
    ids, masks = choice.get("token_ids") or [], choice.get("sampling_mask") or []
    scores = choice["logprobs"]["token_logprobs"] if ids else []
    if len(ids) != len(scores):
        raise ValueError(f"{len(ids)} tokens with {len(scores)} logprobs")
    done.token_ids += ids
    done.logprobs += scores
    done.sampling_mask += masks
    done.text += choice["text"]
    done.finish_reason = choice["finish_reason"] or ""
