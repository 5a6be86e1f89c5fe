"""A learner that one can leave alone: networks with anchors, and experts that cost little, mixed at every step."""

from .committee import Committee, frozen
from .contexts import Contexts
from .numbers import Forecasts

__all__ = ["Committee", "Contexts", "Forecasts", "frozen"]
