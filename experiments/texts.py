"""What `nobacktrack train` gets out of texts of all kinds by itself, beside its experts and compressors: a table.

    python -m experiments.texts tinyshakespeare.txt --budget 50

Without a file: an access log, the source code of this library, and letters drawn uniformly from four.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import nobacktrack as nbt
from nobacktrack import files
from nobacktrack.baselines import bz2, xz
from nobacktrack.engines import begin
from nobacktrack.readers.presets import choose_for_symbols

LENGTH = 1_000_000


def access_log(seed: int = 0) -> str:
    """Lines such as web servers write: a thousand visitors, two hundred pages, one after the other in time."""
    random, seconds, lines = np.random.default_rng(seed), 0, []
    visitors = [".".join(map(str, random.integers(1, 255, 4))) for _ in range(1000)]
    pages = [f"/{name}/{number}.html" for name in ("news", "shop", "help", "about") for number in range(50)]
    for _ in range(LENGTH // 75):
        seconds += int(random.exponential(3))
        when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(1.7e9 + seconds))
        visitor, page = visitors[int(1000 * random.random() ** 2)], pages[int(200 * random.random() ** 3)]
        status, size = random.choice(["200", "304", "404"], p=[0.9, 0.07, 0.03]), random.integers(200, 20_000)
        lines.append(f'{visitor} - - [{when}] "GET {page} HTTP/1.1" {status} {size}\n')
    return "".join(lines)


def source_code() -> str:
    """All modules of this library, in the order of their names."""
    return "".join(path.read_text() for path in sorted(Path(files.__file__).parent.rglob("*.py")))


def letters(seed: int = 0) -> str:
    """Uniform letters: there is nothing to learn, and two bits a letter."""
    return "".join(np.random.default_rng(seed).choice(list("acgt"), LENGTH))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--budget", type=float, default=50.0)
    given = parser.parse_args()
    named = {path.name: path.read_text() for path in given.texts}
    table = Table("text", "characters", "bits a character", "second half", "us", "experts, each by itself", "bz2, xz")
    for name, text in (named or {"log": access_log(), "source": source_code(), "letters": letters()}).items():
        alphabet, symbols = np.unique(list(text), return_inverse=True)
        learner = choose_for_symbols(len(alphabet), given.budget)[0].learner(symbols=len(alphabet))
        session = begin(learner, learner.init(0))
        began = time.perf_counter()
        bits = session.take(nbt.Series(symbols.astype(np.int32))) / np.log(2)
        each = (time.perf_counter() - began) / len(bits) * 1e6
        experts = ", ".join(f"{key} {nats / len(bits) / np.log(2):.3f}" for key, nats in session.experts().items())
        numbers = f"{bits.mean():.3f}", f"{bits[len(bits) // 2 :].mean():.3f}", f"{each:.1f}"
        table.add_row(name, f"{len(bits):,}", *numbers, experts, f"{bz2(text):.3f}, {xz(text):.3f}")
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
