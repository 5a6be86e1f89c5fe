"""What is trained."""

from .graphs import Graph
from .recurrent import RNN, LeakyRNN

__all__ = ["RNN", "Graph", "LeakyRNN"]
