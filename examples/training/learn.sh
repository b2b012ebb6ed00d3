#!/bin/sh
# From a run to a trained adapter to a server, by single commands: learn.sh RUN OUT
# RUN is a folder of exchanges of the default model, such as night/round-1/work of `agentd learn night`. OUT gets the
# rows, the adapter and the merged weights. AGENTD, PYTHON and MINUTES replace the defaults. docs/learn.md says more.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
[ $# -eq 2 ] || {
	echo "usage: learn.sh RUN OUT" >&2
	exit 2
}
: "${AGENTD:=$root/agentd}" "${PYTHON:=${XDG_CACHE_HOME:-$HOME/.cache}/agentd/train/venv/bin/python}" "${MINUTES:=15}"
mkdir -p "$2"

# What the agent decided rightly, and what a coach decided instead of it.
[ -s "$2/chat.jsonl" ] || "$AGENTD" export --outcome success --out "$2/chat.jsonl" "$1"
[ -s "$2/rollouts.jsonl" ] || "$AGENTD" export --kind rollouts --outcome success --out "$2/rollouts.jsonl" "$1"

# An adapter, and the weights with it. A second call goes on from the checkpoint.
[ -s "$2/model.gguf" ] || "$PYTHON" "$root/defaultmodel/train/lora.py" --model "$root/defaultmodel/weights/household.gguf" \
	--rows "$2/chat.jsonl" --tokens "$2/rollouts.jsonl" --out "$2" --minutes "$MINUTES"

# How well the new weights decide in held-out houses, and a server with them.
"$AGENTD" eval --model "$2/model.gguf" --episodes 40 --tool-names known --constrain on
exec "$AGENTD" --model "$2/model.gguf"
