"""Environments without a server: what a step does when something fails."""

import json
import math
import tempfile
import unittest
from pathlib import Path
from typing import Any

import httpx
from agentd_client import (
    Client,
    Decision,
    Input,
    NetworkError,
    ParallelEnvironment,
    Recorder,
    Retry,
    VectorEnvironment,
)


class Agents:
    """Answers every input with its instruction, unless it is away or refuses."""

    def __init__(self) -> None:
        self.away = False
        self.refused = ""
        self.ids: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        self.ids.append(asked["request_id"])
        if self.away:
            raise httpx.ReadError("away")
        outputs = []
        for one in asked["inputs"]:
            for i in range(one["num_outputs"]):
                made = {"request_id": asked["request_id"], "source_id": one["id"], "candidate_index": i, "memory": {}}
                says = one["extra_keys"].get("coaching", {}).get("decision", {}).get("say")
                if says == "no" or says is None and one["instruction"]["content"] == self.refused:
                    made |= {"status": "error", "error": {"code": "invalid_coaching", "message": "not so"}}
                else:
                    made |= {"status": "completed", "output": {"say": one["instruction"]["content"]}}
                outputs.append(made)
        return httpx.Response(200, json=outputs)

    def client(self) -> Client:
        return Client("http://server", http={"transport": httpx.MockTransport(self)}, retry=Retry(attempts=1))


