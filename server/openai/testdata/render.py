"""Renders a chat template as transformers does.

usage: render.py TEMPLATE.jinja <VARIABLES.json

VARIABLES is a list of objects: messages, tools, and what else the template reads. Prints a list of texts.
"""

import json
import sys

from transformers.utils.chat_template_utils import render_jinja_template

SPECIAL = {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>"}

with open(sys.argv[1]) as f:
    template = f.read()
texts = []
for variables in json.load(sys.stdin):
    messages = variables.pop("messages")
    rendered, _ = render_jinja_template(
        conversations=[messages], tools=variables.pop("tools", None), chat_template=template, **SPECIAL, **variables
    )
    texts.append(rendered[0])
json.dump(texts, sys.stdout)
