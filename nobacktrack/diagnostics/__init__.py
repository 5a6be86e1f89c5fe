"""How noisy, and how biased, a gradient estimate is on a live stream."""

from .diagnosis import Diagnosis, Row, affordable, diagnose, variants

__all__ = ["Diagnosis", "Row", "affordable", "diagnose", "variants"]
