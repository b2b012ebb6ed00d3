"""Tests of the program against a server that answers what a test says."""

import contextlib
import http.server
import json
import signal
import socketserver
import subprocess
import sys
import threading
import time
import types
import unittest

import servers
import tables
import turns
from ask import Answer, Chat, Responses
from benchmark import TURNS, Benchmark
from judge import judge, summary, wilson

BENCHMARK = Benchmark()
AREA = {"calculate_triangle_area": {"base": 10, "height": 5}}


def item(category: str, number: int) -> dict:
    return BENCHMARK.items(category, number, 1)[0]


@contextlib.contextmanager
def answering(*answers: tuple[int, object]):
    """A server that gives these answers in turn, and then none. It yields its URL and the bodies it got."""
    bodies, left = [], list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.give(200, {"data": [{"id": "some-model"}]})

        def do_POST(self):
            bodies.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            if left:
                self.give(*left.pop(0))
            else:
                threading.Event().wait()

        def give(self, status: int, answer: object):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", bodies
        finally:
            server.shutdown()


def completion(*calls: tuple[str, str], text: str | None = None, finish: str = "stop") -> tuple[int, dict]:
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [{"id": f"c{i}", "type": "function", "function": f} for i, f in enumerate(functions)]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 30, "completion_tokens": 4}}


def decision(output: dict | None, error: dict | None = None, **generation) -> tuple[int, list]:
    step = {
        "output_raw": "raw",
        "input_elements": {"generation": {"prompt_tokens": 30, "completion_tokens": 4} | generation},
    }
    rest = {"status": "error", "error": error} if error else {"status": "completed", "output": output}
    return 200, [{"internal_steps": [step], **rest}]


class Judging(unittest.TestCase):
    def judged(self, category: str, number: int, **answer) -> dict:
        return judge(BENCHMARK, category, item(category, number), Answer(**answer))

    def test_right_calls_are_right(self):
        dotted = {"math_factorial": {"number": 5}}
        played = [{"spotify_play": {"artist": a, "duration": d}} for a, d in [("Maroon 5", 15), ("Taylor Swift", 20)]]
        for category, number, calls in [
            ("simple_python", 0, [AREA]),
            ("simple_python", 1, [dotted]),
            ("parallel", 0, played),
        ]:
            found = self.judged(category, number, calls=calls)
            self.assertEqual((True, ""), (found["right"], found["wrong"]), found["why"])

    def test_wrong_answers_have_their_kind(self):
        float_for_integer = {"calculate_triangle_area": {"base": 10.5, "height": 5}}
        for want, answer in {
            "no call": {"text": json.dumps(AREA)},
            "tool": {"calls": [{"area": AREA["calculate_triangle_area"]}]},
            "argument": {"calls": [float_for_integer]},
            "count": {"calls": [AREA, AREA]},
            "cut": {"cut": True},
            "error": {"error": "status 500"},
        }.items():
            found = self.judged("simple_python", 0, **answer)
            self.assertEqual((False, want), (found["right"], found["wrong"]), found)
            self.assertTrue(found["why"])

    def test_of_two_calls_one_with_another_argument_is_wrong(self):
        played = [{"spotify_play": {"artist": a, "duration": 20}} for a in ("Maroon 5", "Taylor Swift")]
        self.assertEqual("argument", self.judged("parallel", 0, calls=played)["wrong"])

    def test_for_irrelevance_only_an_answer_without_call_is_right(self):
        name = BENCHMARK.tools(item("irrelevance", 0))[0]["name"]
        self.assertTrue(self.judged("irrelevance", 0, text="I can't.")["right"])
        self.assertTrue(self.judged("irrelevance", 0, text="On and on", cut=True)["right"])
        self.assertEqual("call", self.judged("irrelevance", 0, calls=[{name: {}}])["wrong"])
        self.assertEqual("error", self.judged("irrelevance", 0, error="refused")["wrong"])

    def test_summary_counts(self):
        records = [self.judged("simple_python", 0, calls=[AREA], form="bare", prompt_tokens=3)]
        records += [self.judged("simple_python", 0, prompt_tokens=4, cut=cut) for cut in (False, False, True)]
        found = summary(records, 2.04)
        want = {"right": 1, "of": 4, "wrong": {"no call": 2, "cut": 1}, "cut": 1, "prompt_tokens": 15, "seconds": 2.0}
        self.assertEqual(want | {"forms": {"bare": 1}}, {k: found[k] for k in [*want, "forms"]})
        result = {"server": "s", "model": "m", "way": "chat", "tool_choice": "", "categories": {"simple_python": found}}
        self.assertIn(
            "| simple_python | 1 of 4 | 25 % (5 to 70) | 1 | 2 | 1 | 15 | 0 | 2.0 | bare 1 |", tables.detailed(result)
        )
        self.assertIn("| s, m, chat | s, m, chat |\n", tables.compared([result, result]))
        self.assertIn("expected: [{'calculate_triangle_area'", tables.wrong_answers(records, 1))

    def test_interval_is_wilsons(self):
        # From the formula's inverse: the ends are the shares whose own normal interval just reaches 34 of 40.
        for right, of in [(34, 40), (0, 40), (40, 40), (1, 3)]:
            low, high = wilson(right, of)
            self.assertTrue(0 <= low <= right / of <= high <= 1)
            for end in {low, high} - {0.0, 1.0}:
                self.assertAlmostEqual(abs(right / of - end), 1.959964 * (end * (1 - end) / of) ** 0.5)
        self.assertEqual((0.0, 1.0), wilson(0, 0))


