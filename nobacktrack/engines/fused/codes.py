"""What a compiled loop decides at run time, as numbers: one loop serves all cells, metrics and norms.

Which class has which code is said in `support.py`, what is done for a code in one kernel of `kernels/`.
"""

from __future__ import annotations

from enum import IntEnum


class Cell(IntEnum):
    """`kernels/cells.py`."""

    RNN = 0
    LEAKY = 1
    LEARNED_LEAKY = 2
    GRU = 3
    LSTM = 4


class Activation(IntEnum):
    """`kernels/cells.py`: what the others see of a unit."""

    SIGMOID = 0
    TANH = 1
    IDENTITY = 2


class Readout(IntEnum):
    """`kernels/readout.py`."""

    SOFTMAX = 0
    GAUSSIAN = 1


class Metric(IntEnum):
    """`kernels/rows.py`: the form of J, or that nothing moves."""

    EUCLIDEAN = 0
    DIAGONAL = 1
    QUASI_DIAGONAL = 2
    FROZEN = 3


class Norms(IntEnum):
    """`kernels/norms.py`: the rule that gives the scales of a reduction."""

    METRIC = 0
    EUCLIDEAN = 1
    UNSCALED = 2
    FORESIGHT = 3
    GRAMIAN = 4
    DEMAND = 5


class Belief(IntEnum):
    """`kernels/belief.py`: how much of the random part is believed."""

    UNBIASED = 0
    SHARE = 1
    CAUTION = 2


class Reach(IntEnum):
    """`kernels/units.py`: what of itself a unit block keeps from step to step."""

    NONE = 0  # there are no unit blocks
    OWN = 1  # its components, and its own activity
    RETENTION = 2  # its components alone
    NOTHING = 3


class Verb(IntEnum):
    """`loops/chunk.py`: what is done with each item of a chunk."""

    OBSERVE_ADVANCE = 0
    ADVANCE_OBSERVE = 1
    OBSERVE = 2
    ADVANCE = 3


class Job(IntEnum):
    """What threads do together, in blocks: `kernels/window.py`, `kernels/passes.py`, `kernels/crossing_passes.py`."""

    STEP = 0
    LINEARISE = 1
    DERIVE = 2
    PULL = 3
    GRADIENT = 4
    SQUARE = 5
    MOVE = 6
    CARRY = 7
