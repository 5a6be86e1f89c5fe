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
    temperature: Annotated[float, typer.Option(help="Below 1: likelier characters, above: less likely ones.")] = 1.0,
    prime: Annotated[str, typer.Option(help="Text to read first.")] = "",
) -> None:
    """Write text, character by character, each drawn from the prediction and read as the next input."""
    import nobacktrack as nbt

    learner, state, notes = nbt.load(file)
    alphabet = notes.get("alphabet")
    if alphabet is None:
        raise ValueError(f"{file}: it does not say which characters its symbols are")
    prime = prime.encode().decode("latin-1") if notes.get("bytes") else prime
    strange = [letter for letter in prime if letter not in alphabet]
    if strange:
        raise ValueError(f"prime: {strange[0]!r} is not among the {len(alphabet)} characters that it was trained on")
    read = [alphabet.index(letter) for letter in prime]
    drawn = nbt.generate(learner, state, length, seed=seed, temperature=temperature, prime=read)
    text = "".join(alphabet[symbol] for symbol in drawn)
    if notes.get("bytes"):
        sys.stdout.buffer.write(text.encode("latin-1"))
    else:
        sys.stdout.write(text + ("" if text.endswith("\n") else "\n"))
    if set(alphabet) == set(nbt.streams.ANBN_ALPHABET):
        equal, blocks = nbt.streams.anbn_blocks([nbt.streams.ANBN_ALPHABET.index(letter) for letter in text])
        share = f", {equal / blocks:.1%}" if blocks else ""
        Console(stderr=True).print(f"blocks with n_a = n_b: {equal} of {blocks}{share}", highlight=False)
