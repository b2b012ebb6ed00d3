"""Simulations as environments whose observations are an agent's decisions.

A `World` is the simulator of one task. An environment asks the server for the decisions of all its worlds in one
request; an action chooses one of a world's candidates, or replaces them by a decision. `VectorEnvironment` has the
shape of gymnasium.vector.VectorEnv, `ParallelEnvironment` that of PettingZoo's ParallelEnv. Neither package is needed.
"""

import math
import operator
import uuid
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .calls import batches
from .client import Client
from .models import Candidate, Decision, Input
from .record import Recorder

Observation = tuple[Candidate, ...]
"""The candidates for a world's next step; none when its episode has ended."""

Action = int | Decision | None
"""The index of a candidate, or a decision in place of all. None is for a world that has ended, and ends an episode as
cut short where all candidates failed."""


class World(Protocol):
    """The simulator of one task. Memories are the environment's: an input that a step returns gets the new one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Input, dict[str, Any]]:
        """Begin an episode: its first input, and further facts."""

    def step(self, decision: Decision) -> tuple[Input, float, bool, bool, dict[str, Any]]:
        """Carry out a decision: the next input, the reward, whether the task has ended, whether it was cut short, facts.

        The reward is a finite number. What became of the decision is recorded for `agentd export`: the word of the fact
        `outcome`; else `success` or `failure` by the fact `is_success`; else by the sign of the reward. Nothing is known
        of a reward of 0.
        """


_Result = tuple[float, bool, bool, dict[str, Any]]
"""What the step of a world gave: the reward, whether the task has ended, whether it was cut short, facts."""


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
        self._unwritten: list[tuple[dict[str, Any], list[Candidate], list[dict[str, Any] | None]]] = []
        self._pending: dict[Any, _Result] | None = None  # results of a step that has not ended
        self._asked = 0
        self._run = str(uuid.uuid4())

    def _begin(
        self, names: Sequence[Any], seeds: Mapping[Any, int | None], options: dict[str, Any] | None
    ) -> dict[Any, dict[str, Any]]:
        """Begin an episode in each world."""
        self._pending = None
        facts = {name: self._reset(name, seeds.get(name), options) for name in names}
        self._write()
        self._ask(names)
        return facts

    def _reset(self, name: Any, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        first, facts = self._worlds[name].reset(seed=seed, options=options)
        self._settle(name, None)
        self._turns[name] = _Turn(first)
        return facts

    def _ask(self, names: Sequence[Any]) -> None:
        """The candidates for the worlds' inputs that have none, all in as few requests as the server takes."""
        left = [name for name in names if not self._turns[name].candidates]
        if not left:
            return
        inputs = [replace(self._turns[name].input, id=i, num_outputs=self._candidates) for i, name in enumerate(left)]
        for request in batches(inputs, f"{self._run}-{self._asked}"):
            answer = self._client.respond(request)
            self._rounds[self._asked] = _Round(request, answer)
            for position, one in enumerate(request["inputs"]):
                turn, at = self._turns[left.pop(0)], position * self._candidates
                turn.candidates = tuple(answer[at : at + one["num_outputs"]])
                turn.request, turn.position = self._asked, position
            self._asked += 1

    def _act(self, actions: Mapping[Any, Action], again: Sequence[Any] = ()) -> dict[Any, _Result]:
        """Carry out an action in each world, and ask for the next decisions of those that go on.

        Worlds in `again` begin another episode. After an exception the next call goes on where this one stopped: a world
        that has taken its step keeps its result, and takes no second one.
        """
        results = self._pending or {}
        left = {name: action for name, action in actions.items() if name not in results}
        chosen = {name: self._choose(name, action) for name, action in left.items()}  # before any world changes
        self._pending = results
        failed: Exception | None = None
        for name, (candidate, settle) in chosen.items():
            try:
                self._move(name, candidate, settle)
            except Exception as error:  # the other worlds take their step all the same
                failed = failed or error
        for name in again:
            if name not in results:
                results[name] = (0.0, False, False, self._reset(name, None, None))
        if failed is not None:
            raise failed
        self._write()
        self._ask([name for name, (_, terminated, truncated, _) in results.items() if not (terminated or truncated)])
        self._pending = None
        return results

    def _move(self, name: Any, candidate: Candidate, settle: Callable[[dict[str, Any]], None]) -> None:
        """The step of one world."""
        following, reward, terminated, truncated, facts = (
            self._worlds[name].step(candidate.output) if candidate.output else (Input(""), 0.0, False, True, {})
        )
        outcome = _outcome(name, reward, facts)
        # A world may make a memory of its own; else the agent's goes on.
        turn = _Turn(replace(following, memory=following.memory or candidate.memory))
        settle(outcome)
        self._turns[name] = turn
        assert self._pending is not None
        self._pending[name] = (outcome["reward"], bool(terminated), bool(truncated), facts)

    def _choose(self, name: Any, action: Action) -> tuple[Candidate, Callable[[dict[str, Any]], None]]:
        """What an action decides, and who is told of its outcome."""
        turn = self._turns.get(name)
        if turn is None:
            raise ValueError(f"action of {name!r}: its world has no episode; call reset first")
        if action is None and turn.candidates and all(one.error for one in turn.candidates):
            return turn.candidates[0], lambda _: self._settle(name, None)
        if isinstance(action, Decision):
            return self._correct(name, action)
        try:
            index = -1 if isinstance(action, bool) else operator.index(action)  # type: ignore[arg-type]
        except TypeError:
            index = -1
        if not 0 <= index < len(turn.candidates):
            raise ValueError(
                f"action of {name!r}: must be a Decision or the index of one of {len(turn.candidates)} candidates, "
                f"not {action!r}"
            )
        if (error := turn.candidates[index].error) is not None:
            raise ValueError(
                f"action of {name!r}: candidate {index} has no decision: {error.code}: {error.message}; "
                "choose another one, send a Decision, or None if all failed"
            )
        return turn.candidates[index], lambda outcome: self._settle(name, (index, outcome))

    def _correct(self, name: Any, decision: Decision) -> tuple[Candidate, Callable[[dict[str, Any]], None]]:
        """The server makes the memory that a corrected decision belongs to."""
        (request,) = batches([self._turns[name].input.corrected(decision)], f"{self._run}-{self._asked}")
        answer = self._client.respond(request)
        self._asked += 1
        if (error := answer[0].error) is not None:
            raise ValueError(f"action of {name!r}: the server refuses the decision: {error.code}: {error.message}")

        def settle(outcome: dict[str, Any]) -> None:
            self._settle(name, None)
            self._unwritten.append((request, answer, [outcome]))

        return answer[0], settle

    def _settle(self, name: Any, chosen: tuple[int, dict[str, Any]] | None) -> None:
        """Note what became of a world's candidates. A request is to be written once all is known."""
        turn = self._turns.get(name)
        if turn is None or turn.request < 0:
            return
        asked = self._rounds[turn.request]
        if chosen is not None:
            asked.outcomes[turn.position * self._candidates + chosen[0]] = chosen[1]
        asked.open -= 1
        if asked.open == 0:
            del self._rounds[turn.request]
            self._unwritten.append((asked.request, asked.answer, asked.outcomes))
        turn.request = -1

    def _write(self) -> None:
        """Record what is known. What could not be written is written by the next call."""
        while self._unwritten:
            if self._recorder is not None:
                self._recorder.write(*self._unwritten[0], self._run)
            del self._unwritten[0]

    def close(self) -> None:
        """Record what is known of the last requests. The client stays open."""
        self._unwritten += [(asked.request, asked.answer, asked.outcomes) for asked in self._rounds.values()]
        self._rounds.clear()
        self._turns.clear()
        self._pending = None
        self._write()


