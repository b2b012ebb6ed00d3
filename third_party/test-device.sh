#!/usr/bin/env bash
# test-device.sh [all]  runs the tests that compute on a device, in one process for each package: the short
# ones of package llama, which make test includes, or with "all" the long ones and those of the scheduler, too. It skips
# them with a reason where there is no device. It compiles the Vulkan plugin first, once.
#
#   DEVICE       the device as ggml names it (default: Vulkan0, which may be Mesa's driver for CPUs); for another one, such
#                as CUDA0, its plugin must lie in lib
#   CACHED_ONLY  not empty: compile nothing, and skip Vulkan's tests where the cache has no plugin
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

device=${DEVICE:-Vulkan0}
skip() {
	say "device tests skipped: $*"
	exit 0
}

if [[ $device == Vulkan* ]]; then
	wanted=('vulkan?' 'lavapipe?' flock)
	[[ -n ${CACHED_ONLY:-} ]] || wanted+=('glslc?' 'vulkan-headers?' 'spirv-headers?')
	"$here/prereqs.sh" "${wanted[@]}"
	"$here/prereqs.sh" vulkan 2>/dev/null || skip "there is no Vulkan loader (Debian: libvulkan1)"
	[[ -n $(compgen -G '/usr/share/vulkan/icd.d/*.json' || compgen -G '/etc/vulkan/icd.d/*.json') ]] ||
		skip "there is no Vulkan driver (Debian: mesa-vulkan-drivers)"
	"$here/prereqs.sh" glslc vulkan-headers spirv-headers 2>/dev/null ||
		skip "the plugin can't be compiled (Debian: glslc libvulkan-dev spirv-headers)"
	"$here/build.sh" vulkan "$root/lib/vulkan" # where no server finds it
	[[ $(grep -s ^ggml "$root/lib/vulkan/BUILD.vulkan") == $(grep ^ggml "$root/lib/BUILD") ]] ||
		skip "the cache has no plugin; make test-device compiles it"
	export GGML_VK_VISIBLE_DEVICES=${GGML_VK_VISIBLE_DEVICES:-0} # without it ggml leaves drivers for CPUs out
fi

# Mesa 22's driver for CPUs counts references to buffers that it has freed (docs/gpu.md). Only tests need it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run=()
lavapipe=$(compgen -G '/usr/lib/*/libvulkan_lvp.so' | head -1 || true)
if [[ $device == Vulkan* && -n $lavapipe ]] && grep -qa 'Mesa 22\.' "$lavapipe"; then
	"${CC:-cc}" -O1 -shared -fPIC -o "$work/lavapipe.so" "$root/llama/testdata/lavapipe.c"
	run=(-exec "env LD_PRELOAD=$work/lavapipe.so")
fi

export AGENTD_TEST_DEVICE=$device
cd "$root"
long=(-skip OnDeviceTooLarge) # a minute
[[ ${1:-} != all ]] || long=()
go test -count=1 -timeout 20m "${run[@]}" -run OnDevice "${long[@]}" ./llama
if [[ $device == Vulkan0 ]]; then # a model divided among two devices: one of them twice, where there is one
	GGML_VK_VISIBLE_DEVICES=$GGML_VK_VISIBLE_DEVICES,$GGML_VK_VISIBLE_DEVICES go test -count=1 -timeout 20m "${run[@]}" -run OnDeviceSplit ./llama
fi
[[ ${1:-} != all ]] || go test -count=1 -timeout 60m "${run[@]}" -run \
	'^(TestIsolatedStepsDoNotDependOnLoad|TestEvictedCellsAreLoadedFromHostCache|TestComputedTokensAreReused|TestConcurrentPromptsSharePrefill|TestLogitsAfterDrafts|TestLogitsDependOnlyOnTokens|TestLostSequenceIsComputedAgain|TestFailedStepEndsOnlyItsGenerations)$' ./scheduler
