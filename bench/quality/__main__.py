"""Measures how often the tool calls of a server are right, on the Berkeley Function Calling Leaderboard v4.

    bench/quality/run.sh --server agentd --model 0.5b --items 100 --out agentd.json
    bench/quality/run.sh --server llama-server --model 0.5b --categories simple_python,parallel --show-wrong 5
    bench/quality/run.sh --server http://127.0.0.1:8888 --way responses --items 20
    bench/quality/run.sh --compare agentd.json llama-server.json

Decoding is greedy. agentd and llama-server must be built: make agentd peers.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import sys
import time

import servers
import tables
import turns
from ask import WAYS
from benchmark import SEVERAL, SINGLE, TURNS, Benchmark
from judge import judge, summary


def options() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", default="agentd", help="agentd, llama-server, vllm, or the URL of a running server")
    p.add_argument("--model", default="0.5b", help="0.5b, 1.5b (Qwen2.5-Coder, fetched once) or a GGUF file")
    p.add_argument(
        "--way", choices=WAYS, default="chat", help="chat: OpenAI's chat completions; responses: agentd's own"
    )
    p.add_argument("--categories", default=",".join(SINGLE), help=f"of {', '.join([*SINGLE, TURNS])}")
    p.add_argument("--items", type=int, default=100, help="items of each category")
    p.add_argument("--skip", type=int, default=0, help="items of each category to leave out before them")
    p.add_argument("--tool-choice", default="", help="tool_choice of chat completions, such as required")
    p.add_argument("--clients", type=int, default=4, help="requests at a time")
    p.add_argument("--max-tokens", type=int, default=512, help="longest answer")
    p.add_argument("--max-steps", type=int, default=20, help="answers in a turn of multi_turn_base")
    p.add_argument("--timeout", type=float, default=600, help="seconds for an answer")
    p.add_argument("--args", default="", help="further options of the server, as in --args='--threads 1'")
    p.add_argument("--out", help="file for the result with every answer, as JSON")
    p.add_argument("--show-wrong", type=int, default=0, metavar="N", help="print N wrong answers of each category")
    p.add_argument(
        "--compare", nargs="+", metavar="FILE", help="print results of --out side by side, and measure nothing"
    )
    return p


def category(a: argparse.Namespace, benchmark: Benchmark, url: str, name: str) -> tuple[list[dict], float]:
    """The records of a category, and the seconds."""
    way = WAYS[a.way](url, a.tool_choice, a.max_tokens, a.timeout)

    def one(item: dict) -> dict:
        if name == TURNS:
            return turns.play(benchmark, way, item, a.max_steps)
        answer = way.ask(item["question"][0], benchmark.tools(item), name in SEVERAL)
        return judge(benchmark, name, item, answer)

    start = time.monotonic()
    pool = concurrent.futures.ThreadPoolExecutor(a.clients)
    try:
        return list(pool.map(one, benchmark.items(name, a.skip, a.items))), time.monotonic() - start
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def measure(a: argparse.Namespace) -> dict:
    wanted = a.categories.split(",")
    if unknown := set(wanted) - {*SINGLE, TURNS}:
        raise SystemExit(f"--categories: got {', '.join(sorted(unknown))}, want some of {', '.join([*SINGLE, TURNS])}")
    if a.way == "responses" and (a.tool_choice or TURNS in wanted):
        raise SystemExit(f"--way responses: tool_choice and {TURNS} are of chat completions")
    running = "://" in a.server
    model = "" if running else servers.model_file(a.model)
    benchmark = Benchmark()
    result = {"server": a.server, "model": a.model, "way": a.way, "tool_choice": a.tool_choice, "skip": a.skip}
    result |= {"max_tokens": a.max_tokens, "clients": a.clients, "args": a.args, "categories": {}}
    # The protocol's number of calls for a robot is an option of the server.
    several = [name for name in wanted if a.way == "responses" and name in SEVERAL]
    for group in ([name for name in wanted if name not in several], several):
        if not group:
            continue
        with contextlib.ExitStack() as stack:
            url = a.server.rstrip("/")
            if not running:
                words = servers.command(a.server, model, a.clients, a.max_tokens, group is several)
                url = stack.enter_context(servers.serving([*words, *a.args.split()]))
            for name in group:
                records, seconds = category(a, benchmark, url, name)
                result["categories"][name] = summary(records, seconds) | {"answers": records}
                s = result["categories"][name]
                print(
                    f"{name}: {s['right']} of {s['of']} right, {s['wrong']}, {s['seconds']} s",
                    file=sys.stderr,
                    flush=True,
                )
                if a.out:
                    pathlib.Path(a.out).write_text(json.dumps(result, indent=1, default=str) + "\n")
    return result


def main() -> None:
    a = options().parse_args()
    # An end by a signal goes through the blocks that end servers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if a.compare:
        print(tables.compared([json.loads(pathlib.Path(f).read_text()) for f in a.compare]))
        return
    result = measure(a)
    print(f"{tables.title(result)}\n\n{tables.detailed(result)}")
    for name, s in result["categories"].items():
        if a.show_wrong and s["right"] < s["of"]:
            print(f"\n{name}\n{tables.wrong_answers(s['answers'], a.show_wrong)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(130)  # an exit would wait for threads, and these for answers
