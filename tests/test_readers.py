"""Text and bytes as they come: cut anywhere, the same; growing, and nothing is lost; bad, and it says where."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nobacktrack as nbt
from nobacktrack.checks import same_bits
from nobacktrack.growth import enlarge, without_symbols
from nobacktrack.readers.alphabets import CHARACTERS, Growing, Known, Octets, alphabet_of
from nobacktrack.readers.text import TextReader

TEXT = ("Ångström: äé漢字 " + "".join("ab\n"[s] for s in nbt.streams.anbn(1, 4, length=150, seed=0)) + "ÿz").encode()


PLAIN = b"abba" * 25


def text_reader(alphabet, engine="auto", **options):
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=alphabet.capacity), nbt.NoBackTrack(), nbt.Kalman())
    return TextReader(learner, learner.init(0), alphabet, engine=engine, **options)


def alphabets():
    return Octets(), Known("".join(sorted(set(TEXT.decode())))), Growing(capacity=2)


@pytest.mark.parametrize("engine", ["fused", "jax"])
@pytest.mark.parametrize("kind", range(3))
def test_a_text_may_be_cut_anywhere_and_saved_there(kind, engine, tmp_path):
    whole = text_reader(alphabets()[kind], engine)
    losses = np.concatenate([whole.take(TEXT), whole.finish()])
    cut, found, begin = text_reader(alphabets()[kind], engine), [], 0
    for end in (1, 3, 40, 41, 97, 130, len(TEXT)):
        found.append(cut.take(TEXT[begin:end]))
        nbt.save(tmp_path / "a", cut.learner, cut.state, cut.notes())
        assert cut.position + len(cut.rest) == end
        learner, state, notes = nbt.load(tmp_path / "a")
        cut, begin = TextReader(learner, state, alphabet_of(notes["alphabet"]), engine=engine, notes=notes), end
    found.append(cut.finish())
    assert same_bits(cut.state, whole.state)
    np.testing.assert_array_equal(np.concatenate(found), losses)
    assert cut.position == whole.position == len(TEXT)
    assert cut.tally.items == len(losses) == (len(TEXT) if kind == 0 else len(TEXT.decode()))
    assert cut.tally.mean == pytest.approx(losses.mean(), rel=1e-5)
    assert alphabet_of(cut.notes()["alphabet"]).described() == whole.alphabet.described()


def test_a_step_alone_is_not_taken_where_the_stream_was_cut():
    """UORO's step is compiled to other last bits alone than in a loop (a step of the reference engine, jax 0.10)."""
    learner = nbt.Learner(nbt.GRU(units=9, symbols=2), nbt.UORO(), nbt.Optax(optax.adam(1e-3)))
    ends = []
    for cuts in ((400,), (1, 18, 35, 67, 150, 151, 399, 400)):
        reader = TextReader(learner, learner.init(0, dtype=jnp.float32), Known("ab"), engine="jax")
        for begin, end in itertools.pairwise((0, *cuts)):
            reader.take((b"abba" * 100)[begin:end])
        reader.finish()
        ends.append(reader.state)
    assert same_bits(*ends)


def test_a_byte_order_mark_is_no_character():
    reader = text_reader(Known("ab"))
    assert len(reader.take(b"\xef\xbb\xbfabba")) == 4
    assert reader.position == 7
    with pytest.raises(nbt.BadItem, match="byte 7"):
        reader.take(b"\xef\xbb\xbf")


def test_a_growing_alphabet_counts_what_a_new_character_costs():
    alphabet = Growing(capacity=4)
    reader = text_reader(alphabet)
    first = reader.take(b"a")[0]
    # two symbols have a meaning to begin with: "never seen" alone is predicted, and the name is one of all characters
    assert first == pytest.approx(math.log(CHARACTERS), rel=1e-6)
    losses = reader.take(b"aaaab")
    assert losses[0] < math.log(2) * 1.5
    assert losses[4] > math.log(CHARACTERS - 1)
    reader.take(b"cdefghij")
    assert alphabet.capacity == reader.learner.system.symbols == 16
    assert alphabet.characters == "abcdefghij"
    assert alphabet.spelled(np.array([1, 2, 0])) == "ab\ufffd"


