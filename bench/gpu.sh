#!/usr/bin/env bash
# gpu.sh  checks and measures agentd on a machine with a GPU driver and Python 3.9, without Go or a compiler.
#
#   gpu.sh pack [FROM TO]  here: makes part.00, .01, ... of at most 60 MB each in TO (default: dist/gpu), and gpu.sh
#                          beside them. FROM holds agentd and lib: dist/agentd (make dist CUDA=on CUDA_RUNTIME=on) or, on
#                          the same kind of machine, the clone. agentbench and, after make peers, llama-server come along.
#   gpu.sh take FILE...    there: keeps parts in $HOME_DIR, in any number of calls, and unpacks when all have come.
#   gpu.sh run [OPTIONS]   there: runs the steps that $OUT has no result of. Exit status 75: call it again. Other than
#                          0: a step failed. gpu.py lists the options; --dry-run has tiny models.
#
#   HOME_DIR   the folder of agentd there (default: gpu-run)
#   OUT        the folder of results (default: $HOME_DIR/results)
#   PYTHON     the interpreter (default: python3)
set -euo pipefail

home=${HOME_DIR:-gpu-run}
say() { printf 'agentd: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

pack() {
	local root from to f
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
	from=${1:-$root/dist/agentd} to=${2:-$root/dist/gpu}
	[[ -x $from/agentd && -d $from/lib ]] || die "$from has no agentd and lib; make dist CUDA=on makes them, or name another folder"
	[[ -x $root/agentbench ]] || die "there is no agentbench; make agentbench builds it"
	mkdir -p "$(dirname "$to")"
	stage=$(mktemp -d "$to.XXXXXX") # global, for the trap
	trap 'rm -rf "$stage"' EXIT
	mkdir "$stage/tree" "$stage/parts"
	cp -a "$from/agentd" "$root/agentbench" "$root/bench/gpu.py" "$stage/tree/"
	cp -a "$from/lib" "$stage/tree/lib"
	rm -rf "$stage"/tree/lib/*.a "$stage/tree/lib/vulkan"
	if [[ -x $root/bench/bin/llama-server ]]; then # it looks for libraries in ../../lib and for plugins beside itself
		mkdir "$stage/tree/peers"
		cp -a "$root/bench/bin" "$stage/tree/peers/"
		for f in "$stage"/tree/lib/libggml-{cuda,vulkan,cpu-*}.so; do
			[[ ! -e $f ]] || ln -s "../../lib/${f##*/}" "$stage/tree/peers/bin/"
		done
	fi
	strip --strip-unneeded "$stage"/tree/agentd "$stage"/tree/agentbench
	tar -C "$stage/tree" -c . | gzip -6 | split -b 60000000 -d - "$stage/parts/part."
	(cd "$stage/parts" && sha256sum part.* >SHA256SUMS)
	cp "${BASH_SOURCE[0]}" "$stage/parts/gpu.sh"
	rm -rf "$to"
	mv "$stage/parts" "$to"
	du -h "$to"/part.* >&2
	say "carry SHA256SUMS and gpu.sh with the first part: gpu.sh take FILE... for each"
}

take() {
	mkdir -p "$home/parts"
	cp "$@" "$home/parts/"
	[[ -e $home/parts/SHA256SUMS ]] || { say "SHA256SUMS is still missing"; return; }
	(cd "$home/parts" && sha256sum --quiet -c SHA256SUMS) || { say "these parts are still missing, or damaged"; return; }
	cat "$home"/parts/part.* | tar -xz -C "$home"
	say "unpacked into $home; gpu.sh run is next"
}

case ${1:-} in
pack) pack "${@:2}" ;;
take) take "${@:2}" ;;
run) exec "${PYTHON:-python3}" -B "$home/gpu.py" --home "$home" --out "${OUT:-$home/results}" "${@:2}" ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
