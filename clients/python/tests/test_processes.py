"""Clients and errors in several processes and event loops, and answers that are no answers."""

import asyncio
import copy
import http.server
import json
import os
import pickle
import threading
import unittest
from typing import Any

import httpx
from agentd_client import (
    AgentServerError,
    AsyncClient,
    Client,
    ContractError,
    Input,
    NetworkError,
    Retry,
    StatusError,
    validate,
)


class Keeping(http.server.BaseHTTPRequestHandler):
    """Keeps connections, and notes the port of each request's client."""

    protocol_version = "HTTP/1.1"
    ports: list[int] = []

    def do_GET(self) -> None:
        self.ports.append(self.client_address[1])
        body = b'{"status":"ready"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class TestProcesses(unittest.TestCase):
    def setUp(self) -> None:
        Keeping.ports = []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keeping)
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        for cleanup in (server.server_close, serving.join, server.shutdown):
            self.addCleanup(cleanup)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def test_a_child_has_connections_of_its_own(self) -> None:
        with Client(self.url) as client:
            client.health()
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if [client.health(), client.health()] == ["ready"] * 2 else 1)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            client.health()
        first, *of_child, last = Keeping.ports
        self.assertEqual((first, len(set(of_child))), (last, 1))
        self.assertNotIn(first, of_child)

    def test_a_child_does_not_share_a_transport(self) -> None:
        client = Client(self.url, http={"transport": httpx.HTTPTransport()})
        client.health()
        child = os.fork()
        if child == 0:
            try:
                client.health()
            except AgentServerError as error:
                os._exit(0 if "make a client in the child" in str(error) else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        client.close()

    def test_one_event_loop_follows_another(self) -> None:
        client = AsyncClient(self.url)
        for _ in range(3):
            self.assertEqual(asyncio.run(client.health()), "ready")
        self.assertEqual((len(set(Keeping.ports)), len(client._pools)), (3, 1))
        asyncio.run(client.close())
        with self.assertRaisesRegex(RuntimeError, "closed"):
            asyncio.run(client.health())

    def test_a_closed_client_says_so(self) -> None:
        client = Client(self.url)
        client.close()
        with self.assertRaisesRegex(RuntimeError, "the client is closed"):
            client.health()


class TestErrors(unittest.TestCase):
    def test_errors_are_pickled_and_copied(self) -> None:
        problems = [{"type": "missing", "loc": ["body", "inputs", 0], "msg": "is missing"}]
        for error in (
            AgentServerError("no"),
            NetworkError("gone"),
            ContractError((0, "memory"), "is missing"),
            StatusError(422, "refused", problems, 1.5),
        ):
            error.proxy = "http://proxy:1"
            for made in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
                self.assertEqual((type(made), str(made), vars(made)), (type(error), str(error), vars(error)))

    def test_lines_of_many_parts_are_joined_once(self) -> None:
        class Part(bytes):
            def __radd__(self, other: bytes) -> bytes:
                raise AssertionError("parts are added one by one, which takes the square of their number")

        lines = validate.Lines({"request_id": "r", "inputs": [{"id": 0}]})
        made = {"request_id": "r", "source_id": 0, "candidate_index": 0, "status": "completed", "memory": {}}
        text = json.dumps({"input_index": 0, "candidate_index": 0, "candidate": {**made, "output": {"say": "yes"}}})
        got = []
        for byte in (text + '\n\n{"candidates"').encode()[: len(text) + 1] + b'{"candidates": 1}\n':
            got += lines.feed(Part([byte]))
        lines.end()
        self.assertEqual([(i, candidate.decision.say) for i, candidate in got], [(0, "yes")])

    def test_answers_that_are_none_are_errors_of_the_package(self) -> None:
        gzip = {"Content-Encoding": "gzip"}
        late = "Mon, 01 Jan 0001 00:00:00 +9999"
        for name, answer, want in (
            ("broken gzip", lambda: httpx.Response(200, headers=gzip, stream=httpx.ByteStream(b"no")), ContractError),
            (
                "a refusal in it",
                lambda: httpx.Response(503, headers=gzip, stream=httpx.ByteStream(b"no")),
                ContractError,
            ),
            ("a deep refusal", lambda: httpx.Response(422, content=b"[" * 200_000), StatusError),
            ("a number as place", lambda: httpx.Response(422, json={"detail": [{"loc": 5, "msg": "no"}]}), StatusError),
            ("no place", lambda: httpx.Response(422, json={"detail": [{"loc": None, "msg": None}]}), StatusError),
            ("problems as texts", lambda: httpx.Response(422, json={"detail": ["no"]}), StatusError),
            ("a list as refusal", lambda: httpx.Response(422, json=[1]), StatusError),
            ("an odd date", lambda: httpx.Response(503, headers={"Retry-After": late}), StatusError),
            ("an odd redirection", lambda: httpx.Response(302, headers={"Location": "http://[x"}), AgentServerError),
            ("a circle", lambda: httpx.Response(302, headers={"Location": "/v1/responses"}), NetworkError),
        ):
            settings = {"transport": httpx.MockTransport(lambda _, answer=answer: answer()), "follow_redirects": True}
            with self.subTest(name), Client("http://server", http=settings, retry=Retry(attempts=1)) as client:
                for ask in (lambda: client.decide([Input("x")]), lambda: list(client.stream([Input("x")]))):
                    with self.assertRaises(want) as caught:
                        ask()
                    pickle.dumps(caught.exception)


if __name__ == "__main__":
    unittest.main()
