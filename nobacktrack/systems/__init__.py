"""What is trained."""

from .cells import GRU, LRU, LSTM, RNN, LeakyRNN, LearnedLeakyRNN
from .continuous import ContinuousRNN, euler, heun
from .graphs import Graph
from .recurrent import Recurrent
from .stack import Stack

__all__ = [
    "GRU",
    "LRU",
    "LSTM",
    "RNN",
    "ContinuousRNN",
    "Graph",
    "LeakyRNN",
    "LearnedLeakyRNN",
    "Recurrent",
    "Stack",
    "euler",
    "heun",
]
