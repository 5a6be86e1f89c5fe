"""What a row of numbers says of its label by itself: linear models of its columns and of their products, naive Bayes;
compiled.

A linear model is a softmax, learned by a Kalman filter whose P all labels share. Naive Bayes takes the columns as
Gaussians, independent of each other given the label. How far to trust the evidence of each is learned online: it counts
to a power, and a share of the labels, the lapse, is taken to come without any reason.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..compiled import EXACT, entry, exact
from ..registry import register
from .nodes import SOURCES
from .spreads import MEAN, SPREAD, add_around_mean, deviation_in
from .squares import gain, learn, pairs_of, product, set_pairs
from .words import from_words, put_in_front, to_words

NAMES = ("linear model", "linear model of products", "naive Bayes")
MOST_LINEAR = 256  # columns of the linear model, the first ones: they cost their square
COVARIANCE, FORGET = 0.1, 0.9998  # P at the start, and what is left of 1/P after a row
LEAST_CURVATURE = 0.05
FARTHEST = 8.0  # deviations
POOLED, LEAST_VARIANCE, CONSTANT = 2.0, 0.02, 1e-6  # rows that all labels lend to one; variances
PACE, LEAST_POWER, MOST_POWER = 0.05, 0.02, 10.0
LAPSE_PACE, FIRST_LAPSE, LEAST_LAPSE, MOST_LAPSE = 0.3, 0.02, 1e-3, 0.9
TARGETS = 0
LINEAR, PAIRS, BAYES = range(3)


class Rows(NamedTuple):
    """What is known: how many targets; the spread of each column; 1 and the last row, in deviations, and 1 and its
    products; P and weights of both linear models; how often each label came, and mean and squares of each column with
    it; power and lapse of all models.
    """

    counts: np.ndarray
    inputs: np.ndarray
    z: np.ndarray
    pairs: np.ndarray
    p: np.ndarray
    w: np.ndarray
    pairs_p: np.ndarray
    pairs_w: np.ndarray
    seen: np.ndarray
    centres: np.ndarray
    spreads: np.ndarray
    power: np.ndarray
    lapse: np.ndarray


OF_A_ROW = Rows._fields.index("p")  # how many arrays an input changes


class Scratch(NamedTuple):
    """Features times the root of the curvature, P z; of each model: evidence, probabilities by it alone, and with the
    lapse.
    """

    z: np.ndarray
    pz: np.ndarray
    evidence: np.ndarray
    q: np.ndarray
    p: np.ndarray


@register
class LabelState(NamedTuple):
    """All numbers of `Rows`, each as two words of 32 bits; how many inputs and labels there are."""

    words: np.ndarray
    sizes: np.ndarray


def shapes_of(inputs: int, labels: int) -> list[tuple[int, ...]]:
    """Of all that is known."""
    features, pairs = 1 + min(inputs, MOST_LINEAR), 1 + pairs_of(inputs)
    linear = (features, features), (labels, features), (pairs, pairs), (labels, pairs)
    bayes, trust = ((labels,), (labels, inputs), (labels, inputs)), (len(NAMES),)
    return [(1,), (SPREAD, inputs), (1 + inputs,), (pairs,), *linear, *bayes, trust, trust]


def _fresh(inputs: int, labels: int) -> Rows:
    m = Rows(*map(np.zeros, shapes_of(inputs, labels)))
    m.z[0], m.pairs[0], m.power[:], m.lapse[:] = 1, 1, (1.0, 1.0, 0.5), FIRST_LAPSE
    for p in (m.p, m.pairs_p):
        p[...] = COVARIANCE * np.eye(len(p))
    return m


def begin_labels(inputs: int, labels: int) -> LabelState:
    """Before the first row."""
    return _pack(inputs, labels, _fresh(inputs, labels))


def _pack(inputs: int, labels: int, m: Rows) -> LabelState:
    return LabelState(to_words(m), np.array([inputs, labels], np.uint32))


def _unpack(state: LabelState) -> Rows:
    return Rows(*from_words(state.words, shapes_of(*map(int, state.sizes))))


def more_labels(state: LabelState, inputs: int, labels: int) -> LabelState:
    """The same for more inputs or labels, which come last."""
    larger = _fresh(inputs, labels)
    put_in_front(larger, _unpack(state))
    return _pack(inputs, labels, larger)


@exact
def take_row(m: Any, x: Any) -> None:
    """A row has come: in deviations off the mean of all so far."""
    for i in range(x.size):
        add_around_mean(m.inputs, i, x[i])
        off = (x[i] - m.inputs[MEAN, i]) / deviation_in(m.inputs, i)
        m.z[1 + i] = min(max(off, -FARTHEST), FARTHEST)
    set_pairs(m.z[1:], m.pairs[1:])


@exact
def expect_linear(m: Any, s: Any, model: int, w: Any, z: Any) -> None:
    """The evidence w z."""
    for a in range(m.seen.size):
        s.evidence[model, a] = product(w[a], z[: w.shape[1]])
    weigh(m, s, model, 0.0)


@exact
def expect_bayes(m: Any, s: Any) -> None:
    """The evidence log N(z; centres, spreads), beside log(seen + 1/2). Columns that do not vary say nothing."""
    evidence, targets = s.evidence[BAYES], max(m.counts[TARGETS], 1.0)
    evidence[:] = 0.0
    for i in range(m.inputs.shape[1]):
        pooled = 0.0
        for a in range(m.seen.size):
            pooled += m.spreads[a, i]
        pooled /= targets
        if pooled < CONSTANT:
            continue
        for a in range(m.seen.size):
            variance = max((m.spreads[a, i] + POOLED * pooled) / (m.seen[a] + POOLED), LEAST_VARIANCE)
            evidence[a] -= (math.log(variance) + (m.z[1 + i] - m.centres[a, i]) ** 2 / variance) / 2
    weigh(m, s, BAYES, 1.0)


@exact
def weigh(m: Any, s: Any, model: int, prior: float) -> None:
    """q ~ (seen + 1/2)^prior e^(power evidence), p = (1 - lapse) q + lapse / labels, over the labels that have come;
    the others share what a new one has, 1 / (targets + 2).
    """
    q, p, labels = s.q[model], s.p[model], m.seen.size
    peak, whole, come = -np.inf, 0.0, 0
    for a in range(labels):
        if m.seen[a] > 0:
            q[a] = prior * math.log(m.seen[a] + 0.5) + m.power[model] * s.evidence[model, a]
            peak, come = max(peak, q[a]), come + 1
    for a in range(labels):
        q[a] = math.exp(max(q[a] - peak, -30.0)) if m.seen[a] > 0 else 0.0
        whole += q[a]
    new = 0.0 if come == labels else 1.0 if come == 0 else 1 / (m.counts[TARGETS] + 2)
    for a in range(labels):
        if m.seen[a] > 0:
            q[a] /= whole
            p[a] = (1 - new) * ((1 - m.lapse[model]) * q[a] + m.lapse[model] / come)
        else:
            p[a] = new / (labels - come)


@exact
def expect_each(m: Any, s: Any) -> None:
    """What each model expects."""
    expect_linear(m, s, LINEAR, m.w, m.z)
    expect_linear(m, s, PAIRS, m.pairs_w, m.pairs)
    expect_bayes(m, s)


@exact
def expect(m: Any, s: Any, y_hats: Any) -> None:
    """log p of each label, by each model."""
    expect_each(m, s)
    for model in range(s.p.shape[0]):
        for a in range(m.seen.size):
            y_hats[model, a] = math.log(s.p[model, a])


@exact
def learn_label(m: Any, s: Any, y: int) -> None:
    """All models take in the label of the last row, of which `s` has what they expected."""
    for model in range(s.p.shape[0]):
        if m.seen[y] > 0:
            learn_trust(m, s, model, y)
    m.counts[TARGETS] += 1
    m.seen[y] += 1
    learn_linear(m, s, LINEAR, (m.p, m.w, m.z), y)
    learn_linear(m, s, PAIRS, (m.pairs_p, m.pairs_w, m.pairs), y)
    for i in range(m.inputs.shape[1]):
        off = m.z[1 + i] - m.centres[y, i]
        m.centres[y, i] += off / m.seen[y]
        m.spreads[y, i] += off * (m.z[1 + i] - m.centres[y, i])


@exact
def learn_trust(m: Any, s: Any, model: int, y: int) -> None:
    """log power and log lapse move up the slope of log p(y)."""
    mean, come = 0.0, 0
    for a in range(m.seen.size):
        if m.seen[a] > 0:
            mean, come = mean + s.q[model, a] * s.evidence[model, a], come + 1
    power, lapse, q = m.power[model], m.lapse[model], s.q[model, y]
    p = (1 - lapse) * q + lapse / come
    slope = (1 - lapse) * q / p * power * (s.evidence[model, y] - mean)
    m.power[model] = min(max(power * math.exp(PACE * min(max(slope, -1.0), 1.0)), LEAST_POWER), MOST_POWER)
    slope = lapse * (1 / come - q) / p
    m.lapse[model] = min(max(lapse * math.exp(LAPSE_PACE * min(max(slope, -1.0), 1.0)), LEAST_LAPSE), MOST_LAPSE)


@exact
def learn_linear(m: Any, s: Any, model: int, known: Any, y: int) -> None:
    """1/P <- forget/P + c z z^T, w_a <- w_a + P z (1{a = y} - p_a): p = softmax(w z), c the largest p_a (1 - p_a)."""
    covariance, w, features = known
    p, evidence, size = s.q[model], s.evidence[model], w.shape[1]
    curvature = set_softmax(m.seen, evidence, p)
    root, z, pz = math.sqrt(max(curvature, LEAST_CURVATURE)), s.z[:size], s.pz[:size]
    for i in range(size):
        z[i] = root * features[i]
    whole = gain(covariance, z, pz, FORGET)
    for a in range(m.seen.size):
        if m.seen[a] > 0:
            learn(w[a], pz, whole, ((1.0 if a == y else 0.0) - p[a]) / root)


@exact
def set_softmax(seen: Any, evidence: Any, p: Any) -> Any:
    """p = softmax(evidence), over the labels that have come: the largest p (1 - p)."""
    peak, whole, curvature = -np.inf, 0.0, 0.0
    for a in range(p.size):
        peak = max(peak, evidence[a] if seen[a] > 0 else -np.inf)
    for a in range(p.size):
        p[a] = math.exp(max(evidence[a] - peak, -30.0)) if seen[a] > 0 else 0.0
        whole += p[a]
    for a in range(p.size):
        p[a] /= whole
        curvature = max(curvature, p[a] * (1 - p[a]))
    return curvature


@entry(SOURCES, EXACT)
def read_rows(m: Any, s: Any, rows: Any, learning: bool, y_hats: Any) -> None:
    """Rows and the labels after them: log p of each label, by each model, (models, rows, labels)."""
    x, y, seen = rows
    for t in range(y.size):
        take_row(m, x[t])
        expect(m, s, y_hats[:, t])
        if seen[t] and learning:
            learn_label(m, s, y[t])


@entry(SOURCES, EXACT)
def begin_label(m: Any, x: Any) -> None:
    """A row has come."""
    take_row(m, x)


@entry(SOURCES, EXACT)
def expect_label(m: Any, s: Any, y_hats: Any) -> None:
    """log p of each label after it."""
    expect(m, s, y_hats)


@entry(SOURCES, EXACT)
def end_label(m: Any, s: Any, y: int) -> None:
    """Its label has come."""
    expect_each(m, s)
    learn_label(m, s, y)


class LabelModels:
    """All models at work."""

    def __init__(self, state: LabelState, learning: bool):
        self._learning = learning
        self.become(state)

    def become(self, state: LabelState) -> None:
        self._inputs, self._labels = map(int, state.sizes)
        self._rows = _unpack(state)
        features, each = max(self._rows.z.size, self._rows.pairs.size), (len(NAMES), self._labels)
        self._scratch = Scratch(np.zeros(features), np.zeros(features), *(np.zeros(each) for _ in range(3)))

    def state(self) -> LabelState:
        return _pack(self._inputs, self._labels, self._rows)

    def read(self, x: np.ndarray, y: np.ndarray, seen: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Learn from rows and labels: what was expected of each."""
        y_hats = np.zeros((len(NAMES), len(y), self._labels), dtype)
        rows = np.ascontiguousarray(x, float), y, seen
        read_rows(self._rows, self._scratch, rows, self._learning, y_hats)
        return y_hats

    def advance(self, x: np.ndarray) -> None:
        """A row has come."""
        begin_label(self._rows, np.ascontiguousarray(x, float))

    def predict(self, dtype: np.dtype) -> np.ndarray:
        """What is expected of its label."""
        y_hats = np.zeros((len(NAMES), self._labels), dtype)
        expect_label(self._rows, self._scratch, y_hats)
        return y_hats

    def observe(self, y: int) -> None:
        """Its label has come."""
        if self._learning:
            end_label(self._rows, self._scratch, y)

    def past(self) -> list[np.ndarray]:
        """What `restore_past` needs to take back a row."""
        return [array.copy() for array in self._rows[:OF_A_ROW]]

    def restore_past(self, past: list[np.ndarray]) -> None:
        for array, before in zip(self._rows, past, strict=False):
            array[...] = before
