"""What the norms remember: the discounted observability Gramian of `GramianNorms`, the diagonal of `ForesightNorms`."""

from __future__ import annotations

from typing import Any

from ...compiled import ONE, ZERO, kernel
from .layout import FORESIGHT, GRAMIAN
from .reduction import row_norms
from .views import beginning, row


@kernel
def remember(norms: Any, pace: Any, dl_dh: Any, urgency: Any) -> None:
    """The mean of dl/dh dl/dh^T, or of its diagonal, after a target."""
    if norms == GRAMIAN:
        for i in range(dl_dh.size):
            for j in range(dl_dh.size):
                urgency[i, j] += pace * (dl_dh[i] * dl_dh[j] - urgency[i, j])
    elif norms == FORESIGHT:
        for i in range(dl_dh.size):
            urgency[0, i] += pace * (dl_dh[i] * dl_dh[i] - urgency[0, i])


@kernel
def refresh(horizon: Any, pace: Any, worth: Any, urgency: Any, df_dh: Any, product: Any) -> None:
    """Q <- Q + n pace (U + horizon df/dh^T Q df/dh - Q), the horizon being shortened where df/dh would let Q grow."""
    n = df_dh.shape[0]
    for i in range(2 * n):
        for j in range(n):
            product[i, j] = ZERO
    for i in range(n):  # the first half of `product` is Q df/dh
        for k in range(n):
            x = worth[i, k]
            for j in range(n):
                product[i, j] += x * df_dh[k, j]
    for k in range(n):  # the second is df/dh^T Q df/dh
        for i in range(n):
            x = df_dh[k, i]
            for j in range(n):
                product[n + i, j] += x * product[k, j]
    before, after = ZERO * pace, ZERO * pace
    for i in range(n):
        before += worth[i, i]
        after += product[n + i, i]
    if after > before:
        horizon = horizon * before / after
    step = min(pace * worth.dtype.type(n), ONE)
    for i in range(n):
        for j in range(n):
            worth[i, j] += step * (urgency[i, j] + horizon * product[n + i, j] - worth[i, j])


@kernel
def look_ahead(
    horizon: Any,
    pace: Any,
    worth: Any,
    urgency: Any,
    variance: Any,
    df_dh: Any,
    c: Any,
    lengths: Any,
    product: Any,
) -> None:
    """C <- horizon (df/dh)^2 C + |w_i|^2,  q <- q + pace (E (dl/dh)^2 + horizon (df/dh)^2T q - q)."""
    state = df_dh.shape[0]
    later, following, lengths_of = row(product, 0), row(product, 1), beginning(row(product, 2), state)
    row_norms(c, lengths, lengths_of)
    for i in range(state):
        later[i] = ZERO
    for i in range(state):
        total = ZERO * horizon
        for j in range(state):
            square = df_dh[i, j] * df_dh[i, j]
            total += square * variance[0, j]
            later[j] += square * worth[0, i]
        following[i] = horizon * total + lengths_of[i] * lengths_of[i]
    for i in range(state):
        variance[0, i] = following[i]
        worth[0, i] += pace * (urgency[0, i] + horizon * later[i] - worth[0, i])
