# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # used by those that source this
root=$(dirname "$here")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agentd

say() { printf '%s\n' "agentd: $*" >&2; }
die() { say "$*"; exit 1; }

# hash8 prints a short name for what it reads.
hash8() { sha256sum | cut -c1-12; }

# with_lock NAME COMMAND... runs COMMAND while no other process holds NAME: two clones that build at
# once share one build instead of writing over each other.
with_lock() {
	local name=$1
	shift
	mkdir -p "$cache/locks"
	(
		if ! flock -n 9; then
			say "another build holds $name; waiting for it"
			flock 9
		fi
		"$@"
	) 9>"$cache/locks/$name"
}

# source_dir prints the llama.cpp tree to build: the user's own, or the pinned one in the cache.
source_dir() {
	if [[ -n ${LLAMA_CPP_DIR:-} ]]; then
		(cd "$LLAMA_CPP_DIR" 2>/dev/null && pwd -P) || die "LLAMA_CPP_DIR=$LLAMA_CPP_DIR is not a directory"
	else
		# shellcheck source=llama.cpp.pin
		(. "$here/llama.cpp.pin" && printf '%s\n' "$cache/src/llama.cpp-$version")
	fi
}

# source_id prints a name for the state of that tree: the pinned version, or a fingerprint of one's own.
source_id() {
	if [[ -n ${LLAMA_CPP_DIR:-} ]]; then
		printf 'own-%s\n' "$( (cd "$LLAMA_CPP_DIR" && pwd -P &&
			find CMakeLists.txt cmake common ggml include src vendor -type f -printf '%P %s %T@\n' | sort) | hash8)"
	else
		# shellcheck source=llama.cpp.pin
		(. "$here/llama.cpp.pin" && printf '%s\n' "$version")
	fi
}
