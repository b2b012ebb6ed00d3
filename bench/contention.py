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
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPIN = "import os\np = os.getppid()\nwhile os.getppid() == p:\n    for _ in range(100000): pass"
SAMPLING = ["--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0"]


def parser(about: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


@contextlib.contextmanager
def serving(*command: str):
    """A server on a free port, as its URL and process. It is ended with the block."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while server.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), urllib.request.urlopen(url + "/health", timeout=5):
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"{command[0]} ended with {server.poll()}, or was not ready within a minute")
        yield url, server
    finally:
        server.kill()
        server.wait()


def llama_server(file: str, slots: int, cells: int) -> list[str]:
    """The command of a llama-server with all processors."""
    sizes = {"threads": os.cpu_count(), "threads-batch": os.cpu_count(), "parallel": slots, "ctx-size": cells}
    options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    return [str(ROOT / "bench/bin/llama-server"), "--model", file, *options, "--kv-unified", "--offline", "--no-webui"]


def agentbench(url: str, *options: str, limit: int | None = None) -> dict:
    """The summary of a run of agentbench."""
    with tempfile.TemporaryDirectory() as out:
        command = [str(ROOT / "agentbench"), "run", "--url", url, *options, "--out", f"{out}/r.json"]
        done = subprocess.run(command, timeout=limit, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return json.loads(pathlib.Path(out, "r.json").read_text())["summary"]


def measure(a: argparse.Namespace, name: str, command: list[str], busy: int) -> float:
    """Decisions/s of a fresh server beside busy loops; 0 if it is too slow."""
    options = ["--agents", "16", "--candidates", "4", "--turns", str(a.turns), "--fixed-tokens", "32"]
    if name == "llama-server":
        options += ["--target", "llama-server", "--model", a.model]
    with serving(*command) as (url, _):
        loops = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(busy)]
        try:
            return agentbench(url, *options, limit=a.limit)["decisions_s"]
        except subprocess.TimeoutExpired:
            return 0.0
        finally:
            for p in loops:
                p.kill()
                p.wait()


def main() -> None:
    p = parser(__doc__)
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
    a = p.parse_args()
    model = [] if a.model == "default" else ["--model", a.model]
    options = ["--context-length", "32768", "--log-level", "error", "--debug", "fixed-tokens=32", *SAMPLING]
    sides = {"agentd": [a.agentd, *model, *options, *a.args.split()]}
    if a.before:
        sides["before"] = [a.before, *model, *options]
    if not a.no_llama_server:
        path = a.model_file if a.model == "default" else a.model
        if not path:
            raise SystemExit("name the default model's file with --model-file, or give --no-llama-server")
        sides["llama-server"] = llama_server(path, 16, 32768)
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
