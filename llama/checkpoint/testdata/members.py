"""Prints the members of transformers' configuration classes, of PEFT's LoraConfig and of tokenizers' components, with
their defaults, as JSON.

Run it with a Python that has transformers 5.19 and tokenizers 0.23. It fetches PEFT, and reads its source only.
"""

import ast
import glob
import json
import subprocess
import sys
import tempfile
import zipfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GenerationConfig, GptOssConfig, LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5Config, Qwen3_5TextConfig

PEFT = "peft==0.21.2"
CLASSES = {
    "LlamaForCausalLM": LlamaConfig,
    "Qwen2ForCausalLM": Qwen2Config,
    "Qwen3ForCausalLM": Qwen3Config,
    "Qwen3MoeForCausalLM": Qwen3MoeConfig,
    "GptOssForCausalLM": GptOssConfig,
    "Qwen3_5ForCausalLM": Qwen3_5TextConfig,
    "Qwen3_5ForConditionalGeneration": Qwen3_5Config,
    "GenerationConfig": GenerationConfig,
}


def fields_of(source, names):
    """The annotated fields of dataclasses, with their defaults where these are constants."""
    members = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    default = next((k.value for k in getattr(field.value, "keywords", []) if k.arg == "default"), None)
                    members[field.target.id] = default.value if isinstance(default, ast.Constant) else None
    return members


def peft():
    with tempfile.TemporaryDirectory() as parent:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", parent, PEFT], check=True)
        with zipfile.ZipFile(glob.glob(parent + "/*.whl")[0]) as wheel:
            return {
                **fields_of(wheel.read("peft/config.py"), ["PeftConfigMixin", "PeftConfig"]),
                **fields_of(wheel.read("peft/tuners/lora/config.py"), ["LoraConfig"]),
            }


def components():
    """One of each component of tokenizer.json that is known."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([AddedToken("x")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("x"), "isolated"), pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()]
    )
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(), processors.TemplateProcessing(single="x $A", special_tokens=[("x", 0)])]
    )
    tokenizer.decoder = decoders.ByteLevel()
    whole = json.loads(tokenizer.to_str())
    split, digits, level = whole["pre_tokenizer"]["pretokenizers"]
    after, template = whole["post_processor"]["processors"]
    return {
        "tokenizer.json": whole,
        "BPE": whole["model"],
        "AddedToken": whole["added_tokens"][0],
        "Split": split,
        "Digits": digits,
        "ByteLevel": level,
        "ByteLevel after": after,
        "ByteLevel decoder": whole["decoder"],
        "TemplateProcessing": template,
    }


everything = {name: kind().to_dict() for name, kind in CLASSES.items()} | {"LoraConfig": peft()} | components()
lines = [f"{json.dumps(name)}: {json.dumps(members, sort_keys=True)}" for name, members in sorted(everything.items())]
print("{\n" + ",\n".join(lines) + "\n}")
