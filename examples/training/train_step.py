"""One training step of TRL on rows of agentd export: train_step.py ROWS...

A file is JSONL or Parquet. Its columns say what it holds: chat rows get a step of supervised fine-tuning, pairs one of
DPO, and rollouts a check that each token has a logprob. The model is tiny and random, and its tokenizer is made of the
rows, so nothing is downloaded. Replace both to train a real model.

    pip install torch transformers datasets trl
"""

import argparse
import json
import tempfile
from typing import Any

import torch
from datasets import Dataset, load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

TEMPLATE = """
{%- if tools %}{{ '<|im_start|>tools\\n' + tools | tojson + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + call.function.name }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def read(path: str) -> Dataset:
    """The rows of a file."""
    kind = "parquet" if path.endswith(".parquet") else "json"
    return load_dataset(kind, data_files=path, split="train", cache_dir=tempfile.mkdtemp())


def tiny(rows: Dataset) -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast]:
    """A random model, and a byte-level tokenizer of the rows."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((json.dumps(row) for row in rows), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2])
    fast.chat_template = TEMPLATE
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        pad_token_id=fast.pad_token_id,
        eos_token_id=fast.eos_token_id,
    )
    torch.manual_seed(1)
    folder = tempfile.mkdtemp()  # DPO loads the model that it compares with from there
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return Qwen2ForCausalLM.from_pretrained(folder), fast


def settings(**more: Any) -> dict[str, Any]:
    """What both trainers share."""
    return {
        "output_dir": tempfile.mkdtemp(),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "logging_steps": 1,
        "disable_tqdm": True,
        "save_strategy": "no",
        **more,
    }


def step(path: str) -> str:
    """Read a file and train one step; says what came out."""
    rows = read(path)
    columns = set(rows.column_names)
    if {"prompt_token_ids", "token_ids", "logprobs"} <= columns:
        short = [row["source"] for row in rows if len(row["token_ids"]) != len(row["logprobs"])]
        assert not short, f"tokens without logprobs: {short}"
        tokens = sum(len(row["token_ids"]) for row in rows)
        return f"{len(rows)} rollouts, {tokens} tokens, each with a logprob"
    model, tokenizer = tiny(rows)
    if {"prompt", "chosen", "rejected"} <= columns:
        rows = rows.select_columns(["prompt", "chosen", "rejected", "tools"])
        trainer: Any = DPOTrainer(model, args=DPOConfig(**settings()), train_dataset=rows, processing_class=tokenizer)
    elif "messages" in columns:
        rows = rows.select_columns(["messages", "tools"])
        trainer = SFTTrainer(
            model, args=SFTConfig(**settings(max_length=4096)), train_dataset=rows, processing_class=tokenizer
        )
    else:
        raise SystemExit(f"{path}: has the columns {sorted(columns)}, which agentd export does not write")
    before = [parameter.detach().clone() for parameter in model.parameters()]
    loss = trainer.train().training_loss
    changed = any(not torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert changed and loss > 0, f"the step changed nothing (loss {loss})"
    return f"{len(rows)} rows, one step of {type(trainer).__name__}, loss {loss:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="+", help="file that agentd export wrote")
    for path in parser.parse_args().rows:
        print(f"{path}: {step(path)}", flush=True)


if __name__ == "__main__":
    main()
