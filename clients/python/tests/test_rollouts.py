"""Rollouts that go on after their server, without a server."""

import json
import threading
import unittest
from typing import Any

import httpx
from agentd_client import ContractError, NetworkError, Rollouts, StatusError


def event(*ids: int, finish: str | None = None) -> str:
    scores = {"token_logprobs": [-float(i) for i in ids]}
    choice = {
        "index": 0,
        "text": "".join(map(chr, ids)),
        "token_ids": list(ids),
        "logprobs": scores,
        "finish_reason": finish,
    }
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


class Broken(httpx.SyncByteStream):
    """A body whose connection breaks."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __iter__(self) -> Any:
        yield self.text.encode()
        raise httpx.RemoteProtocolError("peer closed connection")


class Servers:
    """Answers with what it is given, in order, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers, self.bodies, self.hosts, self.lock = list(answers), [], [], threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self.lock:
            self.hosts.append(request.url.host)
            self.bodies.append(json.loads(request.content))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **settings: Any) -> Rollouts:
        settings = {"wait": 0.001, **settings}
        return Rollouts(["http://a", "http://b"], http={"transport": httpx.MockTransport(self)}, **settings)


class TestRollouts(unittest.TestCase):
    def test_another_server_goes_on_after_each_kind_of_end(self) -> None:
        paused = 'data: {"error": {"code": "503", "message": "paused"}}\n\ndata: [DONE]\n\n'
        servers = Servers(
            httpx.Response(200, stream=Broken(event(65, 66) + 'data: {"cho')),
            httpx.ConnectError("refused"),
            httpx.Response(200, text=event(67) + paused),
            httpx.Response(503, headers={"Retry-After": "1"}),
            httpx.Response(200, text=event(68)),
            httpx.Response(200, text=": keep-alive\n\n" + event(69, finish="stop") + "data: [DONE]\n\n"),
        )
        with servers.client() as client:
            done = client.complete("p", seed=3, max_tokens=9)
        self.assertEqual((done.text, done.token_ids, done.finish_reason), ("ABCDE", [65, 66, 67, 68, 69], "stop"))
        self.assertEqual((done.logprobs, done.resumed), ([-65, -66, -67, -68, -69], 5))
        self.assertEqual(
            [body.get("continue") for body in servers.bodies],
            [None, [[65, 66]], [[65, 66]], [[65, 66, 67]]] + [[[65, 66, 67]], [[65, 66, 67, 68]]],
        )
        self.assertEqual({body["seed"] for body in servers.bodies}, {3})
        self.assertEqual(set(servers.hosts), {"a", "b"})

    def test_a_refusal_is_raised_at_once(self) -> None:
        servers = Servers(httpx.Response(400, json={"error": {"message": "top_k: is -7", "code": "400"}}))
        with servers.client() as client, self.assertRaisesRegex(StatusError, "top_k: is -7"):
            client.complete([1, 2], seed=1, top_k=-7)
        self.assertEqual(len(servers.bodies), 1)

    def test_patience_ends(self) -> None:
        with Servers(httpx.ConnectError("refused")).client(patience=0.02) as client:
            with self.assertRaisesRegex(NetworkError, "refused"):
                client.complete("p", seed=1)

    def test_an_event_of_another_form_is_raised(self) -> None:
        with Servers(httpx.Response(200, text='data: {"choices": [{}]}\n\n')).client() as client:
            with self.assertRaises(ContractError):
                client.complete("p", seed=1)

    def test_fields_that_belong_to_the_client_are_refused(self) -> None:
        with Servers(httpx.ConnectError("refused")).client() as client, self.assertRaisesRegex(ValueError, "stream"):
            client.complete("p", seed=1, stream=False)
        with self.assertRaisesRegex(ValueError, "urls"):
            Rollouts([])
