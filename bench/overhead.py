"""Measures what agentd costs in front of an engine: the same turns sent to llama-server, and to agentd before it.

Start it from the root of a checkout, after `make agentd agentbench peers`:

    python3 bench/overhead.py --model-file ~/.cache/agentd/models/household-….gguf

Every figure is of a fresh llama-server and of the same trace with the same token ids. Both ways take turns. The first
load has one agent with one candidate, so that its median latency differs by agentd's own time alone. The second has 16
agents with 4 candidates each and gives decisions/s. It prints each figure, the medians, and the median of the
differences of neighbours. It also prints agentd's share of the processor time of both while they answer: on processors
that are all busy, this share of the decisions is what agentd costs, and other programs do not disturb it.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess

from contention import ROOT, SAMPLING, agentbench, llama_server, parser, serving

LOADS = {  # agents, candidates, turns
    "1 agent x 1": ("1", "1", "40"),
    "16 agents x 4": ("16", "4", "4"),
}


def processor_time(p: subprocess.Popen) -> float:
    """Seconds that a process has computed."""
    fields = pathlib.Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(a: argparse.Namespace, load: str, through: bool) -> tuple[float, float, float]:
    """Decisions/s, the median latency in ms, and the front's share of processor time, with fresh servers."""
    options = ["--groups", "1", "--fixed-tokens", "16", "--model", "default"]
    for name, value in zip(("--agents", "--candidates", "--turns"), LOADS[load], strict=True):
        options += [name, value]
    with contextlib.ExitStack() as stack:
        url, engine = stack.enter_context(serving(*llama_server(a.model_file, 64, 65536)))
        servers = [engine]
        if through:
            front = [a.agentd, "--engine", url, "--log-level", "error", "--debug", "fixed-tokens=16", *SAMPLING]
            url, process = stack.enter_context(serving(*front))
            servers.append(process)
        else:
            options += ["--target", "llama-server"]
        before = [processor_time(p) for p in servers]
        summary = agentbench(url, *options)
        spent = [processor_time(p) - b for p, b in zip(servers, before, strict=True)]
        return summary["decisions_s"], summary["e2el_ms"]["p50"], sum(spent[1:]) / sum(spent)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--model-file", required=True, help="the default model as a file (it lies in agentd's cache)")
    p.add_argument("--agentd", default=str(ROOT / "agentd"))
    p.add_argument("--repeats", type=int, default=5)
    a = p.parse_args()
    for load in LOADS:
        direct, through = [], []
        for repeat in range(a.repeats):
            sides = [(direct, False), (through, True)]
            for list_, front in sides if repeat % 2 == 0 else sides[::-1]:
                list_.append(measure(a, load, front))
            d, t = direct[-1], through[-1]
            print(
                f"{load}: {d[0]:.1f} decisions/s, p50 {d[1]:.1f} ms; through agentd {t[0]:.1f}, {t[1]:.1f} ms",
                flush=True,
            )
        median = lambda list_, i: statistics.median(x[i] for x in list_)
        for what, i in ("decisions/s", 0), ("p50 ms", 1):
            print(f"{load}, {what}: {median(direct, i):.1f} and {median(through, i):.1f}")
        rate = statistics.median(t[0] / d[0] for d, t in zip(direct, through, strict=True))
        extra = statistics.median(t[1] - d[1] for d, t in zip(direct, through, strict=True))
        print(f"{load}: median ratio of decisions/s {rate:.3f}, p50 {extra:+.1f} ms")
        print(f"{load}: agentd has {100 * median(through, 2):.1f} % of the processor time of both")


if __name__ == "__main__":
    main()
