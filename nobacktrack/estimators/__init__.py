"""How the influence dh/dtheta is carried."""

from .artbp import ARTBP
from .bptt import SlidingBPTT, TruncatedBPTT
from .diagonal import DiagonalPlusRankOne
from .forward import Forward
from .kronecker import KFRTRL, KroneckerSum
from .nobacktrack import NoBackTrack
from .rtrl import RTRL
from .snap import RFLO, Immediate, SnAp1
from .split import SplitNoBackTrack
from .uoro import UORO
from .windowed import BlockNoBackTrack

__all__ = [
    "ARTBP",
    "KFRTRL",
    "RFLO",
    "RTRL",
    "UORO",
    "BlockNoBackTrack",
    "DiagonalPlusRankOne",
    "Forward",
    "Immediate",
    "KroneckerSum",
    "NoBackTrack",
    "SlidingBPTT",
    "SnAp1",
    "SplitNoBackTrack",
    "TruncatedBPTT",
]
