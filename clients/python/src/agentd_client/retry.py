"""When a call is sent again."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import httpx

_refusals = (429, 503)

# Nothing of the request was sent.
_not_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

# The connection broke at any moment. A timeout is not among them: the server may still be at work.
_broken = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)


@dataclass(frozen=True)
class Retry:
    """How often and how long a call is tried.

    A call is sent again when the server did nothing for it: no connection, or 429 and 503 with Retry-After. After a
    broken connection it is sent again only if that changes nothing: see docs of `Client`. Waits double from `first` to
    `longest` seconds, at random below that, and are never shorter than what Retry-After says. `total` bounds the time
    until the last try begins.
    """

    attempts: int = 22  # enough for the total, however short the waits
    first: float = 0.25
    longest: float = 15.0
    total: float = 120.0
    random: Callable[[], float] = field(default=random.random, repr=False)

    def pause(self, attempt: int, began: float, asked: float | None) -> float | None:
        """Seconds before the next try, None if there is none. `attempt` counts from 1."""
        if attempt >= self.attempts:
            return None
        wait = min(self.longest, self.first * 2 ** (attempt - 1)) * (0.5 + self.random() / 2)
        wait = max(wait, asked or 0)
        return None if time.monotonic() - began + wait > self.total else wait


def after_error(error: Exception, repeatable: bool) -> bool:
    """Whether a request may be sent again after an error."""
    return isinstance(error, _not_sent) or repeatable and isinstance(error, _broken)


def after_status(status: int, header: str | None) -> float | None:
    """The seconds of a refusal's Retry-After, None if the answer is no refusal."""
    if status not in _refusals or header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
