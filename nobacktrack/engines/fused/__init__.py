"""The fused engine: the whole online step in one compiled loop on the CPU.

| | |
|---|---|
| `session.py` | a learner at work |
| `support.py` | one table of what it runs, and why a learner is refused |
| `loops/` | an estimator a file: its pieces, observe, advance, restart, a State in and out |
| `kernels/` | the lines of the algorithm that loops share |
| `memory/` | how numbers lie, as views in kernels, and a State to them and back |
| `threads.py` | how many threads work on one step |
| `codes.py` | what is decided at run time |
"""

from pathlib import Path

SOURCES = Path(__file__).parent  # of the compiled loops: a change in any of these files compiles them anew
