"""The calls of prime-rl's orchestrator, in its forms and order: its package is not published.

usage: prime_rl_calls.py URL WEIGHTS_DIRECTORY, with a token in the URL: http://NAME:TOKEN@HOST
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx

url, directory = sys.argv[1:]
parts = urlsplit(url)


async def main():
    headers = {"Authorization": f"Bearer {parts.password}"}
    async with httpx.AsyncClient(
        base_url=f"http://{parts.hostname}:{parts.port}", headers=headers, timeout=None
    ) as admin:
        assert (await admin.get("/health")).status_code == 200
        assert "qwen" in [model["id"] for model in (await admin.get("/v1/models")).json()["data"]]
        versions = []
        for step in (1, 2):
            weights = Path(directory) / "step_1"
            (await admin.post("/pause", params={"mode": "keep", "clear_cache": "false"})).raise_for_status()
            (
                await admin.post("/pause", params={"mode": "keep", "clear_cache": "false"})
            ).raise_for_status()  # as its retries do
            try:
                (weights / "NCCL_READY").touch()
                (await admin.post("/update_weights", json={"weight_dir": weights.as_posix()})).raise_for_status()
            finally:
                (await admin.post("/resume")).raise_for_status()
            versions.append((await admin.get("/weight_info")).json()["weight_version"])
        assert versions[0] == versions[1] and versions[0].startswith("sha256:"), versions
        assert (await admin.post("/update_weights", json={"weight_dir": None})).status_code == 400
        assert (
            await admin.post("/load_lora_adapter", json={"lora_name": "policy", "lora_path": "/nowhere"})
        ).status_code == 400
        assert (await admin.post("/v1/unload_lora_adapter", json={"lora_name": "policy"})).status_code == 404
        assert (await admin.get("/liveness")).status_code == 200
        assert "agentd_pauses_total" in (await admin.get("/metrics")).text


asyncio.run(main())
print("all is well")
