"""`nobacktrack generate`: what a trained learner writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def generate(
    file: Annotated[Path, typer.Argument(help="A checkpoint of a learner that was trained on text.")],
    length: Annotated[int, typer.Option(min=1, help="Characters to write.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    temperature: Annotated[
        float, typer.Option(help="Above 0; below 1: likelier characters, above: less likely ones.")
    ] = 1.0,
    prime: Annotated[str, typer.Option(help="Text to read first.")] = "",
) -> None:
    """Write text, character by character, each drawn from the prediction and read as the next input."""
    import numpy as np

    import nobacktrack as nbt

    from ..readers.alphabets import alphabet_of
    from ..readers.notes import RowsNotes, TextNotes, from_json

    learner, state, found = nbt.load(file)
    notes = from_json(found, file)
    if not isinstance(notes, TextNotes):
        rows = "it was trained on rows; generate writes text" if isinstance(notes, RowsNotes) else ""
        raise ValueError(f"{file}: {rows or 'it does not say which characters its symbols are'}")
    alphabet = alphabet_of(notes.alphabet)
    units = np.frombuffer(
        prime.encode("utf-32-le") if alphabet.text else prime.encode(), "<u4" if alphabet.text else "u1"
    )
    read = alphabet.symbols(units)
    if (read < 0).any():
        strange = prime[int(np.argmax(read < 0))]
        raise ValueError(f"prime: {strange!r} is not among the {alphabet.used} characters that it was trained on")
    drawn = nbt.generate(learner, state, length, seed=seed, temperature=temperature, prime=read)
    text = alphabet.spell(drawn)
    if alphabet.text:
        sys.stdout.write(text + ("" if text.endswith("\n") else "\n"))
    else:
        sys.stdout.buffer.write(text.encode("latin-1"))
    if set(notes.alphabet.get("characters", "")) == set(nbt.streams.ANBN_ALPHABET):
        equal, blocks = nbt.streams.anbn_blocks([nbt.streams.ANBN_ALPHABET.index(letter) for letter in text])
        share = f", {equal / blocks:.1%}" if blocks else ""
        Console(stderr=True).print(f"blocks with n_a = n_b: {equal} of {blocks}{share}", highlight=False)
