#!/bin/sh
# From a run to a trained adapter to a server, by single commands: learn.sh RUN OUT
# RUN is a folder of exchanges of the default model, such as night/round-1/work of `agentd learn night`. OUT gets the
# rows, the adapter and the merged weights. docs/learn.md says more.
#
# It takes a built agentd (AGENTD), and Python with PyTorch and defaultmodel/train/requirements.txt (PYTHON).
# MINUTES of training and EPISODES of the measurement replace 15 and 40; with these it takes about 17 minutes and 25 MB.
# A run with 192 rows of four houses, MINUTES=0.5 and EPISODES=4 took 84 s on two shared cores. Half a minute was one step
# of training, so such weights are a test of the commands only. The server listens on AGENTD_PORT, and ends with a signal.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
[ $# -eq 2 ] || {
	echo "usage: learn.sh RUN OUT" >&2
	exit 2
}
: "${AGENTD:=$root/agentd}" "${PYTHON:=${XDG_CACHE_HOME:-$HOME/.cache}/agentd/train/venv/bin/python}"
: "${MINUTES:=15}" "${EPISODES:=40}"
mkdir -p "$2"

# What the agent decided rightly, and what a coach decided instead of it.
[ -s "$2/chat.jsonl" ] || "$AGENTD" export --outcome success --out "$2/chat.jsonl" "$1"
[ -s "$2/rollouts.jsonl" ] || "$AGENTD" export --kind rollouts --outcome success --out "$2/rollouts.jsonl" "$1"

# An adapter, and the weights with it. A second call goes on from the checkpoint.
[ -s "$2/model.gguf" ] || "$PYTHON" "$root/defaultmodel/train/lora.py" --model "$root/defaultmodel/weights/household.gguf" \
	--rows "$2/chat.jsonl" --tokens "$2/rollouts.jsonl" --out "$2" --minutes "$MINUTES"

# How well the new weights decide in held-out houses, and a server with them.
"$AGENTD" eval --model "$2/model.gguf" --episodes "$EPISODES" --tool-names known --constrain on
exec "$AGENTD" --model "$2/model.gguf"
