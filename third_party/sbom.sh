#!/usr/bin/env bash
# sbom.sh RELEASE TREE  prints the software bill of materials of a `make dist` tree as CycloneDX JSON: the Go modules
# that the binary was linked from, llama.cpp and what it compiles in, and the run-time libraries in lib. The same tree
# gives the same bytes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

release=${1:?usage: sbom.sh release tree} tree=${2:?usage: sbom.sh release tree}
src=$(source_dir)
gomod=$(go_program github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0) || die "sbom: cyclonedx-gomod could not be had"

# library NAME VERSION LICENCE [PURL] prints a component; what is no SPDX expression is a licence's name.
library() {
	jq -n --arg name "$1" --arg version "$2" --arg licence "$3" --arg purl "${4-}" '
		{"bom-ref": "native/\($name)", type: "library", name: $name, version: $version, scope: "required",
		 licenses: [if $licence | test("EULA") then {license: {name: $licence}} else {expression: $licence} end]}
		+ if $purl == "" then {} else {purl: $purl} end'
}

# found PATTERN FILE prints what the parentheses of the first match enclose.
found() {
	local text
	text=$(sed -nE "s~.*$1.*~\1~p" "$2" | head -1)
	[[ $text ]] || die "sbom: ${2#"$src"/} names no version"
	printf '%s\n' "$text"
}

llama=$(version_of LLAMA "$src/CMakeLists.txt") ggml=$(version_of GGML "$src/ggml/CMakeLists.txt")
[[ $llama && $ggml ]] || die "sbom: $src names no version"
# Where the source came from: the pinned archive, or one's own checkout, which has no address.
origin=
# shellcheck source=llama.cpp.pin
[[ -n ${LLAMA_CPP_DIR:-} ]] || origin=$(. "$here/llama.cpp.pin" && echo "pkg:pypi/$package@$version")
gcc=$("${CXX:-c++}" -dumpfullversion)

native() {
	library llama.cpp "$llama" MIT "$origin"
	library ggml "$ggml" MIT
	library nlohmann-json "$(found 'version ([0-9.]+)' "$src/vendor/nlohmann/json.hpp")" MIT
	library cpp-httplib "$(found 'CPPHTTPLIB_VERSION "([0-9.]+)"' "$src/vendor/cpp-httplib/httplib.h")" MIT
	library subprocess.h "llama.cpp-$llama" Unlicense
	library base64.hpp "llama.cpp-$llama" Unlicense
	library llamafile-sgemm "llama.cpp-$llama" MIT
	local lib name
	for lib in "$tree"/lib/lib{stdc++,gomp}.so.*; do
		name=${lib##*/}
		library "${name%%.so*}" "$gcc" 'GPL-3.0-or-later WITH GCC-exception-3.1'
	done
	for lib in "$tree"/lib/lib{cudart,cublas,cublasLt}.so.*; do
		[[ -e $lib ]] || continue
		name=${lib##*/}
		library "${name%%.so*}" "${name##*.so.}" 'NVIDIA CUDA Toolkit EULA'
	done
}

# The tool takes the licence of Go's own modules for a relative of the one that it is. That it can't download
# agentd itself, and that Go is no module, are no news.
"$gomod" bin -json -licenses -assert-licenses -noserial -notimestamp -std -version "v$release" "$tree/agentd" 2> >(grep -vE 'agentd@v|std@go' >&2) |
	jq --slurpfile native <(native) '
		.components |= map(if .name == "std" or (.name | startswith("golang.org/x/"))
			then .licenses = [{license: {id: "BSD-3-Clause"}}] else . end)
		| .metadata.component.licenses = [{license: {id: "MIT"}}]
		| .components += $native
		| (.dependencies[] | select(.ref == $ref) | .dependsOn) += [$native[]."bom-ref"]' \
		--arg ref "pkg:golang/agentd@v$release?type=module#cmd/agentd"
