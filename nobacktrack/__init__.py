"""NoBackTrack: train recurrent models on a live stream, with no backpropagation through time.

The public names are listed in `__init__.pyi`, once. Each comes from its module at first use: the command line must not
pay for jax where it does not need it.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
