"""A learner that one can leave alone: networks with anchors, and experts that cost little, mixed at every step."""

from .committee import Committee, frozen
from .contexts import Contexts

__all__ = ["Committee", "Contexts", "frozen"]
