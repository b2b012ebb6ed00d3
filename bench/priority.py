"""Measures the time to the first token of an urgent request beside a full batch, with and without a priority.

Start it from the root of a checkout, after `make agentd`: `python3 bench/priority.py --model 0.1b.gguf`. Each of
`--clients` keeps 8 candidates of 32 tokens in flight. It prints milliseconds that Server-Timing reports.
"""

import json
import statistics
import threading
import time
import urllib.request

from contention import ROOT, SAMPLING, parser, serving


def ask(url: str, text: str, candidates: int, priority: int) -> float:
    """The time to the first token of a request, in ms."""
    item = {"id": 1, "num_outputs": candidates, "instruction": {"type": "user", "content": text}}
    body = json.dumps({"request_id": text, "inputs": [{**item, "extra_keys": {"priority": priority}}]}).encode()
    request = urllib.request.Request(url + "/v1/responses", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return float(answer.headers["Server-Timing"].partition("ttft;dur=")[2])


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--model", required=True)
    p.add_argument("--clients", type=int, default=32)
    p.add_argument("--repeats", type=int, default=10)
    a = p.parse_args()
    done = threading.Event()

    def load(url: str, client: int) -> None:
        while not done.is_set():
            ask(url, f"Client {client} at {time.time()}: " + "put the cup on the table. " * 20, 8, 0)

    with serving(str(ROOT / "agentd"), a.model, "--debug", "fixed-tokens=32", *SAMPLING) as (url, _):
        clients = [threading.Thread(target=load, args=(url, i)) for i in range(a.clients)]
        print("alone", [round(ask(url, f"Stop {k} " * 20, 1, 0)) for k in range(5)])
        for c in clients:
            c.start()
        try:
            time.sleep(5)
            times: dict[int, list[float]] = {0: [], 50: []}
            for k in range(a.repeats):
                for priority, found in times.items():
                    found.append(ask(url, f"Halt {k} {priority} " * 20, 1, priority))
            for priority, found in times.items():
                print(f"priority {priority}: {statistics.median(found):.0f}, {min(found):.0f} to {max(found):.0f}")
        finally:
            done.set()
            for c in clients:
                c.join()


if __name__ == "__main__":
    main()
