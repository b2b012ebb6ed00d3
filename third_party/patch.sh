#!/usr/bin/env bash
# patch.sh DIRECTORY  applies third_party/patch to a llama.cpp source tree, unless it has been.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tree=${1:?usage: patch.sh directory}
if is_patched "$tree"; then
	exit
fi
# A tree need not be a repository, and must not be taken for a part of one around it.
tree=$(cd "$tree" && pwd -P)
apply() {
	(cd "$tree" && GIT_CEILING_DIRECTORIES=$(dirname "$tree") git apply "$@") ||
		die "third_party/patch does not fit $tree; agentd also works without it"
}
has_patch "$tree" || apply "$here/patch/llama.cpp.patch"
cp "$here"/patch/*.h "$tree/src/"
