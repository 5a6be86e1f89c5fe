"""Fixed share keeps its bound whatever comes; contexts weigh as a tree does; logarithms are good enough."""

import math

import numba
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack import growth
from nobacktrack.baselines import ctw
from nobacktrack.committee import logistic, mixing
from nobacktrack.committee.contexts import COMPANY, ContextReader, Contexts, Found, Reading
from nobacktrack.committee.matches import OF

SMALL = Contexts(depth=4, reach=1 << 10, memory=1 << 20)


def whole(y, symbols, **changes):
    """A reading of a series."""
    y = np.asarray(y, np.int32)
    return Reading(y, np.ones(len(y), bool), y, False, symbols, **changes)


def mix(y_hats, y, symbols, found=None):
    """Losses of the mixture, and of each expert, of networks that say what they like."""
    networks, count = len(y_hats), len(y)
    inputs = SMALL.inputs
    found = found or Found(
        np.zeros((count, 2, inputs), np.float32), np.full((count, len(COMPANY)), 5.0), np.zeros(count, np.int32)
    )
    state = mixing.mixer_state(symbols, inputs, networks)
    losses, costs = np.zeros(count), np.zeros((count, len(state.shares)))
    scratch = np.zeros((networks, symbols)), np.zeros((2, inputs + networks + 1))
    mixing.mix_items(tuple(state), whole(y, symbols), found, y_hats, scratch, costs, losses)
    return losses, costs


def bound(costs, switches):
    """What fixed share with a share of 1 / (t + 1) costs at most over the best sequence of experts."""
    count, experts = costs.shape
    return math.log(experts) + switches * math.log(experts * (count + 1)) + math.log(count + 1)


def test_the_best_expert_changes_every_thousand_steps():
    random, count = np.random.default_rng(0), 8000
    y = random.integers(0, 3, count)
    y_hats = random.normal(size=(3, count, 3)).astype(np.float32)
    sequence = 1 + np.arange(count) // 1000 % 3
    y_hats[sequence - 1, np.arange(count), y] += 9
    losses, costs = mix(y_hats, y, 3)
    best = costs[np.arange(count), sequence].sum()
    assert losses.sum() <= best + bound(costs, 7)
    assert losses.sum() < costs[:, 1:].sum(axis=0).min() / 20  # far better than any one network


def test_experts_that_are_no_numbers_or_too_large_break_nothing():
    random, count = np.random.default_rng(1), 3000
    y = random.integers(0, 3, count)
    y_hats = np.zeros((4, count, 3), np.float32)
    y_hats[0, np.arange(count), y] = 3
    y_hats[1] = np.nan
    y_hats[2] = 1e12 * random.normal(size=(count, 3))
    y_hats[3, :, 0], y_hats[3, :, 1] = np.inf, -np.inf
    losses, costs = mix(y_hats, y, 3)
    assert np.isfinite(losses).all()
    assert losses.sum() <= costs[:, 1].sum() + bound(costs, 0)
    assert costs[:, 2].mean() == pytest.approx(math.log(3), abs=0.05)


def test_a_share_that_is_not_handed_round_would_break_the_bound():
    """The same stream, mixed without sharing: the test above can fail."""
    random, count = np.random.default_rng(0), 8000
    costs = random.exponential(3, size=(count, 3))
    sequence = np.arange(count) // 1000 % 3
    costs[np.arange(count), sequence] = 0.01
    posterior = np.cumsum(-costs, axis=0)
    log_weights = np.concatenate([[np.zeros(3)], posterior[:-1]]) - math.log(3)
    norm = np.logaddexp.reduce(log_weights, axis=1)
    losses = -np.logaddexp.reduce(log_weights - costs, axis=1) + norm
    assert losses.sum() > costs[np.arange(count), sequence].sum() + bound(costs, 7)


def test_the_tree_is_about_as_good_as_context_tree_weighting():
    text = nbt.streams.music(length=20_000, seed=0)
    contexts = Contexts(depth=6, memory=1 << 24)
    found = ContextReader(contexts, contexts.init()).read(whole(text, 17))
    bits = found.losses.mean(axis=0) / math.log(2)
    assert bits[2] == pytest.approx(ctw(text, 6), rel=0.03)
    assert bits[2] < bits[1] < bits[0]


def test_memory_is_bounded_and_growth_changes_little():
    random = np.random.default_rng(0)
    text = random.integers(0, 50, 30_000)
    small = Contexts(depth=4, reach=1 << 10, memory=1 << 19)
    reader = ContextReader(small, small.init())
    pieces = [reader.read(whole(text[begin : begin + 1000], 50)) for begin in range(0, len(text), 1000)]
    assert reader.state().table.nbytes <= 1 << 19
    assert pieces[-1].losses[:, 0].mean() == pytest.approx(math.log(50), rel=0.01)  # frequencies give way to nothing


def test_a_long_match_is_found():
    random = np.random.default_rng(0)
    text = np.tile(random.integers(0, 26, 300), 3)
    reader = ContextReader(SMALL, SMALL.init())
    found = reader.read(whole(text, 26))
    assert found.standings[:300].max() <= 6
    assert (found.standings[310:] > 5).all()
    logits, _, length = reader.look(26)
    assert length > 100
    assert np.abs(logits[16, -2]) > 3  # the upper half of the alphabet, or the lower


def test_both_matches_are_found_at_their_lengths():
    text = np.concatenate([part := np.random.default_rng(1).integers(0, 26, 300), part])
    contexts = Contexts(reach=1 << 14, memory=1 << 20)
    reader = ContextReader(contexts, contexts.init())
    there = [reader.read(whole([symbol], 26)) and reader.state().matches[:, OF.there].tolist() for symbol in text]
    assert there[303:305] == [[0, 0], [1, 0]]
    assert there[308:310] == [[1, 0], [1, 1]]


