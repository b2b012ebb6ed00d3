#!/usr/bin/env bash
# test-trainers.sh  runs the released clients of trainers, unmodified, with an agentd that serves a small random Qwen 3.
# Their packages go into the cache (500 MB) beside vLLM's environment (vllm.sh), whose PyTorch they use. SkyRL's needs
# Python 3.12 as python3.12.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=$("$root/third_party/vllm.sh" python)
list=$root/cmd/agentd/testdata/trainers/requirements
packages=$cache/trainers-$(cat "$list".*.txt | hash8)

# fill DIRECTORY installs each list without what its packages ask for: the lists are complete.
fill() {
	local name of
	for name in clients verifiers nemo-gym skyrl; do
		of=$python
		[[ $name != skyrl ]] || of=python3.12
		"$of" -m pip install -q --disable-pip-version-check --no-deps --ignore-requires-python --target "$1/$name" -r "$list.$name.txt"
	done
}
with_lock trainers installed "$packages" fill

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$python" "$root/llama/checkpoint/testdata/qwen.py" "$("$root/third_party/tokenizers.sh" qwen3)" "$work/qwen" "$work/adapter"
mkdir "$work/step_1" && cp "$work"/qwen/*.safetensors "$work/step_1" # as prime-rl saves
cd "$root"
AGENTD_TRAINERS_PYTHON=$python AGENTD_TRAINERS_PACKAGES=$packages AGENTD_TRAINERS_WEIGHTS=$work go test -count=1 -v -run ReleasedTrainers ./cmd/agentd
