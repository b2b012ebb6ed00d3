#!/usr/bin/env bash
# dist.sh RELEASE [COMMIT]  makes the release agentd-RELEASE-linux-ARCH[-cuda], a tree that runs on other machines of
# this architecture, and beside it the same as .tar.gz, its software bill of materials and SHA256SUMS. The tree holds the
# binary, the libraries with one CPU backend for each CPU generation, the C++ and OpenMP run-time libraries, the
# documents, and the licences of all that. Of the system it needs glibc with its libgcc_s, and says from which version.
#
#   DIST             where to put it (default: dist). A link agentd there leads to the tree made last.
#   CUDA=on          with the plugin for NVIDIA GPUs that `make cuda` left in lib
#   CUDA_RUNTIME=on  with CUDA's run-time libraries, too; NVIDIA's licence holds for them
#   REPOSITORY       the URL of this source, to which documents lead for what the tree lacks (default: they name files)
#   SOURCE_DATE_EPOCH  the time of all files in the archive (default: the commit's)
# shellcheck disable=SC2016 # ${SRCDIR} is cgo's variable and $ORIGIN the loader's
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The newest glibc that a release may need: that of Ubuntu 22.04.
newest_glibc=2.35

release=${1:?usage: dist.sh release [commit]}
commit=${2-}
cuda=${CUDA:-off} cuda_runtime=${CUDA_RUNTIME:-off}
for value in "CUDA=$cuda" "CUDA_RUNTIME=$cuda_runtime"; do
	[[ $value =~ =(on|off)$ ]] || die "dist: $value: want on or off"
done
[[ $cuda == on || $cuda_runtime == off ]] || die "dist: CUDA_RUNTIME=on needs CUDA=on"
[[ ! "${CFLAGS-} ${CXXFLAGS-} ${CGO_CFLAGS-} ${CGO_CXXFLAGS-} ${LLAMA_CMAKE_FLAGS-}" =~ (march=native|GGML_NATIVE=ON) ]] ||
	die "dist: code for this CPU alone does not run on others; unset march=native and GGML_NATIVE=ON"

mkdir -p "${DIST:-$root/dist}"
dist=$(cd "${DIST:-$root/dist}" && pwd -P)
name=agentd-$release-linux-$(go env GOARCH)
[[ $cuda == off ]] || name+=-cuda
tree=$dist/$name
stage=$dist/.stage.$$
trap 'rm -rf "$stage"' EXIT
rm -rf "$stage"
mkdir -p "$stage/lib"

# Always at the same place, so that go's cache knows what was linked with it.
libs=$root/dist/.lib
"$here/build.sh" cpu-all "$libs"

# receipt FILE prints one of lib's receipts without the lines that hold paths of this machine.
receipt() { sed -E '/^(flags|env|toolkit) /d' "$1"; }

# fits checks that the plugin belongs to these libraries; plugin takes it.
fits() {
	local built want
	[[ -e $root/lib/libggml-cuda.so && -e $root/lib/BUILD.cuda ]] || die "dist: CUDA=on needs lib/libggml-cuda.so; make cuda builds it"
	built=$(sed -nE 's/^ggml +//p' "$root/lib/BUILD.cuda")
	want=$(sed -nE 's/^ggml +//p' "$libs/BUILD")
	[[ $built == "$want" ]] || die "dist: lib/libggml-cuda.so is of ggml $built, the other libraries are of $want; make cuda builds it again"
}

plugin() {
	install -m 755 "$root/lib/libggml-cuda.so" "$stage/lib/"
	# It also looks where CUDA lies on this machine. What patchelf wrote must not be stripped any more.
	strip --strip-unneeded "$stage/lib/libggml-cuda.so"
	patchelf --set-rpath '$ORIGIN' "$stage/lib/libggml-cuda.so"
	receipt "$root/lib/BUILD.cuda" >"$stage/lib/BUILD.cuda"
}

