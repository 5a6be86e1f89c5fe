"""What is recommended for a stream."""

import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.readers.presets import BUDGET, PRESETS, choose_for_symbols


@pytest.mark.parametrize(
    ("ends", "stream"),
    [
        ({"symbols": 3}, np.arange(40) % 3),
        ({"inputs": 2, "outputs": 1}, (np.ones((40, 2)), np.ones((40, 1)))),
        ({"inputs": 2, "symbols": 2}, (np.ones((40, 2)), np.arange(40) % 2)),
    ],
)
def test_it_learns_from_what_it_is_for(ends, stream):
    learner = nbt.recommend(**ends, budget=5)
    state, info = learner.run(learner.init(0), stream)
    assert isinstance(learner, nbt.Committee)
    assert state.steps == 40
    assert np.isfinite(np.asarray(info.loss)[1:]).all()


def test_a_budget_and_a_company():
    units = [nbt.recommend(symbols=65, budget=budget).system.units for budget in (5, 12, 20, 30, 60, 200, 1000)]
    assert units == [20, 32, 64, 128, 192, 256, 512]
    forecasts = nbt.Forecasts(season=24, ahead=3)
    assert nbt.recommend(inputs=2, outputs=1, company=forecasts).company == forecasts
    assert nbt.recommend(inputs=1, outputs=1).system.units == PRESETS["rows"].units


@pytest.mark.parametrize(
    ("symbols", "depth", "match"), [(2, 24, 24), (4, 16, 12), (16, 8, 6), (17, 6, 5), (65, 6, 5), (256, 6, 5)]
)
def test_small_alphabets_need_longer_contexts_and_matches(symbols, depth, match):
    preset, _ = choose_for_symbols(symbols, BUDGET)
    company = preset.learner(symbols=symbols).company
    assert (company.depth, company.match) == (depth, match) == (preset.depth, preset.match)
    assert f"contexts of up to {depth} symbols" in str(preset)


def test_a_preset_by_name_and_a_low_budget_need_them_too():
    assert PRESETS["tiny"].learner(symbols=4).company == nbt.Contexts(depth=16, match=12)
    assert nbt.recommend(symbols=2, budget=5).company == nbt.Contexts(depth=24, match=24)
    assert nbt.recommend(symbols=65, budget=5).company == nbt.Contexts(depth=3)


@pytest.mark.parametrize("ends", [{}, {"inputs": 2}, {"outputs": 1}, {"inputs": 1, "outputs": 1, "symbols": 2}])
def test_what_is_no_stream(ends):
    with pytest.raises(ValueError, match="symbols, or inputs and outputs, or inputs and symbols"):
        nbt.recommend(**ends)


def test_a_company_of_another_kind():
    with pytest.raises(ValueError, match="is not for"):
        nbt.recommend(symbols=3, company=nbt.Forecasts())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"symbols": "abc"}, "symbols: a whole number of 1 or more, not 'abc'"),
        ({"inputs": 2, "outputs": 0}, "outputs: a whole number of 1 or more, not 0"),
        ({"symbols": 3.0}, "symbols: a whole number"),
        ({"symbols": 3, "budget": -1}, "budget: microseconds an item, 0 or more, not -1"),
        ({"inputs": 1, "symbols": 3, "budget": float("nan")}, "budget: microseconds"),
        ({"symbols": 3, "budget": "fast"}, "budget: microseconds"),
    ],
)
def test_what_is_no_size_and_no_budget(asked, message):
    with pytest.raises(ValueError, match=message):
        nbt.recommend(**asked)


def test_sizes_of_numpy_will_do():
    assert isinstance(nbt.recommend(symbols=np.int64(3)), nbt.Committee)  # pyright: ignore[reportArgumentType]
