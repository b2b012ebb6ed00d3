"""Checks and measures agentd on a device: correctness first, then speed. bench/gpu.sh runs it.

Each step leaves STEP.json in the folder of results, and is skipped where that file is there. So a run that is cut off
goes on from there. It exits with 75 while steps are left, and prints one JSON of all results at its end. A step that
had all the time of a call and did not end has failed.
It needs Python 3.9 and nothing else.
"""

import argparse
import concurrent.futures as futures
import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

TOOLS = [
    {"name": "go_to", "description": "Drive to a room.", "parameters": {"room": {"type": "string"}}},
    {"name": "pick_up", "description": "Pick up an object.", "parameters": {"object": {"type": "string"}}},
]
THINGS = ["red cup", "book", "blue plate", "towel", "apple", "lamp", "green bottle", "box"]
ROOMS = ["kitchen", "hall", "bedroom", "bathroom"]


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda0", help="as agentd --device takes it")
    p.add_argument("--home", type=Path, required=True, help="folder with agentd, agentbench and lib")
    p.add_argument("--out", type=Path, required=True, help="folder for results")
    p.add_argument("--minutes", type=float, default=9, help="begin no step that may take longer than what is left")
    p.add_argument("--dry-run", action="store_true", help="tiny models and few requests, to test this program")
    p.add_argument("--only", nargs="+", help="names of steps, or how they begin")
    return p.parse_args()


class OutOfTimeError(Exception): ...


