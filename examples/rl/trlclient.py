"""Rollouts through TRL's clients of vLLM, unmodified: token ids, and weights by pause, update and resume."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from serving import Server
from simulator import Simulator
from trl.experimental.async_grpo.vllm_client import VLLMClient as Control
from trl.generation.vllm_client import VLLMClient

LONGEST = 256  # tokens of a completion
TOGETHER = 64  # requests


class Rollouts:
    """Candidates that are the same as those of `/v1/responses`: equal prompts, grammars and seeds."""

    def __init__(self, server: Server, simulator: Simulator, tokenizer: Any) -> None:
        self._url, self._simulator, self._tokenizer = server.url, simulator, tokenizer
        # agentd's answers have no control token but one that ends them.
        ends = tokenizer.eos_token_id, tokenizer.pad_token_id
        control = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special and i not in ends]
        self._excluded = {str(token): -100 for token in control}
        server.version()  # waits until it listens
        self._client, self._control = VLLMClient(base_url=server.url), Control(server.url)

    def decide(
        self, seeds: list[int], candidates: int, request_id: str
    ) -> tuple[list[dict[str, Any]], list[list[float]]]:
        """Steps of all candidates as agentd reports them, and the rewards of each task."""
        requests = [self._simulator.request(seed, request_id, i, candidates) for i, seed in enumerate(seeds)]
        with ThreadPoolExecutor(TOGETHER) as pool:
            steps = list(pool.map(self._one, *zip(*((r, seed) for r in requests for seed in r["seeds"]))))
        texts = [self._tokenizer.decode(step["token_ids"]).removesuffix(self._tokenizer.eos_token) for step in steps]
        groups = [texts[i : i + candidates] for i in range(0, len(texts), candidates)]
        return steps, [self._simulator.rewards_of_texts(seed, group) for seed, group in zip(seeds, groups)]

    def _one(self, request: dict[str, Any], seed: int) -> dict[str, Any]:
        grammar = {"grammar": request["grammar"]}
        more = {"seed": seed, "structured_outputs": grammar, "logit_bias": self._excluded}
        got = self._client.generate([request["prompt"]], max_tokens=LONGEST, generation_kwargs=more)
        logprobs = [value for [value] in got["logprobs"][0]]
        # The client drops what the grammar left, so it weighs nothing.
        return {
            "prompt_token_ids": got["prompt_ids"][0],
            "token_ids": got["completion_ids"][0],
            "logprobs": logprobs,
            "masked": logprobs,
        }

    def version(self) -> str:
        """The version of the weights in use."""
        return httpx.get(self._url + "/weight_info", timeout=None).raise_for_status().json()["weight_version"]

    def load(self, directory: str) -> str:
        """Replace the weights in a pause, as asynchronous GRPO does; their version."""
        self._control.pause()
        try:
            body = {"weight_dir": directory}
            httpx.post(self._url + "/update_weights", json=body, timeout=None).raise_for_status()
        finally:
            self._control.resume()
        return self.version()
