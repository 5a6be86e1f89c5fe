"""Cost as compiled flops and as resident memory: never as a time."""

import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nobacktrack as nbt
from nobacktrack.engines import reference
from nobacktrack.streams.items import Series


def flops_per_parameter(estimator, units, update=None):
    learner = nbt.Learner(nbt.RNN(units=units, symbols=3), estimator, update or nbt.SGD(0.1))
    state = jax.eval_shape(lambda: learner.init(0))
    return nbt.checks.step_flops(learner, state, jax.ShapeDtypeStruct((), jnp.int32))


@pytest.mark.parametrize(
    "estimator", [nbt.NoBackTrack(), nbt.NoBackTrack(rank=2), nbt.SplitNoBackTrack(blocks=2)], ids=repr
)
def test_a_step_costs_a_constant_per_parameter(estimator):
    costs = [flops_per_parameter(estimator, units)[0] for units in (32, 64, 128, 256, 512)]
    assert max(costs) / min(costs) <= 1.15


@pytest.mark.parametrize("norms", [nbt.MetricNorms(), nbt.ForesightNorms()], ids=repr)
@pytest.mark.parametrize("metric", [nbt.QuasiDiagonal(), nbt.Diagonal()], ids=repr)
def test_a_kalman_step_costs_a_constant_per_parameter(metric, norms):
    estimator, update = nbt.NoBackTrack(norms=norms), nbt.Kalman(metric=metric)
    costs = [flops_per_parameter(estimator, units, update)[0] for units in (32, 128, 512)]
    assert max(costs) / min(costs) <= 1.15


def test_a_step_costs_a_few_runs_of_the_network():
    assert flops_per_parameter(nbt.NoBackTrack(), 512)[1] < 12


def test_rtrl_costs_n_squared_per_parameter():
    """Lowered only, never run at this size."""
    costs = [flops_per_parameter(nbt.RTRL(), units)[0] for units in (64, 128, 256)]
    for small, large in itertools.pairwise(costs):
        assert 3.5 < large / small < 5


def test_a_new_rate_does_not_retrace():
    traces = []

    @jax.jit
    def scan(learner, state, chunk):
        traces.append(None)
        return reference.scan(learner, state, chunk)

    chunk = Series(nbt.streams.anbn(1, 4, length=20, seed=0))
    states = []
    for c in (0.1, 0.2, 0.5):
        learner = nbt.Learner(nbt.RNN(units=4, symbols=3), nbt.NoBackTrack(), nbt.SGD(nbt.inverse_sqrt(c)))
        states.append(scan(learner, learner.init(0), chunk)[0])
    assert len(traces) == 1
    assert not np.allclose(states[0].params.theta, states[2].params.theta)


MEMORY_SCRIPT = """
import itertools, psutil, sys
import nobacktrack as nbt
learner = nbt.Learner(nbt.LeakyRNN(units=20, symbols=3), nbt.NoBackTrack(), nbt.SGD(nbt.inverse_sqrt(0.1)))
block = nbt.streams.anbn(1, 32, length=10_000, seed=0)
endless = itertools.repeat(block)
seen = {}
for state, info in learner.run(learner.init(0), endless):
    for mark in (100_000, 2_000_000):
        if info.t >= mark and mark not in seen:
            seen[mark] = psutil.Process().memory_info().rss
    if info.t >= 2_000_000:
        break
print(seen[100_000], seen[2_000_000])
"""


def test_memory_is_flat_on_an_endless_stream():
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    early, late = map(int, run.stdout.split())
    assert abs(late - early) < 5e6
