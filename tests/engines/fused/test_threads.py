"""Several threads on one step: the same bits as one."""

from __future__ import annotations

import numpy as np
import pytest
from tables import symbols

import nobacktrack as nbt
from nobacktrack.checks import same_bits
from nobacktrack.engines import threads
from nobacktrack.engines.fused import threads as crews
from nobacktrack.engines.fused.kernels.crew import EPOCH, EPOCHS, NUMBERS
from nobacktrack.engines.fused.memory import layout
from nobacktrack.engines.fused.session import Fused
from nobacktrack.streams.items import Pairs, Series

SHARED = [
    nbt.TruncatedBPTT(depth=5),
    nbt.SlidingBPTT(depth=3),
    nbt.ARTBP(depth=4),
    nbt.BlockNoBackTrack(depth=6),
    nbt.NoBackTrack(rank=2),  # and UORO, which has its passes
    nbt.DiagonalPlusRankOne(rank=2, lag=5),
]


@pytest.fixture
def always(monkeypatch):
    """Helpers at every size."""
    monkeypatch.setattr(crews, "LEAST_PARAMETERS", 0)


def run(learner, stream, count, monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, str(count))
    session = Fused(learner, learner.init(0))
    losses = [session.take(stream) for _ in range(3)]  # helpers come and go with a chunk
    return session._store.sizes.threads, losses, session.state()


@pytest.mark.parametrize("estimator", SHARED, ids=repr)
def test_threads_do_not_matter(estimator, always, monkeypatch):
    for cell, update in ((nbt.LSTM, nbt.Kalman()), (nbt.GRU, nbt.SGD(0.1))):
        learner = nbt.Learner(cell(units=layout.BLOCK // 2 + 3, symbols=3), estimator, update)
        seen, reset = np.arange(150) % 7 > 0, np.arange(150) % 40 == 0
        stream = Pairs(symbols(150), symbols(150, 1), seen, reset)
        alone, *one = run(learner, stream, 1, monkeypatch)
        assert alone == 1
        for count in (2, 3):
            some, *several = run(learner, stream, count, monkeypatch)
            assert some == count
            assert same_bits(one, several)


def test_small_learners_and_several_at_once_have_one_thread(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "2")
    small, large = (
        nbt.Learner(nbt.LSTM(units=units, symbols=3), nbt.TruncatedBPTT(), nbt.Kalman()) for units in (20, 190)
    )
    assert Fused(small, small.init(0))._store.sizes.threads == 1
    assert Fused(large, large.init(0))._store.sizes.threads == 2
    with threads.one_thread():
        assert Fused(large, large.init(0))._store.sizes.threads == 1
    assert threads.most_threads() == 2


def test_a_helper_that_comes_late_does_no_harm(always, monkeypatch):
    """More threads than cores, and chunks that are over before some of them have begun."""
    learner = nbt.Learner(nbt.LSTM(units=70, symbols=3), nbt.TruncatedBPTT(depth=2), nbt.Kalman())
    monkeypatch.setenv(threads.VARIABLE, "3")
    session = Fused(learner, learner.init(0))
    losses = [session.take(Series(symbols(2, seed=seed))) for seed in range(100)]
    monkeypatch.setenv(threads.VARIABLE, "1")
    alone = Fused(learner, learner.init(0))
    assert same_bits(losses, [alone.take(Series(symbols(2, seed=seed))) for seed in range(100)])


def test_the_numbers_of_jobs_begin_again(always, monkeypatch):
    """They stand in the upper half of a word, with a sign."""
    learner = nbt.Learner(nbt.LSTM(units=70, symbols=3), nbt.TruncatedBPTT(depth=2), nbt.Kalman())
    losses = []
    for epoch in (0, EPOCHS - 8):
        monkeypatch.setenv(threads.VARIABLE, "2")
        session = Fused(learner, learner.init(0))
        session._machine[-1][EPOCH] = epoch
        losses.append(session.take(Series(symbols(20))))
        assert 0 < session._machine[-1][EPOCH] < EPOCHS - 8
    assert same_bits(*losses)


def test_what_threads_say_has_lines_of_the_cache_for_itself():
    crew = crews.new_crew()
    assert crew.ctypes.data % layout.LINE == 0
    assert crew.size * crew.itemsize > NUMBERS * crew.itemsize  # nothing else in the last line


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5"])
def test_what_is_no_number_of_threads_is_refused(asked, monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, asked)
    with pytest.raises(ValueError, match="NOBACKTRACK_THREADS must be a number of threads"):
        threads.most_threads()
