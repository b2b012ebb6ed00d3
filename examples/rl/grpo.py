"""GRPO on the household: agentd decides and computes logprobs, a simulator rewards, TRL trains, agentd loads the weights.

README.md says what each part does and what came out.
"""

import argparse
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from agentd_client import Candidate
from datasets import Dataset
from serving import Server
from simulator import Simulator
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

HELD_OUT = 1_000_000  # first seed of the held-out tasks


def generation(candidate: Candidate) -> dict[str, Any]:
    """What agentd reports of a candidate's model step."""
    return candidate.internal_steps[-1]["input_elements"]["generation"]


def weights(step: dict[str, Any]) -> set[str | None]:
    """The versions of the weights that computed a step. It has several if they changed within the answer."""
    return {part.get("model_version") for part in step.get("versions", [])} | {step["model_version"]}


def spread(ratios: torch.Tensor, clip: float) -> dict[str, float]:
    """The trainer's probabilities to agentd's, and the share of tokens that the clipping of the loss may reach."""
    beyond = ((ratios - 1).abs() > clip).float()
    return {
        "mean": ratios.mean().item(),
        "least": ratios.min().item(),
        "most": ratios.max().item(),
        "clipped": beyond.mean().item(),
    }


class Trainer(GRPOTrainer):
    """GRPO with agentd's logprobs as those of the old policy.

    Forced tokens have no logprob and no loss. Elsewhere `logprobs` are the model's own, and `masked` those of the
    distribution that was sampled, which the grammar has cut. Their ratio, the share that the grammar left, weighs the
    advantage, so that the gradient is that of the model.
    """

    masked: list[list[float]]  # of the last rollout
    # The trainer's probabilities to agentd's, by update of the round. Update k trains on decisions of weights that are k
    # updates old.
    ratios: list[list[torch.Tensor]]

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        logprobs = batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        masked = torch.zeros_like(logprobs)
        for row, values in zip(masked, self.masked):
            row[: len(values)] = torch.tensor(values)
        left = torch.exp(logprobs - masked).clamp(max=1)
        batch["advantages"] = batch["advantages"][:, None] * left
        return batch

    def _prepare_inputs(self, batch: Any) -> Any:
        """TRL's without the shuffling: a batch is the group of one prompt."""
        groups = self.args.steps_per_generation
        if self._step % groups == 0:
            whole = self._generate_and_score_completions(batch)
            self.ratios = [[] for _ in range(groups // self.args.gradient_accumulation_steps)]
            split = {key: value.chunk(groups) for key, value in whole.items() if value.dim() > 0}
            rest = {key: value for key, value in whole.items() if value.dim() == 0}
            self._buffered_inputs = [{key: rows[i] for key, rows in split.items()} | rest for i in range(groups)]
        return self._buffered_inputs[self._step % groups]

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *_: Any, **more: Any
    ) -> Any:
        """TRL's for a group, computing its prompt once."""
        if not torch.is_grad_enabled():  # the old policy, whose logprobs are agentd's
            return torch.zeros_like(input_ids[:, -logits_to_keep:], dtype=torch.float32), None, None
        used = attention_mask[0, :-logits_to_keep].bool()
        prompt, rows = input_ids[:1, :-logits_to_keep][:, used], input_ids[:, -logits_to_keep - 1 :]
        cache = DynamicCache()
        model.base_model(input_ids=prompt[:, :-1], past_key_values=cache)
        cache.batch_repeat_interleave(len(rows))
        there = torch.ones(len(rows), prompt.size(1), dtype=attention_mask.dtype)
        there = torch.cat([there, attention_mask[:, -logits_to_keep:]], dim=1)
        out = model(input_ids=rows, attention_mask=there, past_key_values=cache, labels=rows, fused_lm_head=True)
        self._logps = out.log_probs.detach()
        return out.log_probs, out.entropy, None

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        age = self._step % self.args.steps_per_generation // self.args.gradient_accumulation_steps
        if self.ratios[0] and not inputs["advantages"].any():
            return next(model.parameters()).sum() * 0  # all candidates earned the same, so TRL's loss is 0 too
        loss = super()._compute_loss(model, inputs)
        sampled = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        self.ratios[age].append(torch.exp(self._logps - inputs["old_per_token_logps"])[sampled])
        return loss


class Rounds:
    """The rollouts of TRL: each call ends a round and begins the next one."""

    def __init__(self, args: argparse.Namespace, server: Server, simulator: Simulator) -> None:
        self._args, self._server, self._simulator = args, server, simulator
        self._trl: Any = None
        if args.client == "trl":
            from trlclient import Rollouts  # needs vLLM

            self._trl = Rollouts(server, simulator, AutoTokenizer.from_pretrained(args.base))
        self._loader = self._trl or server
        self.done: list[dict[str, Any]] = []
        self._version = server.version()
        self._began = 0.0  # training of the last round

    def __call__(self, prompts: list[str], trainer: Trainer) -> dict[str, list[Any]]:
        loading = self.finish(trainer) if self.done else 0.0
        seeds = [int(prompt) for prompt in prompts[:: self._args.candidates]]
        begin = time.monotonic()
        steps, rewards = self._decide_with_trl(seeds) if self._trl else self._decide(seeds)
        decisions = time.monotonic() - begin
        trainer.masked = [step["masked"] for step in steps]
        sampled = [(p, m) for s in steps for p, m in zip(s["logprobs"], s["masked"]) if p is not None]
        flat = [reward for group in rewards for reward in group]
        self.done.append(
            {
                "round": len(self.done),
                "version": self._version,
                "reward": sum(flat) / len(flat),
                "right": sum(reward == 1 for reward in flat) / len(flat),
                "sampled_tokens": len(sampled),
                "left_by_grammar": sum(math.exp(p - m) for p, m in sampled) / len(sampled),
                "seconds": {"loading": loading, "decisions": decisions},
            }
        )
        self._began = time.monotonic()
        return {
            "prompt_ids": [step["prompt_token_ids"] for step in steps],
            "completion_ids": [step["token_ids"] for step in steps],
            "logprobs": [[p or 0.0 for p in step["logprobs"]] for step in steps],
            "env_mask": [[int(p is not None) for p in step["logprobs"]] for step in steps],
            "earned": flat,
        }

    def _name(self) -> str:
        """The id of the round's request, which decides the seeds."""
        return f"seed-{self._args.seed}-round-{len(self.done)}"

    def _decide(self, seeds: list[int]) -> tuple[list[dict[str, Any]], list[list[float]]]:
        """Steps of all candidates, and the rewards of each task, through `/v1/responses`."""
        reports = ["token_ids", "logprobs"]
        inputs = [self._simulator.input(seed, self._args.candidates, **{"return": reports}) for seed in seeds]
        answers = self._server.client.decide(inputs, request_id=self._name())
        rewards = [self._simulator.rewards(seed, group) for seed, group in zip(seeds, answers)]
        steps = [generation(candidate) for group in answers for candidate in group]
        versions = set().union(*map(weights, steps))
        assert versions == {self._version}, f"decided by {versions}, not by {self._version}"
        return steps, rewards

    def _decide_with_trl(self, seeds: list[int]) -> tuple[list[dict[str, Any]], list[list[float]]]:
        """The same through TRL's client. The first round must have the tokens and rewards of `/v1/responses`."""
        steps, rewards = self._trl.decide(seeds, self._args.candidates, self._name())
        assert self._trl.version() == self._version, "the weights changed meanwhile"
        if not self.done:
            others, same = self._decide(seeds)
            for key in ("prompt_token_ids", "token_ids"):
                differ = [i for i, (a, b) in enumerate(zip(steps, others, strict=True)) if a[key] != b[key]]
                assert not differ, f"{key} of candidates {differ} differ from those of /v1/responses"
            assert rewards == same, "rewards differ from those of /v1/responses"
            print(f"round 0: {len(steps)} candidates have the tokens and rewards of /v1/responses", flush=True)
        return steps, rewards

    def finish(self, trainer: Trainer) -> float:
        """Complete the report of a round and serve its weights; the seconds that took."""
        last, begin = self.done[-1], time.monotonic()
        last["seconds"]["training"] = begin - self._began
        last["updates"] = [
            {"age": age, **spread(torch.cat(ratios), trainer.epsilon_high)} if ratios else {"age": age}
            for age, ratios in enumerate(trainer.ratios)
        ]
        print(json.dumps(last), flush=True)
        name = f"round-{len(self.done)}"
        trainer.save_model(str(self._args.out / name))
        before, self._version = self._version, self._loader.load(name)
        assert self._version != before, "the step changed no weight"
        shutil.rmtree(self._args.out / f"round-{len(self.done) - 1}", ignore_errors=True)
        return time.monotonic() - begin


class Clock(TrainerCallback):
    """Ends the training when that many minutes have passed, after a whole round."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def on_step_end(self, args: GRPOConfig, state: Any, control: Any, **_: Any) -> None:
        updates = args.steps_per_generation // args.gradient_accumulation_steps
        control.should_training_stop |= state.global_step % updates == 0 and time.monotonic() > self._end


def held_out(args: argparse.Namespace, server: Server) -> dict[str, float]:
    """How well the weights that are served do tasks of other houses, deterministically."""
    with Simulator(args.tasks, "-eval") as simulator:
        seeds = range(HELD_OUT, HELD_OUT + args.held_out)
        answers = server.client.decide([simulator.input(seed, 1, inference_mode=True) for seed in seeds])
        rewards = [simulator.rewards(seed, group)[0] for seed, group in zip(seeds, answers)]
    return {"reward": sum(rewards) / len(rewards), "right": sum(reward == 1 for reward in rewards) / len(rewards)}


def settings(args: argparse.Namespace) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(args.out / "trl"),
        per_device_train_batch_size=args.candidates,
        num_generations=args.candidates,
        steps_per_generation=args.environments,
        gradient_accumulation_steps=args.environments // args.updates,
        max_steps=args.rounds * args.updates,
        learning_rate=args.rate,
        lr_scheduler_type="constant",
        beta=0.0,  # no KL term, and no reference model
        shuffle_dataset=False,
        seed=args.seed,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--agentd", required=True, help="program")
    parser.add_argument("--tasks", required=True, help="program of the directory tasks")
    parser.add_argument("--base", type=Path, required=True, help="directory of the model, from huggingface.py")
    parser.add_argument("--out", type=Path, required=True, help="directory for weights and report.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no round begins after so long")
    parser.add_argument("--environments", type=int, default=32)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--updates", type=int, default=4, help="steps of the optimizer in a round")
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate")
    parser.add_argument("--held-out", type=int, default=64, help="tasks of the measurement before and after")
    parser.add_argument("--client", choices=("agentd", "trl"), default="agentd", help="of the rollouts")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True)
    shutil.copytree(args.base, args.out / "round-0")
    model = AutoModelForCausalLM.from_pretrained(args.base, dtype=torch.float32)
    seeds = [str(args.seed * 10_000 + i) for i in range(args.environments)]  # the tasks of every round
    # With logprobs TRL's client has each token sampled, which may split a text that the grammar forces otherwise.
    debug = ["forced-tokens=off"] if args.client == "trl" else []
    with Server(args.agentd, args.out, "round-0", *debug) as server, Simulator(args.tasks) as simulator:
        rounds = Rounds(args, server, simulator)
        before = held_out(args, server)
        trainer = Trainer(
            model,
            reward_funcs=lambda earned, **_: earned,
            args=settings(args),
            train_dataset=Dataset.from_dict({"prompt": seeds}),
            processing_class=AutoTokenizer.from_pretrained(args.base),
            rollout_func=rounds,
            callbacks=[Clock(args.minutes)],
        )
        trainer.train()
        rounds.finish(trainer)
        report = {"seed": args.seed, "rounds": rounds.done, "before": before, "after": held_out(args, server)}
    (args.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: report[key] for key in ("seed", "before", "after")}))
    for done in rounds.done:
        assert math.isfinite(done["reward"]) and abs(done["updates"][0]["mean"] - 1) < 0.02, done
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


if __name__ == "__main__":
    main()
