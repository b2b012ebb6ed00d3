#!/usr/bin/env bash
# build.sh BACKEND [DIRECTORY]  builds llama.cpp (cpu, cpu-all, cuda or vulkan: see CMakeLists.txt) into
# the cache, unless it is there, and copies the products into DIRECTORY (default: lib, beside the binary).
# build.sh peers  does the same with the programs that agentd is compared with (see peers/CMakeLists.txt);
# they go to bench/bin and run with the libraries in lib.
#
# The products lie in the cache under a name made from everything that decides what they are: llama.cpp's
# version, the compiler, the flags, the backend and, for builds for "this CPU", the CPU's features.
#
#   JOBS               parallel compilations (default: all processors)
#   LLAMA_CMAKE_FLAGS  more flags for CMake, such as -DGGML_OPENMP=OFF
#   CUDA_HOME          the CUDA toolkit (cuda only)
#   VULKAN_SDK         a Vulkan SDK (vulkan only; default: the system's glslc and headers)
#   CACHED_ONLY        not empty: build nothing, and succeed without products if the cache has none
#   CUDA_ARCHS         its architectures, as CMake writes them: 90-real, "86;89" (cuda only)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

backend=${1:?usage: build.sh cpu|cpu-all|cuda|vulkan|peers [directory]}
dest=${2:-$root/lib}
files=("$root/CMakeLists.txt" "$here/probe.cpp") # that a build is made from, apart from llama.cpp
jobs=${JOBS:-$(nproc)}
src=$(source_dir)
cc=${CC:-cc} cxx=${CXX:-c++}

# What decides the products, and where things lie here, which does not.
declare -a flags=("-DAGENTD_BACKEND=$backend") paths=("-DLLAMA_CPP=$src")
cpu=any toolkit="" libs=""
case $backend in
cpu)
	# What the compiler makes of this CPU; the same on every machine with the same instruction set.
	cpu=$("$cc" -march=native -dM -E -x c /dev/null 2>/dev/null | sort | hash8)
	;;
cpu-all) ;;
cuda)
	[[ -x ${CUDA_HOME:?}/bin/nvcc ]] || die "no $CUDA_HOME/bin/nvcc"
	# Assertions print file names, as CMakeLists.txt says; of CUDA it knows no such option.
	paths+=("-DCMAKE_CUDA_FLAGS=-Xcompiler=-ffile-prefix-map=$src=llama.cpp")
	flags+=("-DCMAKE_CUDA_COMPILER=$CUDA_HOME/bin/nvcc" "-DCUDAToolkit_ROOT=$CUDA_HOME"
		"-DAGENTD_CUDA_RPATH=$CUDA_HOME/lib64" "-DCMAKE_CUDA_HOST_COMPILER=$(command -v "$cxx")")
	[[ -z ${CUDA_ARCHS:-} ]] || flags+=("-DCMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHS")
	toolkit=$("$CUDA_HOME/bin/nvcc" --version | tail -1)
	;;
vulkan)
	# The plugin has the extensions that the compiler of shaders and the headers know.
	[[ -z ${VULKAN_SDK:-} ]] || PATH=$VULKAN_SDK/bin:$PATH
	headers=$(sed -nE 's/^#define VK_HEADER_VERSION ([0-9]+)$/\1/p' "${VULKAN_SDK:-/usr}/include/vulkan/vulkan_core.h")
	toolkit="$(glslc --version | paste -sd' '), headers $headers, source $(hash8 <"$src/ggml/src/ggml-vulkan/ggml-vulkan.cpp")"
	;;
