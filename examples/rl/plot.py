"""Draws the reward of each round as an SVG file, and prints the figures: plot.py REPORT.json... CURVE.svg"""

import json
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, EDGE = 560, 300, 44
COLOURS = "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"


def curve(reports: list[dict[str, Any]]) -> str:
    """A line for each seed. The rewards of round n are those of the weights after n rounds of training."""
    last = max(len(report["rounds"]) for report in reports) - 1
    x = lambda n: EDGE + (WIDTH - 2 * EDGE) * n / max(1, last)
    y = lambda reward: HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (reward - 0.5) / 0.5
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{EDGE}" y="{EDGE - 26}">mean reward of 256 candidates</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">round</text>',
    ]
    for tenth in range(5, 11):
        level = y(tenth / 10)
        out.append(f'<path d="M{EDGE} {level:.1f}H{WIDTH - EDGE}" stroke="#ddd"/>')
        out.append(f'<text x="{EDGE - 6}" y="{level + 4:.1f}" text-anchor="end">{tenth / 10}</text>')
    out += [f'<text x="{x(n):.1f}" y="{HEIGHT - 26}" text-anchor="middle">{n}</text>' for n in range(last + 1)]
    for i, (report, colour) in enumerate(zip(reports, COLOURS)):
        points = " ".join(f"{x(done['round']):.1f},{y(done['reward']):.1f}" for done in report["rounds"])
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{EDGE + 230 + 70 * i}" y="{EDGE - 26}" fill="{colour}">seed {report["seed"]}</text>')
    return "\n".join([*out, "</svg>\n"])


def figures(report: dict[str, Any]) -> str:
    """What README.md has of a seed."""
    rounds = report["rounds"]
    seconds = {part: sum(done["seconds"][part] for done in rounds) for part in rounds[-1]["seconds"]}
    shares = ", ".join(f"{part} {100 * spent / sum(seconds.values()):.1f} %" for part, spent in seconds.items())
    first = [done["updates"][0] for done in rounds]
    furthest = max(abs(update["mean"] - 1) for update in first)
    extremes = min(update["least"] for update in first), max(update["most"] for update in first)
    later = [update for done in rounds for update in done["updates"][1:] if "mean" in update]
    clipped = max((update["clipped"] for update in later), default=0.0)
    drift = max((abs(update["mean"] - 1) for update in later), default=0.0)
    rewards = " ".join(f"{done['reward']:.3f}" for done in rounds)
    right = " ".join(f"{done['right']:.3f}" for done in rounds)
    return (
        f"seed {report['seed']}: rewards {rewards}; right {right}; held-out {report['before']} to {report['after']}; "
        f"mean ratio within {furthest:.1e} of 1, tokens {extremes[0]:.5f} to {extremes[1]:.5f}; "
        f"with older decisions within {drift:.1e} of 1, {100 * clipped:.1f} % clipped at most; "
        f"{sum(seconds.values()):.0f} s: {shares}"
    )


def main() -> None:
    *names, svg = sys.argv[1:]
    reports = [json.loads(Path(name).read_text()) for name in names]
    Path(svg).write_text(curve(reports))
    print(*map(figures, reports), sep="\n")


if __name__ == "__main__":
    main()
