"""Measures decisions/s: 32 questions about one state of 1,000 tokens.

Start agentd and vLLM 0.32 with the same Qwen 3, then: `python3 bench/decide.py --agentd URL --vllm URL --vllm-group ID`. The
ways take turns, and each gets a state of its own, which no cache has. It prints medians of decisions/s and of the ratios to
agentd's route. Start vLLM with `setsid`: its group is stopped while agentd answers, since waiting takes a third of a core.
"""

import argparse
import atexit
import concurrent.futures
import json
import os
import random
import signal
import statistics
import time
import urllib.request

QUESTIONS = 32
ROOMS = "hall attic kitchen garden office cellar garage studio".split()


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def question(k: int) -> dict:
    criteria = dict.fromkeys(random.Random(k).sample(ROOMS, 4))
    return {"type": "choice", "instructions": f"Where should robot {k} go next?", "criteria": criteria}


def route(url: str, state: str) -> None:
    """All questions in one request."""
    questions = {str(k): question(k) for k in range(QUESTIONS)}
    answer = post(url + "/v1/systemone", {"state": state, "questions": questions})
    if len(answer["answers"]) != QUESTIONS:
        raise SystemExit(f"{url}: {answer}")


def chats(url: str, state: str) -> None:
    """A chat for each question, all at once, whose answer is one token."""

    def ask(k: int) -> None:
        q = question(k)
        options = "\n".join(f"{label}: {name}" for label, name in zip("ABCD", q["criteria"], strict=True))
        text = f"{state}\n\nQuestion: {q['instructions']}\n{options}\nAnswer with the letter of one option only."
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1, "temperature": 0}
        post(url + "/v1/chat/completions", body)

    with concurrent.futures.ThreadPoolExecutor(QUESTIONS) as pool:
        list(pool.map(ask, range(QUESTIONS)))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--agentd", required=True)
    p.add_argument("--vllm")
    p.add_argument("--vllm-group", type=int)
    p.add_argument("--repeats", type=int, default=7)
    a = p.parse_args()
    ways = {"agentd": (route, a.agentd), "agentd, 32 chats": (chats, a.agentd)}
    if a.vllm:
        ways |= {"vLLM": (route, a.vllm), "vLLM, 32 chats": (chats, a.vllm)}
    if a.vllm_group:
        atexit.register(os.killpg, a.vllm_group, signal.SIGCONT)
    draw = random.Random(1)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(a.repeats + 1):
        for name in draw.sample(sorted(ways), len(ways)):
            ask, url = ways[name]
            state = f"Log {repeat} of {name}. " + " ".join(draw.choices(ROOMS, k=850))
            if a.vllm_group:
                os.killpg(a.vllm_group, signal.SIGCONT if url == a.vllm else signal.SIGSTOP)
            began = time.perf_counter()
            ask(url, state)
            if repeat:  # the first warms up
                times[name].append(time.perf_counter() - began)
    for name, took in times.items():
        ratios = [other / ours for other, ours in zip(took, times["agentd"], strict=True)]
        print(
            f"{name}: {QUESTIONS / statistics.median(took):.1f} decisions/s; agentd's route has {statistics.median(ratios):.2f} times that ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
