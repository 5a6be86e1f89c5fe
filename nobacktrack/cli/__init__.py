"""The command line: jax is imported only by the commands that compute."""

from __future__ import annotations

import sys

import typer

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


def main() -> None:
    """Run a command; a mistake in its arguments or data is one line and exit code 2."""
    try:
        app()
    except (ValueError, FloatingPointError, OSError) as error:
        sys.stderr.write(f"nobacktrack: {error}\n")
        sys.exit(2)