def _outcome(name: Any, reward: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What became of a decision, as `agentd export` reads it."""
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"reward of {name!r}: must be a finite number, not {reward!r}")
    word = facts.get("outcome")
    if not isinstance(word, str):
        good = bool(facts["is_success"]) if "is_success" in facts else number > 0 if number else None
        word = None if good is None else "success" if good else "failure"
    return {"outcome": word, "reward": number} if word else {"reward": number}


class ParallelEnvironment(_Environment):
    """Worlds by name in the shape of PettingZoo's ParallelEnv. A world leaves `agents` when its episode ends."""

    metadata: dict[str, Any] = {"name": "agentd", "render_modes": []}
    unwrapped = property(lambda self: self)

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
        """Carry out the actions of all that are in `agents`. After an exception call it again: see VectorEnvironment."""
        if set(actions) != set(self.agents):
            raise ValueError(f"actions: must be for {sorted(self.agents)}, not {sorted(actions)}")
        results = self._act({name: actions[name] for name in self.agents})
        self.agents = [name for name in self.agents if not (results[name][1] or results[name][2])]
        columns: Any = [{name: result[i] for name, result in results.items()} for i in range(4)]
        return {name: self._turns[name].candidates for name in results}, *columns

    def action_space(self, agent: str) -> Any:
        """gymnasium's space of the candidates of a world; needs gymnasium."""
        from gymnasium.spaces import Discrete  # type: ignore[import-not-found, unused-ignore]

        return Discrete(self._candidates)


class VectorEnvironment(_Environment):
    """A list of worlds in the shape of gymnasium.vector.VectorEnv.

    A world whose episode has ended begins another one in the next step, which ignores its action (gymnasium's autoreset
    mode NextStep). Results are lists, in the order of the worlds.

    Actions are checked before any world takes its step. If the server is away, the disk is full, or a world raises or
    has no finite reward, the exception loses nothing: call `step` again with the same actions. It goes on where it
    stopped, and only worlds that failed take their step again.
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
        if not isinstance(seed, Sized):  # None, or an integer such as numpy's
            seed = [None if seed is None else operator.index(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: has {len(seed)} elements for {self.num_envs} worlds")
        self._ended = []
        facts = self._begin(range(self.num_envs), dict(enumerate(seed)), options)
        return self._observations(), {"worlds": [facts[i] for i in range(self.num_envs)]}

    def step(
        self, actions: Sequence[Action]
    ) -> tuple[list[Observation], list[float], list[bool], list[bool], dict[str, Any]]:
        """Carry out one action in each world. After an exception call it again: no world takes a step twice."""
        if len(actions) != self.num_envs:
            raise ValueError(f"actions: has {len(actions)} elements for {self.num_envs} worlds")
        results = self._act({i: action for i, action in enumerate(actions) if i not in self._ended}, self._ended)
        self._ended = [i for i, (_, terminated, truncated, _) in results.items() if terminated or truncated]
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
