"""How the influence dh/dtheta is carried."""

from .bptt import SlidingBPTT, TruncatedBPTT
from .nobacktrack import NoBackTrack
from .rtrl import RTRL
from .split import SplitNoBackTrack

__all__ = ["RTRL", "NoBackTrack", "SlidingBPTT", "SplitNoBackTrack", "TruncatedBPTT"]
