"""The commands together, and how they end."""

import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from gnnhet.cli.demo import demo
from gnnhet.cli.ingest import ingest
from gnnhet.cli.look import devices, info, verify
from gnnhet.cli.train import plan, train
from gnnhet.errors import GnnhetError

BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    name="gnnhet",
    help="Train graph neural networks on unequal devices; placement never changes the result.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _ending_well(command: Callable[..., None]) -> Callable[..., None]:
    """A command that ends on Ctrl-C and on a closed pipe by itself: what typer makes of them changes with its version."""

    @functools.wraps(command)
    def run(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()  # a closed pipe is found here, not when the interpreter ends
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # `gnnhet info ... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from None

    return run


for _command in (demo, ingest, info, verify, devices, plan, train):
    app.command()(_ending_well(_command))


def _print_version(asked: bool) -> None:
    if asked:
        try:
            print(version("gnnhet"))
        except PackageNotFoundError:
            print("unknown (a bare checkout)")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train graph neural networks on unequal devices; placement never changes the result."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code: 0 done, 1 damage found, 2 bad input or a failed run, 130 stopped on request."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _show_log()
    try:
        code = typer.main.get_command(app).main(args=words, prog_name="gnnhet", standalone_mode=False)
    except GnnhetError as error:
        return _say(str(error))
    except OSError as error:
        return _say(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's own: typer has carried its own copy of click since 0.2x
            context = getattr(error, "ctx", None)
            return _say(error.format_message() + (f" (see {context.command_path} --help)" if context else ""))
        raise
    return code if isinstance(code, int) else 0


class _Stderr(logging.Handler):
    """What the library logs, as lines on stderr: that kernels are being compiled, above all."""

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr)


def _show_log() -> None:
    log = logging.getLogger("gnnhet")
    if not log.handlers:
        log.addHandler(_Stderr())
        log.setLevel(logging.INFO)


def _say(message: str) -> int:
    """One line on stderr."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT
