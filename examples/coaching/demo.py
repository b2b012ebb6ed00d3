"""Starts what the orchestrator needs, an agent server and the scripted coach, and stops both after it.

    python3 examples/coaching/demo.py python3 examples/coaching/orchestrator.py

The orchestrator finds both in its environment: AGENTD_URL and COACH_URL. One that is set already is used and not
started. This program ends as the orchestrator ends. Without an orchestrator, it waits for Ctrl-C.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import coach

PATIENCE = 30  # seconds that a program may take to end after it was asked to


@contextlib.contextmanager
def program(command: list[str], **more) -> Iterator[subprocess.Popen]:
    """A program that is interrupted at the end. Ctrl-C reaches it only from here: the server must outlive the orchestrator."""
    with subprocess.Popen(command, start_new_session=True, **more) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def agentd(path: str) -> Iterator[str]:
    """The URL of an agentd with the default model on a free port, which listens."""
    options = ["--host", "127.0.0.1", "--port", "0", "--log-format", "json", "--context-length", "16384"]
    with open(os.devnull, "w") as nothing, program([path, *options], stderr=subprocess.PIPE, text=True) as server:
        log = ""
        for line in server.stderr:
            with contextlib.suppress(ValueError):
                if (entry := json.loads(line)).get("message") == "listening":
                    break
            log += line
        else:
            sys.exit(f"demo: agentd does not listen. Its log:\n{log}")
        # It would wait for a reader of its log otherwise.
        threading.Thread(target=shutil.copyfileobj, args=(server.stderr, nothing), daemon=True).start()
        print(
            f"Started agentd at {entry['url']}, with the default model. AGENTD_URL=http://... uses yours.", flush=True
        )
        yield entry["url"]


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--agentd", metavar="PATH", default="./agentd", help="agentd, as make builds it")
    options.add_argument("orchestrator", nargs=argparse.REMAINDER, help="command")
    chosen = options.parse_args()
    with contextlib.ExitStack() as started:
        urls = {"AGENTD_URL": os.environ.get("AGENTD_URL"), "COACH_URL": os.environ.get("COACH_URL")}
        try:
            urls["AGENTD_URL"] = urls["AGENTD_URL"] or started.enter_context(agentd(chosen.agentd))
        except OSError as error:
            sys.exit(f"demo: agentd can't be started (make builds it): {error}")
        urls["COACH_URL"] = urls["COACH_URL"] or started.enter_context(coach.serving())
        if not chosen.orchestrator:
            print("Ready; Ctrl-C ends it.\n\n  export", *(f"{name}={url}" for name, url in urls.items()), flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
            return 0
        with program(chosen.orchestrator, env=os.environ | urls) as orchestrator:
            with contextlib.suppress(KeyboardInterrupt):
                orchestrator.wait()
        return 1 if orchestrator.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
