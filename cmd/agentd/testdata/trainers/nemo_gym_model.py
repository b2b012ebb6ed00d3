"""NeMo Gym's model server for vLLM, unmodified, in this process.

usage: nemo_gym_model.py URL WEIGHTS_DIRECTORY [tokenize], with a token in the URL: http://NAME:TOKEN@HOST
tokenize: the ids of the prompt come from /tokenize, not with the answer
"""

import sys
from unittest.mock import MagicMock
from urllib.parse import urlsplit

from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

url, directory, *tokenize = sys.argv[1:]
parts = urlsplit(url)
sys.argv = sys.argv[:1]  # which its configuration reads
tool = {
    "type": "function",
    "name": "go",
    "description": "Go to a room",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"room": {"type": "string", "enum": ["kitchen", "cellar"]}},
        "required": ["room"],
        "additionalProperties": False,
    },
}

server = VLLMModel(
    config=VLLMModelConfig(
        host="127.0.0.1",
        port=1,
        base_url=f"http://{parts.hostname}:{parts.port}/v1",
        api_key=parts.password,
        model="qwen",
        entrypoint="",
        name="policy",
        return_token_id_information=True,
        request_prompt_and_generation_token_ids=not tokenize,
        uses_reasoning_parser=False,
    ),
    server_client=MagicMock(spec=ServerClient, global_config_dict={}),
)
with TestClient(server.setup_webserver()) as gym:
    call = {
        "input": [{"role": "user", "content": "Go to the kitchen"}],
        "tools": [tool],
        "max_output_tokens": 64,
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    answer = gym.post("/v1/responses", json=call)
    assert answer.status_code == 200, answer.text
    first = answer.json()["output"][-1]
    assert first["type"] == "function_call" and first["name"] == "go", first
    assert (
        len(first["prompt_token_ids"]) > 10
        and len(first["generation_token_ids"]) == len(first["generation_log_probs"]) > 5
    )
    assert max(first["generation_log_probs"]) <= 0

    call["input"] += [first, {"type": "function_call_output", "call_id": first["call_id"], "output": "arrived"}]
    call["tool_choice"] = "auto"
    answer = gym.post("/v1/responses", json=call)
    assert answer.status_code == 200, answer.text
    second = answer.json()["output"][-1]
    before = first["prompt_token_ids"] + first["generation_token_ids"]
    assert second["prompt_token_ids"][: len(before)] == before < second["prompt_token_ids"]
print("all is well")
