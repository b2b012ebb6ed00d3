"""The clients."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, ClassVar, TypeVar, cast

import httpx

from . import calls, proxies, validate
from .errors import AgentServerError
from .models import Candidate, CoachingResponse, Info, Input
from .retry import Retry
from .wire import CoachingRequest, SessionConfig

T = TypeVar("T")


class _Settings:
    """What both clients have in common: settings, and pools of connections."""

    _kind: ClassVar[type[httpx.Client] | type[httpx.AsyncClient]]

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float | None = 600.0,
        connect_timeout: float = 10.0,
        retry: Retry = Retry(),
        http: Mapping[str, Any] | None = None,
    ) -> None:
        """`url` is the server's, such as http://127.0.0.1:8888, and may have a path.

        `token` is sent as a bearer token. `timeout` bounds the silence of the server, in seconds, while it decides; None
        does not. `connect_timeout` bounds the connection. `http` are further arguments of httpx's client, such as
        `verify`, `proxy` or `transport`. A server on this machine is asked without the proxies of the environment.
        """
        wrong = "url: must be an http or https URL with a host, without query and fragment"
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:  # it may repeat a part of a password
            raise ValueError(wrong) from None
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise ValueError(wrong)
        self._base = str(parsed).rstrip("/")
        self._retry = retry
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._timeout = httpx.Timeout(timeout, connect=connect_timeout)
        self._patience = httpx.Timeout(None, connect=connect_timeout)
        own = http or {}
        self._proxy = proxies.used(parsed, own)
        self._options: dict[str, Any] = {"headers": headers, **proxies.without(parsed, own)}
        transports = [own.get("transport"), *(own.get("mounts") or {}).values()]
        self._process, self._stays = os.getpid(), any(transport is not None for transport in transports)
        self._closed = False
        self._pools: dict[tuple[int, Any], Any] = {}  # by process and event loop, which can't share connections
        self._unused: Any = self._kind(**self._options)

    def _pool(self, loop: asyncio.AbstractEventLoop | None = None) -> Any:
        """The connections of this process and event loop. Those of a process that forked are left alone."""
        if self._closed:
            raise RuntimeError("the client is closed; make another one")
        at = os.getpid(), loop
        if (found := self._pools.get(at)) is not None:
            return found
        if self._stays and at[0] != self._process:
            raise AgentServerError(
                "the client was made before the process forked and has a transport of its own; make a client in the child"
            )
        for process, other in list(self._pools):
            if process == at[0] and other is not None and other.is_closed():
                self._pools.pop((process, other), None)
        pool, self._unused = self._unused, None
        return self._pools.setdefault(at, pool or self._kind(**self._options))

    def _close(self, loop: asyncio.AbstractEventLoop | None = None) -> Any:
        """The connections that are to be closed, or None. Nothing can be asked any more."""
        self._closed = True
        return self._pools.pop((os.getpid(), loop), None)

    def _arguments(self, send: calls.Send) -> dict[str, Any]:
        return {
            "method": send.method,
            "url": self._base + send.path,
            "content": send.body,
            "headers": ({"Content-Type": "application/json"} if send.body is not None else {})
            | ({"Accept": "application/x-ndjson"} if send.lines else {}),
            "timeout": self._patience if send.patient else self._timeout,
        }

    def _broken(self, error: Exception) -> AgentServerError:
        made = calls.failed("POST /v1/responses: the lines broke off", error)
        made.proxy = self._proxy
        return made


def _answer(response: httpx.Response) -> calls.Answer:
    body = response.content if response.is_closed else b""  # lines are read later
    return calls.Answer(response.status_code, response.headers.get("Retry-After"), body, response)


class Client(_Settings):
    """A client that waits. It is safe to use from several threads, and in a process that forks.

    Calls are sent again when there is no connection, and after 429 and 503 with Retry-After: then the server did
    nothing. After a broken connection all but `delete_session` are sent again: a repetition changes nothing.
    """

    _kind = httpx.Client

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if (pool := self._close()) is not None:
            pool.close()

    def _drive(self, steps: calls.Steps[T]) -> T:
        got: Any = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as end:
                return cast(T, end.value)
            except AgentServerError as error:
                error.proxy = self._proxy
                raise
            if isinstance(step, calls.Wait):
                time.sleep(step.seconds)
                got = None
                continue
            http = self._pool()
            try:
                response = http.send(http.build_request(**self._arguments(step)), stream=step.lines)
                if not (step.lines and response.is_success):
                    response.read()
                got = _answer(response)
            except calls.FAILURES as error:
                got = error

    def health(self) -> str:
        """The server's state: ready, loading, draining or failed."""
        return self._drive(calls.health(self._retry))

    def info(self) -> Info:
        """What the server is and can do."""
        return self._drive(calls.info(self._retry))

    def decide(self, inputs: Iterable[Input], *, request_id: str | None = None) -> list[list[Candidate]]:
        """The candidates of each input, in order. Many inputs become several requests.

        A candidate that failed is in its place, with an error. The id of a request decides the seeds of its candidates.
        """
        requests = calls.batches(inputs, request_id)
        return calls.grouped(requests, [self.respond(request) for request in requests])

    def respond(self, request: Mapping[str, Any]) -> list[Candidate]:
        """Send one request as it is. The whole answer is checked against it."""
        return self._drive(calls.respond(request, self._retry))

    def stream(self, inputs: Iterable[Input], *, request_id: str | None = None) -> Iterator[tuple[int, Candidate]]:
        """The candidates of `decide` in the order in which they are ready, each with the index of its input.

        Many inputs become several requests, one after the other. Once candidates have come nothing is sent again: a
        connection that breaks raises NetworkError. Closing the iterator cancels the rest.
        """
        first = 0
        for request in calls.batches(inputs, request_id):
            lines = validate.Lines(request, first)
            response = self._drive(calls.stream(request, self._retry))
            try:
                for part in response.iter_bytes():
                    yield from lines.feed(part)
                lines.end()
            except calls.FAILURES as error:
                raise self._broken(error) from error
            finally:
                response.close()
            first += len(request["inputs"])

    def put_session(self, run_id: str, config: SessionConfig) -> None:
        """Configure who coaches a run."""
        self._drive(calls.put_session(run_id, config, self._retry))

    def delete_session(self, run_id: str) -> None:
        """Close the session of a run; returns when its requests have ended."""
        self._drive(calls.delete_session(run_id, self._retry))

    @contextmanager
    def session(self, run_id: str, config: SessionConfig) -> Iterator[None]:
        """A session that is closed at the end of a with statement."""
        self.put_session(run_id, config)
        try:
            yield
        finally:
            self.delete_session(run_id)

    def coach(self, request: CoachingRequest) -> CoachingResponse:
        """Ask for the repair of a step. It may take as long as a person does."""
        return self._drive(calls.coach(request, self._retry))


