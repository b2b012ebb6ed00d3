#!/usr/bin/env bash
# test-arm.sh  compiles ggml's CPU backend with the patch for ARM, and runs the tests of products under qemu. It needs
# Debian's g++-aarch64-linux-gnu and qemu-user-static (or qemu-user). The build stays in the cache.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cross=aarch64-linux-gnu
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || die "no qemu-aarch64 (Debian: qemu-user-static)"
command -v $cross-g++ >/dev/null || die "no $cross-g++ (Debian: g++-aarch64-linux-gnu)"
src=$(source_dir)
build=$cache/build/arm-$(source_id)

mkdir -p "$build"
cmake -S "$src" -B "$build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_BUILD_TYPE=Release \
	-DCMAKE_C_COMPILER=$cross-gcc -DCMAKE_CXX_COMPILER=$cross-g++ -DBUILD_SHARED_LIBS=OFF \
	-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF -DLLAMA_BUILD_COMMON=OFF -DLLAMA_OPENSSL=OFF >"$build/log"
cmake --build "$build" --target ggml-cpu -j "${JOBS:-$(nproc)}" >>"$build/log" || die "the build failed: $build/log"
$cross-g++ -std=c++17 -O1 -static -isystem "$src/ggml/include" -o "$build/products" \
	"$here/patch/testdata/products.cpp" "$build/ggml/src/libggml-cpu.a" "$build/ggml/src/libggml-base.a" -lpthread -ldl
"$emulator" "$build/products" few
say "products are right on ARM"
