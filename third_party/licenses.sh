#!/usr/bin/env bash
# licenses.sh DIRECTORY  writes the licence texts of all that a `make dist` tree links into DIRECTORY:
#
#   agentd       this project's own
#   go           of Go's standard library and of each module, by module and version
#   llama.cpp    of llama.cpp, and of the code by others that it compiles in
#   gcc          of the run-time libraries of GCC
#
# A text that is not found is an error, and so is a notice in llama.cpp that nobody has put on the list below.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=${1:?usage: licenses.sh directory}
src=$(source_dir)
mkdir -p "$out"/{agentd,go/std,llama.cpp,gcc}

# texts FROM TO copies the files of a directory that are licences or notices; it fails if there is none.
texts() {
	local file found=
	for file in "$1"/*; do
		shopt -s nocasematch
		[[ -f $file && ${file##*/} =~ ^(licen[sc]es?|copying|notice|patents|unlicense)([.-].*)?$ && ! $file =~ \.go$ ]] && found+=$file$'\n'
		shopt -u nocasematch
	done
	[[ $found ]] || return 1
	mkdir -p "$2"
	while read -r file; do
		install -m 644 "$file" "$2/"
	done < <(printf %s "$found")
}

# A package may have a licence of its own below its module's, so every directory up to the module's counts.
go_modules() {
	local module module_dir dir below
	while IFS=$'\t' read -r module module_dir dir; do
		texts "$module_dir" "$out/go/$module" || [[ $dir != "$module_dir" ]] || die "licenses: $module has no licence text"
		while [[ $dir != "$module_dir" ]]; do
			below=${dir#"$module_dir"}
			texts "$dir" "$out/go/$module$below" || true
			dir=${dir%/*}
		done
		[[ -d $out/go/$module ]] || die "licenses: $module has no licence text"
	done < <(cd "$root" && go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}	{{.Dir}}	{{$.Dir}}{{end}}{{end}}' ./cmd/agentd | sort -u)
}

llama_cpp() {
	local to=$out/llama.cpp file
	install -m 644 "$src/LICENSE" "$to/LICENSE"
	install -m 644 "$src/licenses/LICENSE-jsonhpp" "$to/nlohmann-json"
	install -m 644 "$src/vendor/cpp-httplib/LICENSE" "$to/cpp-httplib"
	sed -n '/unencumbered/,/\*\//p' "$src/vendor/sheredom/subprocess.h" >"$to/subprocess.h"
	sed -n '/unencumbered/,/\*\//p' "$src/common/base64.hpp" >"$to/base64.hpp"
	sed '/^$/q' "$src/ggml/src/ggml-cpu/llamafile/sgemm.cpp" >"$to/llamafile-sgemm"
	grep -h 'Copyright' "$src/ggml/src/ggml-cpu/ops.cpp" >"$to/yarn-rope"
	for file in "$to"/*; do
		grep -qiE 'copyright|unencumbered' "$file" || die "licenses: llama.cpp's ${file##*/} holds no licence; did the file move?"
	done
	# What follows the list above, what is in comments about other things, and backends that are not built.
	local known='^(common/base64.hpp|ggml/src/ggml-cpu/llamafile/sgemm.cpp|ggml/src/ggml-cpu/ops.cpp|ggml/src/ggml-cuda/rope.cu|src/llama-sampler.cpp|ggml/src/ggml-cpu/kleidiai/.*|ggml/include/ggml-(cann|sycl).h)$'
	local new
	new=$(cd "$src" && grep -rliE 'copyright|unlicense|public domain' ggml/src/*.* ggml/src/ggml-cpu ggml/src/ggml-cuda ggml/include src common include |
		grep -E '\.(c|cpp|cu|cuh|h|hpp)$' | grep -vE "$known" || true)
	[[ -z $new ]] || die "licenses: files of llama.cpp with notices that third_party/licenses.sh does not know:" $new
}

# Distributions keep the texts of installed packages in one of two places.
gcc_runtime() {
	if [[ -e /usr/share/doc/libstdc++6/copyright ]]; then
		install -m 644 /usr/share/doc/libstdc++6/copyright "$out/gcc/copyright"
		install -m 644 /usr/share/common-licenses/GPL-3 "$out/gcc/GPL-3"
	elif [[ -d /usr/share/licenses/libstdc++ ]]; then
		install -m 644 /usr/share/licenses/libstdc++/* "$out/gcc/"
	else
		die "licenses: neither /usr/share/doc/libstdc++6 nor /usr/share/licenses/libstdc++ holds GCC's licences"
	fi
	grep -rqi 'GCC Runtime Library Exception' "$out/gcc" || die "licenses: GCC's texts lack the run-time library exception"
	cat >"$out/gcc/README" <<-END
		libstdc++.so.6 and libgomp.so.1 are run-time libraries of GCC $("${CXX:-c++}" -dumpfullversion), from this system's packages: GNU General
		Public License, version 3, with the GCC Runtime Library Exception, version 3.1.
		They are separate files, so that you can put others in their place. Without them agentd uses the system's own.
	END
}

install -m 644 "$root/LICENSE" "$out/agentd/"
texts "$(go env GOROOT)" "$out/go/std" || die "licenses: Go's own licence is missing in $(go env GOROOT)"
go_modules
llama_cpp
gcc_runtime
