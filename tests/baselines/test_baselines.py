"""Context tree weighting against its definition, in exact fractions; compressors; reference figures."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.baselines import CTW, bz2, ctw, gzip, xz

DATA = Path(__file__).parents[2] / "shared" / "data"


def estimated(zeros, ones, pseudocount):
    """Pe of so many zeros and ones, in any order."""
    p = Fraction(1)
    for seen in (zeros, ones):
        for i in range(seen):
            p *= i + pseudocount
    for i in range(zeros + ones):
        p /= i + 2 * pseudocount
    return p


def weighted(steps, depth, pseudocount, context=()):
    """Pw = (Pe + product of the children's Pw) / 2 of the steps (past, latest first; branch) seen in a context."""
    branches = [branch for _, branch in steps]
    own = estimated(branches.count(0), branches.count(1), pseudocount)
    if len(context) == depth:
        return own
    children = Fraction(1)
    for symbol in {past[len(context)] for past, _ in steps}:
        inside = [step for step in steps if step[0][len(context)] == symbol]
        children *= weighted(inside, depth, pseudocount, (*context, symbol))
    return (own + children) / 2


def root(symbols, size, depth, pseudocount):
    """The probability of a sequence: a tree for each choice, the past before the sequence being a symbol of its own."""
    choices = {}
    for t, symbol in enumerate(symbols):
        past = tuple(symbols[t - d - 1] if t > d else size for d in range(depth))
        low, high = 0, size
        while high - low > 1:
            split = (low + high + 1) // 2
            choices.setdefault(split, []).append((past, int(symbol >= split)))
            low, high = (split, high) if symbol >= split else (low, split)
    p = Fraction(1)
    for steps in choices.values():
        p *= weighted(steps, depth, pseudocount)
    return p


def test_the_textbook_example():
    model = CTW(2, depth=2, pseudocount=0.5)
    model.condition([1, 0])
    assert 2 ** -model.take([1, 0, 1, 1, 0, 1, 0]).sum() == pytest.approx(55 / 8192, rel=1e-14)


@pytest.mark.parametrize("pseudocount", [Fraction(1, 2), Fraction(1, 16)])
@pytest.mark.parametrize(("size", "depth"), [(2, 0), (2, 3), (3, 2), (5, 4), (17, 1)])
def test_the_product_of_the_predictions_is_the_root(size, depth, pseudocount):
    symbols = np.random.default_rng(size + depth).integers(size, size=60)
    expected = root(symbols.tolist(), size, depth, pseudocount)
    model = CTW(size, depth, pseudocount=float(pseudocount))
    parts = [model.take(symbols[:7]), model.take(symbols[7:])]
    bits = math.log2(expected.denominator) - math.log2(expected.numerator)  # integers of any size
    assert np.concatenate(parts).sum() == pytest.approx(bits, rel=1e-12)


def test_probabilities_of_what_may_come_add_up_to_one():
    past = np.random.default_rng(0).integers(5, size=200)
    total = 0.0
    for symbol in range(5):
        model = CTW(5, depth=3)
        model.take(past)
        total += 2.0 ** -model.take([symbol])[0]
    assert total == pytest.approx(1, rel=1e-12)


COINS, LETTERS = (np.random.default_rng(0).integers(size, size=count) for size, count in ((2, 6000), (256, 20_000)))
STREAMS = {
    # of order one first, which beta of the root hears as bad news; then of order zero
    -1: (2, np.concatenate([np.arange(4000) % 2, COINS, np.zeros(20_000, int)])),
    # of order zero first, over so many contexts that order one loses by far; then of order one
    1: (256, np.concatenate([LETTERS, np.arange(10_000) % 256])),
}


@pytest.mark.parametrize("way", STREAMS)
def test_a_weight_that_leaves_the_range_of_its_number_comes_back(way):
    """As with log beta, which cannot overflow."""
    size, symbols = STREAMS[way]
    expected, log_beta = in_logarithms(symbols, size, 1 / 5)
    np.testing.assert_allclose(CTW(size, depth=1).take(symbols), expected, rtol=1e-9, atol=1e-12)
    farthest = np.argmax(way * log_beta)
    assert way * log_beta[farthest] > 300  # the number itself is kept within 2^-256 and 2^256
    assert (way * log_beta[farthest:]).min() < 100


def in_logarithms(symbols, size, pseudocount):
    """Context tree weighting of depth 1, with log2 beta at the roots: the bits, and log2 beta of the first choice."""
    counts, log_beta, bits, first = {}, {}, [], []
    past = size
    for symbol in symbols:
        low, high, total = 0, size, 0.0
        while high - low > 1:
            split = (low + high + 1) // 2
            branch = int(symbol >= split)
            root, leaf = (counts.setdefault((split, context), [pseudocount] * 2) for context in (None, past))
            own, below = (each[branch] / sum(each) for each in (root, leaf))
            weight = 1 / (1 + 2.0 ** min(max(-log_beta.get(split, 0.0), -1000), 1000))
            total -= math.log2(weight * own + (1 - weight) * below)
            log_beta[split] = log_beta.get(split, 0.0) + math.log2(own / below)
            root[branch] += 1
            leaf[branch] += 1
            low, high = (split, high) if branch else (low, split)
        bits.append(total)
        first.append(log_beta[(size + 1) // 2])
        past = symbol
    return bits, np.array(first)


def test_a_bounded_weight_changes_its_mind_sooner():
    """After a long stream of order one, coins: the bounded mixture forgets sooner that order one was better."""
    symbols = np.concatenate([np.arange(4000) % 2, np.zeros(500, int)])
    exact, bounded = (CTW(2, depth=1, bound=bound).take(symbols) for bound in (math.inf, 16.0))
    assert bounded[4000:].sum() < exact[4000:].sum() - 5
    assert exact[:2000].sum() <= bounded[:2000].sum() + 1e-9
    model = CTW(2, depth=1, bound=16.0)
    model.take(symbols)
    assert model._table["beta"][model._table["key"] > 0].max() <= 16


def test_counts_at_their_largest_are_halved():
    model = CTW(2, depth=0)
    model.take([0, 1])
    (node,) = np.flatnonzero(model._table["key"])
    model._table["counts"][node] = 2**32 - 1, 2**30
    assert model.take([0])[0] == pytest.approx(-math.log2(0.8), abs=1e-6)
    assert model._table["counts"][node].tolist() == [2**31, 2**29]


def test_memory_is_bounded_and_a_full_table_still_learns():
    symbols = nbt.streams.music(length=30_000, seed=0)
    free, bounded = CTW(17, depth=6), CTW(17, depth=6, memory=1 << 19)
    assert free.take(symbols).mean() < bounded.take(symbols).mean() < 3
    assert bounded.bytes <= 1 << 19
    assert bounded.nodes <= 0.8 * len(bounded._table) + 1
    assert free.bytes > bounded.bytes
    assert bounded.full
    assert not free.full


def test_figures_on_synthetic_streams():
    music = nbt.streams.music(length=100_000, seed=0)
    assert 1.49 < ctw(music, depth=8) < 1.57
    text = "".join(nbt.streams.MUSIC_ALPHABET[s] for s in music)
    np.testing.assert_allclose([gzip(text), bz2(text), xz(text)], [2.34, 1.71, 1.96], atol=0.03)
    blocks = "".join(nbt.streams.ANBN_ALPHABET[s] for s in nbt.streams.anbn(1, 32, length=1_000_000, seed=0))
    np.testing.assert_allclose([gzip(blocks), bz2(blocks), xz(blocks)], [0.343, 0.151, 0.239], atol=0.005)


@pytest.mark.skipif(not DATA.exists(), reason="needs the text")
def test_figure_on_a_small_text():
    symbols, _ = nbt.streams.octets(DATA / "tinyshakespeare.txt")
    assert 2.0 < ctw(symbols, depth=6) <= 2.09


def test_symbols_text_and_bytes_are_the_same_to_a_baseline():
    text = "abracadabra" * 50
    assert ctw(text, 3) == ctw(text.encode(), 3) == ctw(["abcdr".index(letter) for letter in text], 3)
    assert gzip(text) == gzip(text.encode()) == gzip(np.frombuffer(text.encode(), np.uint8))
    assert gzip("é" * 1000) > gzip("é".encode() * 1000)  # per character, not per byte


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CTW(1), "symbols must be"),
        (lambda: CTW(2, depth=-1), "depth"),
        (lambda: CTW(2, pseudocount=0), "pseudocount"),
        (lambda: CTW(2, memory=100), "memory"),
        (lambda: CTW(2, bound=1.0), "bound"),
        (lambda: CTW(2).take([0, 1, 2]), "index 2: 2 is not in 0 .. 1"),
        (lambda: CTW(2).take([0.5]), "integers"),
        (lambda: ctw([]), "integers"),
        (lambda: ctw(""), "0 characters"),
        (lambda: ctw(b"aaa"), "1 distinct"),
        (lambda: gzip([1, 300]), "index 1: 300"),
        (lambda: bz2(""), "there is none"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
