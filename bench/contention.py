"""Measures agentd and llama-server beside busy programs: decisions/s with 0, 1, 2 and 4 busy loops.

Start it from the root of a checkout, after `make agentd agentbench peers`:

    python3 bench/contention.py --model default
    ./agentd make-model --arch qwen3 --shape 0.1b --type bf16 --out 0.1b.gguf
    python3 bench/contention.py --model 0.1b.gguf --before path/to/another/agentd

Every figure is of a fresh server and of the same trace: 16 agents, 4 candidates, answers of a fixed length. The servers
take turns within each repeat. It prints the medians and what share of the free figure each of them is.
"""

import argparse
import collections
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPIN = "import os\np = os.getppid()\nwhile os.getppid() == p:\n    for _ in range(100000): pass"
SAMPLING = ["--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0"]


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="default", help="GGUF file, or default for the model inside agentd")
    p.add_argument("--model-file", help="the default model as a file, for llama-server (it lies in agentd's cache)")
    p.add_argument("--agentd", default=str(ROOT / "agentd"))
    p.add_argument("--before", help="another agentd to measure in turns with it")
    p.add_argument("--busy", default="0,1,2,4", help="numbers of busy loops; the first one is the reference")
    p.add_argument("--turns", type=int, default=4, help="turns of each agent")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--limit", type=int, default=100, help="seconds for one figure; what takes longer counts as 0")
    p.add_argument("--no-llama-server", action="store_true")
    p.add_argument("--args", default="", help="further options of agentd, separated by spaces")
    return p.parse_args()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_ready(url: str, server: subprocess.Popen) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"{server.args[0]} ended with {server.returncode} before it was ready")
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as r:
                if r.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise SystemExit(f"{server.args[0]} was not ready within a minute")


def measure(a: argparse.Namespace, name: str, command: list[str], busy: int) -> float:
    """Decisions/s of a fresh server beside busy loops."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    bench = [
        str(ROOT / "agentbench"),
        "run",
        "--url",
        url,
        "--agents",
        "16",
        "--candidates",
        "4",
        "--turns",
        str(a.turns),
        "--fixed-tokens",
        "32",
    ]
    if name == "llama-server":
        bench += ["--target", "llama-server", "--model", a.model]
    loops = []
    with tempfile.TemporaryDirectory() as out:
        server = subprocess.Popen(command + ["--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_ready(url, server)
            loops = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(busy)]
            done = subprocess.run(bench + ["--out", f"{out}/r.json"], timeout=a.limit, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{name}: {done.stderr}")
            for line in done.stdout.splitlines():
                words = line.split()
                if words[:2] == ["Decisions", "1/s"]:
                    return float(words[2].replace(",", ""))
            raise SystemExit(f"{name}: agentbench printed no decisions/s")
        except subprocess.TimeoutExpired:
            return 0.0
        finally:
            for p in loops + [server]:
                p.kill()
                p.wait()


def main() -> None:
    a = arguments()
    model = [] if a.model == "default" else ["--model", a.model]
    options = ["--context-length", "32768", "--log-level", "error", "--debug", "fixed-tokens=32", *SAMPLING]
    sides = {"agentd": [a.agentd, *model, *options, *a.args.split()]}
    if a.before:
        sides["before"] = [a.before, *model, *options]
    if not a.no_llama_server:
        path = a.model_file if a.model == "default" else a.model
        if not path:
            raise SystemExit("name the default model's file with --model-file, or give --no-llama-server")
        cores = str(os.cpu_count())
        sides["llama-server"] = [
            str(ROOT / "bench/bin/llama-server"),
            "--model",
            path,
            "--threads",
            cores,
            "--threads-batch",
            cores,
            "--parallel",
            "16",
            "--ctx-size",
            "32768",
            "--kv-unified",
            "--offline",
            "--no-webui",
        ]
    busy = [int(n) for n in a.busy.split(",")]
    rates = collections.defaultdict(list)
    for repeat in range(a.repeats):
        for n in busy:
            for name, command in sides.items():
                rates[name, n].append(measure(a, name, command, n))
                print(repeat, n, name, rates[name, n][-1], file=sys.stderr, flush=True)
    print("| busy loops | " + " | ".join(sides) + " |\n|---|" + "---|" * len(sides))
    for n in busy:
        row = []
        for name in sides:
            rate, reference = statistics.median(rates[name, n]), statistics.median(rates[name, busy[0]])
            row.append(f"{rate:.3g} ({rate / reference:.2f})" if reference else f"{rate:.3g}")
        print(f"| {n} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