class Translation(unittest.TestCase):
    def test_names_and_types_are_those_of_openais_api(self):
        self.assertEqual("math_factorial", BENCHMARK.tools(item("simple_python", 1))[0]["name"])
        seen = set()

        def walk(schema: dict):
            seen.add(schema["type"])
            for part in [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]:
                if "type" in part:
                    walk(part)

        for category in ("simple_python", "multiple", "live_simple", TURNS):
            for entry in BENCHMARK.items(category, 0, 400):
                for tool in BENCHMARK.tools(entry):
                    self.assertNotIn(".", tool["name"])
                    self.assertNotIn("response", tool)
                    walk(tool["parameters"])
        self.assertEqual({"object", "string", "integer", "number", "boolean", "array"}, seen)

    def test_items_left_out_come_first(self):
        self.assertEqual(
            ["live_simple_2-2-0", "live_simple_3-2-1"], [e["id"] for e in BENCHMARK.items("live_simple", 2, 2)]
        )


class Asking(unittest.TestCase):
    def test_chat_reads_calls_and_tokens(self):
        calls = [("area", '{"base": 1}'), ("area", "{"), ("area", "[]")]
        with answering(completion(*calls, finish="length"), (500, {"error": "full"})) as (url, bodies):
            way = Chat(url, "required", 99, 5)
            found = way.ask([{"role": "user", "content": "Area?"}], [{"name": "area"}], True)
            failed = way.ask([], [], False)
        self.assertEqual(
            ([{"area": {"base": 1}}], ["c0"], True, 30, 4),
            (found.calls, found.ids, found.cut, found.prompt_tokens, found.completion_tokens),
        )
        self.assertIn("'[]'", found.broken)
        self.assertIn("full", failed.error)
        path, body = bodies[0]
        want = {
            "model": "some-model",
            "temperature": 0,
            "max_tokens": 99,
            "tool_choice": "required",
            "parallel_tool_calls": True,
        }
        self.assertEqual(("/v1/chat/completions", want), (path, {k: body[k] for k in want}))
        self.assertEqual([{"type": "function", "function": {"name": "area"}}], body["tools"])

    def test_responses_reads_calls_form_and_errors(self):
        called = {"say": "", "tool_calls": [{"name": "area", "arguments": {"base": 1}, "target_robot_name": "robot"}]}
        answers = [
            decision(called, call_form="fenced"),
            decision(None, {"code": "truncated", "message": "m"}),
            decision(None, {"code": "invalid_output", "message": "m"}),
        ]
        talk = [{"role": r, "content": c} for r, c in [("system", "Rule."), ("user", "A"), ("user", "B")]]
        with answering(*answers) as (url, bodies):
            way = Responses(url, "", 99, 5)
            found, cut, invalid = (way.ask(talk, [{"name": "area"}], False) for _ in answers)
        self.assertEqual(
            ([{"area": {"base": 1}}], "fenced", 30, 4),
            (found.calls, found.form, found.prompt_tokens, found.completion_tokens),
        )
        self.assertEqual((True, "", []), (cut.cut, cut.error, cut.calls))
        self.assertEqual((False, "invalid_output: m"), (invalid.cut, invalid.error))
        sent = bodies[0][1]["inputs"][0]
        self.assertEqual({"inference_mode": True}, sent["extra_keys"])
        self.assertEqual({"type": "user", "content": "B"}, sent["instruction"])
        self.assertEqual({"memory_list": ["Rule."], "history": [{"author": "USER", "content": "A"}]}, sent["memory"])


