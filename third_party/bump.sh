#!/usr/bin/env bash
# bump.sh VERSION  tries another version of the package that llama.cpp comes in, and moves the pin to it if
# everything passes.
#
# It fetches and verifies the package, applies third_party/patch, builds llama.cpp and llama/native, and runs the
# C++ tests and the Go tests of package llama. All of that happens in a copy of this clone in the cache, so the
# clone and its lib stay as they are. A step that fails does not end the run where the next one makes sense
# without it: the summary lists all that broke.
#
#   PIN   "yes" (default): move the pin if everything passes; "no": never
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/llama.cpp.pin"

new=${1:-}
[[ $new =~ ^[0-9]+\.[0-9]+\.[0-9]+[a-z0-9.-]*$ ]] || die "give the version to try: make bump LLAMA=VERSION ('npm view $package versions' lists them)"
[[ ${PIN:=yes} =~ ^(yes|no)$ ]] || die "PIN=$PIN: want yes or no"
[[ -z ${LLAMA_CPP_DIR:-} ]] || die "LLAMA_CPP_DIR and LLAMA name two sources; give one"

work=$cache/bump/$new
source=$work/llama.cpp
tree=$work/agentd
summary=() broken=0

report() {
	summary+=("$(printf '  %-13s %s' "$1" "$2")")
	[[ $2 == ok* ]] || broken=1
}

# failures LOG prints what a log says about why something failed: failed tests, else the first errors.
failures() {
	{ grep -hE -A1 '^[[:space:]]*--- FAIL: |\(Failed\)$' "$1" || grep -hE -m 6 '(error|Error|FAILED): |failed;' "$1" || tail -3 "$1"; } |
		sed 's/^[[:space:]]*/                  /' | cut -c1-200
}

# step NAME COMMAND... runs one step and notes what became of it.
step() {
	local name=$1 log=$work/${1// /-}.log start=$SECONDS
	shift
	say "$name (log: $log)"
	if "$@" >"$log" 2>&1; then
		report "$name" "ok, $((SECONDS - start)) s"
	else
		report "$name" "FAILED"$'\n'"$(failures "$log")"
		return 1
	fi
}

get_source() {
	[[ -e $source/CMakeLists.txt ]] && return
	rm -rf "$work/fetch" && mkdir -p "$work/fetch"
	download "$package" "$new" "$integrity" "$bundle" "$work/fetch"
	sed -nE 's/.*"release": *"([^"]*)".*/\1/p' "$work/fetch/${bundle%/*}/binariesGithubRelease.json" >"$work/release"
	mv -T "$work/fetch/src" "$source"
	rm -rf "$work/fetch"
}

patch_source() {
	is_patched "$source" && git -C "$source" apply --reverse --check "$here"/patch/*.patch && return
	git -C "$source" checkout --quiet --force .
	git -C "$source" clean --quiet --force src
	git -C "$source" apply --verbose "$here"/patch/*.patch && cp "$here"/patch/*.h "$source/src/"
}

# copy_tree brings the copy of this clone up to date, with changes that are not committed.
copy_tree() {
	rm -rf "$tree.new" && mkdir -p "$tree.new"
	(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - 2>/dev/null) |
		tar -xf - -C "$tree.new"
	[[ ! -e $tree/lib ]] || mv "$tree/lib" "$tree.new/lib"
	rm -rf "$tree" && mv -T "$tree.new" "$tree"
}

in_tree() { (cd "$tree" && LLAMA_CPP_DIR=$source "$@"); }

go_tests() {
	in_tree bash -c '. third_party/common.sh
		export CGO_CPPFLAGS=-DAGENTD_LLAMA_CPP=$(source_id) GOFLAGS=-tags=nomsgpack
		go vet ./llama/... && go test ./llama/...'
}

build() { in_tree third_party/fetch.sh && in_tree third_party/build.sh cpu; }

old=$version old_integrity=$integrity
mkdir -p "$work"
integrity=$(npm view "$package@$new" dist.integrity 2>/dev/null) || integrity=""
[[ -n $integrity ]] || die "the registry has no $package@$new"
vulkan=$(npm view "$vulkan_package@$new" dist.integrity 2>/dev/null) || vulkan=""
[[ -n $vulkan ]] || die "the registry has no $vulkan_package@$new"
get_source
step patch patch_source ||
	say "going on without the patch, which agentd does not need"
copy_tree
if step "llama.cpp" build && step "native" in_tree third_party/native.sh; then
	step "native tests" in_tree third_party/native.sh test || true
	step "go tests" go_tests || true
fi

say "$package $new (llama.cpp $(cat "$work/release" 2>/dev/null || echo unknown)) in place of $old:"
printf '%s\n' "${summary[@]}" >&2
if [[ $PIN == no ]] || ((broken)); then
	say "the pin stays at $old"
	exit "$broken"
fi
ggml=$(sed -nE 's/^set\(GGML_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)\).*/\2/p' "$source/ggml/CMakeLists.txt" | paste -sd.)
sed -i -e "s|^version=.*|version=$new|" -e "s|^integrity=.*|integrity=$integrity|" \
	-e "s|^vulkan_integrity=.*|vulkan_integrity=$vulkan|" -e "1s|release .* as it|release $(cat "$work/release") (ggml $ggml), as it|" "$here/llama.cpp.pin"
[[ $old_integrity != "$integrity" ]] || say "the packages are the same"
say "the pin is $new now; read llama/native/README.md, then run make test"
