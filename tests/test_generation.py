"""What a learner writes: drawn from its prediction, by a seed, without learning."""

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.streams import anbn_blocks


def learner_of(symbols=3):
    return nbt.Learner(nbt.RNN(units=4, symbols=symbols), nbt.NoBackTrack(), nbt.Kalman())


def text(symbols):
    return [nbt.streams.ANBN_ALPHABET.index(letter) for letter in symbols]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_symbols_come_as_often_as_predicted(temperature):
    learner = learner_of()
    state = learner.init(0)
    logits = np.array([0.0, 1.0, -0.5])
    phi = np.zeros_like(state.params.phi)
    phi[:, 0] = logits
    state = state._replace(params=state.params._replace(phi=phi))
    drawn = nbt.generate(learner, state, 20_000, seed=1, temperature=temperature)
    p = np.exp(logits / temperature)
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), p / p.sum(), atol=0.015)


@pytest.mark.parametrize("engine_of", [nbt.NoBackTrack(), nbt.TruncatedBPTT(depth=5), nbt.SplitNoBackTrack(blocks=2)])
def test_it_goes_on_from_the_state_which_stays_as_it_was(engine_of):
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3), engine_of, nbt.Kalman())
    state, _ = learner.run(learner.init(0), nbt.streams.anbn(1, 4, length=300, seed=0))
    before = [np.asarray(leaf).copy() for leaf in (state.h, state.params.theta)]
    one, same, other = (nbt.generate(learner, state, 50, seed=s) for s in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert all(np.array_equal(a, b) for a, b in zip(before, (state.h, state.params.theta), strict=True))
    primed = nbt.generate(learner, state, 50, prime=one[:3])
    advanced = state
    for symbol in one[:3]:
        advanced = learner.advance(advanced, symbol)
    assert np.array_equal(primed, nbt.generate(learner, advanced, 50))


def test_each_symbol_is_the_next_input():
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=3), nbt.NoBackTrack(), nbt.Kalman())
    state, _ = learner.run(learner.init(0), nbt.streams.anbn(1, 4, length=2000, seed=0))
    drawn = nbt.generate(learner, state, 40, seed=5)
    for symbol, uniform in zip(drawn, np.random.default_rng(5).random(40), strict=True):
        p = np.exp(np.asarray(learner.predict(state), float))
        shares = np.cumsum(p) / p.sum()
        assert (shares[symbol - 1] if symbol else 0.0) - 1e-5 <= uniform <= shares[symbol] + 1e-5
        state = learner.advance(state, symbol)


def test_blocks_are_counted_line_by_line():
    assert anbn_blocks(text("aa\nbb\na\nb\n")) == (2, 2)
    assert anbn_blocks(text("aa\nbbb\na\nb\n")) == (1, 2)
    assert anbn_blocks(text("ab\nb\naa\nbb\n")) == (1, 2)
    assert anbn_blocks(text("b\naaa\nbb")) == (0, 0)  # the last line has not ended
    assert anbn_blocks(text("bb\n\na\na\nb\n")) == (1, 2)
    assert anbn_blocks(nbt.streams.anbn(1, 32, length=50_000, seed=0))[0] > 1000
    equal, blocks = anbn_blocks(nbt.streams.anbn(1, 32, length=50_000, seed=0))
    assert equal == blocks


def test_mistakes_are_named():
    learner = learner_of()
    state = learner.init(0)
    vectors = nbt.Learner(nbt.RNN(units=4, inputs=2, outputs=2), nbt.NoBackTrack(), nbt.SGD(0.1))
    with pytest.raises(ValueError, match="does not predict symbols"):
        nbt.generate(vectors, vectors.init(0), 10)
    with pytest.raises(ValueError, match="length"):
        nbt.generate(learner, state, 0)
    with pytest.raises(ValueError, match="temperature"):
        nbt.generate(learner, state, 10, temperature=0.0)
    with pytest.raises(nbt.BadItem, match="3"):
        nbt.generate(learner, state, 10, prime=[3])
