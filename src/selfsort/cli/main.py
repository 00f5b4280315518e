"""The command line: its commands and their groups, signals, errors and exit codes.

Heavy imports live inside the commands, so that `selfsort --help` stays quick.
Exit codes: 0 done, 2 wrong use or input, 3 interrupted but resumable, 1 a fault of ours.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from selfsort.cli.console import is_main, say, say_aside
from selfsort.cli.doctor import doctor
from selfsort.cli.duplicates import duplicates
from selfsort.cli.encoders import cache, encoders
from selfsort.cli.fit import BEGUN, demo, fit, refine, way_on
from selfsort.cli.research import bench, methods
from selfsort.cli.runs import cut, explore, export, names, predict, report, score, undo
from selfsort.cli.sort import sort
from selfsort.cli.update import update
from selfsort.errors import Interrupted, SelfsortError

if TYPE_CHECKING:
    from selfsort.runs.folder import RunFolder


class _Commands(TyperGroup):
    """Turns Ctrl-C into our own error before typer turns it into an exit code of its own."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Interrupted) as stop:
            # Here and not where it was caught first: a second Ctrl-C on the way out must not change the advice.
            raise Interrupted(_advice(str(stop), ctx.meta.get(BEGUN))) from None


def _advice(reason: str, run: RunFolder | None) -> str:
    if run is None:
        return reason or "interrupted; nothing is lost. Run the same command again to do all of it."
    if run.is_finished:
        return f"{reason or 'interrupted.'} The run is finished: {run.path}"
    return f"{reason or 'interrupted.'} {way_on(run)}"


app = typer.Typer(
    name="selfsort",
    cls=_Commands,
    help="Sorts unlabelled images into clusters by learning the representation and the clusters together.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Sort": (sort, fit, refine, cut, predict, update, duplicates),
    "Look and hand on": (score, names, report, explore, export, undo),
    "Research and machine": (methods, encoders, doctor, cache, bench, demo),
}
"""The commands as the help groups them."""

for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from selfsort import __version__

        say(f"selfsort {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    # --debug is read by `main`, which is outside of typer's reach, and may stand anywhere.
    del debug, version


def main() -> None:
    """Run the command line; every expected error ends in one message and its exit code."""
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    is_debug = len(arguments) < len(sys.argv[1:])
    if "RANK" in os.environ:  # PyTorch's distributed engine is chatty, once per process
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    _listen_to_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no reason to fail
    try:
        app(arguments or ["--help"], prog_name="selfsort", standalone_mode=False)
        sys.stdout.flush()  # here, where a disk that is full can still be told
    except SelfsortError as error:
        _fail(str(error), error.exit_code, is_debug)
    except KeyboardInterrupt:
        _fail("interrupted.", 3, is_debug)
    except BrokenPipeError:
        _stop_printing()  # the reader of our output has seen enough, as `head` does
    except OSError as error:
        _stop_printing()
        what = "the output" if error.filename is None else str(error.filename)
        _fail(
            f"{what} cannot be used ({error.strerror or error}). Expected a place that can be read or written here. "
            "Check the path, its permissions and the space that is left.",
            2,
            is_debug,
        )
    except MemoryError:
        _fail(
            "the memory of this machine is not enough. Expected more of it, or less to do. "
            "Choose a smaller --size or --memory, or fewer images.",
            2,
            is_debug,
        )
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # how Python words one in the middle of an import
            _fail("interrupted.", 3, is_debug)
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # typer's own usage errors
            _fail(f"{_sentence(error.format_message())} See: {_help_command(error)}", 2, is_debug)
        _fail(
            f"selfsort failed unexpectedly ({type(error).__name__}: {error}). This is a fault of ours. "
            "Run again with `selfsort --debug ...` and report what it prints.",
            1,
            is_debug,
        )


def _listen_to_signals() -> None:
    """Treat a polite kill and a closed terminal like Ctrl-C: the run folder stays resumable."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):  # Windows has no terminals to hang up
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as it is under nohup
            signal.signal(number, _interrupt)


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _stop_printing() -> None:
    """Give standard output up: what is left in it could only fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, exit_code: int, is_debug: bool) -> None:
    with suppress(OSError):  # the terminal may be what has gone
        if is_debug:
            traceback.print_exc()
        if is_main() or exit_code != 2:  # what the user did wrong all processes find; once is enough
            say_aside(f"selfsort: {message}")
    sys.exit(exit_code)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "?)")) else f"{text}."


def _help_command(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{getattr(context, 'command_path', 'selfsort')} --help"


if __name__ == "__main__":
    main()