class AsyncClient(_Settings):
    """The same for asyncio. `concurrency` bounds the requests of one `decide` at a time.

    Each event loop has connections of its own, so a client may be used by one `asyncio.run` after another.
    """

    _kind = httpx.AsyncClient

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float | None = 600.0,
        connect_timeout: float = 10.0,
        retry: Retry = Retry(),
        http: Mapping[str, Any] | None = None,
        concurrency: int = 4,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency: must be at least 1, not {concurrency}")
        self._concurrency = concurrency
        super().__init__(url, token=token, timeout=timeout, connect_timeout=connect_timeout, retry=retry, http=http)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop."""
        if (pool := self._close(asyncio.get_running_loop())) is not None:
            await pool.aclose()

    async def _drive(self, steps: calls.Steps[T]) -> T:
        got: Any = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as end:
                return cast(T, end.value)
            except AgentServerError as error:
                error.proxy = self._proxy
                raise
            if isinstance(step, calls.Wait):
                await asyncio.sleep(step.seconds)
                got = None
                continue
            http = self._pool(asyncio.get_running_loop())
            try:
                response = await http.send(http.build_request(**self._arguments(step)), stream=step.lines)
                if not (step.lines and response.is_success):
                    await response.aread()
                got = _answer(response)
            except calls.FAILURES as error:
                got = error

    async def health(self) -> str:
        """The server's state: ready, loading, draining or failed."""
        return await self._drive(calls.health(self._retry))

    async def info(self) -> Info:
        """What the server is and can do."""
        return await self._drive(calls.info(self._retry))

    async def decide(self, inputs: Iterable[Input], *, request_id: str | None = None) -> list[list[Candidate]]:
        """The candidates of each input, in order. Many inputs become several requests, which run together."""
        requests = calls.batches(inputs, request_id)
        free = asyncio.Semaphore(self._concurrency)

        async def one(request: Mapping[str, Any]) -> list[Candidate]:
            async with free:
                return await self.respond(request)

        tasks = [asyncio.ensure_future(one(request)) for request in requests]
        try:
            return calls.grouped(requests, await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def respond(self, request: Mapping[str, Any]) -> list[Candidate]:
        """Send one request as it is. The whole answer is checked against it."""
        return await self._drive(calls.respond(request, self._retry))

    async def stream(
        self, inputs: Iterable[Input], *, request_id: str | None = None
    ) -> AsyncIterator[tuple[int, Candidate]]:
        """The same as `Client.stream`."""
        first = 0
        for request in calls.batches(inputs, request_id):
            lines = validate.Lines(request, first)
            response = await self._drive(calls.stream(request, self._retry))
            try:
                async for part in response.aiter_bytes():
                    for candidate in lines.feed(part):
                        yield candidate
                lines.end()
            except calls.FAILURES as error:
                raise self._broken(error) from error
            finally:
                await response.aclose()
            first += len(request["inputs"])

    async def put_session(self, run_id: str, config: SessionConfig) -> None:
        """Configure who coaches a run."""
        await self._drive(calls.put_session(run_id, config, self._retry))

    async def delete_session(self, run_id: str) -> None:
        """Close the session of a run; returns when its requests have ended."""
        await self._drive(calls.delete_session(run_id, self._retry))

    @asynccontextmanager
    async def session(self, run_id: str, config: SessionConfig) -> AsyncIterator[None]:
        """A session that is closed at the end of an async with statement."""
        await self.put_session(run_id, config)
        try:
            yield
        finally:
            await self.delete_session(run_id)

    async def coach(self, request: CoachingRequest) -> CoachingResponse:
        """Ask for the repair of a step. It may take as long as a person does."""
        return await self._drive(calls.coach(request, self._retry))
