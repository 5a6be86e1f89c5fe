"""The command line: jax is imported only by the commands that compute."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, NoReturn

import typer

from .. import __version__, files
from .bench import bench
from .compare import compare
from .demo import demo
from .diagnose import diagnose
from .generate import generate
from .info import info
from .reproduce import reproduce
from .train import evaluate, resume, train

app = typer.Typer(
    help="Train recurrent models on a live stream: online, unbiased, no backpropagation through time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command()(resume)
app.command()(evaluate)
app.command()(generate)
app.command()(info)
app.command()(reproduce)
app.command()(compare)
app.command()(diagnose)
app.command()(demo)
app.command()(bench)


def _say_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"nobacktrack {__version__}\n")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Train recurrent models on a live stream: online, unbiased, no backpropagation through time."""


def main() -> None:
    """Run a command; a mistake in its arguments or data is one line and exit code 2."""
    _keep_programs()
    try:
        app()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever was reading has gone: say no more
        sys.exit(2)
    except OSError as error:
        _give_up(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ValueError, FloatingPointError) as error:
        _give_up(str(error))


def _keep_programs() -> None:
    """Have JAX keep what it compiles, even the small programs: the next command starts in half the time."""
    # What cannot be kept, or read again, is compiled again: nothing that a user must know.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        files.expect_writable(files.programs())
    except (OSError, RuntimeError):  # there is no such place, or no home: the fused engine says so
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(files.programs())
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def _give_up(message: str) -> NoReturn:
    sys.stderr.write(f"nobacktrack: {message}\n")
    sys.exit(2)
