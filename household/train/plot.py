"""Draws the loss curve as an SVG file."""

import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 56, 56, 24, 40
SERIES = (
    ("loss", "#1f77b4", "training loss"),
    ("held_out", "#d62728", "held-out loss"),
    ("exact", "#2ca02c", "exact decisions (right axis)"),
)


def curve(rows: list[dict], path: str) -> None:
    """The losses on a logarithmic left axis, the share of exact decisions on the right axis."""
    losses = [max(r[k], 1e-4) for r in rows for k in ("loss", "held_out")]
    low, high = math.floor(math.log10(min(losses))), math.ceil(math.log10(max(losses)) + 1e-9)
    high = max(high, low + 1)
    last = max(r["step"] for r in rows)
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / last
    down = lambda share: TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        y = down((power - low) / (high - low))
        out.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    for percent in range(0, 101, 20):
        out.append(f'<text x="{WIDTH - RIGHT + 6}" y="{down(percent / 100) + 4:.1f}">{percent} %</text>')
    for i in range(5):
        out.append(
            f'<text x="{x(last * i / 4):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{last * i // 4}</text>'
        )
    for i, (key, colour, label) in enumerate(SERIES):
        share = (lambda v: v) if key == "exact" else (lambda v: (math.log10(max(v, 1e-4)) - low) / (high - low))
        points = " ".join(f"{x(r['step']):.1f},{down(share(r[key])):.1f}" for r in rows)
        out.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<text x="{LEFT + 200 * i}" y="{TOP - 8}" fill="{colour}">{label}</text>'
        )
    out.append(f'<text x="{(WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle">step</text></svg>\n')
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out))
