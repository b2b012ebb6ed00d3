#!/usr/bin/env bash
# vulkan.sh [DIRECTORY]  puts the published Vulkan plugin of the pinned llama.cpp into the cache, once, and a copy
# into DIRECTORY (default: lib, beside the binary). Tests load it from lib/vulkan, where no server finds it.
#
# It is not built from source: its shaders need a newer glslc than Debian 12 has. The plugin is built from the
# same ggml, whose interface the patches leave alone. build.sh removes it when another ggml is built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/llama.cpp.pin"

dest=${1:-$root/lib}
[[ -z ${LLAMA_CPP_DIR:-} ]] || die "the published Vulkan plugin belongs to the pinned llama.cpp, not to LLAMA_CPP_DIR=$LLAMA_CPP_DIR"
[[ $(uname -m) == x86_64 ]] || die "the published Vulkan plugin is for x86-64, not for $(uname -m)"
products=$cache/lib/vulkan-$(ggml_id)-$(printf '%s' "$vulkan_integrity" | hash8)

get() {
	[[ -e $products/BUILD ]] && return # another process was faster
	local stage=$products.$$
	rm -rf "$products".[0-9]* # of downloads that were interrupted; the lock is ours
	mkdir -p "$stage"
	npm_package "$vulkan_package" "$version" "$vulkan_integrity" "$stage" "$vulkan_file" "${vulkan_file%%/*}/LICENSE"
	mv "$stage/$vulkan_file" "$stage/"
	mv "$stage/${vulkan_file%%/*}/LICENSE" "$stage/LICENSE.vulkan"
	rm -rf "${stage:?}/${vulkan_file%%/*}" "$stage"/*.tgz
	printf 'source    %s %s\nggml      %s\nbackend   vulkan\n' "$vulkan_package" "$version" "$(ggml_id)" >"$stage/BUILD"
	mv -T "$stage" "$products"
}

mkdir -p "$cache/lib"
[[ -e $products/BUILD ]] || with_lock vulkan get
mkdir -p "$dest"
# The plugin finds ggml beside itself.
[[ $dest -ef $root/lib ]] || ln -sfnr "$root/lib/libggml-base.so" "$dest/libggml-base.so"
with_lock "deliver-$(printf '%s' "$dest" | hash8)" deliver_plugin "$products" "$dest" BUILD.vulkan
