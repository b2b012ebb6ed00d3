#!/usr/bin/env bash
# run.sh --out DIR [OPTIONS]  trains the default model with grpo.py, whose OPTIONS these are. The packages go into the
#                             cache: 6 GB, once. agentd must be built. --client trl needs vLLM too, and takes 6 GB more.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../third_party/common.sh"

here=$root/examples/rl gguf=$root/inference/defaultmodel/weights/household.gguf
venv=$cache/rl-$(hash8 <"$here/requirements.txt") fill=install
base=$cache/huggingface/$(hash8 <"$gguf")

install() {
	python3 -m venv "$1"
	"$1/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
}
purelib() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
# beside fills an environment that sees vLLM's packages, PyTorch and transformers among them.
beside() {
	python3 -m venv "$1"
	purelib "$vllm" >"$(purelib "$1/bin/python")/vllm.pth"
	grep -vE '^(torch|transformers)==' "$here/requirements.txt" | "$1/bin/python" -m pip install -q --disable-pip-version-check -r /dev/stdin
}
convert() { "$venv/bin/python" -B "$root/household/train/huggingface.py" "$gguf" "$1"; }

if [[ " $* " == *" --client trl "* ]]; then
	vllm=$("$root/third_party/vllm.sh" python)
	venv=$cache/rl-vllm-$(hash8 < <(echo "$vllm" && cat "$here/requirements.txt")) fill=beside
fi
[[ -d $venv ]] || say "installing TRL and PyTorch into $venv (6 GB, once)"
with_lock rl installed "$venv" "$fill"
with_lock vllm installed "$base" convert
tasks=$(mktemp)
trap 'rm "$tasks"' EXIT
go build -C "$root" -o "$tasks" ./examples/rl/tasks
PYTHONPATH=$root/clients/python/src "$venv/bin/python" -B "$here/grpo.py" \
	--agentd "$root/agentd" --tasks "$tasks" --base "$base" "$@"
