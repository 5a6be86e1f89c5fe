"""`python -m nobacktrack`."""

from .cli import main

main()
