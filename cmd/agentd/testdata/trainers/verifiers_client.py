"""The train client of verifiers with its renderers, unmodified.

usage: verifiers_client.py URL WEIGHTS_DIRECTORY, with a token in the URL: http://NAME:TOKEN@HOST
"""

import asyncio
import os
import sys
from urllib.parse import urlsplit

from verifiers.v1.clients.train import TrainClient
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.dialects import ChatDialect
from verifiers.v1.types import SamplingConfig

url, directory = sys.argv[1:]
parts = urlsplit(url)
os.environ["AGENTD_TOKEN"] = parts.password
tool = {
    "type": "function",
    "function": {
        "name": "go",
        "description": "Go",
        "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
    },
}


async def main():
    client = TrainClient(
        TrainClientConfig(
            base_url=f"http://{parts.hostname}:{parts.port}/v1",
            api_key_var="AGENTD_TOKEN",
            renderer_model_name=f"{directory}/qwen",
            renderer={"name": "qwen3"},
        )
    )
    body = {
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "You are a robot."},
            {"role": "user", "content": "Go to the kitchen"},
        ],
        "tools": [tool],
    }
    for salt in (None, "step-1"):
        sampling = SamplingConfig(temperature=1.0, max_tokens=16, seed=4, **({"cache_salt": salt} if salt else {}))
        got = await client.get_response(ChatDialect(), body, sampling, session_id="rollout-1")
        tokens = got.tokens
        assert len(tokens.prompt_ids) > 20 and len(tokens.completion_ids) == len(tokens.completion_logprobs) > 0, tokens
        assert max(tokens.completion_logprobs) <= 0 and min(tokens.completion_logprobs) > -9999
        assert got.finish_reason in ("stop", "length", "tool_calls")
    await client.close()


asyncio.run(main())
print("all is well")
