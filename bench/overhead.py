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
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from contention import ROOT, SAMPLING, free_port, wait_ready

LOADS = {"1 agent x 1": ("1", "1"), "16 agents x 4": ("16", "4")}


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model-file", required=True, help="the default model as a file (it lies in agentd's cache)")
    p.add_argument("--agentd", default=str(ROOT / "agentd"))
    p.add_argument("--turns", default="4", help="turns of each agent")
    p.add_argument("--single-turns", default="40", help="turns of the one agent of the first load")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--loads", default=",".join(LOADS), help="loads to measure, separated by commas")
    return p.parse_args()


def processor_time(p: subprocess.Popen) -> float:
    """Seconds that a process has computed."""
    fields = pathlib.Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(a: argparse.Namespace, load: str, through: bool) -> tuple[float, float, float]:
    """Decisions/s, the median latency in ms, and the front's share of processor time, with fresh servers."""
    agents, candidates = LOADS[load]
    port, front = free_port(), free_port()
    engine = f"http://127.0.0.1:{port}"
    cores = str(os.cpu_count())
    servers = []

    def start(url: str, command: list[str]) -> None:
        servers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_ready(url, servers[-1])

    bench = [
        str(ROOT / "agentbench"),
        "run",
        "--agents",
        agents,
        "--candidates",
        candidates,
        "--groups",
        "1",
    ]
    bench += ["--turns", a.turns if agents != "1" else a.single_turns, "--fixed-tokens", "16", "--model", "default"]
    with tempfile.TemporaryDirectory() as out:
        try:
            command = [str(ROOT / "bench/bin/llama-server"), "--model", a.model_file, "--port", str(port), "--offline"]
            command += ["--threads", cores, "--threads-batch", cores, "--parallel", "64", "--ctx-size", "65536"]
            start(engine, [*command, "--kv-unified", "--no-ui"])
            if through:
                url = f"http://127.0.0.1:{front}"
                command = [a.agentd, "--engine", engine, "--port", str(front), "--log-level", "error"]
                start(url, [*command, "--debug", "fixed-tokens=16", *SAMPLING])
                bench += ["--url", url]
            else:
                bench += ["--url", engine, "--target", "llama-server"]
            before = [processor_time(p) for p in servers]
            done = subprocess.run([*bench, "--out", f"{out}/r.json"], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            with open(f"{out}/r.json") as f:
                summary = json.load(f)["summary"]
            spent = [processor_time(p) - b for p, b in zip(servers, before, strict=True)]
            return summary["decisions_s"], summary["e2el_ms"]["p50"], sum(spent[1:]) / sum(spent)
        finally:
            for p in servers:
                p.kill()
                p.wait()


def main() -> None:
    a = arguments()
    for load in a.loads.split(","):
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
        rates = [t[0] / d[0] for d, t in zip(direct, through, strict=True)]
        extra = [t[1] - d[1] for d, t in zip(direct, through, strict=True)]
        for what, i in ("decisions/s", 0), ("p50 ms", 1):
            print(
                f"{load}, {what}: {statistics.median(x[i] for x in direct):.1f} and {statistics.median(x[i] for x in through):.1f}"
            )
        print(
            f"{load}: median ratio of decisions/s {statistics.median(rates):.3f}, p50 {statistics.median(extra):+.1f} ms"
        )
        print(
            f"{load}: agentd has {100 * statistics.median(t[2] for t in through):.1f} % of the processor time of both"
        )


if __name__ == "__main__":
    main()
