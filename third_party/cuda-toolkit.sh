#!/usr/bin/env bash
# Installs what `make cuda` needs of the CUDA toolkit into the cache, from NVIDIA's Python wheels: nvcc,
# cudart, cuBLAS and CCCL. No root, no driver and no GPU are needed; about 1.1 GB on disk.
# Prints the directory, which is a CUDA_HOME.
#
#   cuda-toolkit.sh          install if missing, print the directory
#   cuda-toolkit.sh --find   print the toolkit to use: CUDA_HOME, the cache, nvcc in PATH, /usr/local/cuda; or fail
#   cuda-toolkit.sh --archs  print the architectures of this machine's GPUs as CMake writes them, or nothing
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=13.0
toolkit=$cache/cuda-$version

find_toolkit() {
	local dir nvcc
	if [[ -n ${CUDA_HOME:-} ]]; then
		[[ -x $CUDA_HOME/bin/nvcc ]] || die "CUDA_HOME=$CUDA_HOME has no bin/nvcc"
		printf '%s\n' "$CUDA_HOME"
		return
	fi
	nvcc=$(command -v nvcc || true)
	for dir in "$toolkit" ${nvcc:+"$(dirname "$(dirname "$(readlink -f "$nvcc")")")"} /usr/local/cuda; do
		if [[ -x $dir/bin/nvcc ]]; then
			printf '%s\n' "$dir"
			return
		fi
	done
	return 1
}

install() {
	[[ -x $toolkit/bin/nvcc ]] && return # another process was faster
	rm -rf "$cache"/.cuda.* # of installs that were interrupted; the lock is ours
	work=$(mktemp -d "$cache/.cuda.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	say "installing the CUDA $version toolkit (about 1.1 GB) into $toolkit"
	python3 -m pip install --quiet --root-user-action=ignore --no-cache-dir --target "$work/site" \
		"cuda-toolkit[nvcc,cudart,cublas,cccl,crt,nvvm]==$version.*" >&2 ||
		die "pip could not install the CUDA toolkit; install one yourself and give it as CUDA_HOME"

	# The wheels share one directory that is a toolkit but for the names that compilers and CMake look for.
	local home=("$work"/site/nvidia/cu*) lib
	[[ ${#home[@]} == 1 && -x ${home[0]}/bin/nvcc ]] || die "the CUDA wheels are not laid out as expected"
	ln -s lib "${home[0]}/lib64"
	for lib in "${home[0]}"/lib/lib*.so.*; do
		[[ $lib == *.alt.* ]] || ln -sf "${lib##*/}" "${lib%%.so.*}.so"
	done
	# The driver's library comes with the driver, not with the wheels. The linker wants its name and the names of
	# its functions: without them it would leave libcuda out, and the plugin would not load on any machine.
	mkdir "${home[0]}/lib/stubs"
	echo '#include <cuda.h>' | "${CC:-cc}" -E -P -I "${home[0]}/include" -xc - |
		grep -oE '\bcu[A-Z][A-Za-z0-9_]*\(' | sort -u | sed 's/^/void /; s/$/void) {}/' |
		"${CC:-cc}" -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "${home[0]}/lib/stubs/libcuda.so" -xc -
	mkdir "${home[0]}/licenses"
	cp -r "$work"/site/*.dist-info "${home[0]}/licenses/"
	mv -T "${home[0]}" "$toolkit"
	rm -rf "$work"
	trap - EXIT
}

# archs turns the driver's "9.0" into CMake's "90-real". Without a driver it prints nothing, and llama.cpp's own
# list applies: code for the common GPUs, and PTX that newer drivers compile for the others.
archs() {
	command -v nvidia-smi >/dev/null || return 0
	nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
		sed -nE 's/^([0-9]+)\.([0-9])$/\1\2-real/p' | sort -u | paste -sd';'
}

case ${1:-} in
--find) find_toolkit; exit ;;
--archs) archs; exit ;;
esac
if [[ ! -x $toolkit/bin/nvcc ]]; then
	mkdir -p "$cache"
	with_lock "cuda-$version" install
fi
printf '%s\n' "$toolkit"
