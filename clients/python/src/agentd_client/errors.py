"""What a call can raise."""

from typing import Any


def _restored(kind: type["AgentServerError"], args: tuple[Any, ...], state: dict[str, Any]) -> "AgentServerError":
    """An error as it was before it was pickled or copied. Its constructor takes other arguments than `args`."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class AgentServerError(Exception):
    """The base of all errors of this package. `proxy` is what the call went through, None without a proxy."""

    proxy: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said} (through the proxy {self.proxy})" if self.proxy else said


class NetworkError(AgentServerError):
    """No answer came: the server cannot be reached, the connection broke, or time ran out."""


class ContractError(AgentServerError):
    """An answer that breaks the protocol. `path` is the way to the value: names and indexes."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(f"{'.'.join(map(str, path)) or 'the answer'}: {message}")


def _place(loc: Any) -> str:
    return ".".join(map(str, loc)) if isinstance(loc, list) else str(loc or "")


class StatusError(AgentServerError):
    """An answer with another status than success.

    `problems` are those of a 422, each with `type`, `loc` and `msg`. `detail` is the server's sentence otherwise.
    """

    def __init__(self, status: int, detail: str, problems: list[dict[str, Any]], retry_after: float | None) -> None:
        self.status = status
        self.detail = detail
        self.problems = problems
        self.retry_after = retry_after
        said = "; ".join(f"{_place(p.get('loc'))}: {p.get('msg', '')}" for p in problems) or detail
        super().__init__(f"the agent server answered {status}: {said}")
