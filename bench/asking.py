"""Measures asking a person: coverage of the sets of options on a held-out half, and errors before and after asking.

    go run ./cmd/household choices --items 2000 --out choices.jsonl
    python3 bench/asking.py --household choices.jsonl --out household.jsonl
    $(bench/quality/run.sh python) bench/asking.py --bfcl 50 --model 1.5b --out bfcl.jsonl

The options of the household are the calls that its world offers to a robot, the right one is the planner's. Those of BFCL are
the right call, the same call with one other argument, and calls of the item's other tools. --out gets the labelled decisions
that `agentd calibrate` reads; without --household and --bfcl the file is only reported. `make` must have built ./agentd.
"""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "quality"))
import ask
import servers

CATEGORIES = ["simple_python", "multiple", "live_simple", "live_multiple"]
MOST = 6  # options of a BFCL item


def household(path: str):
    """Pairs of an input and the index of its right option."""
    for line in pathlib.Path(path).read_text().splitlines():
        item = json.loads(line)
        yield item["input"], item["right"]


def value(draw: random.Random, old, schema: dict, words: list[str], others: list):
    """Another value of an argument: of its type, and where it can be of the question."""
    if isinstance(old, bool):
        return not old
    numbers = [float(w) if "." in w else int(w) for w in words if re.fullmatch(r"-?\d+(\.\d+)?", w)]
    if isinstance(old, (int, float)):
        return draw.choice([old + 1, old * 2, old * 10, *numbers])
    if schema.get("enum"):
        return draw.choice(schema["enum"])
    at, length = draw.randrange(len(words)), draw.randint(1, 3)
    same = [v for v in others if type(v) is type(old)]
    return " ".join(words[at : at + length]) if isinstance(old, str) and draw.random() < 0.7 else draw.choice(same)


def bfcl(items: int):
    """The same of BFCL's items with one right call, in turns of the categories."""
    from benchmark import Benchmark

    benchmark, draw = Benchmark(), random.Random(1)
    form = ask.Responses("", "", 0, 0)
    for category in CATEGORIES:
        chosen = benchmark.items(category, 0, 10**6)
        draw.shuffle(chosen)
        golds = []
        for item in chosen:
            (name, args), *_ = item["expected"][0].items()
            golds.append((name.replace(".", "_"), {k: v[0] for k, v in args.items() if v and v[0] != ""}))
        pool: dict[str, list] = {}
        for _, args in golds:
            for key, v in args.items():
                pool.setdefault(key, []).append(v)
                pool.setdefault(type(v).__name__, []).append(v)
        left = items
        for item, (name, args) in zip(chosen, golds, strict=True):
            tools = {t["name"]: t for t in benchmark.tools(item)}
            if not left:
                break
            if name not in tools or not args or not benchmark.is_right(category, item, [{name: args}])[0]:
                continue  # nested values, of which the benchmark lists what is right in parts
            words = [w.strip(".,?!'\"()") for w in item["question"][0][-1]["content"].split()]
            calls = [(name, args)]
            for _ in range(40):
                other = draw.choice(sorted(tools)) if len(calls) % 2 else name
                schemas = tools[other]["parameters"].get("properties", {})
                required = tools[other]["parameters"].get("required", [])
                if other == name and draw.random() < 0.2 and (optional := sorted(args.keys() - required)):
                    gone = draw.choice(optional)
                    made = {k: v for k, v in args.items() if k != gone}
                elif other == name:
                    key = draw.choice(sorted(args))
                    made = args | {key: value(draw, args[key], schemas.get(key, {}), words, pool[key])}
                else:
                    kinds = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list"}
                    made = {}
                    for key in required:
                        kind = kinds.get(schemas.get(key, {}).get("type"), "str")
                        made[key] = args.get(key, draw.choice(pool.get(key) or pool.get(kind) or [1]))
                if (other, made) not in calls and not benchmark.is_right(category, item, [{other: made}])[0]:
                    calls.append((other, made))
                if len(calls) == MOST:
                    break
            if len(calls) < 2:
                continue
            right = draw.randrange(len(calls))
            calls[0], calls[right] = calls[right], calls[0]
            try:
                sent = form.body(item["question"][0], list(tools.values()), False)["inputs"][0]
            except ValueError:
                continue
            sent["extra_keys"]["options"] = [
                {"say": "", "tool_calls": [{"name": n, "arguments": a, "target_robot_name": ask.ROBOT}]}
                for n, a in calls
            ]
            left -= 1
            yield sent, right


