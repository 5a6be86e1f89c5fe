"""exp and tanh that the compiler can turn into vector instructions, which it cannot do with calls of the C library.

e^x = 2^k e^r with k = floor(x / ln 2 + 1/2), |r| <= ln 2 / 2, and the Taylor series of e^r - 1 up to a term that is
less than a rounding error. Results are within 3 rounding errors of the true ones within EXTENT, where e^x is a normal
number, and 0 and infinity below and above it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....compiled import ONE, ZERO, inlined

EXTENT = {types.float32: 87.0, types.float64: 708.0}
TERMS = {types.float32: 7, types.float64: 13}  # of the series
BIAS, FRACTION = {types.float32: 127, types.float64: 1023}, {types.float32: 23, types.float64: 52}
LN2 = Decimal(2).ln()
ROUND = {types.float32: 2**15, types.float64: 2**41}  # ln 2 to so much has products with k that are not rounded
CONTRACT = ("contract",)


class _Parts(NamedTuple):
    """2^k and e^r - 1."""

    power: Any
    rest: Any


def _floor(builder: Any, x: Any) -> Any:
    return builder.call(builder.module.declare_intrinsic("llvm.floor", [x.type]), [x])


def _split(builder: Any, kind: Any, x: Any) -> _Parts:
    """e^x in two parts."""

    def number(value: float) -> Any:
        return ir.Constant(x.type, value)

    def fused(a: Any, b: Any, c: Any) -> Any:
        return builder.fadd(builder.fmul(a, b, flags=CONTRACT), c, flags=CONTRACT)

    low, high = number(-EXTENT[kind]), number(EXTENT[kind])
    within = builder.select(builder.fcmp_ordered(">", x, low), x, low)  # NaN is low, too, until the end
    within = builder.select(builder.fcmp_ordered("<", within, high), within, high)
    k = _floor(builder, fused(within, number(1 / math.log(2)), number(0.5)))
    short = round(LN2 * ROUND[kind]) / ROUND[kind]
    r = fused(k, number(float(Decimal(short) - LN2)), fused(k, number(-short), within))
    series = number(1 / math.factorial(TERMS[kind]))
    for n in range(TERMS[kind] - 1, 0, -1):
        series = fused(series, r, number(1 / math.factorial(n)))
    word = ir.IntType(kind.bitwidth)
    exponent = builder.fptosi(k, ir.IntType(32))  # conversions to longer ones are not vector instructions everywhere
    exponent = exponent if kind.bitwidth == 32 else builder.sext(exponent, word)
    biased = builder.add(exponent, ir.Constant(word, BIAS[kind]))
    power = builder.bitcast(builder.shl(biased, ir.Constant(word, FRACTION[kind])), x.type)
    return _Parts(power, builder.fmul(series, r))


def _exponential(add: Any, least: float) -> Any:
    """An intrinsic of one number: what is made of 2^k and e^r - 1, and what it comes to below EXTENT."""

    def define(typing: Any, x: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (value,) = args
            found = add(builder, _split(builder, x, value), value.type)
            for comparison, end, beyond in (("<", -EXTENT[x], least), (">", EXTENT[x], math.inf)):
                outside = builder.fcmp_ordered(comparison, value, ir.Constant(value.type, end))
                found = builder.select(outside, ir.Constant(value.type, beyond), found)
            return builder.select(builder.fcmp_ordered("ord", value, value), found, value)

        return x(x), build

    return define


def _whole(builder: Any, parts: _Parts, kind: Any) -> Any:
    """2^k + 2^k (e^r - 1)."""
    return builder.fadd(parts.power, builder.fmul(parts.power, parts.rest, flags=CONTRACT), flags=CONTRACT)


def _but_one(builder: Any, parts: _Parts, kind: Any) -> Any:
    """(2^k - 1) + 2^k (e^r - 1)."""
    less = builder.fsub(parts.power, ir.Constant(kind, 1.0))
    return builder.fadd(less, builder.fmul(parts.power, parts.rest, flags=CONTRACT), flags=CONTRACT)


exp: Any = intrinsic(_exponential(_whole, 0.0))  # e^x
expm1: Any = intrinsic(_exponential(_but_one, -1.0))  # e^x - 1, exact for small x too


@inlined
def sigmoid(x: Any) -> Any:
    return ONE / (ONE + exp(-x))


@inlined
def tanh(x: Any) -> Any:
    """(e^2x - 1) / (e^2x + 1), by -2 |x|, which does not overflow."""
    less = expm1(-abs(x + x))
    size = -less / (less + (ONE + ONE))
    return size if x > ZERO else -size
