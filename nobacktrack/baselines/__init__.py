"""What others make of a stream of symbols, in bits per character: compressors, and context tree weighting."""

from .compressors import bz2, gzip, xz
from .ctw import CTW, ctw

__all__ = ["CTW", "bz2", "ctw", "gzip", "xz"]