class Turns(unittest.TestCase):
    def entry(self, number: int, name: str) -> dict:
        """An item under its own name: the executor keeps the services of a name."""
        return item(TURNS, number) | {"id": f"{TURNS}_{name}"}

    def test_calls_of_the_expected_answers_are_right(self):
        # The second item: all its calls have names for their arguments.
        entry, answers = self.entry(1, "right"), []
        for turn in entry["expected"]:
            for line in turn:
                call = {}
                exec(line.replace("(", "=dict(", 1), {}, call)
                answers.append(completion(*((n, json.dumps(a)) for n, a in call.items())))
            answers.append(completion(text="Done."))
        with answering(*answers) as (url, bodies):
            found = turns.play(BENCHMARK, Chat(url, "", 99, 5), entry, 20)
        self.assertEqual(
            (True, "", len(answers) * 30), (found["right"], found["wrong"] + found["why"], found["prompt_tokens"])
        )
        roles = [m["role"] for m in bodies[-1][1]["messages"]]
        self.assertEqual(["user", "assistant", "tool", "assistant"], roles[:4])
        self.assertIn("current_directory_content", json.dumps(bodies[2][1]["messages"]))

    def test_replies_alone_are_wrong(self):
        entry = self.entry(1, "silent")
        with answering(*[completion(text="No.")] * len(entry["question"])) as (url, _):
            found = turns.play(BENCHMARK, Chat(url, "", 99, 5), entry, 20)
        self.assertEqual("empty_turn_model_response", found["wrong"])

    def test_a_turn_without_end_is_wrong(self):
        with answering(*[completion(("ls", "{}"))] * 3) as (url, _):
            found = turns.play(BENCHMARK, Chat(url, "", 99, 5), self.entry(1, "endless"), 3)
        self.assertEqual("steps", found["wrong"])

    def test_an_error_ends_the_item(self):
        with answering((400, {"error": "too long"})) as (url, _):
            found = turns.play(BENCHMARK, Chat(url, "", 99, 5), self.entry(1, "failed"), 3)
        self.assertEqual(("error", True), (found["wrong"], "too long" in found["why"]))

    def test_what_is_no_call_of_a_tool_is_not_executed(self):
        tools = [{"name": "ls", "parameters": {"properties": {"a": {}}}}]
        calls = [{"ls": {"a": "x')\n"}}, {"print(1) or ls": {}}, {"ls": {"a=1, b": 2}}]
        self.assertEqual(['ls(a="x\')\\n")', None, None], turns.written(calls, tools))


class Servers(unittest.TestCase):
    FAKE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler).serve_forever()
"""

    def test_a_server_ends_with_the_block_whatever_ends_it(self):
        started = []
        popen = subprocess.Popen
        fake = types.SimpleNamespace(
            **vars(subprocess) | {"Popen": lambda *a, **k: started.append(popen(*a, **k)) or started[-1]}
        )
        servers.subprocess = fake
        self.addCleanup(setattr, servers, "subprocess", subprocess)
        with self.assertRaises(KeyboardInterrupt), servers.serving([sys.executable, "-c", self.FAKE]):
            self.assertIsNone(started[0].poll())
            raise KeyboardInterrupt
        self.assertIsNotNone(started[0].poll())

    def test_a_server_that_ends_by_itself_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "ended with 3"), servers.serving([sys.executable, "-c", "exit(3)"]):
            self.fail("it was ready")

    def test_a_signal_ends_the_program_while_it_waits_for_answers(self):
        program = [sys.executable, "-B", str(servers.HERE), "--categories", "simple_python", "--items", "9", "--server"]
        with answering() as (url, bodies):
            running = subprocess.Popen([*program, url])
            while len(bodies) < 4 and running.poll() is None:
                time.sleep(0.05)
            running.send_signal(signal.SIGTERM)
            self.assertEqual(130, running.wait())
        self.assertEqual(4, len(bodies))  # clients at a time

    def test_only_several_calls_need_an_option_of_agentd(self):
        for server in servers.NAMES:
            one, several = (servers.command(server, "m", 4, 512, b) for b in (False, True))
            self.assertEqual(["--calls-per-robot", "any"] if server == "agentd" else [], several[len(one) :])
            self.assertEqual(one, several[: len(one)])


if __name__ == "__main__":
    unittest.main()