def test_what_was_learned_stays_when_a_network_grows():
    for estimator in (nbt.NoBackTrack(rank=2), nbt.RTRL(), nbt.TruncatedBPTT(depth=4), nbt.KFRTRL(), nbt.UORO()):
        learner = nbt.Learner(nbt.LSTM(units=4, symbols=3), estimator, nbt.Kalman())
        state, _ = learner.run(learner.init(0), nbt.streams.anbn(1, 4, length=100, seed=0))
        larger, grown = enlarge(learner, state, symbols=6)
        for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(grown), strict=True):
            kept = np.asarray(new)[tuple(slice(size) for size in np.shape(old))]
            assert kept.tobytes() == np.asarray(old).tobytes(), path
        np.testing.assert_allclose(larger.predict(grown)[:3], learner.predict(state), rtol=1e-6)
        assert larger.run(grown, np.array([5, 4, 0, 3]))[1].loss.shape == (4,)
    full = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.Kalman(metric=nbt.Full()))
    with pytest.raises(ValueError, match="it mixes inputs"):
        enlarge(full, full.init(0), symbols=4)
    with pytest.raises(ValueError, match="cannot grow to 2"):
        enlarge(learner, state, symbols=2)


def test_a_network_that_has_grown_has_the_gradient_of_one_that_was_as_large_all_along():
    """New inputs have no influence, and symbols that are not predicted take nothing from the others."""
    small = nbt.Learner(nbt.RNN(units=3, symbols=3), nbt.RTRL(), nbt.SGD(0.05))
    state, _ = small.run(small.init(0), nbt.streams.anbn(1, 3, length=30, seed=1))
    large, grown = enlarge(small, state, symbols=5)
    before, after = small.gradient(state, 1), large.gradient(without_symbols(grown, 3), 1)
    np.testing.assert_allclose(after.theta[..., :7], before.theta, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(after.phi[:3], before.phi, rtol=1e-4, atol=1e-7)
    assert not np.any(np.asarray(after.theta)[..., 7:])
    np.testing.assert_allclose(after.phi[3:], 0, atol=1e-10)


@pytest.mark.parametrize(
    ("raw", "message", "skipped"),
    [
        (b"ab\xffab", r"byte 2: not UTF-8", 1),
        ("abéab".encode(), r"byte 2: 'é' is not in the alphabet", 1),
        (b"ab\xe6\xbc", r"byte 2: not UTF-8 text, or cut short", 2),
    ],
)
def test_bad_text_says_where_or_is_skipped(raw, message, skipped):
    reader = text_reader(Known("ab"))
    with pytest.raises(nbt.BadItem, match=message):
        reader.take(raw, last=True)
    assert reader.position == 2
    assert reader.state.steps == 2
    assert reader.rest == raw[2:]
    reader = text_reader(Known("ab"), skip_bad=True)
    reader.take(raw, last=True)
    assert reader.tally.skipped == skipped
    assert reader.position == len(raw)


def test_evaluation_moves_nothing():
    alphabet = Growing(capacity=8)
    trained = text_reader(alphabet)
    trained.take(PLAIN)
    before = trained.state
    frozen = TextReader(trained.learner, before, trained.alphabet, learning=False)
    losses = frozen.take(PLAIN + "☃".encode(), last=True)
    assert same_bits(frozen.state.params, before.params)
    assert frozen.tally.items == len(PLAIN) + 1
    assert frozen.tally.loss == pytest.approx(losses.sum(), rel=1e-6)
    assert losses[-1] > math.log(CHARACTERS - 2)  # "never seen", and which one
    assert alphabet.characters == "ab"
