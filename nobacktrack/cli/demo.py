"""`nobacktrack demo`: the paper's main example and a text, on two cores in less than two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    length: Annotated[int, typer.Option(min=10_000, help="Characters to read.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the stream, of the initial weights and of the signs.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("out/demo.png"),
) -> None:
    """What `train` chooses, on a^n b^n and on a text, beside the paper's learner, truncated BPTT and bz2."""
    from ..experiments import demo as experiment

    experiment.main(length, seed, out)
