"""What `nobacktrack train` chooses, on a^n b^n and on a text, beside the paper's learner, truncated BPTT and bz2: two
tables and a figure.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import nobacktrack as nbt

from .. import files
from ..baselines import bz2
from ..engines import begin
from ..readers.presets import BUDGET, PRESETS, choose_for_symbols

RANGE = (1, 32)


PAPER = "the paper's learner"


def methods() -> dict[str, nbt.Learner | nbt.Committee]:
    """What is compared: what `train` chooses, and one network with three estimators, the last one the paper's."""
    system = nbt.LeakyRNN(units=20, symbols=3)
    return {
        "nobacktrack train": nbt.recommend(symbols=3),
        "leaky RNN, blocks": nbt.Learner(system, nbt.BlockNoBackTrack(), nbt.Kalman()),
        "leaky RNN, truncated BPTT(15)": nbt.Learner(system, nbt.TruncatedBPTT(depth=15), nbt.Kalman()),
        PAPER: PRESETS["paper"].learner(symbols=3),
    }


def main(length: int, seed: int, out: Path) -> None:
    """Train, print the table, save the figure."""
    console = Console()
    stream = nbt.streams.anbn(*RANGE, length=length, seed=seed)
    entropy = nbt.streams.anbn_entropy(*RANGE)
    chosen, _ = choose_for_symbols(3, BUDGET)
    console.print(
        f"a^n b^n, n in {list(RANGE)}: {length:,} characters, read once. nobacktrack train: {chosen}; "
        "the leaky RNN has 20 units; the paper's learner is that with NoBackTrack of rank 1\n",
        soft_wrap=True,
    )
    bits, speeds = train_all(methods(), stream, seed, console)
    compressed = bz2("".join("ab\n"[symbol] for symbol in stream))
    console.print(table(bits, speeds, compressed, entropy))
    out.parent.mkdir(parents=True, exist_ok=True)
    figure(bits, entropy, out)
    console.print(f"\nfigure: {out}\n")
    console.print(text_table(source_code()[: length // 5], seed, console))


def source_code() -> str:
    """A text that is always at hand: the modules of this library, in the order of their names."""
    return "".join(path.read_text() for path in sorted(Path(files.__file__).parent.rglob("*.py")))


def text_table(text: str, seed: int, console: Console) -> Table:
    """Bits per character over all of a text, read once, by what `nobacktrack train` chooses, by each of its experts, by
    the paper's learner and by bz2.
    """
    alphabet, symbols = np.unique(list(text), return_inverse=True)
    chosen, _ = choose_for_symbols(len(alphabet), BUDGET)
    console.print(f"{len(text):,} characters of this library's own source code: {chosen}\n", soft_wrap=True)
    result = Table("method", "bits/char", caption="over all of it, read once")
    result.columns[1].justify = "right"
    losses, experts = {}, {}
    for name, preset in (("nobacktrack train", chosen), (PAPER, PRESETS["paper"])):
        learner = preset.learner(symbols=len(alphabet))
        session = begin(learner, learner.init(seed))
        losses[name] = session.take(nbt.Series(symbols.astype(np.int32))).mean()
        experts |= session.experts()
    each = {f"  its {name}": nats / len(text) for name, nats in experts.items()}
    ours, paper = losses.items()
    for name, nats in (ours, *each.items(), paper):
        result.add_row(name, f"{nats / np.log(2):.4f}")
    result.add_row("bz2", f"{bz2(text):.4f}")
    return result


def train_all(
    learners: dict[str, nbt.Learner | nbt.Committee], stream: np.ndarray, seed: int, console: Console
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The bits of every character, and characters per second, for each learner; they take turns, chunk by chunk."""
    runs = {name: learner.training(learner.init(seed), stream) for name, learner in learners.items()}
    bits: dict[str, list[np.ndarray]] = {name: [] for name in runs}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    columns = (
        TextColumn("{task.description:29}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[bits]:>6} bits/char"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = {name: progress.add_task(name, total=len(stream), bits="-") for name in runs}
        while runs:
            for name, run in list(runs.items()):
                began = time.perf_counter()
                item = next(run, None)
                if item is None:
                    del runs[name]
                    continue
                seconds[name].append((time.perf_counter() - began) / len(item[1].loss))
                bits[name].append(item[1].bits)
                progress.update(tasks[name], completed=item[1].t, bits=f"{item[1].recent_bits:.3f}")
    # The first chunk compiles; the median does not see it.
    return {name: np.concatenate(parts) for name, parts in bits.items()}, {
        name: 1 / float(np.median(each)) for name, each in seconds.items()
    }


def table(bits: dict[str, np.ndarray], speeds: dict[str, float], compressed: float, entropy: float) -> Table:
    """Bits per character over the last tenth, beside the entropy and what bz2 makes of the whole, and the speed."""
    result = Table("method", "bits/char", "entropy", "excess", "characters/s", caption="bits/char: over the last tenth")
    for column in result.columns[1:]:
        column.justify = "right"
    for name, each in bits.items():
        last = float(each[-len(each) // 10 :].mean())
        result.add_row(name, f"{last:.4f}", f"{entropy:.4f}", f"{last - entropy:.4f}", f"{speeds[name]:,.0f}")
    result.add_row("bz2, over all of it", f"{compressed:.4f}", f"{entropy:.4f}", f"{compressed - entropy:.4f}", "")
    return result


def figure(bits: dict[str, np.ndarray], entropy: float, out: Path) -> None:
    """Bits per character against characters read, smoothed over windows that grow with t."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for (name, each), style in zip(bits.items(), ("-", "--", "-.", ":"), strict=True):
        edges = np.unique(np.geomspace(1000, len(each), 60).astype(int))
        means = [each[a:b].mean() for a, b in pairwise(edges)]
        axes.plot(edges[1:], means, style, label=name, linewidth=1.6)
    independent = nbt.streams.anbn_entropy(*RANGE, independent=True)
    axes.axhline(entropy, color="black", linewidth=1, label=r"entropy of $a^nb^n$")
    axes.axhline(independent, color="black", linewidth=1, linestyle=":", label=r"entropy of $a^nb^p$, independent")
    axes.set(xscale="log", xlabel="characters read", ylabel="bits per character", ylim=(0, 0.8))
    axes.set_title(r"$a^nb^n$, $n \in [1; 32]$: learned online, in one pass")
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)
    fig.savefig(out, dpi=150)
    plt.close(fig)
