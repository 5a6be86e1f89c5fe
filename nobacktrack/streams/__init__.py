"""Where data comes from."""

from .items import RESET, Pairs, Series
from .synthetic import ANBN_ALPHABET, anbn, anbn_entropy
from .text import characters

__all__ = ["ANBN_ALPHABET", "RESET", "Pairs", "Series", "anbn", "anbn_entropy", "characters"]
