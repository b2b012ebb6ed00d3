"""verneed.py FILE  lets an x86-64 or arm64 ELF file take std::condition_variable::wait by its version of GCC 11.

GCC 12 gave that function a new version and kept the old one. Nothing else in a release is missing in RHEL 9's libstdc++,
and auditwheel judges a wheel by that library although the wheel brings its own, which exports both versions. A file
without the new version stays as it is.
"""

import pathlib
import re
import subprocess
import sys

NEW, OLD = "GLIBCXX_3.4.30", "GLIBCXX_3.4.11"
WAIT = "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"


def readelf(*arguments: str) -> str:
    return subprocess.check_output(["readelf", "-W", *arguments], text=True)


def main(path: pathlib.Path) -> None:
    taken = set(re.findall(rf"UND (\S+)@{NEW}", readelf("--dyn-syms", str(path))))
    if not taken:
        return
    section = re.search(r"\.gnu\.version_r +VERNEED +\w+ (\w+) (\w+)", readelf("-S", str(path)))
    offset, size = (int(digits, 16) for digits in section.groups())
    data = bytearray(path.read_bytes())
    # An entry of 16 bytes (Elf64_Vernaux): hash of the name, flags and index, the name's place, the next entry.
    entries = {}
    for name, place in re.findall(r"0x(\w+): +Name: (\S+)", readelf("-V", str(path))):
        entries[place] = offset + int(name, 16)
    if taken != {WAIT} or not {NEW, OLD} <= entries.keys() or max(entries.values()) + 16 > offset + size:
        sys.exit(f"agentd: {path} takes more than std::condition_variable::wait of {NEW}: {sorted(taken)}")
    new, old = entries[NEW], entries[OLD]
    data[new : new + 4], data[new + 8 : new + 12] = data[old : old + 4], data[old + 8 : old + 12]
    path.write_bytes(data)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
