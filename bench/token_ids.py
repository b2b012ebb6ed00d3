"""Measures the processor time of a decision with token ids and logprobs on three routes.

Start agentd on this machine, then: `python3 bench/token_ids.py --url URL --pid PID`. In each repeat the routes take turns in
another order: `/v1/responses` with `return`, `/v1/chat/completions` and `/inference/v1/generate`. All decode greedily after
equal cached prompts without tools, and must answer with as many tokens. It prints the ratios to `/v1/responses`.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import statistics
import urllib.request


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def responses(url: str, k: int, _: dict | None = None) -> tuple[list[int], list[int]]:
    """The token ids of a prompt and of its answer."""
    keys = {"return": ["token_ids", "logprobs"], "inference_mode": True}
    text = f"Robot {k} stands in room {k}. Say in a few words what it should do next."
    given = {"id": 1, "instruction": {"type": "user", "content": text}, "extra_keys": keys}
    answer = post(url + "/v1/responses", {"request_id": "r", "inputs": [given]})
    step = answer[0]["internal_steps"][-1]["input_elements"]["generation"]
    return step["prompt_token_ids"], step["token_ids"]


def chat(url: str, _: int, prompt: dict) -> tuple[list[int], list[int]]:
    options = {"temperature": 0, "max_tokens": prompt["most"], "logprobs": True, "return_token_ids": True}
    answer = post(url + "/v1/chat/completions", {"messages": prompt["messages"], **options})
    return answer["prompt_token_ids"], answer["choices"][0]["token_ids"]


def generate(url: str, _: int, prompt: dict) -> tuple[list[int], list[int]]:
    options = {"temperature": 0, "max_tokens": prompt["most"], "logprobs": 0}
    answer = post(url + "/inference/v1/generate", {"token_ids": prompt["ids"], "sampling_params": options})
    return prompt["ids"], answer["choices"][0]["token_ids"]


def messages(text: str) -> list[dict]:
    """The messages of a prompt in ChatML."""
    parts = re.findall(r"<\|im_start\|>(system|user)\n(.*?)<\|im_end\|>", text, re.DOTALL)
    return [{"role": role, "content": content} for role, content in parts]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--url", required=True)
    p.add_argument("--pid", type=int, required=True, help="process of the server")
    p.add_argument("--repeats", type=int, default=30)
    p.add_argument("--requests", type=int, default=32, help="at once")
    a = p.parse_args()
    prompts = []
    for k in range(a.requests):
        ids, answer = responses(a.url, k)
        text = post(a.url + "/detokenize", {"tokens": ids})["prompt"]
        prompts.append({"ids": ids, "most": len(answer), "messages": messages(text)})

    def spent() -> float:
        """Processor seconds of the server."""
        with open(f"/proc/{a.pid}/stat", encoding="utf-8") as f:
            user, system = f.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    ways = {"responses": responses, "chat": chat, "generate": generate}
    times: dict[str, list[float]] = {name: [] for name in ways}
    draw = random.Random(1)
    with concurrent.futures.ThreadPoolExecutor(a.requests) as pool:
        for repeat in range(a.repeats + 1):
            for name in draw.sample(sorted(ways), len(ways)):
                before = spent()
                got = list(pool.map(ways[name], [a.url] * a.requests, range(a.requests), prompts))
                if repeat:  # the first warms up
                    times[name].append((spent() - before) / a.requests * 1000)
                for k, ((ids, answer), prompt) in enumerate(zip(got, prompts, strict=True)):
                    if ids != prompt["ids"] or len(answer) != prompt["most"]:
                        raise SystemExit(f"{name}, request {k}: another prompt or length than those of /v1/responses")
    for name, took in times.items():
        ratios = [own / base for own, base in zip(took, times["responses"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        print(f"{name}: {statistics.median(took):.2f} ms a decision, {middle:.2f} times ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
