"""Text and bytes as they come: cut anywhere, the same; growing, and nothing is lost; bad, and it says where."""

import itertools
import math
import tracemalloc

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nobacktrack as nbt
from nobacktrack.checks import same_bits
from nobacktrack.readers.alphabets import BLOCK, CHARACTERS, Growing, Known, Octets, known_alphabet
from nobacktrack.readers.notes import TextNotes, as_json, from_json
from nobacktrack.readers.text import TextReader

TEXT = ("Ångström: äé漢字 " + "".join("ab\n"[s] for s in nbt.streams.anbn(1, 4, length=150, seed=0)) + "ÿz").encode()


PLAIN = b"abba" * 25


def text_reader(alphabet, engine="auto", **options):
    learner = nbt.Learner(nbt.LeakyRNN(units=4, symbols=alphabet.capacity), nbt.NoBackTrack(), nbt.Kalman())
    return TextReader(learner, learner.init(0), alphabet, engine=engine, **options)


def alphabets():
    return Octets(), Known("".join(sorted(set(TEXT.decode())))), Growing(capacity=2)


def resumed(path, **options):
    learner, state, found = nbt.load(path)
    notes = from_json(found)
    assert isinstance(notes, TextNotes)
    return TextReader.resume(learner, state, notes, **options)


@pytest.mark.parametrize("engine", ["fused", "jax"])
@pytest.mark.parametrize("kind", range(3))
def test_a_text_may_be_cut_anywhere_and_saved_there(kind, engine, tmp_path):
    whole = text_reader(alphabets()[kind], engine)
    losses = np.concatenate([whole.take(TEXT), whole.finish()])
    cut, found, begin = text_reader(alphabets()[kind], engine), [], 0
    for end in (1, 3, 40, 41, 97, 130, len(TEXT)):
        found.append(cut.take(TEXT[begin:end]))
        nbt.save(tmp_path / "a", cut.learner, cut.state, as_json(cut.notes()))
        assert cut.position + len(cut.rest) == end
        cut, begin = resumed(tmp_path / "a", engine=engine), end
    found.append(cut.finish())
    assert same_bits(cut.state, whole.state)
    np.testing.assert_array_equal(np.concatenate(found), losses)
    assert cut.position == whole.position == len(TEXT)
    assert cut.tally.items == len(losses) == (len(TEXT) if kind == 0 else len(TEXT.decode()))
    assert cut.tally.losses.mean == pytest.approx(losses.mean(), rel=1e-5)
    assert cut.notes() == whole.notes()  # the tally too, bit for bit, wherever the text was cut


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
    assert alphabet.spell(np.array([1, 2, 0])) == "ab\ufffd"


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
    assert frozen.tally.losses.total == pytest.approx(losses.sum(), rel=1e-6)
    assert losses[-1] > math.log(CHARACTERS - 2)  # "never seen", and which one
    assert alphabet.characters == "ab"


def test_the_alphabet_of_a_file_is_found_block_by_block(tmp_path):
    path, text = tmp_path / "t", "é" * (BLOCK // 2 - 1) + "xyzü漢" + "a" * BLOCK  # characters across the edge of blocks
    path.write_text(text, encoding="utf-8-sig")
    assert known_alphabet(path).characters == "".join(sorted(set(text)))
    path.write_bytes(b"a" * BLOCK + b"b\xff")
    with pytest.raises(ValueError, match=rf"not UTF-8 text \(byte {BLOCK + 1}\); `--alphabet bytes`"):
        known_alphabet(path)
    path.write_bytes("aé".encode()[:-1])
    with pytest.raises(ValueError, match=r"not UTF-8 text \(byte 1\)"):
        known_alphabet(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="there is nothing in it"):
        known_alphabet(path)


def test_a_text_of_one_character_has_an_alphabet(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"aaaa")
    alphabet = known_alphabet(path)
    assert (alphabet.characters, alphabet.used, alphabet.capacity) == ("a", 1, 2)
    assert alphabet.spell(np.array([0, 1])) == "a\ufffd"


def test_memory_does_not_grow_with_the_file_that_is_looked_through(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"abc\n" * (16 << 18))  # 16 MiB
    tracemalloc.start()
    known_alphabet(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10 * BLOCK


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_what_was_learned_before_a_divergence_counts(engine):
    learner = nbt.Learner(nbt.LeakyRNN(units=5, symbols=2, activation="tanh"), nbt.NoBackTrack(), nbt.SGD(1e35))
    reader = TextReader(learner, learner.init(0), Known("ab"), engine=engine)
    with pytest.raises(nbt.Divergence) as caught:
        reader.take(b"abba" * 100, last=True)
    assert reader.state.steps == caught.value.t == reader.position == reader.tally.items == reader.counts.sum()
    assert reader.rest == (b"abba" * 100)[reader.position :]


def test_an_engine_that_does_not_apply_is_refused():
    learner = nbt.Learner(nbt.LRU(units=4, symbols=2), nbt.NoBackTrack(), nbt.Kalman())
    with pytest.raises(ValueError, match="engine fused: the fused engine does not run it: it has no loop for LRU"):
        TextReader(learner, learner.init(0), Known("ab"), engine="fused")
