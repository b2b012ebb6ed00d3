#!/usr/bin/env bash
# run.sh [OPTIONS]  measures how often a server's tool calls are right; --help lists the OPTIONS. The packages go into the
#                   cache, once. CACHED_ONLY=yes: exit 1 unless they are there.
# run.sh python     prints the path of the Python that has them
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../third_party/common.sh"

here=$root/bench/quality
venv=$cache/quality-$(hash8 <"$here/requirements.txt")

# The benchmark's own requirements are the clients of all vendors, which nothing here calls.
install() {
	python3 -m venv "$1"
	"$1/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r "$here/requirements.txt"
}

if [[ -n ${CACHED_ONLY:-} && ! -d $venv ]]; then
	exit 1
fi
with_lock quality installed "$venv" install
if [[ ${1:-} == python ]]; then
	echo "$venv/bin/python"
	exit
fi
exec "$venv/bin/python" -B "$here" "$@"
