"""What was right, what was wrong and how, and the interval of a share."""

import collections
import math

from ask import Answer
from benchmark import Benchmark


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if of == 0:
        return 0.0, 1.0
    z, share = 1.959964, right / of
    middle, spread = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), min(1.0, (middle + spread) / (1 + z * z / of))


def names(calls: list[dict]) -> list[str]:
    """The names of calls in order, in the spelling of OpenAI's API."""
    return sorted(name.replace(".", "_") for call in calls for name in call)


def kind(answer: Answer, expected: list[dict]) -> str:
    """How an answer is wrong. The first that holds counts."""
    if answer.error:
        return "error"
    if answer.cut:
        return "cut"
    if not expected:
        return "call"
    if not answer.calls:
        return "no call"
    if len(answer.calls) != len(expected):
        return "count"
    return "argument" if names(answer.calls) == names(expected) else "tool"


def judge(benchmark: Benchmark, category: str, item: dict, answer: Answer) -> dict:
    """The record of an item. An error is never right, also where no call is."""
    right, why = benchmark.is_right(category, item, answer.calls)
    right = right and not answer.error
    return {
        "id": item["id"],
        "right": right,
        "wrong": "" if right else kind(answer, item["expected"]),
        "why": answer.error or why,
        "question": item["question"][0],
        "expected": item["expected"],
        "calls": answer.calls,
        "text": answer.text + answer.broken,
        "form": answer.form,
        "cut": answer.cut,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "seconds": round(answer.seconds, 2),
    }


def summary(records: list[dict], seconds: float) -> dict:
    right = sum(r["right"] for r in records)
    wrong = collections.Counter(r["wrong"] for r in records if not r["right"])
    low, high = wilson(right, len(records))
    return {
        "right": right,
        "of": len(records),
        "share": right / len(records) if records else 0.0,
        "low": low,
        "high": high,
        "wrong": dict(wrong.most_common()),
        "cut": sum(r["cut"] for r in records),
        "prompt_tokens": sum(r["prompt_tokens"] for r in records),
        "completion_tokens": sum(r["completion_tokens"] for r in records),
        "seconds": round(seconds, 1),
        "forms": dict(collections.Counter(r["form"] for r in records if r["form"])),
    }
