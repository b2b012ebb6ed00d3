"""Validation and retries, without a server.

python -m unittest discover -s tests
"""

import asyncio
import dataclasses
import http.server
import json
import threading
import unittest
from typing import Any
from unittest import mock

import httpx
from agentd_client import (
    AsyncClient,
    Client,
    ContractError,
    Decision,
    Input,
    NetworkError,
    Retry,
    StatusError,
    ToolCall,
    proxies,
    tool,
)
from agentd_client.calls import MAX_CANDIDATES, MAX_INPUTS, batches

CALL = {"name": "go_to", "arguments": {"room": "hall"}, "target_robot_name": "rover"}


def output(**changes: Any) -> dict[str, Any]:
    whole = {
        "request_id": "r",
        "source_id": 0,
        "candidate_index": 0,
        "status": "completed",
        "memory": {"history": []},
        "internal_steps": [{"id": "step-0"}],
        "output": {"say": "", "tool_calls": [CALL]},
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


class Server:
    """Answers with what it is given, in order, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers, self.requests = list(answers), []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **settings: Any) -> Client:
        return Client("http://server", http={"transport": httpx.MockTransport(self)}, **settings)

    def async_client(self, **settings: Any) -> AsyncClient:
        return AsyncClient("http://server", http={"transport": httpx.MockTransport(self)}, **settings)


def ok(*outputs: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json=list(outputs))


def nowhere() -> Any:
    """An environment whose proxy does not answer."""
    proxy = "http://u:SECRET@127.0.0.1:1"
    return mock.patch.dict(
        "os.environ", {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "not-proxied.example"}, clear=True
    )


QUICK = Retry(attempts=3, first=0.0, random=lambda: 0.0)


class TestValidation(unittest.TestCase):
    def test_a_whole_answer_becomes_candidates(self) -> None:
        error = {"code": "truncated", "message": "too long", "component": None}
        server = Server(ok(output(), output(source_id=1, status="error", output=None, error=error)))
        with server.client(token="secret") as client:
            (first,), (second,) = client.decide([Input("Go."), Input("Stop.")], request_id="r")
        self.assertEqual(first.decision, Decision("", (ToolCall("go_to", {"room": "hall"}, "rover"),)))
        self.assertEqual(first.to_json(), output())
        with self.assertRaisesRegex(ValueError, "truncated: too long"):
            _ = second.decision
        self.assertEqual(server.requests[0].headers["authorization"], "Bearer secret")
        sent = json.loads(server.requests[0].content)
        self.assertEqual([one["id"] for one in sent["inputs"]], [0, 1])

    def test_each_breach_of_the_contract_names_its_place(self) -> None:
        both = {"say": "x", "tool_calls": [CALL]}
        for name, body, place in [
            ("no list", b"{}", ""),
            ("no JSON", b"[", ""),
            ("a name twice", b'[{"status": "error", "status": "error"}]', ""),
            ("NaN", b"[NaN]", ""),
            ("an endless number", b"[" + b"9" * 5000 + b"]", ""),
            ("too few", b"[]", ""),
            ("unknown field", [output(more=1)], "0.more"),
            ("missing field", [output(memory=...)], "0.memory"),
            ("boolean for integer", [output(source_id=False)], "0.source_id"),
            ("float for integer", [output(candidate_index=0.0)], "0.candidate_index"),
            ("another request", [output(request_id="q")], "0.request_id"),
            ("another input", [output(source_id=1)], "0.source_id"),
            ("another index", [output(candidate_index=1)], "0.candidate_index"),
            ("unknown status", [output(status="done")], "0.status"),
            ("completed without output", [output(output=...)], "0.output"),
            ("completed with error", [output(error={"code": "c", "message": "m"})], "0.error"),
            ("error with output", [output(status="error", error={"code": "c", "message": "m"})], "0.output"),
            ("error without error", [output(status="error", output=...)], "0.error"),
            ("say and calls", [output(output=both)], "0.output"),
            (
                "a call without robot",
                [output(output={"tool_calls": [{**CALL, "target_robot_name": ""}]})],
                "0.output.tool_calls.0.target_robot_name",
            ),
            ("a step that is no object", [output(internal_steps=[1])], "0.internal_steps.0"),
        ]:
            with self.subTest(name):
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                with Server(httpx.Response(200, content=raw)).client() as client:
                    with self.assertRaises(ContractError) as caught:
                        client.decide([Input("Go.")], request_id="r")
                self.assertEqual(".".join(map(str, caught.exception.path)), place)

    def test_proposals_are_for_points_of_the_request(self) -> None:
        request = {
            "run_id": "run",
            "request_id": "c",
            "kind": "failure",
            "stage": "s",
            "target_step_id": 1,
            "trajectory": [],
            "reinjection_points": [{"id": "p", "input_step_id": 1}],
        }
        good = {
            "request_id": "c",
            "status": "corrected",
            "proposals": [{"reinjection_point_id": "p", "extra_keys": {"kind": "replace_say", "text": "x"}}],
        }
        with Server(httpx.Response(200, json=good)).client() as client:
            proposal = client.coach(request).proposals[0]
        self.assertEqual(
            Input("Go.").corrected(proposal.extra_keys).extra_keys, {"coaching": {"kind": "replace_say", "text": "x"}}
        )
        for name, changes in {
            "another point": {"proposals": [{"reinjection_point_id": "q", "extra_keys": {}}]},
            "another request": {"request_id": "d"},
            "no proposals": {"proposals": []},
            "no reason": {"status": "abandoned", "proposals": []},
            "a log of another type": {"logs": [{"coaching_type": "A b", "content": ""}]},
        }.items():
            with self.subTest(name), Server(httpx.Response(200, json={**good, **changes})).client() as client:
                with self.assertRaises(ContractError):
                    client.coach(request)

    def test_numbers_that_are_no_json_are_not_sent(self) -> None:
        server = Server()
        with server.client() as client, self.assertRaises(ValueError):
            client.decide([Input("Go.", memory={"x": float("inf")})])
        self.assertEqual(server.requests, [])

    def test_arguments_are_read_by_pydantic_and_dataclasses(self) -> None:
        @dataclasses.dataclass
        class GoTo:
            room: str

        call = ToolCall("go_to", {"room": "hall"}, "rover")
        self.assertEqual(call.parse(GoTo), GoTo("hall"))
        with self.assertRaises(TypeError):
            ToolCall("go_to", {"place": "hall"}, "rover").parse(GoTo)
        try:
            import pydantic
        except ImportError:
            self.skipTest("pydantic is not installed")

        class Drive(pydantic.BaseModel):
            """Drive to a room."""

            room: str

        self.assertEqual(call.parse(Drive).room, "hall")
        with self.assertRaises(pydantic.ValidationError):
            ToolCall("go_to", {"room": 3}, "rover").parse(Drive)
        made = tool(Drive, "go_to")
        self.assertEqual((made["name"], made["description"]), ("go_to", "Drive to a room."))
        self.assertEqual(made["parameters"]["properties"]["room"]["type"], "string")


class TestRetries(unittest.TestCase):
    def refused(self, status: int = 503, after: str | None = "0") -> httpx.Response:
        return httpx.Response(status, json={"detail": "busy"}, headers={"Retry-After": after} if after else {})

    def test_refusals_with_retry_after_are_sent_again(self) -> None:
        server = Server(self.refused(), self.refused(429), ok(output()))
        with server.client(retry=QUICK) as client:
            client.decide([Input("Go.")], request_id="r")
        self.assertEqual(len({request.content for request in server.requests}), 1)
        self.assertEqual(len(server.requests), 3)

    def test_refusals_end_after_the_last_attempt(self) -> None:
        server = Server(*[self.refused()] * 4)
        with server.client(retry=QUICK) as client, self.assertRaises(StatusError) as caught:
            client.decide([Input("Go.")])
        self.assertEqual((caught.exception.status, caught.exception.detail, len(server.requests)), (503, "busy", 3))

    def test_other_statuses_are_not_sent_again(self) -> None:
        problem = {"type": "missing", "loc": ["body", "inputs"], "msg": "is required"}
        for answer in (
            self.refused(after=None),
            self.refused(500),
            self.refused(after="soon"),
            httpx.Response(422, json={"detail": [problem]}),
        ):
            server = Server(answer)
            with server.client(retry=QUICK) as client, self.assertRaises(StatusError) as caught:
                client.decide([Input("Go.")])
            self.assertEqual(len(server.requests), 1)
        self.assertIn("body.inputs: is required", str(caught.exception))

    def test_only_calls_that_may_be_repeated_are_after_a_broken_connection(self) -> None:
        broken = httpx.ReadError("reset")
        server = Server(broken, ok(output()))
        with server.client(retry=QUICK) as client:
            client.decide([Input("Go.")], request_id="r")
        server = Server(broken, httpx.Response(204))
        with server.client(retry=QUICK) as client, self.assertRaises(NetworkError):
            client.delete_session("run")
        server = Server(httpx.ConnectError("refused"), httpx.Response(204))
        with server.client(retry=QUICK) as client:
            client.delete_session("a/b é")
        self.assertEqual(server.requests[1].url.raw_path, b"/v1/coaching/sessions/a%2Fb%20%C3%A9")

    def test_timeouts_are_not_sent_again(self) -> None:
        server = Server(httpx.ReadTimeout("slow"))
        with server.client(retry=QUICK) as client, self.assertRaises(NetworkError):
            client.decide([Input("Go.")])
        self.assertEqual(len(server.requests), 1)

    def test_waits_respect_retry_after_and_the_total(self) -> None:
        server = Server(self.refused(after="7"), ok(output()))
        with mock.patch("time.sleep") as sleep, server.client() as client:
            client.decide([Input("Go.")], request_id="r")
        sleep.assert_called_once_with(7.0)
        with Server(self.refused(after="500")).client() as client, self.assertRaises(StatusError) as caught:
            client.decide([Input("Go.")])
        self.assertEqual(caught.exception.retry_after, 500)

    def test_a_server_that_is_away_is_logged(self) -> None:
        refused = httpx.ConnectError("refused")
        server = Server(refused, refused, refused, httpx.Response(204))
        policy = Retry(attempts=4, first=0.0)
        with self.assertLogs("agentd_client") as log, server.client(retry=policy) as client:
            client.delete_session("run")
        self.assertEqual([record.getMessage() for record in log.records], ["refused: trying again for 120 s"])

    def test_tries_go_on_until_the_total(self) -> None:
        waited, policy = 0.0, Retry(random=lambda: 0.0)
        for attempt in range(1, 100):
            with mock.patch("time.monotonic", return_value=waited):
                waited += policy.pause(attempt, 0.0, None) or 0.0
        self.assertGreater(waited, policy.total - policy.longest)

    def test_a_session_is_closed_after_an_error(self) -> None:
        server = Server(httpx.Response(204), httpx.Response(204))
        with server.client() as client, self.assertRaises(KeyError):
            with client.session("run", {"backends": {"b": {"type": "local", "default_model": "m"}}}):
                raise KeyError
        self.assertEqual([request.method for request in server.requests], ["PUT", "DELETE"])

    def test_the_asynchronous_client_retries_alike(self) -> None:
        async def ask() -> int:
            server = Server(self.refused(), httpx.ConnectError("refused"), ok(output()))
            async with server.async_client(retry=QUICK) as client:
                await client.decide([Input("Go.")], request_id="r")
            return len(server.requests)

        self.assertEqual(asyncio.run(ask()), 3)


class TestProxies(unittest.TestCase):
    def test_a_server_on_this_machine_is_asked_without_the_proxy(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"status": "ready"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server, nowhere():
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                for host in ("127.0.0.1", "localhost"):
                    with Client(f"http://{host}:{server.server_port}", retry=QUICK) as client:
                        self.assertEqual(client.health(), "ready")

                async def health() -> str:
                    async with AsyncClient(f"http://127.0.0.1:{server.server_port}", retry=QUICK) as client:
                        return await client.health()

                self.assertEqual(asyncio.run(health()), "ready")
            finally:
                server.shutdown()
                thread.join()

    def test_an_error_names_the_proxy_without_its_password(self) -> None:
        with nowhere(), Client("http://server.example", retry=QUICK) as client:
            with self.assertRaises(NetworkError) as caught:
                client.health()
        self.assertIn("(through the proxy http://127.0.0.1:1)", str(caught.exception))
        self.assertNotIn("SECRET", str(caught.exception))

    def test_the_proxy_of_a_url_is_found_as_httpx_does(self) -> None:
        shown = "http://127.0.0.1:1"
        for url, settings, want in (
            ("http://server.example", {}, shown),
            ("https://server.example", {}, shown),
            ("http://127.0.0.1:8888", {}, None),
            ("http://127.1.2.3", {}, None),
            ("http://[::1]:8888", {}, None),
            ("http://localhost", {}, None),
            ("http://a.localhost", {}, None),
            ("http://not-proxied.example:80", {}, None),
            ("http://server.example", {"trust_env": False}, None),
            ("http://server.example", {"proxy": "http://u:SECRET@p.example:3128"}, "http://p.example:3128"),
            ("http://127.0.0.1", {"proxy": httpx.Proxy("http://u:SECRET@p.example")}, "http://p.example"),
        ):
            with self.subTest(url=url, settings=settings), nowhere():
                self.assertEqual(proxies.used(httpx.URL(url), settings), want)

    def test_a_bad_url_is_refused_without_its_password(self) -> None:
        for url in ("http://u:SECRET/SECRET@h", "http://u:SECRET@h?x", "ftp://u:SECRET@h", "http://u:SECRET@h:port"):
            with self.subTest(url=url), self.assertRaises(ValueError) as caught:
                Client(url)
            self.assertNotIn("SECRET", str(caught.exception))


def line(input_index: int, **changes: Any) -> bytes:
    made = output(**changes)
    whole = {"input_index": input_index, "candidate_index": made["candidate_index"], "candidate": made}
    return json.dumps(whole, ensure_ascii=False).encode() + b"\n"


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in parts; an exception among them breaks it off."""

    def __init__(self, *parts: bytes | Exception) -> None:
        self.parts, self.closed = parts, False

    def __iter__(self) -> Any:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part

    async def __aiter__(self) -> Any:
        for part in self:
            yield part

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


class TestLines(unittest.TestCase):
    TWO = (Input("a", num_outputs=2, id=7), Input("b", id=3))
    LINES = (
        line(1, source_id=3),
        line(0, source_id=7, candidate_index=1),
        b" " + line(0, source_id=7, memory={"a": "\u2028\x85"}),
    )

    def test_candidates_come_in_the_order_of_lines(self) -> None:
        whole = b"".join(self.LINES) + b'{"candidates": 3}\n'
        for size in (1, 7, len(whole)):
            server = Server(
                httpx.Response(200, stream=Parts(*(whole[i : i + size] for i in range(0, len(whole), size))))
            )
            got = list(server.client().stream(self.TWO, request_id="r"))
            self.assertEqual([(i, made.candidate_index) for i, made in got], [(1, 0), (0, 1), (0, 0)])
            self.assertEqual(got[2][1].memory, {"a": "\u2028\x85"})
            self.assertEqual(server.requests[0].headers["Accept"], "application/x-ndjson")

    def test_the_asynchronous_client_iterates_alike(self) -> None:
        server = Server(httpx.Response(200, stream=Parts(*self.LINES, b'{"candidates": 3}\n')))

        async def all_of() -> list[int]:
            async with server.async_client() as client:
                return [i async for i, _ in client.stream(self.TWO, request_id="r")]

        self.assertEqual(asyncio.run(all_of()), [1, 0, 0])

    def test_lines_that_break_off_are_an_error(self) -> None:
        for last in (b"", b'{"candidates": 3}', httpx.ReadError("reset")):
            body = Parts(*self.LINES, last)
            got = Server(httpx.Response(200, stream=body)).client(retry=QUICK).stream(self.TWO, request_id="r")
            self.assertEqual([next(got)[0] for _ in self.LINES], [1, 0, 0])
            with self.assertRaises(NetworkError):
                next(got)
            self.assertTrue(body.closed)

    def test_lines_that_break_the_contract_name_their_place(self) -> None:
        for lines, place in (
            ((self.LINES[0], self.LINES[0]), ()),
            ((line(2),), ()),
            ((line(0, source_id=3),), ("candidate", "source_id")),
            ((line(1, source_id=3, memory=...),), ("candidate", "memory")),
            ((self.LINES[0], b'{"candidates": 3}\n'), ("candidates",)),
            ((*self.LINES, b'{"candidates": 2}\n'), ("candidates",)),
            ((b"[]",), ()),
            ((*self.LINES, b'{"candidates": 3}\n', self.LINES[0]), ()),
        ):
            with self.assertRaises(ContractError) as caught:
                list(Server(httpx.Response(200, stream=Parts(*lines))).client().stream(self.TWO, request_id="r"))
            self.assertEqual(caught.exception.path, place)

    def test_a_refusal_is_retried_and_an_iterator_that_ends_early_is_closed(self) -> None:
        body = Parts(*self.LINES)
        busy = httpx.Response(503, json={"detail": "full"}, headers={"Retry-After": "0"})
        server = Server(busy, httpx.Response(200, stream=body))
        got = server.client(retry=QUICK).stream(self.TWO, request_id="r")
        next(got)
        got.close()
        self.assertEqual((len(server.requests), body.closed), (2, True))
        with self.assertRaisesRegex(StatusError, "wrong id"):
            list(Server(httpx.Response(422, json={"detail": "wrong id"})).client().stream(self.TWO))

    def test_indexes_go_on_in_the_next_request(self) -> None:
        def of(first: int, number: int) -> httpx.Response:
            lines = (line(i, request_id=f"r-{first}", source_id=i) for i in range(number))
            return httpx.Response(200, content=b"".join(lines) + b'{"candidates": %d}\n' % number)

        got = Server(of(0, MAX_INPUTS), of(1, 2)).client().stream([Input("a")] * (MAX_INPUTS + 2), request_id="r")
        self.assertEqual([i for i, _ in got], list(range(MAX_INPUTS + 2)))


class TestBatches(unittest.TestCase):
    def test_bounds_of_a_request_split_the_inputs(self) -> None:
        for name, inputs, sizes in [
            ("inputs", [Input("x")] * (MAX_INPUTS + 1), [MAX_INPUTS, 1]),
            ("candidates", [Input("x", num_outputs=256)] * 17, [16, 1]),
            ("bytes", [Input("x" * (30 << 20))] * 3, [2, 1]),
            ("none", [], []),
        ]:
            with self.subTest(name):
                requests = batches(inputs, "r")
                self.assertEqual([len(request["inputs"]) for request in requests], sizes)
                for request in requests:
                    self.assertLessEqual(sum(one["num_outputs"] for one in request["inputs"]), MAX_CANDIDATES)
                self.assertEqual(len({request["request_id"] for request in requests}), len(sizes))

    def test_candidates_of_several_requests_are_in_the_order_of_inputs(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            sent = json.loads(request.content)
            return httpx.Response(
                200,
                json=[
                    output(
                        request_id=sent["request_id"],
                        source_id=one["id"],
                        candidate_index=i,
                        output={"say": one["instruction"]["content"]},
                    )
                    for one in sent["inputs"]
                    for i in range(one["num_outputs"])
                ],
            )

        inputs = [Input(f"{i}", num_outputs=1 + i % 3) for i in range(MAX_INPUTS + 5)]
        with Client("http://server", http={"transport": httpx.MockTransport(answer)}) as client:
            lists = client.decide(inputs)

        async def ask() -> list:
            async with AsyncClient("http://server", http={"transport": httpx.MockTransport(answer)}) as client:
                return await client.decide(inputs)

        for got in (lists, asyncio.run(ask())):
            self.assertEqual(
                [[c.decision.say for c in found] for found in got], [[f"{i}"] * (1 + i % 3) for i in range(len(inputs))]
            )


if __name__ == "__main__":
    unittest.main()
