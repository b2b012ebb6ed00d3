"""documents.py TREE [SOURCE]  puts the documents into a release's TREE, with no link to what the tree lacks.

The tree gets docs, the Python client, and what docs tell people to run. A link to another file leads to SOURCE,
the URL of this version's source; without one, the link becomes its text and the file's name.
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENT = "clients/python"
PARTS = ["docs", "CHANGELOG.md", "SECURITY.md", "examples/training/train_step.py"]
PARTS += [f"{CLIENT}/{part}" for part in ("README.md", "pyproject.toml", "src")]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)


def copy(part: str, tree: pathlib.Path) -> None:
    """Copy a file or a folder of the source."""
    to = tree / part
    to.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / part).is_dir():
        shutil.copytree(ROOT / part, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(ROOT / part, to)


def relink(text: str, folder: pathlib.Path, tree: pathlib.Path, source: str) -> str:
    """A document of a folder of the tree with the links that a release can have. Images come into the tree."""

    def link(found: re.Match[str]) -> str:
        image, said, target = found.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        there = (ROOT / folder / path).resolve().relative_to(ROOT).as_posix()
        if image and not (tree / there).exists():
            copy(there, tree)
        if (tree / there).exists() and there != "README.md":  # the tree has another one
            return found[0]
        if source:
            return f"{image}[{said}]({source}/{there}{'#' + anchor if anchor else ''})"
        return f"`{there}`" if said in there else f"{said} (`{there}` of the source)"

    parts = FENCE.split(text)  # code has no links
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def main(tree: pathlib.Path, source: str) -> None:
    for part in PARTS:
        copy(part, tree)
    for document in sorted(tree.rglob("*.md")):
        folder = document.parent.relative_to(tree)
        document.write_text(relink(document.read_text(), folder, tree, source))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
