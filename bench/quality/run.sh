#!/usr/bin/env bash
# run.sh [OPTIONS]      measures how often a server's tool calls are right; --help lists the OPTIONS. The packages go
#                       into the cache, once. CACHED_ONLY=yes: exit 1 unless they are there
# run.sh all [OPTIONS]  measures agentd in both ways and llama-server, with both models, into bench/results
# run.sh python         prints the path of the Python that has the packages
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../third_party/common.sh"

here=$root/bench/quality
venv=$cache/quality-$(hash8 <"$here/requirements.txt")

# The benchmark's own requirements are the clients of all vendors, which nothing here calls.
install() {
	python3 -m venv "$1"
	"$1/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r "$here/requirements.txt"
}
measure() { "$venv/bin/python" -B "$here" "$@"; }

all() {
	local out model job
	out=$root/bench/results/quality-$(date +%F-%H%M%S)
	mkdir -p "$out"
	for model in 0.5b 1.5b; do
		for job in agentd-chat agentd-responses llama-server-chat; do
			measure --server "${job%-*}" --way "${job##*-}" --model "$model" --out "$out/$model-$job.json" "$@"
		done
		measure --compare "$out/$model"-*.json | tee "$out/$model.md"
	done
	say "every answer is in $out"
}

if [[ -n ${CACHED_ONLY:-} && ! -d $venv ]]; then
	exit 1
fi
with_lock quality installed "$venv" install
case ${1:-} in
python) echo "$venv/bin/python" ;;
all) shift && all "$@" ;;
*) exec "$venv/bin/python" -B "$here" "$@" ;;
esac
