"""Measures the time to the first token of an urgent request beside a full batch, with and without a priority.

Start it from the root of a checkout, after `make agentd`:

    python3 bench/priority.py --model 0.1b.gguf

Clients keep 64 candidates of 32 tokens each in flight. Requests of one candidate come one after the other, with
`extra_keys.priority` 0 and 50 in turns. It prints the times in ms that the header Server-Timing reports.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import threading
import time
import urllib.request

from contention import ROOT, SAMPLING, free_port, wait_ready

CLIENTS, CANDIDATES = 8, 8


def ask(url: str, text: str, candidates: int, priority: int) -> float:
    """The time to the first token of a request, in ms."""
    instruction = {"type": "user", "content": text}
    keys = {"priority": priority}
    item = {"id": 1, "num_outputs": candidates, "instruction": instruction, "extra_keys": keys}
    body = json.dumps({"request_id": text, "inputs": [item]}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/responses", body)) as answer:
        timing = answer.headers["Server-Timing"]
    return float(timing.partition("ttft;dur=")[2])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--agentd", default=str(ROOT / "agentd"))
    p.add_argument("--repeats", type=int, default=15)
    a = p.parse_args()
    url = f"http://127.0.0.1:{free_port()}"
    command = [a.agentd, a.model, "--port", url.rpartition(":")[2], "--log-level", "error", "--debug", "fixed-tokens=32"]
    server = subprocess.Popen([*command, *SAMPLING])
    done = threading.Event()
    answered = itertools.count()

    def load(client: int) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            ask(url, f"Client {client} in turn {turn}: " + "put the cup on the table. " * 20, CANDIDATES, 0)
            next(answered)

    clients = [threading.Thread(target=load, args=(i,)) for i in range(CLIENTS)]
    try:
        wait_ready(url, server)
        alone = [ask(url, f"Stop {k} " * 20, 1, 0) for k in range(5)]
        for c in clients:
            c.start()
        time.sleep(5)
        times: dict[int, list[float]] = {0: [], 50: []}
        began, before = time.time(), next(answered)
        for k in range(a.repeats):
            for priority, list_ in times.items():
                list_.append(ask(url, f"Halt {k} {priority} " * 20, 1, priority))
        rate = CANDIDATES * (next(answered) - before - 1) / (time.time() - began)
        done.set()
        for c in clients:
            c.join()
    finally:
        done.set()
        server.terminate()
        server.wait()
    print(f"alone: median {statistics.median(alone):.0f} ms; beside the load, which made {rate:.1f} decisions/s:")
    for priority, list_ in times.items():
        print(f"priority {priority}: median {statistics.median(list_):.0f}, {min(list_):.0f} to {max(list_):.0f} ms")


if __name__ == "__main__":
    main()
