"""Items of several turns: the model calls tools of simulated services until it replies, and then has the next request."""

import json

from ask import Answer, Chat
from benchmark import ENTRY, TURNS, Benchmark


def written(calls: list[dict], tools: list[dict]) -> list[str | None]:
    """Calls as the executor reads them, which evaluates Python. None: a call of nothing that was offered."""
    offered = {t["name"]: t["parameters"]["properties"] for t in tools}
    lines = []
    for name, arguments in ((n, a) for call in calls for n, a in call.items()):
        fits = name in offered and all(a in offered[name] for a in arguments)
        lines.append(f"{name}({','.join(f'{k}={v!r}' for k, v in arguments.items())})" if fits else None)
    return lines


def message(answer: Answer) -> dict:
    """An answer as a message of the conversation."""
    functions = [{"name": n, "arguments": json.dumps(a)} for call in answer.calls for n, a in call.items()]
    calls = [{"id": i, "type": "function", "function": f} for i, f in zip(answer.ids, functions)]
    return {"role": "assistant", "content": answer.text} | ({"tool_calls": calls} if calls else {})


def play(benchmark: Benchmark, way: Chat, item: dict, max_steps: int) -> dict:
    """The record of an item. The executor keeps the services of an item by its id."""
    tools = benchmark.tools(item)
    total, messages, done, why = Answer(), [], [], ""
    for turn in item["question"]:
        messages += turn
        steps: list[list[str]] = []
        done.append(steps)
        for _ in range(max_steps):
            answer = way.ask(messages, tools, True)
            total.prompt_tokens += answer.prompt_tokens
            total.completion_tokens += answer.completion_tokens
            total.seconds += answer.seconds
            total.cut = total.cut or answer.cut
            total.error = answer.error
            messages.append(message(answer))
            if answer.error or not answer.calls:
                break
            lines = written(answer.calls, tools)
            total.calls += answer.calls
            results = iter(execute(benchmark, item, [line for line in lines if line]))
            steps.append([line for line in lines if line])
            refused = json.dumps({"error": "there is no such tool, or it has no such parameter"})
            texts = [next(results) if line else refused for line in lines]
            messages += [{"role": "tool", "tool_call_id": i, "content": t} for i, t in zip(answer.ids, texts)]
        else:
            why = f"{max_steps} answers in a turn"
        if total.error or why:
            break
    return record(benchmark, item, total, messages, done, why)


def execute(benchmark: Benchmark, item: dict, lines: list[str]) -> list[str]:
    config, classes = item["initial_config"], item["involved_classes"]
    return benchmark.bfcl.execute(lines, config, classes, ENTRY, item["id"])[0]


def record(benchmark: Benchmark, item: dict, total: Answer, messages: list, done: list, why: str) -> dict:
    kind = "error" if total.error else "steps" if why else ""
    if not kind:
        found = benchmark.bfcl.check_turns(done, item["expected"], item, TURNS, ENTRY)
        if not found["valid"]:
            kind, why = found["error_type"].removeprefix("multi_turn:"), found["error_message"]
    return {
        "id": item["id"],
        "right": not kind,
        "wrong": kind,
        "why": total.error or why,
        "question": item["question"][0],
        "expected": item["expected"],
        "calls": done,
        "text": messages[-1].get("content") or "",
        "messages": messages,
        "form": "",
        "cut": total.cut,
        "prompt_tokens": total.prompt_tokens,
        "completion_tokens": total.completion_tokens,
        "seconds": round(total.seconds, 2),
    }
