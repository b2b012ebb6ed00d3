"""Tasks of the simulated household, from the program in tasks/."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from agentd_client import Candidate, Decision, Input, Instruction


class Simulator:
    """The tasks of training houses; with `-eval` tasks in houses, words and wordings that no training has."""

    def __init__(self, program: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def __enter__(self) -> "Simulator":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def _ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("the simulator has ended; its error is above")
        return json.loads(answer)

    def input(self, seed: int, num_outputs: int, **extra_keys: Any) -> Input:
        """The task of a seed as an input for agentd."""
        raw = self._ask(seed=seed)["input"]
        return Input(
            Instruction(raw["instruction"]["content"], raw["instruction"]["type"]),
            tools=raw.get("tools", ()),
            attributes=raw.get("attributes", {}),
            memory=raw.get("memory", {}),
            num_outputs=num_outputs,
            extra_keys=extra_keys,
        )

    def rewards(self, seed: int, candidates: Sequence[Candidate]) -> list[float]:
        """The reward of each candidate: 1 for the right decision, else the share of right calls. An error earns 0."""
        made = [candidate.output or Decision("") for candidate in candidates]
        earned = self._ask(seed=seed, decisions=[decision.to_json() for decision in made])["rewards"]
        return [reward if candidate.output else 0.0 for candidate, reward in zip(candidates, earned)]

    def request(self, seed: int, request_id: str, position: int, candidates: int) -> dict[str, Any]:
        """What agentd asks its engine for a task that is an input of a request: `prompt`, `grammar` and `seeds`."""
        said = {"request_id": request_id, "input": position, "candidates": candidates}
        return self._ask(seed=seed, request=said)

    def rewards_of_texts(self, seed: int, texts: Sequence[str]) -> list[float]:
        """The reward of each completion, which is read as agentd reads it."""
        return self._ask(seed=seed, texts=texts)["rewards"]
