#!/usr/bin/env python3
"""Lets an agent server direct two simulated robots through a household task.

When a step fails this asks for coaching, puts the correction into the same input once more, and goes on with
the memory that comes back. It needs nothing but Python 3.

It needs an agent server with coaching and a coach. `make example` starts both and then this program; it
can as well be pointed at others:

    python3 examples/coaching/orchestrator.py --agent http://127.0.0.1:8888 --human http://127.0.0.1:8890
"""

import argparse
import copy
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

from household import DESCRIPTION, Failure, House

MAX_STEPS = 20  # of a task
MAX_REPAIRS = 3  # of one step


class NotFinished(Exception):
    """Says why the task is not finished."""


class Agent:
    """The agent server's HTTP interface."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def call(self, method: str, path: str, body: dict | None = None):
        """One exchange. What the server objects to is an exception with its words."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise NotFinished(f"{method} {path}: {error.code}: {text}") from error
        except urllib.error.URLError as error:
            raise NotFinished(f"{self.url} can't be reached: {error.reason}") from error

    def wait_until_ready(self) -> None:
        """Waits for a server that is still loading its model."""
        while True:
            try:
                with urllib.request.urlopen(self.url + "/health"):
                    break
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise NotFinished(f"{self.url}/health answers {error.code}") from error
                time.sleep(0.2)
            except urllib.error.URLError as error:
                raise NotFinished(f"{self.url} can't be reached: {error.reason}") from error
        info = self.call("GET", "/v1/info")
        if not info["capabilities"].get("coaching"):
            raise NotFinished(f"the agent server does not coach: {info.get('coaching_unavailable_reason')}")


class Orchestrator:
    """One run of the task."""

    def __init__(self, agent: Agent, run_id: str, logs: pathlib.Path) -> None:
        self.agent = agent
        self.run_id = run_id
        self.logs = logs / run_id
        self.house = House()
        self.memory: dict = {"memory_list": DESCRIPTION["rules"]}  # the agent's, as it last came back
        self.trajectory: list[dict] = []  # what was done so far
        self.repairs = 0

    def task(self) -> None:
        """Goes step by step until the agent ends it by a reply."""
        print(f"Task:  {DESCRIPTION['task']}\nHouse: {self.house}")
        print(
            "\nOnly the coach gets the code of the cupboard's lock, so at least one step has to fail,\n"
            "however good the model."
        )
        instruction = {"type": "user", "content": DESCRIPTION["task"]}
        for step_id in range(1, MAX_STEPS + 1):
            print(f"\nStep {step_id}")
            report = self.step(step_id, instruction)
            if self.trajectory[-1]["output"]["say"]:
                print(f"\nFinished after {step_id} steps, corrections: {self.repairs}.\nHouse: {self.house}")
                if self.repairs:
                    print(f"Logs:  {self.logs}")
                return
            instruction = {"type": "env", "content": report}
        raise NotFinished(f"{MAX_STEPS} steps were not enough")

    def step(self, step_id: int, instruction: dict) -> str:
        """Gets one decision and carries it out, with as many repairs as it takes.

        Returns what the agent is told next.
        """
        before = copy.copy(self.house)
        agent_input = {
            "id": 1,
            "instruction": instruction,
            "tools": DESCRIPTION["tools"],
            "attributes": DESCRIPTION["attributes"],
            "memory": self.memory,
            "extra_keys": {"inference_mode": True},
        }
        who = "agent"
        for attempt in range(MAX_REPAIRS + 1):
            output = self.decide(step_id, agent_input)
            say(who, show(output))
            done = {"id": step_id, "input": agent_input, "internal_steps": output["internal_steps"]}
            done |= {key: output[key] for key in ("output", "error") if key in output}
            report, failed = self.perform(output)
            if failed is None:
                say("house", report)
                self.trajectory.append(done)
                self.memory = output["memory"]  # the corrected one, when there was a correction
                return report
            say("FAILED", failed["text"])
            if attempt == MAX_REPAIRS:
                break

            # A simulation can return to the moment before the step. With real robots, which can't, describe what
            # happened as the next input and give that as the reinjection point.
            self.house = copy.copy(before)
            done["execution"] = {"failed": failed["text"]}
            correction = self.coach(done, failed, attempt + 1)
            agent_input = agent_input | {"extra_keys": {"inference_mode": True, "coaching": correction}}
            who = "again"
        raise NotFinished(f"step {step_id}: it still fails after {MAX_REPAIRS} corrections")

    def decide(self, step_id: int, agent_input: dict) -> dict:
        """Asks the agent for one decision."""
        request = {"request_id": f"{self.run_id}-step-{step_id}", "inputs": [agent_input]}
        return self.agent.call("POST", "/v1/responses", request)[0]

    def perform(self, output: dict) -> tuple[str, dict | None]:
        """Carries a decision out. A reply ends the task, when the medicine is on the table by then."""
        if output["status"] == "error":
            error = output["error"]
            return "", failure("format", error["code"], "The agent's output is not a decision: " + error["message"])
        decision = output["output"]
        if decision["say"] and self.house.done():
            return "The task is done.", None
        if not decision["tool_calls"]:
            return "", failure(
                "suboptimal", "not_done", "The agent only talks, but the medicine is not on the table yet."
            )
        reports = []
        for call in decision["tool_calls"]:
            try:
                reports.append(self.house.do(call))
            except Failure as error:
                return "", failure("failure", "tool_failed", f"{call['target_robot_name']}.{call['name']}: {error}")
        return " ".join(reports), None

    def coach(self, step: dict, failed: dict, attempt: int) -> dict:
        """Asks for the repair of a failed step.

        The result belongs under extra_keys.coaching of the input at the reinjection point.
        """
        point = f"again-at-step-{step['id']}"  # the input of the failed step, once more
        request = {
            "run_id": self.run_id,
            "request_id": f"step-{step['id']:02}-{attempt}",
            "kind": failed["kind"],
            "stage": {"id": 0, "goal": DESCRIPTION["task"], "hint": DESCRIPTION["hint"]},
            "target_step_id": step["id"],
            "trajectory": self.trajectory + [step],
            "reinjection_points": [{"id": point, "input_step_id": step["id"]}],
            "additional_info": {"house_now": str(self.house)},
        }
        if failed["kind"] == "suboptimal":
            request["diagnosis"] = {"explanation": failed["text"]}
        else:
            request["active_errors"] = [{"code": failed["code"], "description": failed["text"]}]

        response = self.agent.call("POST", "/v1/coaching", request)
        self.keep(request, response.get("logs", []))
        if response["status"] != "corrected":
            raise NotFinished(f"the coaching ended as {response['status']}: {response['reason']}")
        proposal = response["proposals"][0]
        if response["request_id"] != request["request_id"] or proposal["reinjection_point_id"] != point:
            raise NotFinished("the coaching's answer is not for this request")
        self.repairs += 1
        say("repair", f"{failed['kind']}, corrected at {point}")
        return proposal["extra_keys"]

    def keep(self, request: dict, logs: list[dict]) -> None:
        """Writes the logs of a coaching to files."""
        self.logs.mkdir(parents=True, exist_ok=True)
        for i, log in enumerate(logs, 1):
            name = f"{request['request_id']}-{i}-{log['coaching_type']}.md"
            (self.logs / name).write_text(log["content"], encoding="utf-8")


