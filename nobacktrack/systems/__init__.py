"""What is trained."""

from .graphs import Graph
from .recurrent import RNN, LeakyRNN, Recurrent

__all__ = ["RNN", "Graph", "LeakyRNN", "Recurrent"]
