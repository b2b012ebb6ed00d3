#!/usr/bin/env bash
# dist.sh RELEASE [COMMIT]  makes dist/agentd-RELEASE-linux-ARCH: a directory that runs on other machines of this
# architecture. It holds the binary, the libraries with one CPU backend for each CPU generation, and the
# C++ and OpenMP run-time libraries; of the system it needs glibc, no older than the one it was built with.
# shellcheck disable=SC2016 # ${SRCDIR} is cgo's variable, not ours
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

release=${1:?usage: dist.sh release [commit]}
commit=${2-}
tree=$root/dist/agentd-$release-linux-$(go env GOARCH)
stage=$root/dist/.stage.$$
trap 'rm -rf "$stage"' EXIT
rm -rf "$stage"
mkdir -p "$stage"

"$here/build.sh" cpu-all "$stage/lib"
find "$stage/lib" -type l -delete # the linker's names; nothing is linked against a dist tree
sed -i -E '/^(flags|env|toolkit) /d' "$stage/lib/BUILD" # paths of this machine

# A development build also knows the clone's lib directory, so that plain `go test` finds it. This one must
# not: the overlay shows the compiler the same files without that path.
overlay=$stage/overlay
mkdir "$overlay"
entries=()
while read -r file; do
	copy=$overlay/${#entries[@]}.go
	sed 's| *-Wl,-rpath,${SRCDIR}[^ ]*||g' "$file" >"$copy"
	entries+=("\"$file\": \"$copy\"")
done < <(grep -rlF --include='*.go' -- '-Wl,-rpath,${SRCDIR}' "$root/llama")
(IFS=,; printf '{"Replace": {%s}}\n' "${entries[*]}") >"$overlay/overlay.json"
(cd "$root" && go build -trimpath -overlay "$overlay/overlay.json" -ldflags "-s -w -X agentd/internal/version.commit=$commit" \
	-o "$stage/agentd" ./cmd/agentd)
rm -r "$overlay"

for lib in libstdc++.so.6 libgcc_s.so.1 libgomp.so.1; do
	cp -L "$("${CXX:-c++}" -print-file-name="$lib")" "$stage/lib/$lib"
done
strip --strip-unneeded "$stage"/lib/*.so*

cp "$root/LICENSE" "$stage/"
mv "$stage/lib/LICENSE.llama.cpp" "$stage/"
[[ ! -e $root/README.md ]] || cp "$root/README.md" "$stage/"
cat >"$stage/LICENSE.runtime" <<-'END'
	lib/libstdc++.so.6, lib/libgcc_s.so.1 and lib/libgomp.so.1 are the run-time libraries of GCC, under the
	GNU General Public License, version 3, with the GCC Runtime Library Exception, version 3.1. Removing
	them makes agentd use the system's own.
END

# Relocatable: every search path starts at $ORIGIN, and everything that is needed is glibc or lies in lib.
for f in "$stage/agentd" "$stage"/lib/*.so*; do
	while read -r tag value; do
		case $tag in
		NEEDED)
			[[ $value =~ ^(libc|libm|libdl|libpthread|librt|libresolv|ld-linux-.*)\.so\.[0-9]+$ || -e $stage/lib/$value ]] ||
				die "dist: ${f##*/} needs $value, which is not in the tree"
			;;
		RPATH | RUNPATH)
			[[ $value =~ ^\$ORIGIN(/lib)?$ ]] || die "dist: ${f##*/} looks for libraries in $value"
			;;
		esac
	done < <(readelf -d "$f" | sed -nE 's/.*\((NEEDED|RPATH|RUNPATH)\).*\[(.*)\]/\1 \2/p')
done

rm -rf "$tree"
mv -T "$stage" "$tree"
glibc=$(readelf -V "$tree/agentd" "$tree"/lib/*.so* | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
say "dist/${tree##*/} is ready ($(du -sh "$tree" | cut -f1); needs ${glibc/_/ })"
