"""How parameters move."""

from .gradient import SGD, Frozen, Optax
from .kalman import ExactFisher, Kalman, OuterProduct
from .metrics import BlockDiagonal, Diagonal, Full, QuasiDiagonal

__all__ = [
    "SGD",
    "BlockDiagonal",
    "Diagonal",
    "ExactFisher",
    "Frozen",
    "Full",
    "Kalman",
    "Optax",
    "OuterProduct",
    "QuasiDiagonal",
]
