"""Simulations as environments whose observations are an agent's decisions.

A `World` is the simulator of one task. An environment asks the server for the decisions of all its worlds in one
request; an action chooses one of a world's candidates, or replaces them by a decision. `VectorEnvironment` has the
shape of gymnasium.vector.VectorEnv, `ParallelEnvironment` that of PettingZoo's ParallelEnv. Neither package is needed.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .calls import batches
from .client import Client
from .models import Candidate, Decision, Input
from .record import Recorder

Observation = tuple[Candidate, ...]
"""The candidates for a world's next step; none when its episode has ended."""

Action = int | Decision | None
"""The index of a candidate, or a decision in place of all. None is only for a world that has ended."""


class World(Protocol):
    """The simulator of one task. Memories are the environment's: an input that a step returns gets the new one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Input, dict[str, Any]]:
        """Begin an episode: its first input, and further facts."""

    def step(self, decision: Decision) -> tuple[Input, float, bool, bool, dict[str, Any]]:
        """Carry out a decision: the next input, the reward, whether the task has ended, whether it was cut short, facts."""


@dataclass
class _Turn:
    """What one world waits with."""

    input: Input
    candidates: Observation = ()
    request: int = -1  # index of the last request that asked for it
    position: int = 0  # in that request


class _Round:
    """A request whose outcomes are not all known."""

    def __init__(self, request: dict[str, Any], answer: list[Candidate]) -> None:
        self.request, self.answer = request, answer
        self.outcomes: list[dict[str, Any] | None] = [None] * len(answer)
        self.open = len(request["inputs"])


class _Environment:
    """What both shapes share: worlds by name."""

    def __init__(self, client: Client, worlds: Mapping[Any, World], candidates: int, recorder: Recorder | None) -> None:
        if not worlds:
            raise ValueError("worlds: must not be empty")
        if candidates < 1:
            raise ValueError(f"candidates: must be at least 1, not {candidates}")
        self._client, self._worlds, self._candidates, self._recorder = client, worlds, candidates, recorder
        self._turns: dict[Any, _Turn] = {}
        self._rounds: dict[int, _Round] = {}
        self._asked = 0
        self._run = str(uuid.uuid4())

    def _begin(
        self, names: Sequence[Any], seeds: Mapping[Any, int | None], options: dict[str, Any] | None
    ) -> dict[Any, dict[str, Any]]:
        facts = {}
        for name in names:
            self._settle(name, None)
            first, facts[name] = self._worlds[name].reset(seed=seeds.get(name), options=options)
            self._turns[name] = _Turn(first)
        self._ask(names)
        return facts

    def _ask(self, names: Sequence[Any]) -> None:
        """The candidates for the worlds' inputs, all in as few requests as the server takes."""
        if not names:
            return
        inputs = [replace(self._turns[name].input, id=i, num_outputs=self._candidates) for i, name in enumerate(names)]
        left = list(names)
        for request in batches(inputs, f"{self._run}-{self._asked}"):
            answer = self._client.respond(request)
            self._rounds[self._asked] = _Round(request, answer)
            for position, one in enumerate(request["inputs"]):
                turn, at = self._turns[left.pop(0)], position * self._candidates
                turn.candidates = tuple(answer[at : at + one["num_outputs"]])
                turn.request, turn.position = self._asked, position
            self._asked += 1

    def _act(self, actions: Mapping[Any, Action]) -> dict[Any, tuple[float, bool, bool, dict[str, Any]]]:
        """Carry out an action in each world, and ask for the next decisions of those that go on."""
        chosen = {name: self._choose(name, action) for name, action in actions.items()}  # before any world has changed
        results, onward = {}, []
        for name, (candidate, settle) in chosen.items():
            following, reward, terminated, truncated, facts = self._worlds[name].step(candidate.decision)
            settle(float(reward))
            # A world may make a memory of its own; else the agent's goes on.
            self._turns[name] = _Turn(replace(following, memory=following.memory or candidate.memory))
            results[name] = (float(reward), bool(terminated), bool(truncated), facts)
            if not (terminated or truncated):
                onward.append(name)
        self._ask(onward)
        return results

    def _choose(self, name: Any, action: Action) -> tuple[Candidate, Callable[[float], None]]:
        """What an action decides, and who is told of its reward."""
        turn = self._turns[name]
        if isinstance(action, Decision):
            return self._correct(name, action)
        index = int(action) if action is not None else -1
        if not 0 <= index < len(turn.candidates):
            raise ValueError(
                f"action of {name!r}: must be a Decision or the index of one of {len(turn.candidates)} candidates, "
                f"not {action!r}"
            )
        if turn.candidates[index].output is None:
            raise ValueError(
                f"action of {name!r}: candidate {index} has no decision; choose another one, or send a Decision"
            )
        return turn.candidates[index], lambda reward: self._settle(name, (index, reward))

    def _correct(self, name: Any, decision: Decision) -> tuple[Candidate, Callable[[float], None]]:
        """The server makes the memory that a corrected decision belongs to."""
        (request,) = batches([self._turns[name].input.corrected(decision)], f"{self._run}-{self._asked}")
        self._asked += 1
        answer = self._client.respond(request)

        def settle(reward: float) -> None:
            self._settle(name, None)
            if self._recorder is not None:
                self._recorder.write(request, answer, [{"reward": reward}], self._run)

        return answer[0], settle

    def _settle(self, name: Any, outcome: tuple[int, float] | None) -> None:
        """Note what became of a world's candidates, and record the request once all is known."""
        turn = self._turns.get(name)
        if turn is None or turn.request < 0:
            return
        asked = self._rounds[turn.request]
        if outcome is not None:
            asked.outcomes[turn.position * self._candidates + outcome[0]] = {"reward": outcome[1]}
        asked.open -= 1
        if asked.open == 0:
            del self._rounds[turn.request]
            if self._recorder is not None:
                self._recorder.write(asked.request, asked.answer, asked.outcomes, self._run)

    def close(self) -> None:
        """Record what is known of the last requests. The client stays open."""
        for asked in self._rounds.values():
            if self._recorder is not None:
                self._recorder.write(asked.request, asked.answer, asked.outcomes, self._run)
        self._rounds.clear()
        self._turns.clear()


