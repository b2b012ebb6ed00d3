"""The client against a running agentd that serves the default model. AGENTD_URL names it.

AGENTD_URL=http://127.0.0.1:8888 python -m unittest discover -s tests
"""

import asyncio
import dataclasses
import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from agentd_client import (
    AsyncClient,
    Client,
    Decision,
    Input,
    Instruction,
    NetworkError,
    ParallelEnvironment,
    Recorder,
    Retry,
    StatusError,
    VectorEnvironment,
)

URL = os.environ.get("AGENTD_URL", "")

TOOLS = [
    {"name": "go_to", "description": "Drive to a room.", "parameters": {"room": {"type": "string"}}},
    {"name": "pick_up", "description": "Pick up an object.", "parameters": {"object": {"type": "string"}}},
]
CUP = Input(
    "rover, bring the red cup from the table in the kitchen to the shelf in the hall.",
    tools=TOOLS,
    attributes={"known_robots": ["rover", "scout"]},
    extra_keys={"inference_mode": True},
)


class Errand:
    """A world: the cup's errand, which ends after two steps in the kitchen. A step elsewhere costs."""

    def __init__(self) -> None:
        self.steps = 0
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Input, dict[str, Any]]:
        self.steps = 0
        self.seeds.append(seed)
        return CUP, {"seed": seed}

    def step(self, decision: Decision) -> tuple[Input, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        there = any(call.arguments == {"room": "kitchen"} for call in decision.tool_calls)
        following = Input(
            Instruction("rover is in the kitchen. There: table, red cup.", "env"),
            tools=TOOLS,
            attributes=CUP.attributes,
            extra_keys=CUP.extra_keys,
        )
        return following, 1.0 if there else -0.5, self.steps == 2, False, {"there": there}


@unittest.skipUnless(URL, "AGENTD_URL names no server")
class TestServer(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(URL)
        self.addCleanup(self.client.close)

    def test_health_and_info_describe_the_server(self) -> None:
        self.assertEqual(self.client.health(), "ready")
        info = self.client.info()
        self.assertEqual((info.agent_id, info.capabilities["inference"]), ("full-history-agent", True))

    def test_lines_have_the_candidates_of_the_answer(self) -> None:
        inputs = [CUP, dataclasses.replace(CUP, num_outputs=3)]
        want = self.client.decide(inputs)
        got: list[list[Decision | None]] = [[None], [None] * 3]
        for i, candidate in self.client.stream(inputs):
            got[i][candidate.candidate_index] = candidate.decision
        self.assertEqual(got, [[candidate.decision for candidate in each] for each in want])

    def test_two_turns_go_on_with_the_memory(self) -> None:
        ((first,),) = self.client.decide([CUP])
        self.assertEqual(
            [(c.name, c.arguments, c.target_robot_name) for c in first.decision.tool_calls],
            [("go_to", {"room": "kitchen"}, "rover")],
        )
        ((second,),) = self.client.decide(
            [CUP.next(first, Instruction("rover is in the kitchen. There: table, red cup.", "env"))]
        )
        self.assertEqual(len(second.memory["history"]), 4)
        self.assertEqual(second.memory["history"][:2], first.memory["history"])

    def test_both_clients_get_the_same(self) -> None:
        inputs = [CUP, Input("scout, go to the hall.", tools=TOOLS, attributes=CUP.attributes, num_outputs=3)]
        here = self.client.decide(inputs, request_id="same")

        async def ask() -> list:
            async with AsyncClient(URL) as client:
                return await client.decide(inputs, request_id="same")

        there = asyncio.run(ask())
        self.assertEqual([len(found) for found in here], [1, 3])
        self.assertEqual([[c.output for c in found] for found in here], [[c.output for c in found] for found in there])

    def test_a_correction_is_applied_and_remembered(self) -> None:
        ((corrected,),) = self.client.decide([CUP.corrected(Decision(say="Which shelf?"))])
        self.assertEqual(corrected.decision.say, "Which shelf?")
        self.assertIn("Which shelf?", corrected.memory["history"][1]["content"])

    def test_invalid_input_is_refused_with_its_place(self) -> None:
        with self.assertRaises(StatusError) as caught:
            self.client.decide([Input("x", memory={"history": 3})])
        self.assertEqual(caught.exception.status, 422)
        self.assertEqual(caught.exception.problems[0]["loc"][:3], ["body", "inputs", 0])

    def test_a_failed_candidate_stays_in_its_place(self) -> None:
        (bad,), (good,) = self.client.decide([Input("x", tools=[{}]), CUP])
        self.assertEqual((bad.status, bad.error.code, good.status), ("error", "invalid_tools", "completed"))

    def test_a_coaching_session_answers_and_ends(self) -> None:
        ((failed,),) = self.client.decide([CUP])
        request = {
            "run_id": "run/1 é",
            "request_id": "c1",
            "kind": "failure",
            "stage": {"id": 0, "goal": "the cup is on the shelf"},
            "target_step_id": 0,
            "trajectory": [
                {
                    "id": 0,
                    "input": CUP.to_json(),
                    "output": failed.decision.to_json(),
                    "internal_steps": failed.internal_steps,
                }
            ],
            "reinjection_points": [{"id": "p", "input_step_id": 0}],
        }
        config = {
            "backends": {
                "here": {"type": "openai", "endpoint": f"{URL}/v1", "default_model": "agentd household", "max_retry": 0}
            }
        }
        with self.client.session("run/1 é", config):
            self.client.put_session("run/1 é", config)  # the same again
            with self.assertRaises(StatusError) as caught:
                self.client.put_session("run/1 é", {**config, "connect_timeout": 3})
            self.assertEqual(caught.exception.status, 409)
            answer = self.client.coach(request)
            self.assertIn(answer.status, ("corrected", "abandoned", "error"))
            self.assertEqual(self.client.coach(request).status, answer.status)
        with self.assertRaises(StatusError) as caught:
            self.client.coach(request)
        self.assertEqual(caught.exception.status, 404)

    def test_a_port_without_a_server_is_a_network_error(self) -> None:
        with Client("http://127.0.0.1:1", retry=Retry(attempts=2, first=0.0)) as client:
            with self.assertRaises(NetworkError):
                client.info()


@unittest.skipUnless(URL, "AGENTD_URL names no server")
class TestEnvironments(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(URL)
        self.addCleanup(self.client.close)
        self.path = Path(tempfile.mkdtemp()) / "exchanges.jsonl"
        self.recorder = Recorder(self.path)
        self.addCleanup(self.recorder.close)

    def recorded(self) -> list[dict]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def test_vector_environment_resets_worlds_that_ended(self) -> None:
        worlds = [Errand(), Errand(), Errand()]
        env = VectorEnvironment(self.client, worlds, candidates=2, recorder=self.recorder)
        observations, infos = env.reset(seed=5)
        self.assertEqual([len(found) for found in observations], [2, 2, 2])
        self.assertEqual([facts["seed"] for facts in infos["worlds"]], [5, 6, 7])
        observations, rewards, terminations, truncations, _ = env.step([0, 1, Decision(say="Which shelf?")])
        self.assertEqual((rewards, terminations), ([1.0, 1.0, -0.5], [False] * 3))
        self.assertEqual(len(observations[0][0].memory["history"]), 4)
        observations, _, terminations, truncations, _ = env.step([0, 0, 0])
        self.assertEqual((observations, terminations, truncations), ([(), (), ()], [True] * 3, [False] * 3))
        observations, rewards, terminations, _, infos = env.step([None] * 3)
        self.assertEqual((rewards, terminations), ([0.0] * 3, [False] * 3))
        self.assertEqual([len(found[0].memory["history"]) for found in observations], [2, 2, 2])
        env.close()
        lines = self.recorded()
        self.assertEqual(len(lines), 4, "the first turn, the correction, the second turn, the turn after the reset")
        correction = next(line for line in lines if "coaching" in line["request"]["inputs"][0]["extra_keys"])
        self.assertEqual(correction["outcomes"], [{"outcome": "failure", "reward": -0.5}])
        first = next(line for line in lines if len(line["response"]) == 6)
        good = {"outcome": "success", "reward": 1.0}
        self.assertEqual(first["outcomes"], [good, None, None, good, None, None])

    def test_parallel_environment_drops_agents_that_ended(self) -> None:
        env = ParallelEnvironment(self.client, {"a": Errand(), "b": Errand()}, recorder=self.recorder)
        observations, infos = env.reset(seed=1)
        self.assertEqual((sorted(observations), infos["b"]["seed"]), (["a", "b"], 2))
        while env.agents:
            observations, rewards, terminations, truncations, infos = env.step({name: 0 for name in env.agents})
            self.assertTrue(set(observations) == set(rewards) == set(terminations) == set(truncations) == set(infos))
        self.assertEqual(terminations, {"a": True, "b": True})
        env.close()
        self.assertEqual([len(line["response"]) for line in self.recorded()], [2, 2])

    def test_actions_that_choose_nothing_are_refused(self) -> None:
        env = VectorEnvironment(self.client, [Errand()], candidates=2)
        env.reset()
        for action in (2, -1, None):
            with self.assertRaisesRegex(ValueError, "action of 0"):
                env.step([action])
        with self.assertRaisesRegex(ValueError, "1 worlds"):
            env.step([0, 0])


if __name__ == "__main__":
    unittest.main()
