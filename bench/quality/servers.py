"""Starts a server on a free port, and ends it with the block, also after Ctrl-C."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMES = ["agentd", "llama-server", "vllm"]
# For each request: the longest prompts of the benchmark and of its turns, and the answer.
CONTEXT = 16384
# A model may have to be read from a slow disk, and vLLM compiles first.
PATIENCE = 600


def model_file(model: str) -> str:
    """A file, or one of the two models that third_party/models.sh fetches."""
    if model in ("0.5b", "1.5b"):
        return subprocess.run(
            [ROOT / "third_party/models.sh", model], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    if not os.path.exists(model):
        raise SystemExit(f"--model: there is no {model}; give 0.5b, 1.5b or a file")
    return model


def command(server: str, model: str, clients: int, max_tokens: int, several: bool) -> list[str]:
    """The command of a server without its port. several: right answers may have several calls for the one robot."""
    cells = str(CONTEXT * clients)
    match server:
        case "agentd":
            calls = ["--calls-per-robot", "any"] if several else []
            limits = ["--context-length", cells, "--max-new-tokens", str(max_tokens), "--log-level", "warn"]
            return [str(ROOT / "agentd"), "--model", model, *limits, *calls]
        case "llama-server":
            size = ["--ctx-size", cells, "--parallel", str(clients), "--kv-unified", "--flash-attn", "on"]
            return [str(ROOT / "bench/bin/llama-server"), "--model", model, "--jinja", "--offline", "--no-webui", *size]
        case "vllm":
            calls = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
            size = ["--max-model-len", str(CONTEXT), "--cells", cells, "--converter", str(HERE / "checkpoint.py")]
            return [str(ROOT / "third_party/vllm.sh"), "--model", model, *size, *calls]
    raise SystemExit(f"--server: got {server!r}, want a URL or one of {', '.join(NAMES)}")


@contextlib.contextmanager
def serving(words: list[str]):
    """The URL of a server that is ready. Its output is shown if it ends by itself."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen([*words, "--port", str(port)], stdout=log, stderr=subprocess.STDOUT)
        try:
            end = time.monotonic() + PATIENCE
            while server.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError), urllib.request.urlopen(url + "/health", timeout=5):
                    break
                time.sleep(0.2)
            else:
                log.seek(0)
                sys.stderr.write(log.read()[-4000:].decode(errors="replace"))
                raise SystemExit(f"{words[0]} ended with {server.poll()}, or was not ready within {PATIENCE} s")
            yield url
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
