"""Where data comes from."""

from .clocks import Clock, elapsed
from .gutenberg import shakespeare
from .items import RESET, Pairs, Series
from .synthetic import ANBN_ALPHABET, anbn, anbn_blocks, anbn_entropy, brackets, brackets_entropy
from .synthmusic import MUSIC_ALPHABET, music, music_entropy
from .text import characters, cycle, endless, octets

__all__ = [
    "ANBN_ALPHABET",
    "MUSIC_ALPHABET",
    "RESET",
    "Clock",
    "Pairs",
    "Series",
    "anbn",
    "anbn_blocks",
    "anbn_entropy",
    "brackets",
    "brackets_entropy",
    "characters",
    "cycle",
    "elapsed",
    "endless",
    "music",
    "music_entropy",
    "octets",
    "shakespeare",
]
