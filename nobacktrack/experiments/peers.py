"""What others offer for the same job, where it is installed: contenders for `bench`.

Each function makes a callable that trains on a block of symbols; `installed` says whether it can.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Contender = Callable[[np.ndarray], Any]
RATE = 0.01


def installed(name: str) -> bool:
    """Whether a library can be imported."""
    return importlib.util.find_spec(name) is not None


def torch_bptt(
    units: int, symbols: int, depth: int = 15, cell: str = "RNN", optimiser: str = "SGD", threads: int = 1
) -> Contender:
    """PyTorch: truncated BPTT by blocks, one update a block."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    network = getattr(torch.nn, cell)(symbols, units)
    readout = torch.nn.Linear(units, symbols)
    step = getattr(torch.optim, optimiser)([*network.parameters(), *readout.parameters()], lr=RATE)
    one_hot = torch.eye(symbols)
    h = None

    def train(stream: np.ndarray) -> None:
        nonlocal h
        torch.set_num_threads(threads)
        y = torch.from_numpy(stream.astype(np.int64))
        for i in range(0, len(y) - depth, depth):
            output, h = network(one_hot[y[i : i + depth]], h)
            loss = torch.nn.functional.cross_entropy(readout(output), y[i + 1 : i + depth + 1])
            step.zero_grad()
            loss.backward()
            step.step()
            h = tuple(part.detach() for part in h) if isinstance(h, tuple) else h.detach()

    return train


def _braintrace_network(state: Any, library: Any, units: int, symbols: int) -> Any:
    class Network(state.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = library.nn.ValinaRNNCell(symbols, units, activation="tanh")
            self.out = library.nn.Linear(units, symbols)

        def update(self, x: Any) -> Any:
            return self.out(self.cell(x))

    return Network()


def braintrace(algorithm: str, units: int, symbols: int, live: bool) -> Contender:
    """braintrace: an update at every step; live, one compiled call a step, or all steps of a block in one."""
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")
    state: Any = importlib.import_module("brainstate")
    library: Any = importlib.import_module("braintrace")

    window = algorithm == "UORO"  # its input is a window of steps; one step is a window too
    network = _braintrace_network(state, library, units, symbols)
    state.nn.init_all_states(network, batch_size=1)
    learner = getattr(library, algorithm)(network)
    example = jnp.zeros((1, symbols))
    learner.compile_graph(library.MultiStepData(example[None]) if window else example)
    learner.init_etrace_state()
    weights = network.states(state.ParamState)

    def loss(x: Any, y: Any) -> Any:
        y_hat = learner(library.MultiStepData(x[None])) if window else learner(x)
        return -jax.nn.log_softmax(y_hat.reshape(-1))[y]

    def step(x: Any, y: Any) -> Any:
        gradients, value = state.transform.grad(loss, weights, return_value=True)(jax.nn.one_hot(x, symbols)[None], y)
        for name, gradient in gradients.items():
            moved = jax.tree.map(lambda w, g: w - RATE * g, weights[name].value, gradient)
            weights[name].value = moved
        return value

    one = state.transform.jit(step)
    block = state.transform.jit(lambda xs, ys: state.transform.for_loop(step, xs, ys))

    def train(stream: np.ndarray) -> None:
        if live:
            jax.block_until_ready([one(x, y) for x, y in itertools.pairwise(stream)])
        else:
            jax.block_until_ready(block(stream[:-1], stream[1:]))

    return train