def decide(url: str, sent: dict, right: int) -> dict | str:
    """The labelled decision, or why there is none."""
    out = ask.exchange(url + "/v1/responses", {"request_id": "ask", "inputs": [sent]}, 1800)[0]
    if out["status"] != "completed":
        return out["error"]["code"]
    generation = out["internal_steps"][-1]["input_elements"]["generation"]
    candidate = generation["candidate"]
    return {
        "model": generation["model_version"],
        "format": candidate["format"],
        "probabilities": candidate["probabilities"],
        "right": right,
    }


def report(out: pathlib.Path) -> None:
    """Prints what agentd calibrate measures, and the errors before and after asking the tenth with the least confidence."""
    command = [servers.ROOT / "agentd", "calibrate", "--error", "0.05,0.1,0.2", out]
    made = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print("| coverage | expected | measured | 95 % interval | mean set | asked | wrong before | wrong after |")
    print("|---|---|---|---|---|---|---|---|")
    for rate in made["rates"]:
        h = rate["held_out"]
        low, high = h["interval_95"]
        counts = f"{h['asked']} | {h['wrong']} | {h['wrong_unasked']} of {h['n']}"
        print(
            f"| {1 - rate['error']:.0%} | {rate['expected_coverage']:.3f} | {h['coverage']:.3f} | {low:.3f} to {high:.3f} | {h['mean_set_size']:.2f} | {counts} |"
        )
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    wrong = [x["probabilities"][x["right"]] < max(x["probabilities"]) for x in lines]
    sure = sorted(range(len(lines)), key=lambda i: max(lines[i]["probabilities"]))
    asked = sure[: len(lines) // 10]
    after = sum(wrong) - sum(wrong[i] for i in asked)
    options = sum(len(x["probabilities"]) for x in lines) / len(lines)
    print(f"\n{len(lines)} decisions, {options:.1f} options on average")
    print(
        f"wrong: {sum(wrong)} ({sum(wrong) / len(lines):.1%}); after asking the least sure {len(asked)}: {after} ({after / len(lines):.1%})"
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--household", metavar="FILE", help="of household choices")
    p.add_argument("--bfcl", type=int, default=0, metavar="N", help="items of each category")
    p.add_argument(
        "--skip", type=int, default=0, metavar="N", help="items that an earlier run has, to append the others"
    )
    p.add_argument("--model", default="", help="0.5b, 1.5b or a file; the default is the default model")
    p.add_argument("--url", help="of a running server, in place of --model")
    p.add_argument("--clients", type=int, default=2, help="requests at a time")
    p.add_argument("--out", required=True, help="file for labelled decisions")
    a = p.parse_args()
    out = pathlib.Path(a.out)
    if not a.household and not a.bfcl:
        report(out)
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # ends the server, too
        signal.signal(number, signal.default_int_handler)
    items = list(household(a.household) if a.household else bfcl(a.bfcl))
    random.Random(2).shuffle(items)
    model = ["--model", servers.model_file(a.model)] if a.model else []
    words = [str(servers.ROOT / "agentd"), *model, "--context-length", "16384", "--log-level", "warn"]
    refused: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        url = a.url or stack.enter_context(servers.serving(words))
        pool = concurrent.futures.ThreadPoolExecutor(a.clients)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        file = stack.enter_context(out.open("a" if a.skip else "x"))
        for made in pool.map(lambda item: decide(url, *item), items[a.skip :]):
            if isinstance(made, str):
                refused[made] = refused.get(made, 0) + 1
                continue
            file.write(json.dumps(made) + "\n")
            file.flush()
    if refused:
        print("not decided:", refused)
    report(out)


if __name__ == "__main__":
    main()
