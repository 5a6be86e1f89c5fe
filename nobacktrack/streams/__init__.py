"""Where data comes from."""

from .chaotic import henon, lorenz, mackey_glass
from .clocks import Clock, elapsed
from .gutenberg import shakespeare
from .items import RESET, Pairs, Series
from .synthetic import ANBN_ALPHABET, anbn, anbn_blocks, anbn_entropy, brackets, brackets_entropy, copy, copy_entropy
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
    "copy",
    "copy_entropy",
    "cycle",
    "elapsed",
    "endless",
    "henon",
    "lorenz",
    "mackey_glass",
    "music",
    "music_entropy",
    "octets",
    "shakespeare",
]
