#!/usr/bin/env bash
# prereqs.sh COMMAND...  makes sure that the named programs exist, and "go" in the version of go.mod. "vulkan" is the
# Vulkan loader, "lavapipe" Mesa's Vulkan driver for CPUs, "vulkan-headers" and "spirv-headers" what the Vulkan plugin is
# compiled with, "tcmalloc" an allocator for vLLM and the training. What is missing is installed with apt when this runs
# as root; else one line says what to install. A trailing ? marks a program one can do without.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The Debian package of a program.
package_of() {
	case $1 in
	ninja) echo ninja-build ;;
	c++ | g++) echo g++ ;;
	cc | gcc) echo gcc ;;
	flock) echo util-linux ;;
	readelf | strip) echo binutils ;;
	pip) echo python3-pip ;;
	postgres) echo postgresql ;;
	tcmalloc) echo libtcmalloc-minimal4 ;;
	vulkan) echo libvulkan1 ;;
	vulkan-headers) echo libvulkan-dev ;;
	lavapipe) echo mesa-vulkan-drivers ;;
	*) echo "$1" ;;
	esac
}

# go_version prints Go's version, 0 without Go. An old one that may not fetch the one of go.mod fails in the clone.
go_wanted=$(sed -n 's/^go //p' "$root/go.mod")
go_version() {
	local version
	version=$(cd "$root" && go env GOVERSION 2>/dev/null) || version=$(cd / && go env GOVERSION 2>/dev/null) || version=0
	printf '%s\n' "${version##*go}"
}

have() {
	case $1 in
	go) [[ $(printf '%s\n' "$go_wanted" "$(go_version)" | sort -V | head -1) == "$go_wanted" ]] ;;
	pip) python3 -m pip --version >/dev/null 2>&1 ;;
	postgres) command -v postgres /usr/lib/postgresql/*/bin/postgres >/dev/null ;;
	chromium) command -v chromium chromium-browser google-chrome >/dev/null ;;
	tcmalloc) { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep 'libtcmalloc_minimal\.so\.4' >/dev/null ;;
	vulkan) { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep 'libvulkan\.so\.1' >/dev/null ;;
	glslc) command -v glslc "${VULKAN_SDK:-/usr}/bin/glslc" >/dev/null ;;
	vulkan-headers) [[ -e ${VULKAN_SDK:-/usr}/include/vulkan/vulkan.hpp ]] ;;
	spirv-headers) [[ -e ${VULKAN_SDK:-/usr}/include/spirv/unified1/spirv.hpp ]] ;;
	lavapipe) compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# Distributions have an older Go, so it is not installed here.
if [[ " $* " == *" go "* ]] && ! have go; then
	version=$(go_version)
	die "please install Go $go_wanted or newer, which go.mod asks for; $([[ $version == 0 ]] && echo "there is no go in PATH" || echo "this is Go $version")"
fi

missing=() packages=()
for name; do
	have "${name%\?}" && continue
	# Optional programs are worth an install, not a complaint.
	[[ $name == *\? ]] && ! ((EUID == 0)) && continue
	missing+=("$name")
	packages+=("$(package_of "${name%\?}")")
done
((${#missing[@]})) || exit 0

if ((EUID == 0)) && command -v apt-get >/dev/null; then
	say "installing ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	mkdir -p "$cache/locks" && exec 9>"$cache/locks/apt" && flock 9 # one at a time; a started service must not keep it
	apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null 2>&1 9>&- ||
		{ apt-get update -qq && apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null; } 9>&- || true
fi
lacking=()
for name in "${missing[@]}"; do
	[[ $name == *\? ]] || have "$name" || lacking+=("$(package_of "$name")")
done
((${#lacking[@]} == 0)) || die "please install: ${lacking[*]} (Debian and Ubuntu: sudo apt-get install ${lacking[*]})"