def failure(kind: str, code: str, text: str) -> dict:
    """Says why a step failed, and which kind of coaching it needs."""
    return {"kind": kind, "code": code, "text": text}


def say(who: str, what: str) -> None:
    """Prints a line of the transcript."""
    print(f"  {who:7} {what}", flush=True)


def show(output: dict) -> str:
    """What a person sees of an output."""
    if output["status"] == "error":
        return f"no decision ({output['error']['code']})"
    calls = [
        f"{call['target_robot_name']}.{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}"
        for call in output["output"]["tool_calls"]
    ]
    if calls:
        return ", ".join(calls)
    return "says " + json.dumps(output["output"]["say"][:80], ensure_ascii=False)  # a random model may say much


def main() -> None:
    # SIGTERM ends the task as Ctrl-C does: in good order, with the session deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A proxy in the environment would be asked for 127.0.0.1 too. Leave this out when your server is behind one.
    urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))
    options = argparse.ArgumentParser(description="A household task with coaching.")
    options.add_argument(
        "--agent",
        metavar="URL",
        default=os.environ.get("AGENTD_URL") or "http://127.0.0.1:8888",
        help="the agent server",
    )
    options.add_argument(
        "--coach",
        metavar="URL",
        default=os.environ.get("COACH_URL") or "http://127.0.0.1:8889/v1",
        help="a coach that speaks OpenAI's chat completions",
    )
    options.add_argument("--coach-model", metavar="NAME", default=os.environ.get("COACH_MODEL") or "scripted")
    options.add_argument("--human", metavar="URL", help="a console, such as agentd console: a person is the coach")
    options.add_argument(
        "--logs",
        metavar="DIR",
        type=pathlib.Path,
        help="where the coaching logs go to",
        default=pathlib.Path(tempfile.gettempdir()) / "agentd-coaching-logs",
    )
    chosen = options.parse_args()

    agent = Agent(chosen.agent)
    run_id = "household-" + uuid.uuid4().hex[:12]
    session = "/v1/coaching/sessions/" + urllib.parse.quote(run_id, safe="")
    agent.wait_until_ready()

    # A run's session says who coaches. It is configured before the first request for coaching.
    if chosen.human:
        coach, config = f"a person at {chosen.human}", {"provider": "human", "endpoint": chosen.human}
    else:
        coach = f"{chosen.coach_model} at {chosen.coach}"
        config = {
            "backends": {"coach": {"type": "openai", "endpoint": chosen.coach, "default_model": chosen.coach_model}}
        }
    agent.call("PUT", session, config)
    try:
        print(f"The run {run_id}: the agent is at {chosen.agent}, the coach is {coach}.\n")
        Orchestrator(agent, run_id, chosen.logs).task()
    finally:
        # The session is deleted whatever became of the task, after Ctrl-C too.
        agent.call("DELETE", session)


if __name__ == "__main__":
    try:
        main()
    except (NotFinished, KeyboardInterrupt) as error:
        print(f"\nThe task is not finished: {error or 'interrupted'}", file=sys.stderr)
        sys.exit(1)