cuda_runtime() {
	local home lib path
	home=$("$here/cuda-toolkit.sh" --find) || die "dist: CUDA_RUNTIME=on needs the CUDA toolkit; make cuda-toolkit installs one"
	mkdir -p "$stage/LICENSES/cuda"
	# The plugin needs cuBLAS, and that its other half.
	readelf -d "$stage/lib/libggml-cuda.so" | sed -nE 's/.*\(NEEDED\).*\[(lib(cudart|cublas)\.so.*)\]/\1/p' | sed '/cublas/{p; s/cublas/cublasLt/}' | while read -r lib; do
		path=$(find -L "$home/lib64" "$home/lib" -maxdepth 1 -name "$lib" -print -quit 2>/dev/null || true)
		[[ $path ]] || die "dist: $home has no $lib"
		install -m 755 "$path" "$stage/lib/$lib"
	done
	find -L "$home/licenses" "$home/EULA.txt" "$home/LICENSE" -type f -iregex '.*/\(eula\|license\)[^/]*' 2>/dev/null | while read -r path; do
		lib=${path#"$home/"}
		install -m 644 "$path" "$stage/LICENSES/cuda/${lib//\//-}"
	done || true
	[[ -n $(ls "$stage/LICENSES/cuda") ]] || die "dist: $home has no licence text"
}

# A development build also knows the clone's lib directory, so that plain `go test` finds it. This one must
# not: the overlay shows the compiler the same files without that path, and without libggml-cpu, which has variants here. libagentd-native.a comes from lib, the
# shared libraries from those just built.
binary() {
	local overlay=$stage/overlay entries=() file copy
	mkdir "$overlay"
	while read -r file; do
		copy=$overlay/${#entries[@]}.go
		sed 's| *-Wl,-rpath,${SRCDIR}[^ ]*||g; s| -Wl,--no-as-needed -lggml-cpu -Wl,--as-needed||' "$file" >"$copy"
		entries+=("\"$file\": \"$copy\"")
	done < <(grep -rlF --include='*.go' -- '-Wl,-rpath,${SRCDIR}' "$root/llama")
	(IFS=,; printf '{"Replace": {%s}}\n' "${entries[*]}") >"$overlay/overlay.json"
	(cd "$root" && CGO_LDFLAGS="-O2 -g ${CGO_LDFLAGS-} -L$libs" go build -trimpath -overlay "$overlay/overlay.json" \
		-ldflags "-s -w -X agentd/internal/base/version.commit=$commit" -o "$stage/agentd" ./cmd/agentd)
	rm -r "$overlay"
}

# newest VERSION... prints the greatest.
newest() { printf '%s\n' "$@" | sort -V | tail -1; }

# symbols FILE given|taken prints the symbols that it exports or takes from others, as NAME@VERSION.
symbols() {
	readelf -W --dyn-syms "$1" | awk -v taken="$2" '$8 ~ /@/ && ($7 == "UND") == (taken == "taken") {sub("@@", "@", $8); print $8}' | LC_ALL=C sort -u
}

# cxx_runtime links libstdc++ again, from the compiler's archive, if the system's needs a newer glibc than the rest
# does. It exports the same symbols by the same versions, but for some that only GCC 4 and older link.
cxx_runtime() {
	local lib=$stage/lib/libstdc++.so.6 system
	system=$("${CXX:-c++}" -print-file-name=libstdc++.so.6)
	if ! symbols "$system" taken | grep -q '^arc4random@'; then
		cp -L "$system" "$lib"
		return
	fi
	readelf -W --dyn-syms "$system" | awk '$7 != "UND" && split($8, part, "@@") == 2 {names[part[2]] = names[part[2]] part[1] ";"}
		END {for (version in names) print version " {global:" names[version] (version == "GLIBCXX_3.4" ? "local:*;" : "") "};"}' | sort -V >"$stage/map"
	"${CC:-cc}" -O2 -fPIC -shared -o "$lib" -Wl,-soname,libstdc++.so.6 "-Wl,--version-script=$stage/map" "$here/libstdcxx.c" \
		-Wl,--whole-archive "$("${CXX:-c++}" -print-file-name=libstdc++.a)" -Wl,--no-whole-archive -lm
	rm "$stage/map"
}

[[ $cuda == off ]] || fits
binary
find "$libs" -maxdepth 1 -type f -name 'lib*.so*' -exec cp -p {} "$stage/lib/" \;
cp "$libs/ggml-vocab-qwen2.gguf" "$stage/lib/"
receipt "$libs/BUILD" >"$stage/lib/BUILD"
receipt "$root/lib/BUILD.native" >"$stage/lib/BUILD.native"
cp -L "$("${CXX:-c++}" -print-file-name=libgomp.so.1)" "$stage/lib/"
cxx_runtime
strip --strip-unneeded "$stage"/lib/*.so*
for f in "$stage/agentd" "$stage"/lib/*.so*; do
	python3 -B "$here/verneed.py" "$f"
done
[[ $cuda == off ]] || plugin
[[ $cuda_runtime == off ]] || cuda_runtime
"$here/licenses.sh" "$stage/LICENSES"
"$here/sbom.sh" "$release" "$stage" >"$stage/sbom.cdx.json"

# Relocatable: every search path starts at $ORIGIN, and everything that is needed is glibc or lies in lib. CUDA's
# libraries may come from the target. glibc's packages bring libgcc_s, which glibc itself loads.
glibc='^(libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|ld-linux-.*)\.so\.[0-9]+$'
target=() needs=0
for f in "$stage/agentd" "$stage"/lib/*.so*; do
	while read -r tag value; do
		case $tag in
		NEEDED)
			[[ ! $value =~ $glibc && ! -e $stage/lib/$value ]] || continue
			[[ ${f##*/} =~ ^lib(ggml-cuda|cu.*)\.so && $value =~ ^lib(cuda|cudart|cublas|cublasLt)\.so ]] ||
				die "dist: ${f##*/} needs $value, which is not in the tree"
			target+=("$value")
			;;
		RPATH | RUNPATH)
			[[ $value =~ ^\$ORIGIN(/lib)?$ ]] || die "dist: ${f##*/} looks for libraries in $value"
			;;
		esac
	done < <(readelf -d "$f" | sed -nE 's/.*\((NEEDED|RPATH|RUNPATH)\).*\[(.*)\]/\1 \2/p')
	symbols "$f" taken >"$stage/taken"
	grep -E '@(GLIBCXX|CXXABI)_' "$stage/taken" >>"$stage/cxx" || true
	# A version may also be needed for no symbol, such as GLIBC_ABI_DT_RELR.
	value=$({ sed -n '/@GLIBC_/p' "$stage/taken"; readelf -V "$f" | sed -nE 's/.*Name: (GLIBC_\S+).*/@\1/p'; } |
		LC_ALL=C sort -t@ -k2,2V | tail -1)
	needs=$(newest "$needs" "${value#*@GLIBC_}")
	[[ $(newest "$newest_glibc" "$needs") == "$newest_glibc" ]] ||
		die "dist: ${f##*/} needs $value, and a release may need glibc $newest_glibc at most; build it on an older system"
