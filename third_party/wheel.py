"""wheel.py DIST  makes a wheel of the tree that `make dist` left in the folder DIST, and adds it to SHA256SUMS there.

The wheel holds the tree as the folder agentd_server, whose libraries the binary finds by its own place, and a command
agentd that replaces itself by that binary. The tree's share, with the manual page and completions, goes below the
environment's own. The same tree and SOURCE_DATE_EPOCH give the same bytes (with the same zlib).
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

PACKAGE = "agentd_server"  # the name agentd is another project's on PyPI
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
MODULE = '''"""agentd as a package: the command agentd runs the binary in this folder."""

import os
import sys


def main() -> None:
    binary = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agentd")
    os.execv(binary, ["agentd", *sys.argv[1:]])
'''


def licences(sbom: bytes) -> str:
    """The SPDX expression of all that the tree holds."""
    found = set()
    document = json.loads(sbom)
    for component in [document["metadata"]["component"], *document["components"]]:
        for licence in component["licenses"]:
            found.add(licence.get("expression") or licence["license"]["id"])
    return " AND ".join(sorted(f"({term})" if " OR " in term else term for term in found))


def contents(tree: pathlib.Path, version: str, tag: str) -> dict[str, tuple[bytes, bool]]:
    """All files but RECORD by their paths: the bytes, and whether they can be run."""
    files = {f"{PACKAGE}/__init__.py": (MODULE.encode(), False)}
    for path in tree.rglob("*"):
        if path.is_file():
            name = path.relative_to(tree).as_posix()
            folder = f"{PACKAGE}-{version}.data/data" if name.startswith("share/") else PACKAGE
            files[f"{folder}/{name}"] = (path.read_bytes(), os.access(path, os.X_OK))
    sbom = (tree / "sbom.cdx.json").read_bytes()
    metadata = f"""Metadata-Version: 2.4
Name: {PACKAGE.replace("_", "-")}
Version: {version}
Summary: Decisions for robot and agent simulations: a server with batched candidates and valid tool calls
License-Expression: {licences(sbom)}
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{(tree / "README.md").read_text()}"""
    wheel = f"Wheel-Version: 1.0\nGenerator: agentd\nRoot-Is-Purelib: false\nTag: {tag}\n"
    info = f"{PACKAGE}-{version}.dist-info"
    for name, data in {
        "METADATA": metadata.encode(),
        "WHEEL": wheel.encode(),
        "entry_points.txt": f"[console_scripts]\nagentd = {PACKAGE}:main\n".encode(),
        "licenses/LICENSE": (tree / "LICENSE").read_bytes(),
        "sboms/sbom.cdx.json": sbom,
    }.items():
        files[f"{info}/{name}"] = (data, False)
    return files


def write(path: pathlib.Path, files: dict[str, tuple[bytes, bool]], record: str, epoch: int) -> None:
    """Writes the archive; its last file is RECORD, as the format recommends."""
    rows = []
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    last = {record: ("".join([*rows, f"{record},,\n"]).encode(), False)}
    made = time.gmtime(max(epoch, 315532800))[:6]  # ZIP begins in 1980
    with zipfile.ZipFile(path, "w") as archive:
        for name, (data, runs) in [*sorted(files.items()), *last.items()]:
            entry = zipfile.ZipInfo(name, made)
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


def source_date() -> int:
    """The time of all files, in seconds since 1970: SOURCE_DATE_EPOCH or that of the commit."""
    here = pathlib.Path(__file__).parent
    log = ["git", "log", "-1", "--format=%ct"]
    return int(os.environ.get("SOURCE_DATE_EPOCH") or subprocess.check_output(log, text=True, cwd=here))


def main(dist: pathlib.Path) -> None:
    tree = (dist / "agentd").resolve()
    name = re.fullmatch(r"agentd-(.+)-linux-(amd64|arm64)", tree.name)
    if name is None:
        sys.exit(f"agentd: wheel: {tree.name} is no tree for a wheel; make dist without CUDA makes one")
    version, architecture = name.groups()
    glibc = re.search(r"^glibc +(\d+)\.(\d+)$", (tree / "lib" / "BUILD").read_text(), re.M)
    tag = f"py3-none-manylinux_{glibc[1]}_{glibc[2]}_{ARCHITECTURES[architecture]}"
    path = dist / f"{PACKAGE}-{version}-{tag}.whl"
    write(path, contents(tree, version, tag), f"{PACKAGE}-{version}.dist-info/RECORD", source_date())
    sums = dist / "SHA256SUMS"
    others = [line for line in sums.read_text().splitlines() if not line.endswith(".whl")]
    others.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    sums.write_text("\n".join(others) + "\n")
    print(f"agentd: {path} is ready ({path.stat().st_size / 2**20:.0f} MB)", file=sys.stderr)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
