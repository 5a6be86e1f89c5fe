"""How far the numbers of a column lie from their mean, whatever comes; compiled.

What is far out counts as that far, once it is known what is far. What came before that was known, or in a unit that is
no longer used, is found out later: where numbers have lain much nearer together for long than on the whole, the whole
begins anew from these. Differences change their unit sooner: where some in a row are far out, these are no accident,
and where many in a row are much smaller than usual, some times as many as ever before, they are what is usual from now
on.
"""

from __future__ import annotations

import math
from typing import Any

from ..compiled import EXACT, entry, exact
from .nodes import SOURCES

FARTHEST = 10.0  # deviations: what lies beyond counts as that far
SETTLED = 10  # how many it takes to know what is far
# Rows of a spread, with a place for each column. The last ones are of differences: how many in a row were far out, or
# small, and the sums of their squares; how many small ones in a row there were at most.
COUNT, MEAN, SQUARES, LAST, LATE_MEAN, LATE, RENEWALS = range(7)
FAR_RUN, FAR_SQUARES, NEAR_RUN, NEAR_SQUARES, LONGEST_NEAR = range(7, 12)
SPREAD = 12
RECENT = 8.0  # the means of late weigh number i of n by (i/n)^7
NARROW, PATIENCE, RENEWED = 0.01, 40, 100  # a mean square of late, over that of all; after how many; what it counts for
LASTING, UNHEARD = 4, 3  # differences in a row that are far out, after the way there; small ones, times the most before


@exact
def deviation(squares: Any, count: Any) -> Any:
    """Root of a mean square; 1 as long as nothing has varied."""
    return math.sqrt(squares / count) if squares > 0 and count > 0 else 1.0


@exact
def deviation_in(spread: Any, j: int) -> Any:
    """That of column j."""
    return deviation(spread[SQUARES, j], spread[COUNT, j])


@exact
def bounded(spread: Any, j: int, off: Any) -> Any:
    """A distance as it counts in a mean."""
    if spread[COUNT, j] > SETTLED and spread[SQUARES, j] > 0:
        most = FARTHEST * deviation_in(spread, j)
        return min(max(off, -most), most)
    return off


@exact
def clipped(x: Any) -> Any:
    return min(max(x, -FARTHEST), FARTHEST)


@exact
def add_around_mean(spread: Any, j: int, x: Any) -> None:
    """One more number, off the mean of all."""
    spread[COUNT, j] += 1
    count = spread[COUNT, j]
    off = bounded(spread, j, x - spread[MEAN, j])
    spread[MEAN, j] += off / count
    spread[SQUARES, j] += off * off * (1 - 1 / count)
    if x != spread[LAST, j] or count == 1:  # a number that stands still does not tell how far the next one lies
        pace, apart = min(1.0, RECENT / count), bounded(spread, j, x - spread[LATE_MEAN, j])
        spread[LATE_MEAN, j] += pace * apart
        spread[LATE, j] += pace * (apart * apart - spread[LATE, j])
    spread[LAST, j] = x
    renew(spread, j)


@exact
def add_around_zero(spread: Any, j: int, off: Any, rows: int) -> None:
    """The same of a difference over some rows, off 0. A single jump is in as many differences as they have rows."""
    count_runs(spread, j, off, rows)
    spread[COUNT, j] += 1
    count = spread[COUNT, j]
    off = bounded(spread, j, off)
    spread[SQUARES, j] += off * off
    if off != 0:
        spread[LATE, j] += min(1.0, RECENT / count) * (off * off - spread[LATE, j])
    renew(spread, j)
    near, far = spread[NEAR_RUN, j], spread[FAR_RUN, j] - rows
    if far >= LASTING:
        begin_anew(spread, j, spread[FAR_SQUARES, j] / far)
    elif near >= PATIENCE and near > UNHEARD * spread[LONGEST_NEAR, j]:
        spread[LONGEST_NEAR, j] = near
        begin_anew(spread, j, spread[NEAR_SQUARES, j] / near)


@exact
def count_runs(spread: Any, j: int, off: Any, rows: int) -> None:
    """How many differences in a row are far out, or small; the first far ones are the way there."""
    square, usual = off * off, spread[SQUARES, j] / max(spread[COUNT, j], 1.0)
    if bounded(spread, j, off) != off:
        spread[FAR_RUN, j] += 1
        spread[FAR_SQUARES, j] += square if spread[FAR_RUN, j] > rows else 0.0
    else:
        spread[FAR_RUN, j], spread[FAR_SQUARES, j] = 0, 0
    if 0 < square < NARROW * usual:
        spread[NEAR_RUN, j] += 1
        spread[NEAR_SQUARES, j] += square
    elif square > 0:
        spread[LONGEST_NEAR, j] = max(spread[LONGEST_NEAR, j], spread[NEAR_RUN, j])
        spread[NEAR_RUN, j], spread[NEAR_SQUARES, j] = 0, 0


@exact
def renew(spread: Any, j: int) -> None:
    """Begin anew from the numbers of late, where these lie much nearer together."""
    count, late = spread[COUNT, j], spread[LATE, j]
    if count >= PATIENCE and 0 < late * count < NARROW * spread[SQUARES, j]:
        spread[MEAN, j] = spread[LATE_MEAN, j]
        begin_anew(spread, j, late)


@exact
def begin_anew(spread: Any, j: int, square: Any) -> None:
    """From numbers with a mean square."""
    spread[COUNT, j], spread[SQUARES, j], spread[LATE, j] = RENEWED, RENEWED * square, square
    for which in (FAR_RUN, FAR_SQUARES, NEAR_RUN, NEAR_SQUARES):
        spread[which, j] = 0
    spread[RENEWALS, j] += 1


@entry(SOURCES, EXACT)
def add_number(spread: Any, x: float) -> None:
    """One more number, of one column."""
    add_around_mean(spread, 0, x)