done
lacking=$(LC_ALL=C sort -u "$stage/cxx" | LC_ALL=C comm -23 - <(symbols "$stage/lib/libstdc++.so.6" given))
[[ -z $lacking ]] || die "dist: lib/libstdc++.so.6 lacks" $lacking
rm "$stage/cxx" "$stage/taken"
printf 'glibc     %s\n' "$needs" >>"$stage/lib/BUILD"
needs="glibc $needs"

# Of this machine nothing is told but the compiler: a path begins where no name, and no part of another path, ends.
# A path like /src tells nothing, and is found in compressed code by chance.
for path in "$root" "$cache" "$(go env GOMODCACHE)"; do
	[[ $path == /*/* ]] || continue
	! LC_ALL=C grep -rlaE "(^|[^A-Za-z0-9._/-]|-[IL])${path//./\\.}/" "$stage" >&2 || die "dist: the files above hold the path $path"
done

request=$(sed -n '/^curl .*\/v1\/responses/,/^```/{/^```/q; p}' "$root/README.md")
[[ $request ]] || die "dist: README.md has no first request"
install -m 644 "$root/LICENSE" "$root/deploy/systemd/agentd.service" "$stage/"
python3 -B "$here/documents.py" "$stage" "${REPOSITORY:+$REPOSITORY/blob/v$release}"
# Where man and the shells look for them below a prefix such as /usr/local or a virtual environment.
share=$stage/share
mkdir -p "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$stage/agentd" man >"$share/man/man1/agentd.1"
"$stage/agentd" completion bash >"$share/bash-completion/completions/agentd"
"$stage/agentd" completion zsh >"$share/zsh/site-functions/_agentd"
"$stage/agentd" completion fish >"$share/fish/vendor_completions.d/agentd.fish"

{
	cat <<-END
		# agentd $release

		agentd gives robot and agent simulations their decisions. This tree runs on x86-64 Linux with ${needs}
		or newer. Put it anywhere, keep \`agentd\` and \`lib\` together, and start the server:

		    ./agentd                            the default model, on 127.0.0.1:8888
		    ./agentd --model model.gguf         yours
		    ./agentd --help                     all options

		In another terminal, let it work in a simulated house, or ask it for one decision:

		    ./agentd demo
	END
	sed 's/^/    /' <<<"$request"
	cat <<-END

		- \`docs\` describes this version: start with [docs/README.md](docs/README.md) and [docs/options.md](docs/options.md).
		- \`clients/python\` is the [Python client](clients/python/README.md): \`pip install ./clients/python\`.
		- \`share\` has the manual page and the completions of bash, zsh and fish; \`./agentd completion --help\` says how to use these.
		- \`agentd.service\` is a unit for systemd; its head says how to install it.
		- \`lib/BUILD\` says what was built; \`sbom.cdx.json\` lists all components as CycloneDX.
		- agentd's licence is \`LICENSE\`. \`LICENSES\` holds the licence of everything that is linked.
	END
	if [[ $cuda == on ]]; then
		cat <<-END

			## NVIDIA GPUs

			\`lib/libggml-cuda.so\` is loaded when the machine has what it needs. Without that agentd computes on the CPU.

		END
		for value in $(printf '%s\n' "${target[@]}" | sort -u); do
			case $value in
			libcuda.so*) echo "- \`$value\`: the driver" ;;
			libcudart.so*) echo "- \`$value\`: the CUDA runtime, of major version ${value##*.so.}" ;;
			*) echo "- \`$value\`: cuBLAS, of major version ${value##*.so.}" ;;
			esac
		done
		echo
		echo "They are found in \`lib\`, in the loader's own directories and in LD_LIBRARY_PATH."
	fi
} >"$stage/README.md"

chmod -R u+rwX,go+rX,go-w "$stage"
rm -rf "$tree"
mv -T "$stage" "$tree"
ln -sfn "$name" "$dist/agentd"
cp "$tree/sbom.cdx.json" "$dist/$name.cdx.json"
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
tar -C "$dist" --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -cf - "$name" |
	gzip -9n >"$dist/.$name.$$" && mv -f "$dist/.$name.$$" "$dist/$name.tar.gz"
(cd "$dist" && rm -f agentd_server-*.whl && sha256sum agentd-"$release"-*.tar.gz agentd-"$release"-*.cdx.json >SHA256SUMS)
say "$tree is ready ($(du -sh "$tree" | cut -f1), archive $(du -h "$dist/$name.tar.gz" | cut -f1); needs $needs)"
