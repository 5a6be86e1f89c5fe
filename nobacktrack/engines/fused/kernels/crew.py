"""Threads inside one step: a job is cut into blocks, and whoever is free takes the next one.

The thread that runs a loop posts a job and takes blocks itself until none is left, so that it never waits for a helper
that has not begun. What a block writes does not depend on who takes it: results do not depend on how many there are.

A ticket is the number of a job and that of its next block in one word, so that to take it is one atomic addition. A
helper that comes late takes a ticket of a job that is over, or of the next one: it reads how many blocks there are
before it reads whose they are, and the writer wrote these two in the other order.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....compiled import inlined, kernel

EPOCHS = 1 << 30  # after so many jobs their numbers begin again: they stand in the upper half of a signed word
LINE = 8  # numbers of a line of the cache, so that what different threads write lies apart
TICKET, EPOCH, COUNT, DONE, HELPERS, STOP = (LINE * i for i in range(6))
JOB, A, B = COUNT + 1, COUNT + 2, COUNT + 3  # what is to be done; of what
NUMBERS = LINE * 6
BITS = 32  # of the number of a block
SPINS = 2000  # looks before others may have the core

X86 = platform.machine().lower() in ("x86_64", "amd64")
YIELDS = os.name == "posix"
_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _load(typing: Any, array: Any, index: Any) -> Any:
    """A number that another thread may write; what it wrote before that is seen too."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(array, types.intp), build


def _store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a number that another thread may read, after all that was written before."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _place(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), build


def _add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Add to a number that other threads add to: what it was."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, signature, args), args[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), build


def _pause(typing: Any) -> Any:
    """A moment, in which the core's other thread may work."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        return context.get_dummy_value()

    return types.void(), build


load: Any = intrinsic(_load)
store: Any = intrinsic(_store)
add: Any = intrinsic(_add)
pause: Any = intrinsic(_pause)


@kernel
def wait(spins: Any) -> Any:
    """One look more; after many, others may have the core."""
    pause()
    if spins < SPINS:
        return spins + 1
    if YIELDS:
        _sched_yield()
    return 0


@inlined
def share(work: Any, s: Any, m: Any, job: Any, count: Any, a: Any, b: Any) -> None:
    """work(s, m, job, block, a, b, place) for each block, by whoever is free; `place` tells the threads apart."""
    if m.crew[HELPERS] == 0 or count < 2:
        for block in range(count):
            work(s, m, job, block, a, b, 0)
    else:
        post(m.crew, job, count, a, b)
        take(work, s, m, 0)
        expect_done(m.crew, count)


@kernel
def post(crew: Any, job: Any, count: Any, a: Any, b: Any) -> None:
    """A job for all."""
    epoch = (crew[EPOCH] + 1) % EPOCHS
    store(crew, EPOCH, epoch)
    crew[JOB], crew[A], crew[B], crew[DONE] = job, a, b, 0
    store(crew, COUNT, count)
    store(crew, TICKET, epoch << BITS)


@kernel
def expect_done(crew: Any, count: Any) -> None:
    """Wait for blocks that others have begun."""
    spins = 0
    while load(crew, DONE) < count:
        spins = wait(spins)


@inlined
def take(work: Any, s: Any, m: Any, place: Any) -> None:
    """Take blocks as long as there are some."""
    mask = (1 << BITS) - 1
    while load(m.crew, TICKET) & mask < load(m.crew, COUNT):
        ticket = add(m.crew, TICKET, 1)
        count = load(m.crew, COUNT)
        if ticket & mask < count and load(m.crew, EPOCH) == ticket >> BITS:
            work(s, m, m.crew[JOB], ticket & mask, m.crew[A], m.crew[B], place)
            add(m.crew, DONE, 1)


@inlined
def help_out(work: Any, s: Any, m: Any, place: Any) -> None:
    """What a helper does until it is told to stop."""
    spins = 0
    while load(m.crew, STOP) == 0:
        take(work, s, m, place)
        spins = wait(spins)
