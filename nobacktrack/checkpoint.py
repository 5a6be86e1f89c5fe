"""A learner and its state in one file and back, bit for bit: safetensors for the arrays, JSON for the rest, a digest
of both, no pickle.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from . import __version__, committee, estimators, files, guards, hmm, protocol, registry, systems, together, updates
from .learner import System
from .protocol import State, Tree
from .verbs import AbstractLearner

FORMAT = 6
HEADER = "nobacktrack"

# Modules whose classes a file may name: they are registered when they are imported.
_REGISTERED = committee, estimators, hmm, systems, together, updates


class Checkpoint(NamedTuple):
    """What a file held; `notes` is what was saved beside the state (an alphabet, a place in a file)."""

    learner: Any
    state: State
    notes: dict[str, Any]


def save(path: str | Path, learner: AbstractLearner, state: State, notes: dict[str, Any] | None = None) -> None:
    """Write a checkpoint, atomically: the file is the old one or the new one, never half of it."""
    arrays: dict[str, np.ndarray] = {}
    parts = {name: value for name, value in state._asdict().items() if name != "update"}
    header = {
        "format": FORMAT,
        "version": __version__,
        "t": state.steps,
        "repr": repr(learner),
        "learner": _describe(learner),
        "state": {name: _skeleton(value, f"state.{name}", arrays) for name, value in parts.items()},
        "notes": notes or {},
    }
    _add_leaves(arrays, "state.update", state.update)  # shaped by the update itself when it is read
    header["digest"] = _digest(header, arrays)
    files.write(path, safetensors.numpy.save(arrays, {HEADER: json.dumps(header)}))


def load(path: str | Path, learner: AbstractLearner | None = None, like: State | None = None) -> Checkpoint:
    """Read a checkpoint. A learner made of your own functions is passed in; a state with classes of your own needs
    one `like` it.
    """
    header, arrays = _read(Path(path))
    found = _make_learner(header, path) if learner is None else learner
    state = _make_state(header["state"], arrays, path, found) if like is None else _fill(like, "state", arrays, path)
    return Checkpoint(found, state, header["notes"])


def _make_learner(header: dict[str, Any], path: str | Path) -> Any:
    if header["learner"] is None:
        raise ValueError(f"{path}: made of functions or optimisers of your own, pass the learner in: {header['repr']}")
    return _make(header["learner"], path)


def inspect(path: str | Path) -> dict[str, Any]:
    """What a file says of itself, once it is found whole; nothing is made of it."""
    header, arrays = _read(Path(path))
    return {
        "learner": header["repr"],
        "t": header["t"],
        "arrays": len(arrays),
        "numbers": sum(array.size for array in arrays.values()),
        "version": header["version"],
        "format": header["format"],
        "digest": _digest(header, arrays),
        "notes": header["notes"],
    }


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays, as they were written."""
    try:
        with safetensors.safe_open(path, "numpy") as file:
            header = json.loads((file.metadata() or {})[HEADER])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            found, digest = header["format"], header.pop("digest", None)
            whole = found != FORMAT or digest == _digest(header, arrays)
    except IsADirectoryError:
        raise ValueError(f"{path}: a folder, not a checkpoint") from None
    except _DAMAGE as error:
        raise ValueError(f"{path}: not a checkpoint, or damaged ({type(error).__name__}: {error})") from None
    if found != FORMAT:
        raise ValueError(f"{path}: checkpoint format {found}, this version reads {FORMAT}")
    if not whole:
        raise ValueError(f"{path}: damaged: its contents are not those that were written (the digest differs)")
    return header, arrays


# What reading a file may end in that is not what `save` wrote; an OSError (no file, no permission) speaks for itself.
_DAMAGE = (
    *(safetensors.SafetensorError, json.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError),
    *(UnicodeError, RecursionError, OverflowError),
)


