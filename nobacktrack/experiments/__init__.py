"""One short file per experiment, to be read from top to bottom."""