peers)
	[[ $# == 1 ]] || die "the peers find the libraries from bench/bin; build.sh peers takes no directory"
	# They are linked with what lies in lib, whose receipt says what that is.
	[[ -e $dest/BUILD ]] && grep -qx 'backend   cpu' "$dest/BUILD" || die "lib lacks the libraries for this CPU; build.sh cpu makes them"
	toolkit="lib $(hash8 <"$dest/BUILD")"
	# source_id looks only at what the libraries are made of.
	[[ -z ${LLAMA_CPP_DIR:-} ]] || toolkit+=", tools $(cd "$src" && find tools -type f -printf '%P %s %T@\n' | sort | hash8)"
	libs=$dest # not a flag: where a clone lies does not change what is built
	files=("$here/peers/CMakeLists.txt")
	dest=$root/bench/bin
	;;
*) die "unknown backend $backend: want cpu, cpu-all, cuda, vulkan or peers" ;;
esac
read -ra more <<<"${LLAMA_CMAKE_FLAGS:-}"

compiler=$("$cxx" --version | head -1)
id=$(source_id) receipt=BUILD
if [[ $backend == cuda || $backend == vulkan ]]; then
	id=$(ggml_id) receipt=BUILD.$backend
	# What the plugin lacks is an error of this build, not of the server that loads it.
	flags+=("-DCMAKE_MODULE_LINKER_FLAGS=-Wl,--no-undefined")
fi
recipe="source    $id
ggml      $(ggml_id)
backend   $backend
compiler  $compiler
target    $("$cxx" -dumpmachine), CPU $cpu
flags     ${flags[*]} ${more[*]-}
env       ${CFLAGS:-} ${CXXFLAGS:-} ${LDFLAGS:-}
toolkit   $toolkit
recipe    $(cat "${files[@]}" | hash8)"
key="$backend-$id-$(printf '%s' "$recipe" | hash8)"
products=$cache/lib/$key

# compile FLAGS... configures and builds in the cache. A build that was interrupted goes on where it was.
compile() {
	mkdir -p "$work/source"
	# Copies, so that a build begun in one clone can be finished in another.
	cp -p "${files[@]}" "$work/source/"
	local -a generator=()
	[[ -e $work/out/CMakeCache.txt ]] || ! command -v ninja >/dev/null || generator=(-G Ninja)
	if ! {
		cmake -S "$work/source" -B "$work/out" "${generator[@]}" -DAGENTD_PROBE="$work/source/probe.cpp" \
			-DAGENTD_LIBS="$libs" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "${paths[@]}" "${flags[@]}" "${more[@]}" "$@" &&
			cmake --build "$work/out" --target products -j "$jobs"
	} 2>&1 | tee "$work/log" | progress "llama.cpp ($backend)"; then
		tail -30 "$work/log" >&2
		die "building llama.cpp failed; the whole log is $work/log"
	fi
}

# probe runs the kernels just built and returns what became of it.
probe() {
	local rc=0
	"$work/out/bin/agentd-probe" "$work/out/bin" >"$work/probe" 2>"$work/probe.err" || rc=$?
	return $rc
}

build() {
	[[ -e $products/BUILD ]] && return # another process was faster
	say "building llama.cpp ($backend) with $jobs jobs; this takes some minutes, once (log: $work/log)"
	local start=$SECONDS rc=0 note=""
	compile
	if [[ $backend == cpu* ]]; then
		probe || rc=$?
		if ((rc != 0)) && [[ $backend == cpu ]]; then
			say "the kernels built for this CPU do not run here (status $rc: $(tail -1 "$work/probe.err"))"
			say "building again without AMX and AVX-512"
			note="portable AVX2 kernels: the native ones failed the probe with status $rc; "
			rm -rf "$work/out" # CMake would remember the answers it found for the native build
			compile -DAGENTD_AMX=OFF -DGGML_NATIVE=OFF
			rc=0
			probe || rc=$?
		fi
		((rc == 0)) || die "the kernels built for this CPU do not run here (status $rc: $(tail -1 "$work/probe.err"));" \
			"LLAMA_CMAKE_FLAGS='-DGGML_NATIVE=OFF -DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_BMI2=OFF' builds simpler ones"
		note+="probe:$(cat "$work/probe")"
	fi
	collect "$note"
	say "llama.cpp ($backend) built in $((SECONDS - start)) s"
}

# collect puts the products into the cache in one step.
collect() {
	local stage=$products.$$
	rm -rf "$products".[0-9]* # of builds that were interrupted here; the lock is ours
	mkdir -p "$stage"
	case $backend in
	cuda | vulkan) cp -L "$work/out/bin/libggml-$backend.so" "$stage/" ;;
	peers)
		cp "$work"/out/bin/llama-{server,batched-bench} "$stage/"
		strip --strip-unneeded "$stage"/*
		;;
	*)
		cp -P "$work"/out/bin/lib*.so* "$stage/"
		cp "$src/models/ggml-vocab-qwen2.gguf" "$stage/"
		cp "$src/LICENSE" "$stage/LICENSE.llama.cpp"
		;;
	esac
	printf '%s\nnote      %s\n' "$recipe" "$1" >"$stage/BUILD"
	mv -T "$stage" "$products"
	# One's own checkout is built again and again: keep the objects. The pinned one is done.
	[[ -n ${LLAMA_CPP_DIR:-} ]] || rm -rf "$work"
}

# deliver brings DIRECTORY up to date.
deliver() {
	local f plugin
	cmp -s "$products/BUILD" "$dest/$receipt" && return
	if [[ $backend == cpu* ]]; then
		for f in "$dest"/lib{llama,ggml}*.so*; do
			[[ -e $products/${f##*/} || ${f##*/} =~ ^libggml-(cuda|vulkan)\.so$ ]] || rm -f "$f"
		done
		# A plugin belongs to one version of ggml.
		for plugin in cuda vulkan; do
			if [[ -e $dest/BUILD.$plugin && $(grep ^ggml "$dest/BUILD.$plugin") != $(grep ^ggml "$products/BUILD") ]]; then
				say "lib/libggml-$plugin.so belongs to another llama.cpp; removed (make $plugin brings it again)"
				rm -f "$dest/libggml-$plugin.so" "$dest/BUILD.$plugin"
			fi
		done
	fi
	deliver_plugin "$products" "$dest" "$receipt"
}

work=$cache/build/$key-$(printf '%s' "$src" | hash8) # CMake refuses a build that was moved
[[ -z ${LLAMA_CPP_DIR:-} ]] || work=$cache/build/$backend-own-$(printf '%s' "$src" | hash8)
if [[ ! -e $products/BUILD ]]; then
	[[ -z ${CACHED_ONLY:-} ]] || { say "the cache has no $key"; exit 0; }
	mkdir -p "$cache/lib" "$cache/build"
	with_lock "${work##*/}" build
fi
with_lock "deliver-$(printf '%s' "$dest" | hash8)" deliver
