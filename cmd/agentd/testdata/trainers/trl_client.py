"""TRL's clients of vLLM, unmodified.

usage: trl_client.py URL WEIGHTS_DIRECTORY, with a token in the URL: http://NAME:TOKEN@HOST
"""

import sys
import threading

from accelerate import PartialState
from trl.experimental.async_grpo.vllm_client import VLLMClient as AsyncClient
from trl.generation.vllm_client import VLLMClient

PartialState()  # which their trainer has for its log
url, directory = sys.argv[1:]

client = VLLMClient(base_url=url)
chat = client.chat(
    [[{"role": "user", "content": "Hello"}], [{"role": "user", "content": "Go on"}]], n=2, max_tokens=8, logprobs=2
)
assert len(chat["prompt_ids"]) == 2 and len(chat["completion_ids"]) == 4, chat
for ids, logprobs, candidates in zip(chat["completion_ids"], chat["logprobs"], chat["logprob_token_ids"], strict=True):
    assert len(ids) == len(logprobs) == len(candidates) > 0
    for token, values, listed in zip(ids, logprobs, candidates, strict=True):
        assert token in listed and 2 <= len(values) <= 3 and values == sorted(values, reverse=True), (token, values)
prompts = chat["prompt_ids"]
room = {"type": "object", "properties": {"room": {"type": "string"}}}
tool = {"type": "function", "function": {"name": "go_to", "description": "Drive to a room.", "parameters": room}}
shown = client.chat([[{"role": "user", "content": "Hello"}]], max_tokens=8, tools=[tool])
assert len(shown["prompt_ids"][0]) > len(prompts[0]) + 50, "the prompt does not show the tool"
for n in (1, 2):
    done = client.generate(prompts, n=n, max_tokens=8, logprobs=0)
    assert done["prompt_ids"] == prompts and len(done["completion_ids"]) == 2 * n, done
    for ids, logprobs, listed in zip(done["completion_ids"], done["logprobs"], done["logprob_token_ids"], strict=True):
        assert [token for [token] in listed] == ids and all(value <= 0 for [value] in logprobs), done
grammar = {"structured_outputs": {"grammar": 'root ::= "to the kitchen" | "stop here"'}}
told = client.generate(prompts, max_tokens=32, logprobs=0, generation_kwargs=grammar)
assert all(value <= 0 for rows in told["logprobs"] for [value] in rows), told
whole = [prompt + ids for prompt, ids in zip(prompts, done["completion_ids"][::2], strict=True)]
scored = client.get_sequence_logprobs(whole, [len(p) for p in prompts], top_logprobs=100)
for ids, own, given in zip(done["completion_ids"][::2], scored["actual_logprobs"], done["logprobs"][::2], strict=True):
    assert len(own) == len(ids), (own, ids)
    for [again], [value] in zip(own, given, strict=True):
        assert again == float("-inf") or abs(again - value) < 1e-6, (again, value)  # beyond the 100 best
client.reset_prefix_cache()
assert client.get_world_size() == 1
try:
    client._start_weight_update()
    raise AssertionError("NCCL is not refused")
except Exception as e:
    assert "501" in str(e) and "update_weights" in str(e), e

trainer = AsyncClient(url)
trainer.wait_for_server_ready()
assert trainer.get_max_model_len() == 4096 and trainer.get_world_size() == 1
trainer.pause()
answers = []
waiting = threading.Thread(
    target=lambda: answers.append(client.chat([[{"role": "user", "content": "Hello"}]], max_tokens=4))
)
waiting.start()
waiting.join(1)
assert not answers, "a paused server answers"
trainer.resume()
waiting.join()
assert len(answers[0]["completion_ids"][0]) > 0
trainer.unload_lora_adapter("none")
adapted = {"temperature": 0.0, "max_tokens": 12, "logprobs": 0}
plain = client.generate(prompts, **adapted)
trainer.load_lora_adapter("step-1", f"{directory}/adapter")
base, client.model = client.model, "step-1"
for own, other in zip(client.generate(prompts, **adapted)["completion_ids"], plain["completion_ids"], strict=True):
    assert own != other, own
trainer.unload_lora_adapter("step-1")
try:
    client.generate(prompts, **adapted)
    raise AssertionError("an unloaded adapter answers")
except Exception as e:
    assert "step-1" in str(e) and base in str(e), e
print("all is well")
