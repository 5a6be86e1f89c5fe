"""One measurement a file, read from top to bottom: `python -m experiments.balancing`, from the root of the project.

They are not part of the package; those that commands run (`bench`, `compare`, `demo`, `reproduce`) are in
`nobacktrack/experiments`.
"""
