"""SkyRL's remote inference client, unmodified. It imports torch, and its calls do not use it.

usage: skyrl_client.py URL WEIGHTS_DIRECTORY, with a token in the URL: http://NAME:TOKEN@HOST
"""

import asyncio
import sys
from unittest.mock import MagicMock

sys.modules["torch"] = MagicMock()

import aiohttp  # noqa: E402
from skyrl.backends.skyrl_train.inference_servers.remote_inference_client import RemoteInferenceClient  # noqa: E402

url, directory = sys.argv[1:]


async def main():
    client = RemoteInferenceClient(proxy_url=url, server_urls=[url], data_parallel_size=1, model_name="qwen")
    prompts = await client.tokenize(["Hello, robot", "Go on"])
    assert await client.detokenize(prompts) == ["Hello, robot", "Go on"]
    sampling = {"max_tokens": 12, "temperature": 1.0, "logprobs": 0, "seed": 3}
    got = await client.generate({"prompt_token_ids": prompts, "sampling_params": sampling, "session_ids": ["a", "b"]})
    for ids, logprobs, reason in zip(got["response_ids"], got["response_logprobs"], got["stop_reasons"], strict=True):
        assert len(ids) == len(logprobs) > 0 and reason in ("stop", "length") and max(logprobs) <= 0
    again = await client.generate({"prompt_token_ids": prompts, "sampling_params": sampling, "cache_salt": "1"})
    assert again["response_ids"] == got["response_ids"]

    sample = await client.sample(
        {
            "json": {
                "prompt": {"chunks": [{"type": "encoded_text", "tokens": prompts[0]}]},
                "num_samples": 3,
                "sampling_params": {"max_tokens": 5, "temperature": 0.7, "stop_tokens": [151645], "seed": 1},
            }
        }
    )
    assert len(sample["sequences"]) == 3 and all(len(s["tokens"]) == len(s["logprobs"]) for s in sample["sequences"]), (
        sample
    )

    chat = await client.chat_completion(
        {"json": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "session_id": "a"}}
    )
    assert chat["choices"][0]["message"]["content"] is not None

    # An answer in progress survives a pause of mode keep, and other weights.
    long = {
        "prompt_token_ids": [prompts[0]],
        "sampling_params": {"max_tokens": 600, "temperature": 1.0, "ignore_eos": True},
    }
    running = asyncio.create_task(client.generate(long))
    await asyncio.sleep(0.2)
    await client.pause_generation()
    assert not running.done(), "too short"
    await client.reset_prefix_cache()
    await client.resume_generation()
    assert len((await running)["response_ids"][0]) == 600

    running = asyncio.create_task(client.generate(long))
    await asyncio.sleep(0.2)
    await client.pause("abort")
    assert (await running)["stop_reasons"] == ["abort"]
    await client.resume()

    assert await client.get_world_size() == (1, 1)
    await client.finish_session("a")
    for call in (client.sleep(), client.update_named_weights({"names": []})):
        try:
            await call
            raise AssertionError("not refused")
        except aiohttp.ClientResponseError as e:
            assert e.status == 501, e
    try:
        await client.load_lora_adapter("policy", "/nowhere")
        raise AssertionError("not refused")
    except aiohttp.ClientResponseError as e:
        assert e.status == 400 and "directory of weights" in e.message, e

    greedy = {
        "prompt_token_ids": prompts,
        "sampling_params": {"max_tokens": 12, "temperature": 0.0, "ignore_eos": True},
    }
    plain = await client.generate(greedy)
    await client.load_lora_adapter("policy", f"{directory}/adapter")
    adapted = await client.generate(greedy, model="policy")
    for own, base in zip(adapted["response_ids"], plain["response_ids"], strict=True):
        assert len(own) == len(base) == 12 and own != base, (own, base)
    assert (await client.generate(greedy))["response_ids"] == plain["response_ids"]
    await client.unload_lora_adapter("policy")
    try:
        await client.generate(greedy, model="policy")
        raise AssertionError("an unloaded adapter answers")
    except aiohttp.ClientResponseError as e:
        assert 400 <= e.status < 500 and "policy" in e.message, e
    await client._get_generate_client().aclose()


asyncio.run(main())
print("all is well")
