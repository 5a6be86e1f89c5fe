"""How parameters move."""

from .gradient import SGD, Frozen, Optax

__all__ = ["SGD", "Frozen", "Optax"]
