"""Running means: the same bits wherever a stream was cut."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from nobacktrack.means import BLOCK, RECENT, Means


@given(some.lists(some.integers(0, 4000), max_size=6), some.integers(0, 2**32 - 1))
def test_cut_anywhere_and_saved_there_they_are_the_same(cuts, seed):
    random = np.random.default_rng(seed)
    losses = random.random(4000).astype(np.float32)
    losses[random.random(4000) < 0.1] = np.nan
    whole, cut = Means(), Means()
    whole.add(losses)
    edges = [0, *sorted(cuts), 4000]
    for number, (a, b) in enumerate(itertools.pairwise(edges)):
        if number % 2:
            cut.add(losses[a:b])
        else:
            for loss in losses[a:b].tolist():
                cut.add_one(loss)
        cut = Means(**json.loads(json.dumps(cut.record())))
    assert cut.record() == whole.record()
    assert (cut.mean, cut.recent) == (whole.mean, whole.recent)


def test_the_mean_is_of_all_and_the_recent_one_of_the_last():
    losses, means = np.arange(3.0 * RECENT * BLOCK), Means()
    means.add(losses)
    assert means.mean == pytest.approx(losses.mean())
    assert means.recent == pytest.approx(losses[-RECENT * BLOCK :].mean())
    means.add(np.full(500, 1e6))
    assert means.recent == pytest.approx(np.concatenate([losses[-RECENT * BLOCK :], np.full(500, 1e6)]).mean())


def test_before_the_first_target_there_is_nothing_to_say():
    means = Means()
    means.add(np.full(3, np.nan))
    assert (means.items, means.targets) == (3, 0)
    assert math.isnan(means.mean)
    assert math.isnan(means.recent)