class ParallelEnvironment(_Environment):
    """Worlds by name in the shape of PettingZoo's ParallelEnv. A world leaves `agents` when its episode ends."""

    metadata: dict[str, Any] = {"name": "agentd", "render_modes": []}

    def __init__(
        self, client: Client, worlds: Mapping[str, World], *, candidates: int = 1, recorder: Recorder | None = None
    ) -> None:
        super().__init__(client, worlds, candidates, recorder)
        self.possible_agents = list(worlds)
        self.agents: list[str] = []

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin all episodes. World i gets the seed seed+i."""
        self.agents = list(self.possible_agents)
        seeds = {} if seed is None else {name: seed + i for i, name in enumerate(self.agents)}
        facts = self._begin(self.agents, seeds, options)
        return {name: self._turns[name].candidates for name in self.agents}, facts

    def step(
        self, actions: Mapping[str, Action]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Carry out the actions of all that are in `agents`."""
        if set(actions) != set(self.agents):
            raise ValueError(f"actions: must be for {sorted(self.agents)}, not {sorted(actions)}")
        results = self._act({name: actions[name] for name in self.agents})
        self.agents = [name for name in self.agents if not (results[name][1] or results[name][2])]
        return (
            {name: self._turns[name].candidates for name in results},
            {name: result[0] for name, result in results.items()},
            {name: result[1] for name, result in results.items()},
            {name: result[2] for name, result in results.items()},
            {name: result[3] for name, result in results.items()},
        )

    def action_space(self, agent: str) -> Any:
        """gymnasium's space of the candidates of a world; needs gymnasium."""
        from gymnasium.spaces import Discrete  # type: ignore[import-not-found, unused-ignore]

        return Discrete(self._candidates)


class VectorEnvironment(_Environment):
    """A list of worlds in the shape of gymnasium.vector.VectorEnv.

    A world whose episode has ended begins another one in the next step, which ignores its action (gymnasium's autoreset
    mode NextStep). Results are lists, in the order of the worlds.
    """

    metadata: dict[str, Any] = {"autoreset_mode": "NextStep", "render_modes": []}

    def __init__(
        self, client: Client, worlds: Sequence[World], *, candidates: int = 1, recorder: Recorder | None = None
    ) -> None:
        super().__init__(client, dict(enumerate(worlds)), candidates, recorder)
        self.num_envs = len(worlds)
        self._ended: list[int] = []

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Observation], dict[str, Any]]:
        """Begin all episodes. A single seed is that of world 0, and world i gets seed+i."""
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: has {len(seed)} elements for {self.num_envs} worlds")
        self._ended = []
        facts = self._begin(range(self.num_envs), dict(enumerate(seed)), options)
        return self._observations(), {"worlds": [facts[i] for i in range(self.num_envs)]}

    def step(
        self, actions: Sequence[Action]
    ) -> tuple[list[Observation], list[float], list[bool], list[bool], dict[str, Any]]:
        """Carry out one action in each world."""
        if len(actions) != self.num_envs:
            raise ValueError(f"actions: has {len(actions)} elements for {self.num_envs} worlds")
        again = self._ended
        results: dict[int, tuple[float, bool, bool, dict[str, Any]]] = self._act(
            {i: action for i, action in enumerate(actions) if i not in again}
        )
        self._ended = [i for i, (_, terminated, truncated, _) in results.items() if terminated or truncated]
        if again:
            for i, facts in self._begin(again, {}, None).items():
                results[i] = (0.0, False, False, facts)
        ordered = [results[i] for i in range(self.num_envs)]
        rewards, terminations, truncations, worlds = (list(column) for column in zip(*ordered))
        return self._observations(), rewards, terminations, truncations, {"worlds": worlds}

    def _observations(self) -> list[Observation]:
        return [self._turns[i].candidates for i in range(self.num_envs)]

    @property
    def single_action_space(self) -> Any:
        """gymnasium's space of the candidates of a world; needs gymnasium."""
        from gymnasium.spaces import Discrete  # type: ignore[import-not-found, unused-ignore]

        return Discrete(self._candidates)

    @property
    def action_space(self) -> Any:
        """gymnasium's space of the actions of all worlds; needs gymnasium."""
        from gymnasium.spaces import MultiDiscrete  # type: ignore[import-not-found, unused-ignore]

        return MultiDiscrete([self._candidates] * self.num_envs)
