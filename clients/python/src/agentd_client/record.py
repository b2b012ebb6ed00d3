"""Writes exchanges to a file that agentd export reads."""

import json
import threading
from collections.abc import Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any

from .models import Candidate


class Recorder:
    """A file of exchanges, one a line. It appends to what is there, and is safe to use from several threads."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = open(path, "ab", buffering=0)
        self._lock = threading.Lock()
        self._cut = False  # the last line is not whole

    def write(
        self,
        request: Mapping[str, Any],
        answer: Sequence[Candidate],
        outcomes: Sequence[Mapping[str, Any] | None] | None = None,
        run_id: str | None = None,
    ) -> None:
        """Write an exchange. `outcomes`, one for each candidate: None, or `outcome` and `reward`, both optional.

        A line that could not be written whole may be written again: `agentd export` skips and counts the cut one.
        """
        whole: dict[str, Any] = {"request": request, "response": [candidate.to_json() for candidate in answer]}
        if outcomes is not None:
            if len(outcomes) != len(answer):
                raise ValueError(f"outcomes: has {len(outcomes)} elements for {len(answer)} candidates")
            whole["outcomes"] = list(outcomes)
        if run_id is not None:
            whole["run_id"] = run_id
        line = json.dumps(whole, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._lock:
            left = memoryview(b"\n" + line if self._cut else line)
            while left:
                left = left[self._file.write(left) :]
                self._cut = bool(left)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
