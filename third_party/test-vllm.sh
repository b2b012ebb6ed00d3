#!/usr/bin/env bash
# test-vllm.sh  runs the tests that need a real vLLM: its CPU build serves the default model (vllm.sh). The answers
# are recorded in scheduler/remote/testdata, where the ordinary tests replay them.
#
#   VLLM_URL   a vLLM that runs already and serves the default model
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ -z ${VLLM_URL:-} ]]; then
	work=$(mktemp -d)
	port=${VLLM_PORT:-18100}
	VLLM_URL=http://127.0.0.1:$port
	"$root/third_party/vllm.sh" install
	setsid "$root/third_party/vllm.sh" --model "$root/internal/defaultmodel/weights/household.gguf" --host 127.0.0.1 --port "$port" \
		--served-model-name household --kv-cache-memory-bytes 1073741824 --dtype float32 --max-num-seqs 16 --enforce-eager \
		--enable-prompt-tokens-details >"$work/log" 2>&1 &
	server=$!
	# shellcheck disable=SC2064 # as they are now
	trap "kill -TERM -- -$server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf '$work'" EXIT
	say "starting vLLM; this takes a minute"
	until curl -sf "$VLLM_URL/health" >/dev/null; do
		kill -0 "$server" 2>/dev/null || { tail -20 "$work/log" >&2; die "vLLM does not start"; }
		sleep 1
	done
fi
cd "$root"
AGENTD_CONVERTER_PYTHON=$("$root/third_party/vllm.sh" python) AGENTD_CONVERTER_MODEL=$("$root/third_party/smollm2.sh") go test -count=1 ./llama/checkpoint
AGENTD_CONVERTER_PYTHON=$("$root/third_party/vllm.sh" python) go test -count=1 -run Templates ./server/openai
AGENTD_TEST_VLLM=$VLLM_URL go test -count=1 -v -run 'VLLM' ./scheduler/remote ./cmd/agentd
