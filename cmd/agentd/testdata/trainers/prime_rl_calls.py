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


async def answer(admin, model):
    """The sampled tokens of a chat, as the train client asks for them."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 12,
        "temperature": 0,
        "logprobs": True,
        "return_token_ids": True,
    }
    got = await admin.post("/v1/chat/completions", json=body)
    got.raise_for_status()
    return got.json()["choices"][0]["token_ids"]


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
        nowhere = {"lora_name": "policy", "lora_path": "/nowhere"}
        assert (await admin.post("/load_lora_adapter", json=nowhere)).status_code == 400
        assert (await admin.post("/v1/unload_lora_adapter", json={"lora_name": "policy"})).status_code == 404

        # Each step loads the policy again under its name; the orchestrator waits for that name, and samples with it.
        adapter = {"lora_name": "policy", "lora_path": f"{directory}/adapter"}
        for _ in (1, 2):
            (await admin.post("/pause", params={"mode": "keep", "clear_cache": "false"})).raise_for_status()
            (await admin.post("/load_lora_adapter", json=adapter)).raise_for_status()
            (await admin.post("/resume")).raise_for_status()
            assert "policy" in [model["id"] for model in (await admin.get("/v1/models")).json()["data"]]
            assert await answer(admin, "policy") != await answer(admin, "qwen")
        (await admin.post("/v1/unload_lora_adapter", json={"lora_name": "policy"})).raise_for_status()
        body = {"model": "policy", "messages": [{"role": "user", "content": "Hello"}]}
        refused = await admin.post("/v1/chat/completions", json=body)
        assert 400 <= refused.status_code < 500 and "policy" in refused.text, refused.text
        assert (await admin.get("/liveness")).status_code == 200
        assert "agentd_pauses_total" in (await admin.get("/metrics")).text


asyncio.run(main())
print("all is well")
