"""A verdict on each sentence that the paper says of its figures."""

from nobacktrack.experiments.paper.claims import anbn, music, text
from nobacktrack.experiments.paper.claims.judging import JUDGES, Verdict, verdicts

__all__ = ["JUDGES", "Verdict", "anbn", "music", "text", "verdicts"]
