"""dh/dtheta: what one step adds to it (`immediate`), how a sum of terms becomes one (`reduction`), by which norms."""

from . import reduction as reduction
