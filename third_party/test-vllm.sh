#!/usr/bin/env bash
# test-vllm.sh  runs the tests that need a real vLLM: its CPU build serves the default model (vllm.sh). The answers
# are recorded in scheduler/remote/testdata, where the ordinary tests replay them.
#
#   VLLM_URL   a vLLM that runs already and serves the default model
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

work=$(mktemp -d)
servers=()
stop() {
	local server
	for server in "${servers[@]}"; do
		kill -TERM -- "-$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap stop EXIT

# serve NAME PORT OPTIONS starts a vLLM and waits until it is ready.
serve() {
	local name=$1 port=$2
	shift 2
	setsid "$root/third_party/vllm.sh" "$@" --host 127.0.0.1 --port "$port" --kv-cache-memory-bytes 1073741824 --dtype float32 \
		--max-num-seqs 16 --enforce-eager >"$work/log-$name" 2>&1 &
	servers+=($!)
	say "starting vLLM with $name; this takes a minute"
	until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do
		kill -0 "${servers[-1]}" 2>/dev/null || { tail -20 "$work/log-$name" >&2; die "vLLM does not start"; }
		sleep 1
	done
}

port=${VLLM_PORT:-18100}
"$root/third_party/vllm.sh" install
python=$("$root/third_party/vllm.sh" python)
if [[ -z ${VLLM_URL:-} ]]; then
	VLLM_URL=http://127.0.0.1:$port
	serve household "$port" --model "$root/inference/defaultmodel/weights/household.gguf" --served-model-name household --enable-prompt-tokens-details
fi
cd "$root"
AGENTD_CONVERTER_PYTHON=$python AGENTD_CONVERTER_MODEL=$("$root/third_party/smollm2.sh") go test -count=1 ./llama/checkpoint
AGENTD_CONVERTER_PYTHON=$python go test -count=1 -run Templates ./server/openai
AGENTD_TEST_VLLM=$VLLM_URL go test -count=1 -v -run 'VLLM' ./scheduler/remote ./cmd/agentd
"$python" llama/checkpoint/testdata/qwen.py "$("$root/third_party/tokenizers.sh" qwen3)" "$work/qwen"
serve qwen $((port + 1)) --model "$work/qwen"
AGENTD_TEST_VLLM_QWEN=http://127.0.0.1:$((port + 1)) AGENTD_TEST_VLLM_QWEN_MODEL=$work/qwen go test -count=1 -v -run VLLMWithQwen ./cmd/agentd
