"""An agentd for one trainer: it samples without truncation, in the trainer's precision, and its weights can change."""

import os
import secrets
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
from agentd_client import Client


class Server:
    """Serves the model in a directory below `weights`."""

    def __init__(self, program: str, weights: Path, model: str, *debug: str) -> None:
        self._token = secrets.token_hex(16)
        tokens = weights / "tokens"
        with os.fdopen(os.open(tokens, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"trainer+weights:{self._token}\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = {
            "model": weights / model,
            "weights-dir": weights,
            "auth-token-file": tokens,
            "port": port,
            "coaching": "off",
            "log-level": "warn",
            # The sampled distribution is the model's softmax under the grammar: nothing else cuts or sharpens it.
            "temperature": 1,
            "top-p": 1,
            "top-k": 0,
            "max-new-tokens": 256,
            # As the trainer computes.
            "dtype": "f32",
            "debug": ",".join(["cpu-attention=f32", *debug]),
        }
        self._process = subprocess.Popen([program, *(f"--{name}={value}" for name, value in options.items())])
        self._url = f"http://127.0.0.1:{port}"
        self.url = f"http://trainer:{self._token}@127.0.0.1:{port}"  # for clients without a setting for a token
        self.client = Client(self._url, token=self._token, timeout=None)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait()

    def load(self, model: str) -> str:
        """Replace the model by one in another directory; its version."""
        return self._weights("PUT", json={"model": model})

    def version(self) -> str:
        """The version of the weights in use."""
        return self._weights("GET")

    def _weights(self, method: str, **body: Any) -> str:
        self.client.health()  # waits until it listens
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = httpx.request(method, self._url + "/v1/weights", headers=headers, timeout=None, **body)
        if answer.is_error:
            raise SystemExit(f"{method} /v1/weights: {answer.status_code} {answer.text}")
        return answer.json()["model"]["version"]
