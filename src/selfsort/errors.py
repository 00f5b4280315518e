"""Errors a user may meet, and the one sentence pattern they all follow.

Every message has three parts: what was wrong, what was expected, what to do.
The command line prints the message alone and exits with `exit_code`; only a
fault of ours shows a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


class SelfsortError(Exception):
    """Base of everything selfsort raises on purpose."""

    exit_code = 1


class InvalidInput(SelfsortError, ValueError):
    """A value, an array or a file is not what it must be."""

    exit_code = 2


class MissingData(SelfsortError, FileNotFoundError):
    """A file, a folder or an optional package is not there."""

    exit_code = 2


class CannotWrite(SelfsortError, OSError):
    """The disk refused (full, read-only, no permission); nothing half-written is left."""

    exit_code = 2


class TrainingFailed(SelfsortError, RuntimeError):
    """Training cannot go on (a loss that is not a number, a graph without edges)."""

    exit_code = 1


class Interrupted(SelfsortError):
    """Stopped before the end on request; the run folder can be resumed."""

    exit_code = 3


class TimeIsUp(Interrupted):
    """The time that was given is over, in the middle of a step."""


def invalid(name: str, requirement: str, got: object, remedy: str) -> InvalidInput:
    """Word an error the house way.

    >>> str(invalid("n_clusters", "be at least 2", 1, "Raise n_clusters."))
    'n_clusters must be at least 2; got 1. Raise n_clusters.'
    """
    return InvalidInput(f"{name} must {requirement}; got {got}. {remedy}")


@contextmanager
def speaking_python() -> Iterator[None]:
    """Let errors of a block name arguments, where the command line has options."""
    try:
        yield
    except SelfsortError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]), *error.args[1:])
        raise


def in_python(text: str) -> str:
    """Name arguments in place of options.

    >>> in_python("--clusters must be at most 18; got 30. Leave --max-bad out, or use --set K_s=5.")
    'n_clusters must be at most 18; got 30. Leave max_bad out, or use settings K_s=5.'
    """
    return _OPTION.sub(lambda found: _ARGUMENTS.get(found[1], found[1].replace("-", "_")), text)


_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
_ARGUMENTS = {"clusters": "n_clusters", "set": "settings"}


def missing_extra(package: str, purpose: str, extra: str) -> MissingData:
    """Word the error for an optional dependency that is not installed."""
    return MissingData(
        f"{purpose} needs the package {package}, which is not installed. "
        f'Install it with: pip install "selfsort[{extra}]".'
    )