class World:
    """Counts its steps. Its rewards are given; an exception among them is raised."""

    def __init__(self, *rewards: Any, facts: dict[str, Any] | None = None, length: int = 1000) -> None:
        self.rewards, self.facts, self.length = list(rewards), facts or {}, length
        self.steps = self.resets = 0
        self.seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Input, dict[str, Any]]:
        self.resets, self.seed = self.resets + 1, seed
        return Input(f"reset {self.resets}"), {}

    def step(self, decision: Decision) -> tuple[Input, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        reward = self.rewards.pop(0) if len(self.rewards) > 1 else self.rewards[0]
        if isinstance(reward, Exception):
            raise reward
        return Input(f"step {self.steps}"), reward, self.steps == self.length, False, self.facts


class TestSteps(unittest.TestCase):
    def setUp(self) -> None:
        self.path = Path(tempfile.mkdtemp()) / "exchanges.jsonl"
        self.recorder = Recorder(self.path)
        self.addCleanup(self.recorder.close)
        self.agents = Agents()

    def environment(self, *worlds: World, candidates: int = 1) -> VectorEnvironment:
        env = VectorEnvironment(self.agents.client(), worlds, candidates=candidates, recorder=self.recorder)
        env.reset()
        return env

    def outcomes(self) -> list[Any]:
        return [json.loads(line)["outcomes"] for line in self.path.read_text().splitlines()]

    def test_a_reward_that_is_no_number_names_its_world_and_keeps_the_others(self) -> None:
        for wrong in (math.nan, math.inf, None, "much"):
            worlds = World(1.0), World(wrong, 0.5), World(-1)
            env = self.environment(*worlds)
            with self.assertRaisesRegex(ValueError, "reward of 1: must be a finite number"):
                env.step([0, 0, 0])
            self.assertEqual([world.steps for world in worlds], [1, 1, 1])
            _, rewards, *_ = env.step([0, 0, 0])
            self.assertEqual((rewards, [world.steps for world in worlds]), ([1.0, 0.5, -1.0], [1, 2, 1]))
        good, bad = {"outcome": "success", "reward": 1.0}, {"outcome": "failure", "reward": -1.0}
        self.assertEqual(self.outcomes(), [[good, {"outcome": "success", "reward": 0.5}, bad]] * 4)

    def test_a_world_that_raises_takes_its_step_again(self) -> None:
        worlds = World(OSError("the simulator"), 1.0), World(2.0)
        env = self.environment(*worlds)
        with self.assertRaisesRegex(OSError, "the simulator"):
            env.step([0, 0])
        self.assertEqual(env.step([0, 0])[1], [1.0, 2.0])
        self.assertEqual([world.steps for world in worlds], [2, 1])

    def test_a_step_goes_on_when_the_server_is_back(self) -> None:
        worlds = World(1.0), World(0.0, length=1), World(-1.0)
        env = self.environment(*worlds)
        env.step([0, 0, 0])
        for _ in range(2):
            self.agents.away = True
            with self.assertRaises(NetworkError):
                env.step([0, None, 0])
        self.agents.away = False
        observations, rewards, terminations, *_ = env.step([0, None, 0])
        self.assertEqual((rewards, terminations), ([1.0, 0.0, -1.0], [False] * 3))
        self.assertEqual([found[0].decision.say for found in observations], ["step 2", "reset 2", "step 2"])
        self.assertEqual([(world.steps, world.resets) for world in worlds], [(2, 1), (1, 2), (2, 1)])
        self.assertEqual(len(set(self.agents.ids[-3:])), 1, "the same request has the same id")
        self.assertEqual(env.step([0, 0, 0])[1], [1.0, 0.0, -1.0])

    def test_worlds_by_name_go_on_when_the_server_is_back(self) -> None:
        worlds = {"a": World(1.0), "b": World(0.5, length=1)}
        env = ParallelEnvironment(self.agents.client(), worlds)
        self.assertIs(env.unwrapped, env)
        env.reset()
        self.agents.away = True
        with self.assertRaises(NetworkError):
            env.step({"a": 0, "b": 0})
        self.agents.away = False
        self.assertEqual(env.step({"a": 0, "b": 0})[1], {"a": 1.0, "b": 0.5})
        self.assertEqual((env.agents, worlds["a"].steps, worlds["b"].steps), (["a"], 1, 1))

    def test_a_full_disk_keeps_results_and_lines(self) -> None:
        class Full(Recorder):
            full = True

            def write(self, *arguments: Any) -> None:
                if self.full:
                    raise OSError("no space left")
                super().write(*arguments)

        self.recorder.close()
        self.recorder = full = Full(self.path)
        worlds = World(1.0), World(2.0)
        env = self.environment(*worlds)
        for _ in range(2):
            with self.assertRaisesRegex(OSError, "no space"):
                env.step([0, 0])
        full.full = False
        self.assertEqual(env.step([0, 0])[1], [1.0, 2.0])
        self.assertEqual(([world.steps for world in worlds], len(self.outcomes())), ([1, 1], 1))
        full.close()

    def test_a_line_that_was_cut_is_written_again_on_its_own_line(self) -> None:
        class Disk:
            """Takes ten bytes, then is full until it is emptied."""

            def __init__(self, path: Path) -> None:
                self.file, self.free = open(path, "ab", buffering=0), 10

            def write(self, data: bytes) -> int:
                if not self.free:
                    raise OSError("no space left")
                written = self.file.write(data[: self.free])
                self.free -= written
                return written

        disk = Disk(self.path)
        self.recorder._file.close()
        self.recorder._file = disk  # type: ignore[assignment]
        request = {"request_id": "r", "inputs": []}
        with self.assertRaises(OSError):
            self.recorder.write(request, [])
        disk.free = 1 << 20
        self.recorder.write(request, [])
        self.recorder.write(request, [])
        disk.file.close()
        cut, *whole = self.path.read_text().splitlines()
        self.assertEqual((len(cut), [json.loads(line)["request"] for line in whole]), (10, [request, request]))
        self.recorder._file = open(self.path, "ab", buffering=0)

    def test_a_seed_is_an_integer_of_any_type_or_one_for_each_world(self) -> None:
        class Number:  # such as numpy.int64, which is no int
            def __index__(self) -> int:
                return 5

        worlds = World(1.0), World(1.0)
        env = self.environment(*worlds)
        for seed, want in ((None, [None, None]), (5, [5, 6]), (Number(), [5, 6]), ([7, None], [7, None])):
            env.reset(seed=seed)  # type: ignore[arg-type]
            self.assertEqual([world.seed for world in worlds], want)

    def test_wrong_actions_change_nothing(self) -> None:
        worlds = World(1.0), World(1.0)
        env = self.environment(*worlds, candidates=2)
        for action in (0.9, "0", True, -1, 2, None, [0], math.nan):
            with self.assertRaisesRegex(ValueError, "action of 1: must be a Decision or the index of one of 2"):
                env.step([0, action])
        with self.assertRaisesRegex(ValueError, "action of 1: the server refuses the decision: .*not so"):
            env.step([0, Decision(say="no")])
        self.assertEqual([world.steps for world in worlds], [0, 0])
        self.assertEqual(env.step([0, 1])[1], [1.0, 1.0])

    def test_none_ends_a_world_whose_candidates_failed(self) -> None:
        worlds = World(1.0), World(1.0)
        env = self.environment(*worlds, candidates=2)
        self.agents.refused = "step 1"
        env.step([0, 0])
        with self.assertRaisesRegex(ValueError, "action of 0: candidate 1 has no decision: invalid_coaching: not so; "):
            env.step([1, None])
        observations, rewards, ended, cut, _ = env.step([Decision(say="go"), None])
        self.assertEqual((rewards, ended, cut), ([1.0, 0.0], [False, False], [False, True]))
        self.assertEqual(([len(found) for found in observations], worlds[1].steps), ([2, 0], 1))
        observations, _, ended, cut, _ = env.step([0, None])
        self.assertEqual((ended, cut, observations[1][0].decision.say), ([False] * 2, [False] * 2, "reset 2"))
        self.assertIn([None] * 4, self.outcomes())

    def test_a_step_needs_an_episode(self) -> None:
        env = VectorEnvironment(self.agents.client(), [World(1.0)])
        with self.assertRaisesRegex(ValueError, "call reset first"):
            env.step([0])

    def test_outcomes_are_those_of_the_facts_or_of_the_reward(self) -> None:
        for facts, reward, want in (
            ({}, 1, "success"),
            ({}, -1, "failure"),
            ({}, 0, None),
            ({"is_success": True}, 0, "success"),
            ({"is_success": False}, 1, "failure"),
            ({"outcome": "dropped", "is_success": True}, 1, "dropped"),
            ({"outcome": 3}, 1, "success"),
        ):
            env = self.environment(World(reward, facts=facts))
            env.step([0])
            env.close()
            expected = {"reward": float(reward)} | ({"outcome": want} if want else {})
            self.assertEqual(self.outcomes()[-2:], [[expected], [None]], facts)


if __name__ == "__main__":
    unittest.main()
