"""Where data comes from."""

from .clocks import Clock, elapsed
from .items import RESET, Pairs, Series
from .synthetic import ANBN_ALPHABET, anbn, anbn_entropy, brackets, brackets_entropy
from .text import characters

__all__ = [
    "ANBN_ALPHABET",
    "RESET",
    "Clock",
    "Pairs",
    "Series",
    "anbn",
    "anbn_entropy",
    "brackets",
    "brackets_entropy",
    "characters",
    "elapsed",
]
