"""`nobacktrack reproduce`: the experiments of the paper, and whether what it says of them holds."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="fig1 ... fig6, or all (the default).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs, some minutes in all: the default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Runs as long as the paper's, an hour in all.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of each method: 3 if quick, 6 if full.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at the same time; as many as there are cores.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of runs and report.")] = None,
    data: Annotated[Path | None, typer.Option(help="Shakespeare's works, or the folder they are in.")] = None,
    manifest: Annotated[Path | None, typer.Option(help="Go as far as another run went: its manifest.json.")] = None,
) -> None:
    """Run the six experiments of the paper and report on each of its claims. Ctrl-C keeps what is done; the same
    command goes on from there.
    """
    if quick and full:
        raise ValueError("--quick or --full, not both")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # times are compared: all methods in the same compiled loops
    from ..experiments.paper import manifest as manifests
    from ..experiments.paper import reproduce as experiment

    scale = manifests.FULL if full else manifests.QUICK
    console = Console(stderr=True)
    try:
        page, missing = experiment.reproduce(
            experiment.chosen(figures or []),
            scale,
            seeds or scale.seeds,
            jobs or manifests.cores(),
            out or Path("out") / f"reproduce-{scale.name}",
            data,
            manifest,
            console,
        )
    except KeyboardInterrupt:
        again = shlex.join(["nobacktrack", *sys.argv[1:]])
        console.print(
            f"stopped; what is done is kept, and the same command goes on from there: {again}", soft_wrap=True
        )
        raise typer.Exit(130) from None
    console.print(f"report: {page}", soft_wrap=True, highlight=False)
    for figure, reason in missing.items():
        console.print(f"{figure} was not run: {reason}; --data takes it too", soft_wrap=True, highlight=False)
    if missing:
        raise typer.Exit(1)