def copy_with_errors(random, original, symbols, share):
    """The same symbols, a share of them drawn again."""
    return np.where(random.random(len(original)) < share, random.integers(0, symbols, len(original)), original)


def test_a_match_goes_on_after_a_symbol_that_was_wrong():
    random, contexts = np.random.default_rng(2), Contexts(depth=6, match=12, reach=1 << 12, memory=1 << 20)
    text = np.tile(random.integers(0, 4, 600), 2)
    text[900] = (text[900] + 1) % 4
    reader = ContextReader(contexts, contexts.init())
    standings = reader.read(whole(text, 4)).standings
    assert standings[900] == 288 + 12
    assert (standings[901:917] == -1).all()
    assert standings[917] == 16
    reader.read(whole(random.integers(0, 4, 40), 4))
    assert not reader.state().matches[:, OF.there].any()  # wrong too often


def test_a_match_that_was_wrong_of_late_is_believed_less():
    random, contexts = np.random.default_rng(3), Contexts(depth=6, match=12, reach=1 << 14, memory=1 << 20)
    original = random.integers(0, 4, 1000)
    text = np.concatenate([original, *(copy_with_errors(random, original, 4, 0.1 + i % 2 / 2) for i in range(9))])
    reader = ContextReader(contexts, contexts.init())
    reader.read(whole(text, 4))
    rights = reader.state().rights[0, :4, :, 0].mean(axis=0)
    assert rights[8] < rights[1] - 0.1


@pytest.mark.parametrize(("symbols", "bits"), [(2, 0.35), (4, 0.6)])
def test_long_repeats_of_a_small_alphabet_are_found(symbols, bits):
    random, contexts = np.random.default_rng(4), nbt.recommend(symbols=symbols).company
    library = [random.integers(0, symbols, size) for size in random.integers(200, 600, 10)]
    text = np.concatenate([copy_with_errors(random, library[i], symbols, 0.02) for i in random.integers(0, 10, 75)])
    reading = whole(text, symbols)
    found, count = ContextReader(contexts, contexts.init()).read(reading), len(text)
    state = mixing.mixer_state(symbols, contexts.inputs, 0)
    losses, costs = np.zeros(count), np.zeros((count, len(state.shares)))
    scratch = np.zeros((0, symbols)), np.zeros((found.logits.shape[1], contexts.inputs + 1))
    mixing.mix_items(tuple(state), reading, found, np.zeros((0, count, symbols), np.float32), scratch, costs, losses)
    assert losses[count // 2 :].mean() / math.log(2) < bits


def test_contexts_of_up_to_six_symbols_are_all_there_and_longer_ones_apart():
    assert [Contexts(depth=depth).lengths for depth in (2, 6)] == [(0, 1, 2), (0, 1, 2, 3, 4, 5, 6)]
    assert Contexts(depth=8).lengths == (0, 1, 2, 3, 4, 5, 6, 8)
    assert Contexts(depth=24).lengths == (0, 1, 2, 3, 4, 5, 6, 9, 12, 16, 20, 24)


def test_a_state_in_the_middle_of_a_match_goes_on_as_if_it_had_never_been_cut():
    contexts = Contexts(depth=24, match=12, reach=1 << 12, memory=1 << 20)
    text = np.tile(np.random.default_rng(5).integers(0, 3, 300), 3)
    text[400] = (text[400] + 1) % 3
    at_once = ContextReader(contexts, contexts.init())
    whole_losses = at_once.read(whole(text, 3)).losses
    first = ContextReader(contexts, contexts.init())
    pieces = [first.read(whole(text[:405], 3)).losses]
    second = ContextReader(contexts, first.state())
    pieces.append(second.read(whole(text[405:], 3)).losses)
    np.testing.assert_array_equal(np.concatenate(pieces), whole_losses)
    for one, other in zip(at_once.state(), second.state(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_long_contexts_and_matches_stay_when_the_alphabet_grows():
    learner = nbt.Committee(
        (nbt.Learner(nbt.RNN(units=3, symbols=2), nbt.RTRL(), nbt.Kalman()),),
        Contexts(depth=24, match=12, reach=1 << 12, memory=1 << 20),
    )
    text = np.tile(np.random.default_rng(6).integers(0, 2, 200), 3).astype(np.int32)
    state, _ = learner.run(learner.init(0), text)
    larger, grown = growth.enlarge(learner, state, symbols=4)
    assert larger.company == learner.company
    for before, after in zip(state.influence.panel.contexts, grown.influence.panel.contexts, strict=True):
        np.testing.assert_array_equal(before, after)
    _, info = larger.run(grown, text[:200])
    assert info.loss[20:].mean() < 0.2


def test_logarithms_and_exponentials():
    log, exp = numba.njit(lambda x: logistic.log(x)), numba.njit(lambda x: logistic.exp(x))
    x = np.concatenate([np.geomspace(1e-300, 1e300, 2000), [1.0]])
    np.testing.assert_allclose([log(v) for v in x], np.log(x), rtol=1e-9, atol=1e-10)
    x = np.linspace(-30, 30, 2001)
    np.testing.assert_allclose([exp(v) for v in x], np.exp(x), rtol=1e-8)


@pytest.mark.parametrize("changes", [{"depth": 1}, {"match": 1}, {"reach": 10}, {"memory": 1000}])
def test_bad_settings_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        Contexts(**changes)