def _digest(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of all that a file says."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _describe(value: Any) -> Any:
    """A configuration as JSON, or None if part of it is a function or an array."""
    if isinstance(value, np.floating):
        return {"value": float(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, tuple):
        items = [_describe(item) for item in value]
        return None if None in items else {"tuple": items}
    if isinstance(value, systems.Graph):
        return {"class": "Graph", "fields": {"edges": {"value": value.pairs()}, "units": {"value": value.units}}}
    if not dataclasses.is_dataclass(value) or not registry.is_registered(type(value)):
        return None
    fields = {field.name: _describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return None if None in fields.values() else {"class": registry.name_of(type(value)), "fields": fields}


def _make(description: dict[str, Any], path: str | Path) -> Any:
    """A configuration from what `_describe` said."""
    if "value" in description:
        return description["value"]
    if "tuple" in description:
        return tuple(_make(item, path) for item in description["tuple"])
    fields = {name: _make(field, path) for name, field in description["fields"].items()}
    return _instance(description["class"], fields, path)


def _instance(name: str, fields: dict[str, object], path: str | Path) -> object:
    """What a file says of one of its classes, which may have had other fields when it was written."""
    try:
        return _class(name, path)(**fields)
    except TypeError as error:
        raise ValueError(
            f"{path}: written by another version, whose {name} is not that of this one ({error})"
        ) from None


def _class(name: str, path: str | Path) -> Any:
    if name == "Graph":
        return systems.Graph
    try:
        return registry.lookup(name)
    except KeyError:
        raise ValueError(f"{path}: unknown class {name!r}; import the module that defines it first") from None


def _skeleton(tree: Tree, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The shape of a tree as JSON; its arrays go into `arrays` under the path of their leaf."""
    if tree is None:
        return None
    if isinstance(tree, tuple) and hasattr(tree, "_asdict"):
        return _record_skeleton(tree, name, arrays)
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return {"dict": {key: _skeleton(value, f"{name}.{key}", arrays) for key, value in tree.items()}}
    if type(tree) in (list, tuple):
        items = [_skeleton(value, f"{name}.{i}", arrays) for i, value in enumerate(tree)]
        return {"list" if type(tree) is list else "tuple": items}
    if jax.tree_util.all_leaves([tree]):
        _add_leaves(arrays, name, tree)
        return {"array": name}
    _add_leaves(arrays, name, tree)
    return {"opaque": type(tree).__name__}


def _record_skeleton(tree: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The same of a NamedTuple; one that could not be read back is refused."""
    cls = type(tree)
    if not registry.is_registered(cls):
        where = f"{name}: {cls.__name__} is not a record that a checkpoint may hold"
        raise ValueError(f"{where}; decorate its class with nobacktrack.registry.register")
    fields = {key: _skeleton(value, f"{name}.{key}", arrays) for key, value in tree._asdict().items()}
    return {"class": registry.name_of(cls), "fields": fields}


def _add_leaves(arrays: dict[str, np.ndarray], name: str, tree: Tree) -> None:
    """The arrays of a tree, each under its path."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        where = _leaf_name(name, path)
        if where in arrays:
            raise ValueError(f"two arrays of the state would be called {where!r}: rename a key that holds a dot")
        arrays[where] = np.asarray(leaf)


def _leaf_name(name: str, path: Any) -> str:
    suffix = jax.tree_util.keystr(path, simple=True, separator=".")
    return f"{name}.{suffix}" if suffix else name


def _make_state(skeletons: dict[str, Any], arrays: dict[str, np.ndarray], path: Any, learner: AbstractLearner) -> State:
    """A state from the skeletons of its parts; what an optimiser remembers is shaped by the optimiser itself."""
    parts = {name: _grow(value, arrays, path) for name, value in skeletons.items()}
    state = State(update=protocol.Moves((), ()), **parts)
    _expect_fit(learner, state, path)
    shapes = jax.eval_shape(learner.begin_moves, state.params, state.h, state.influence)
    updates = [_fill(shape, f"state.update.{group}", arrays, path) for group, shape in shapes._asdict().items()]
    return state._replace(update=protocol.Moves(*updates))


def _expect_fit(learner: Any, state: State, path: str | Path) -> None:
    """Refuse a state that another learner made."""
    if isinstance(learner, committee.Committee):
        return learner.expect_fit(lambda member, own: _expect_fit(member, own, path), state)
    try:
        if isinstance(learner, together.Together):
            dtype = jax.tree.leaves(state.h)[0].dtype
            fresh = jax.eval_shape(lambda: learner.init(0, dtype=dtype))
            mine, influence = (fresh.params.theta, fresh.params.phi, fresh.h), fresh.influence
        else:
            point = protocol.Point(state.params, state.h, state.params.fixed.x)
            influence = jax.eval_shape(lambda point: learner.estimator.init(learner.system, point), point)
            mine = _own(learner, state)
        guards.expect_like(state.influence, influence, "the influence saved", "the learner's")
        saved = state.params.theta, state.params.phi, state.h
        guards.expect_like(saved, mine, "(theta, phi, h) saved", "the learner's")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: made by another learner than {learner}: {error}") from None


def _own(learner: AbstractLearner, state: State) -> tuple[Any, ...]:
    """The shapes of theta, phi and h that a learner has: those of the state, where they are the user's own."""
    if isinstance(learner.system, System):
        return state.params.theta, state.params.phi, state.h
    dtype = jax.tree.leaves(state.h)[0].dtype
    params, h = jax.eval_shape(lambda: learner.system.init(jax.random.key(0), dtype))
    return params.theta, params.phi, h


def _grow(skeleton: Any, arrays: dict[str, np.ndarray], path: Any) -> Tree:
    if skeleton is None:
        return None
    (kind, value), *rest = skeleton.items()
    if kind == "class":
        return _instance(value, {key: _grow(item, arrays, path) for key, item in rest[0][1].items()}, path)
    if kind == "dict":
        return {key: _grow(item, arrays, path) for key, item in value.items()}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_grow(item, arrays, path) for item in value)
    if kind == "array":
        return _array(arrays, value, path)
    raise ValueError(f"{path}: holds a {value}, which is not a class of this library: pass a state that is `like` it")


def _fill(like: Tree, name: str, arrays: dict[str, np.ndarray], path: Any) -> Tree:
    """A tree of the file's arrays, shaped like another tree."""

    def fill(where: Any, leaf: Any) -> jax.Array:
        found = _array(arrays, _leaf_name(name, where), path)
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise ValueError(
                f"{path}: {_leaf_name(name, where)} is {jax.typeof(found)}, the learner needs {leaf.shape} {leaf.dtype}"
            )
        return found

    return jax.tree_util.tree_map_with_path(fill, like)


def _array(arrays: dict[str, np.ndarray], name: str, path: str | Path) -> jax.Array:
    if name not in arrays:
        raise ValueError(f"{path}: no array {name!r}; was it saved by another learner?")
    found = jnp.asarray(arrays[name])
    if found.dtype != arrays[name].dtype:
        raise ValueError(f"{path}: {name} is {arrays[name].dtype}; set JAX_ENABLE_X64=1 to read it")
    return found
