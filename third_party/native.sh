#!/usr/bin/env bash
# native.sh            builds agentd's own C++ (llama/native) into lib/libagentd-native.a, which cgo links
# native.sh test       builds it and its tests, and runs the tests
# native.sh sanitize   does the same under the address and undefined behaviour sanitizers
#
# The library lies in the cache under a name made from everything that decides what it is: its sources,
# llama.cpp's version, the compiler and the environment's flags. It holds code for several instruction sets and
# runs on every CPU. Objects are kept, and clones share them, so that a change of one file compiles one file. Like go
# test, tests that passed are not run again until their programs, the libraries or the processor change.
#
#   JOBS               parallel compilations (default: all processors)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=${1:-library}
jobs=${JOBS:-$(nproc)}
src=$(source_dir)
cxx=${CXX:-c++}
native=$(native_id)
dest=$root/lib

recipe="source    $(source_id)
native    $native
compiler  $("$cxx" --version | head -1)
target    $("$cxx" -dumpmachine)
env       ${CXXFLAGS:-} ${LDFLAGS:-}"
key="native-$native-$(printf '%s' "$recipe" | hash8)"
products=$cache/lib/$key

# mirror TREE brings the copy of the sources that is compiled up to date. Unchanged files keep their times, for ninja.
mirror() {
	local tree=$1 name
	mkdir -p "$tree"
	(cd "$tree" && find . -type f -print0) | while IFS= read -rd '' name; do [[ -e $root/$name ]] || rm "$tree/$name"; done
	(cd "$root" && find llama/native third_party/patch -type f -print0) | while IFS= read -rd '' name; do
		cmp -s "$root/$name" "$tree/$name" || install -Dm 644 "$root/$name" "$tree/$name"
	done
	ln -sfn "$dest" "$tree/lib"
}

# compile DIRECTORY TARGET FLAGS... configures the project in a directory of the cache and builds the target.
compile() {
	local work=$1 target=$2 tree=$1/source
	shift 2
	mirror "$tree"
	local -a generator=()
	[[ -e $work/CMakeCache.txt ]] || ! command -v ninja >/dev/null || generator=(-G Ninja)
	if ! {
		cmake -S "$tree/llama/native" -B "$work" "${generator[@]}" -DCMAKE_CXX_COMPILER="$cxx" -DLLAMA_CPP="$src" \
			-DAGENTD_LIBS="$tree/lib" -DAGENTD_LLAMA_CPP="$(source_id)" -DAGENTD_NATIVE="$native" "$@" &&
			cmake --build "$work" --target "$target" -j "$jobs"
	} 2>&1 | sed -u "s#$tree/#$root/#g" | tee "$work/log" | progress llama/native; then
		{ grep -A3 -m 10 -E '(error|Error):? ' "$work/log" || tail -30 "$work/log"; } >&2
		die "building llama/native failed; the whole log is $work/log"
	fi
}

# The objects of each compiler and llama.cpp lie apart. A clone that builds or tests with them holds their lock.
work=$cache/build/native-$(printf '%s' "$src $cxx ${recipe#*$'\n'compiler}" | hash8)

library() {
	[[ -e $products/BUILD ]] && return # another process was faster
	say "building llama/native"
	compile "$work" agentd-native
	local stage=$products.$$
	mkdir -p "$stage"
	cp "$work/libagentd-native.a" "$stage/"
	printf '%s\n' "$recipe" >"$stage/BUILD"
	mv -T "$stage" "$products"
	# Each change of a source leaves a library here: keep the newest.
	find "$cache/lib" -maxdepth 1 -name 'native-*' -printf '%T@ %p\n' | sort -rn | tail -n +17 | cut -d' ' -f2- | xargs -r rm -rf
}

# deliver brings lib up to date, and tells Go: a header in the package's directory is a part of what
# go caches by, a library is not.
deliver() {
	deliver_plugin "$products" "$dest" BUILD.native
	local stamp=$root/llama/native_stamp.h
	if ! grep -qs "\"$key\"" "$stamp"; then
		printf '// Written by third_party/native.sh: go builds package llama again when the library changes.\n#define AGD_NATIVE_STAMP "%s"\n' "$key" >"$stamp.$$"
		mv -Tf "$stamp.$$" "$stamp"
	fi
}

tests() {
	local work=$work-$1 inputs
	shift
	compile "$work" all -DBUILD_TESTING=ON "$@"
	inputs=$(cat "$work"/*_test "$dest"/*.so.* "$dest"/*.gguf <(grep -Em1 '^(flags|Features)' /proc/cpuinfo) | hash8)
	if [[ "$(cat "$work/PASSED" 2>/dev/null)" == "$inputs" ]]; then
		say "the C++ tests passed before, with the same programs, libraries and processor ($work/PASSED)"
		return
	fi
	(cd "$work" && ctest --output-on-failure -j "$jobs")
	printf '%s\n' "$inputs" >"$work/PASSED"
}

mkdir -p "$cache/lib" "$cache/build"
case $mode in
library)
	[[ -e $products/BUILD ]] || with_lock "${work##*/}" library
	with_lock "deliver-$(printf '%s' "$dest" | hash8)" deliver
	;;
test) with_lock "${work##*/}-test" tests test ;;
sanitize) with_lock "${work##*/}-sanitize" tests sanitize -DAGENTD_SANITIZE=ON ;;
*) die "unknown mode $mode: want test, sanitize or nothing" ;;
esac
