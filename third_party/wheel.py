"""wheel.py DIST  makes a wheel of the tree that `make dist` left in the folder DIST, and adds it to SHA256SUMS there.

The wheel holds the tree as the folder agentd_server, whose libraries the binary finds by its own place, a command agentd
that replaces itself by that binary, and the Python client agentd_client. The tree's share, with the manual page and
completions, goes below the environment's own. The same tree and SOURCE_DATE_EPOCH give the same bytes (with the same
zlib). REPOSITORY is the URL of the source, as for dist.sh.
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

import documents

PACKAGE = "agentd_server"  # the name agentd is another project's on PyPI
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
MODULE = '''"""agentd as a package: the command agentd runs the binary in this folder."""

import os
import sys


def main() -> None:
    binary = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agentd")
    os.execv(binary, ["agentd", *sys.argv[1:]])
'''

CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C++",
    "Programming Language :: Python :: 3",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
]
USE = """```sh
pip install agentd-server
agentd                        # the default model, on 127.0.0.1:8888
agentd --model model.gguf     # yours
agentd demo                   # tasks in a simulated house
```

The package has the server, its documents, and the Python client `agentd_client`. It needs Linux on x86-64 or arm64."""


def licences(sbom: bytes) -> str:
    """The SPDX expression of all that the tree holds."""
    found = set()
    document = json.loads(sbom)
    for component in [document["metadata"]["component"], *document["components"]]:
        for licence in component["licenses"]:
            found.add(licence.get("expression") or licence["license"]["id"])
    return " AND ".join(sorted(f"({term})" if " OR " in term else term for term in found))


def client(name: str) -> list[str]:
    """A list in the client's pyproject.toml."""
    text = (documents.ROOT / documents.CLIENT / "pyproject.toml").read_text()
    found = re.search(rf"^{name} = \[(.*?)\]", text, re.M | re.S)
    if found is None:
        sys.exit(f"agentd: wheel: pyproject.toml of the client has no {name}")
    return re.findall(r'"(.*?)"', found[1])


def description(tree: pathlib.Path, source: str) -> str:
    """The page of an index: what README.md says, and how the wheel is used."""
    title, intro, *_ = (readme := (documents.ROOT / "README.md").read_text()).split("\n\n")
    parts = {part.partition("\n")[0]: part for part in readme.split("\n## ")[1:]}
    chosen = [f"## {parts[name].rstrip()}" for name in ("Sixteen simulators, one request", "What it does")]
    text = "\n\n".join([title, intro, USE, *chosen, "MIT; all licences are in the package.\n"])
    return documents.relink(text, pathlib.Path(), tree / "none", source)


def metadata(tree: pathlib.Path, version: str, sbom: bytes, texts: list[str], repository: str) -> str:
    source = f"{repository}/blob/v{version}" if repository else ""
    urls = {"Source": repository, "Documentation": f"{source}/docs/README.md", "Changelog": f"{source}/CHANGELOG.md"}
    extras = {extra: client(extra) for extra in ("pydantic", "gymnasium")}
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {PACKAGE.replace('_', '-')}",
        f"Version: {version}",
        "Summary: Decisions for robot and agent simulations: a server with valid tool calls, and its Python client",
        "Author: The agentd authors",
        "Keywords: robotics,agents,simulation,reinforcement-learning,inference,tool-calls,llama.cpp",
        f"License-Expression: {licences(sbom)}",
        *(f"License-File: {name}" for name in texts),
        *(f"Project-URL: {name}, {url}" for name, url in urls.items() if repository),
        *(f"Classifier: {name}" for name in CLASSIFIERS),
        "Requires-Python: >=3.10",
        *(f"Requires-Dist: {need}" for need in client("dependencies")),
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(f"Requires-Dist: {need}; extra == '{extra}'" for extra, needs in extras.items() for need in needs),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join([*lines, "", description(tree, source)])


def contents(tree: pathlib.Path, version: str, tag: str, repository: str) -> dict[str, tuple[bytes, bool]]:
    """All files but RECORD by their paths: the bytes, and whether they can be run."""
    files = {f"{PACKAGE}/__init__.py": (MODULE.encode(), False)}
    package, texts = f"{documents.CLIENT}/src/", []
    info = f"{PACKAGE}-{version}.dist-info"
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if not path.is_file() or name == f"{documents.CLIENT}/pyproject.toml":
            continue
        folder = f"{PACKAGE}-{version}.data/data" if name.startswith("share/") else PACKAGE
        to = name.removeprefix(package) if name.startswith(package) else f"{folder}/{name}"
        files[to] = (path.read_bytes(), os.access(path, os.X_OK))
        if name == "LICENSE" or name.startswith("LICENSES/"):
            texts.append(name)
            files[f"{info}/licenses/{name}"] = (path.read_bytes(), False)
    sbom = (tree / "sbom.cdx.json").read_bytes()
    wheel = f"Wheel-Version: 1.0\nGenerator: agentd\nRoot-Is-Purelib: false\nTag: {tag}\n"
    for name, data in {
        "METADATA": metadata(tree, version, sbom, texts, repository).encode(),
        "WHEEL": wheel.encode(),
        "entry_points.txt": f"[console_scripts]\nagentd = {PACKAGE}:main\n".encode(),
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
    repository = os.environ.get("REPOSITORY", "").rstrip("/")
    write(path, contents(tree, version, tag, repository), f"{PACKAGE}-{version}.dist-info/RECORD", source_date())
    sums = dist / "SHA256SUMS"
    others = [line for line in sums.read_text().splitlines() if not line.endswith(".whl")]
    others.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    sums.write_text("\n".join(others) + "\n")
    print(f"agentd: {path} is ready ({path.stat().st_size / 2**20:.0f} MB)", file=sys.stderr)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
