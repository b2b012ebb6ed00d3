"""The tables."""


def percent(s: dict) -> str:
    return f"{100 * s['share']:.0f} % ({100 * s['low']:.0f} to {100 * s['high']:.0f})"


def row(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(cells: list[list]) -> str:
    return "\n".join([row(cells[0]), "|" + "---|" * len(cells[0]), *map(row, cells[1:])])


def detailed(result: dict) -> str:
    """A run's categories, with what was wrong."""
    kinds = sorted({k for c in result["categories"].values() for k in c["wrong"]})
    head = ["Category", "Right", "95 % interval", *kinds, "At the limit", "Tokens in", "Tokens out", "Seconds", "Forms"]
    rows = [head]
    for name, s in result["categories"].items():
        interval = f"{100 * s['share']:.0f} % ({100 * s['low']:.0f} to {100 * s['high']:.0f})"
        forms = ", ".join(f"{k} {n}" for k, n in s["forms"].items())
        wrong = [s["wrong"].get(k, 0) for k in kinds]
        tokens = [s["cut"], s["prompt_tokens"], s["completion_tokens"], s["seconds"], forms]
        rows.append([name, f"{s['right']} of {s['of']}", interval, *wrong, *tokens])
    return table(rows)


def title(result: dict) -> str:
    choice = f", tool_choice {result['tool_choice']}" if result["tool_choice"] else ""
    return f"{result['server']}, {result['model']}, {result['way']}{choice}"


def compared(results: list[dict]) -> str:
    """Several runs, a column each."""
    names = list(dict.fromkeys(name for r in results for name in r["categories"]))
    rows = [["Category", *map(title, results)]]
    for name in names:
        rows.append([name, *(percent(r["categories"][name]) if name in r["categories"] else "" for r in results)])
    return table(rows)


def wrong_answers(records: list[dict], count: int) -> str:
    lines = []
    for r in [r for r in records if not r["right"]][:count]:
        lines += [f"{r['id']}: {r['wrong']}: {r['why'][:400]}"]
        lines += [f"  {m['role']}: {str(m.get('content'))[:300]}" for m in r["question"]]
        lines += [
            f"  expected: {r['expected']}"[:600],
            f"  calls:    {r['calls']}"[:600],
            f"  text:     {r['text']!r}"[:600],
        ]
    return "\n".join(lines)