class Bench:
    def __init__(self, a: argparse.Namespace):
        self.device, self.home, self.out, self.dry = a.device, a.home.resolve(), a.out.resolve(), a.dry_run
        self.minutes, self.deadline = a.minutes, time.monotonic() + 60 * a.minutes
        self.only = tuple(a.only or [""])
        self.models, self.small, self.batch = self.home / "models", [], []
        if self.dry:
            self.shapes = {"tiny": ("qwen3", "tiny", "f32"), "tiny-moe": ("gpt-oss", "tiny", "mxfp4")}
            self.asked, self.agents, self.widths, self.tokens, self.busy = 2, 3, [1, 2], 4, [2]
            self.context, self.large = 8192, 1_000_000
            self.batch = ["--debug", "batch-size=16"]  # Mesa 22.3 dies of some long ones (docs/gpu.md)
            self.small = ["--context-length", "1024", "--parallel", "2", "--max-new-tokens", "64", *self.batch]
        else:
            self.shapes = {"8b-bf16": ("qwen3", "8b", "bf16"), "8b-q8_0": ("qwen3", "8b", "q8_0")}
            self.shapes["20b-mxfp4"] = ("gpt-oss", "20b", "mxfp4")
            self.asked, self.agents, self.tokens = 24, 12, 32
            self.widths, self.busy = [1, 2, 4, 8, 16, 32, 64, 128], [16, 64]
            self.context, self.large = 131072, 8_000_000

    def left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        return left

    def run(self, *command: str, **more) -> str:
        """The output of a program, which may take the time that is left."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.left(), check=False, **more)
        except subprocess.TimeoutExpired as e:
            raise OutOfTimeError from e
        if done.returncode:
            raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr[-600:].strip()}")
        return done.stdout

    @contextlib.contextmanager
    def server(self, *options: str, device: str = "", program: str = "agentd"):
        """A running server, as its URL."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        name = Path(program).name
        log, where = self.out / f"{name}.log", ["--host", "127.0.0.1", "--port", str(port)]
        placed = ["--device", device or self.device] if name == "agentd" else []
        with log.open("w") as f:
            p = subprocess.Popen([str(self.home / program), *where, *placed, *options], stdout=f, stderr=f)
        url = f"http://127.0.0.1:{port}"
        try:
            while True:
                self.left()
                if p.poll() is not None:
                    raise RuntimeError(f"{name} ended with {p.returncode}: {log.read_text()[-600:].strip()}")
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(url + "/health", timeout=5).close()
                    break
                time.sleep(0.2)
            yield url
        except OSError as e:  # of a request
            time.sleep(2)  # for the line of a process that dies
            raise RuntimeError(f"{e}; {name} ended with {p.poll()}: {log.read_text()[-900:].strip()}") from e
        finally:
            p.terminate()
            try:
                p.wait(timeout=20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()

    def ask(self, url: str, n: int, memory=None) -> dict:
        """The n-th request's decision. With a memory, {} at first, each agent has a prompt of its own from the start."""
        say = f"rover, bring the {THINGS[n % 8]} from the {ROOMS[n % 4]} to the {ROOMS[(n // 4 + 1) % 4]}."
        turn, tools = {"type": "user", "content": say}, TOOLS
        if memory is not None:
            tools = [{"name": f"dock_{n}", "description": "Go home.", "parameters": {}}, *TOOLS]
        if memory:
            turn = {"type": "env", "content": f"rover is in the {ROOMS[n % 4]}."}
        one = {"id": n, "instruction": turn, "tools": tools, "attributes": {"known_robots": ["rover", "scout"]}}
        one |= {"extra_keys": {"inference_mode": True}} | ({"memory": memory} if memory else {})
        body = json.dumps({"request_id": f"r{n}", "inputs": [one]}).encode()
        request = urllib.request.Request(url + "/v1/responses", body, {"Content-Type": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request, timeout=self.left()))[0]
        except TimeoutError as e:
            raise OutOfTimeError from e

    def decisions(self, url: str, together: bool = False) -> list:
        with futures.ThreadPoolExecutor(self.asked if together else 1) as pool:
            return [a.get("output") or a for a in pool.map(lambda n: self.ask(url, n), range(self.asked))]

    def metrics(self, url: str) -> dict[str, float]:
        text = urllib.request.urlopen(url + "/metrics", timeout=30).read().decode()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in lines}

    # The steps. Each returns its result.

    def machine(self) -> dict:
        smi = self.run("nvidia-smi", "-L") if shutil.which("nvidia-smi") else "absent"
        with self.server(*self.small) as url:
            placed = {k: v for k, v in self.metrics(url).items() if k.startswith("agentd_device_")}
        version = self.run(str(self.home / "agentd"), "version").strip()
        return {"nvidia-smi": smi, "agentd": version, "cpus": os.cpu_count(), "placement": placed}

    def same(self, want: list, got: list, **more) -> dict:
        n = sum(a == b and "status" not in a for a, b in zip(want, got))  # an answer without output has it
        return {"decisions": len(want), "equal": n, "first": got[0], "passed": n == len(want)} | more

    def cpu(self) -> dict:
        """Decisions of the default model are those of the CPU."""
        with self.server(*self.small, device="cpu") as url:
            want = self.decisions(url)
        with self.server(*self.small) as url:
            return self.same(want, self.decisions(url))

    def reproducible(self) -> dict:
        """With --reproducible a decision does not depend on others beside it."""
        with self.server("--reproducible", *self.small) as url:
            return self.same(self.decisions(url), self.decisions(url, together=True))

    def cache_ram(self) -> dict:
        """Cells that were saved in host memory give the decisions of a large cache."""

        def talk(url: str) -> list:
            first = [self.ask(url, n, {}) for n in range(self.agents)]
            second = [self.ask(url, n, a["memory"]) for n, a in enumerate(first)]
            return [a.get("output") or a for a in second]

        options = [*self.batch, "--parallel", "2", "--max-new-tokens", "64", "--context-length"]
        with self.server(*options, "2048" if self.dry else "16384") as url:
            want = talk(url)
        with self.server(*options, "1024", "--cache-ram", "256") as url:
            got, m = talk(url), self.metrics(url)
        loaded = m["agentd_host_cache_cells_loaded_total"]
        result = self.same(want, got, loaded_cells=loaded, prompt_tokens=m["agentd_prompt_tokens_total"])
        return result | {"passed": result["passed"] and loaded > 0}

    def too_large(self) -> dict:
        """A context without memory for it ends with a line, not with a signal; the next server works."""

        def little():  # a device that is really the CPU would take all of this machine's memory
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

        command = [str(self.home / "agentd"), "--port", "0", "--device", self.device]
        command += ["--context-length", str(self.large)]
        if not self.dry:
            command += ["--model", str(self.models / "8b-bf16.gguf")]
        limit = little if self.dry else None
        p = subprocess.run(command, capture_output=True, text=True, timeout=self.left(), check=False, preexec_fn=limit)
        with self.server(*self.small) as url:
            after = self.ask(url, 0)["status"]
        line = "".join(p.stderr.strip().splitlines()[-1:])[:400]
        return {"exit": p.returncode, "line": line, "passed": p.returncode == 1 and "could not" in line and bool(after)}

    def model(self, name: str) -> dict:
        self.models.mkdir(exist_ok=True)
        path, (arch, shape, kind) = self.models / f"{name}.gguf", self.shapes[name]
        began = time.monotonic()
        if not path.exists():
            make = [str(self.home / "agentd"), "make-model", "--arch", arch, "--shape", shape, "--type", kind]
            try:
                self.run(*make, "--out", str(path))
            finally:
                for part in self.models.glob(f"{path.name}.*.partial"):  # of a writer that was killed
                    part.unlink()
        return {"bytes": path.stat().st_size, "seconds": round(time.monotonic() - began, 1)}

    def load(self, url: str, name: str, agents: int, seed: int, target: str = "agentd", turns: int = 2) -> dict:
        out = self.out / "agentbench.tmp"
        out.unlink(missing_ok=True)
        trace = ["--model", str(self.models / f"{name}.gguf"), "--agents", str(agents), "--turns", str(turns)]
        self.run(
            *(str(self.home / "agentbench"), "run", "--url", url, "--target", target, "--out", str(out), *trace),
            *("--candidates", "1", "--groups", str(min(agents, 4)), "--trace-seed", str(seed)),
            *("--fixed-tokens", str(self.tokens)),
        )
        s = json.loads(out.read_text())["summary"]
        if failures := s["failures"] | s["candidate_failures"]:
            raise RuntimeError(f"requests failed: {failures}")
        keep = ("decisions_s", "output_tok_s", "ttft_ms", "tpot_ms", "steps", "batch_width", "phases_s")
        return {k: s[k] for k in keep if k in s}

    def options(self, name: str) -> list[str]:
        model = ["--model", str(self.models / f"{name}.gguf"), "--context-length", str(self.context)]
        return [*model, "--debug", f"fixed-tokens={self.tokens}", "--parallel", str(max(self.widths))]

    def throughput(self, name: str) -> dict:
        with self.server(*self.options(name)) as url:
            self.load(url, name, 1, 999)  # pipelines are compiled
            return {str(w): self.load(url, name, w, w) for w in self.widths}

    def llama_server(self, name: str) -> dict:
        program = "peers/bin/llama-server"
        if not (self.home / program).exists():
            return {"absent": "llama-server was not carried"}
        most = max(self.widths)
        options = ["-m", str(self.models / f"{name}.gguf"), "-c", str(self.context), "-np", str(most), "-kvu"]
        layers = "0" if self.device == "cpu" else "99"
        with self.server(*options, "--metrics", "-ngl", layers, program=program) as url:
            self.load(url, name, 1, 999, "llama-server")
            return {str(w): self.load(url, name, w, w, "llama-server") for w in self.widths}

    def step(self, name: str) -> dict:
        """Time of an output token and of a step, prompts included, with the prefix cache empty and full."""
        result = {}
        for agents in self.busy:
            with self.server(*self.options(name)) as url:
                self.load(url, name, 1, 999, turns=1)
                result[f"{agents} empty"] = self.per_step(url, name, agents, 1)
                for seed in range(100, 140):
                    if self.metrics(url)["agentd_kv_cache_cells_used"] > 0.9 * self.context:
                        break
                    self.load(url, name, max(self.busy), seed, turns=1 if self.dry else 6)
                result[f"{agents} full"] = self.per_step(url, name, agents, 2)
        return result

    def per_step(self, url: str, name: str, agents: int, seed: int) -> dict:
        before = self.metrics(url)
        load = self.load(url, name, agents, seed, turns=1)
        after = self.metrics(url)
        delta = {k: after[k] - before.get(k, 0) for k in after}
        steps = delta["agentd_steps_total"] or 1
        parts = {p: delta[f'agentd_step_seconds_total{{part="{p}"}}'] for p in ("plan", "decode", "sample", "commit")}
        return {
            "usage": round(before["agentd_kv_cache_cells_used"] / self.context, 2),
            "tpot_ms": load["tpot_ms"]["p50"],
            "rows": round(delta["agentd_step_tokens_total"] / steps, 1),
            "step_ms": round(1000 * sum(parts.values()) / steps, 3),
            "share": {p: round(v / max(1e-9, sum(parts.values())), 4) for p, v in parts.items()},
        }

    def steps(self) -> list:
        """Names, functions, and seconds that each may take."""
        list_ = [("machine", self.machine, 60), ("cpu", self.cpu, 120), ("reproducible", self.reproducible, 120)]
        list_ += [("cache-ram", self.cache_ram, 120)]
        for n in self.shapes:
            list_ += [(f"model-{n}", lambda n=n: self.model(n), 400)]
        list_.append(("too-large", self.too_large, 120))
        for n in self.shapes:
            list_ += [(f"throughput-{n}", lambda n=n: self.throughput(n), 300)]
            list_ += [(f"step-{n}", lambda n=n: self.step(n), 300)]
            list_ += [(f"llama-server-{n}", lambda n=n: self.llama_server(n), 300)]
        return [s for s in list_ if s[0].startswith(self.only)]

    def main(self) -> int:
        self.out.mkdir(parents=True, exist_ok=True)
        steps, alone = self.steps(), True
        for name, function, seconds in steps:
            path = self.out / f"{name}.json"
            if path.exists():
                continue
            began = time.monotonic()
            try:
                if not alone and self.left() < (seconds if not self.dry else 10):
                    raise OutOfTimeError
                result = function()
            except OutOfTimeError:
                if not alone:
                    done = sum((self.out / f"{n}.json").exists() for n, _, _ in steps)
                    print(f"agentd: {done} of {len(steps)} steps are done; run it again for {name}", file=sys.stderr)
                    return 75
                result = {"error": f"it did not end within --minutes {self.minutes:g}", "passed": False}
            except (RuntimeError, OSError, KeyError, ValueError, subprocess.SubprocessError) as e:
                result = {"error": str(e) or repr(e), "passed": False}
            alone = False
            result["took_s"] = round(time.monotonic() - began, 1)
            print(f"agentd: {name}: {json.dumps(result)[:200]}", file=sys.stderr)
            path.with_suffix(".tmp").write_text(json.dumps(result, indent=1))
            path.with_suffix(".tmp").rename(path)
        results = {n: json.loads((self.out / f"{n}.json").read_text()) for n, _, _ in steps}
        print(json.dumps({"device": self.device, "dry_run": self.dry, "steps": results}, indent=1))
        return 1 if any(r.get("passed") is False for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(Bench(arguments()).main())
