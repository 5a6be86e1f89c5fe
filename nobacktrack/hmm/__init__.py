"""Hidden Markov models by online EM, exactly or with its largest statistic carried by the rank-one trick [NBT, section
1.4, "Algorithms similar to RTRL"; Cappe 2011, *Online EM algorithm for hidden Markov models*].

Online EM carries, for each state x that the chain may be in now, the expected statistics of the past given that it is
there: rho_x, with k^2 entries for the transitions, so k^3 in all. They obey an affine recursion, like dh/dtheta does,
whose new term is a sum of k rank-one pieces. Reducing rho itself does not converge: it is its mean S that matters, and
the noise is of the order of S. So S is carried as it is, and the trick is applied to the deviations rho_x - S alone.
"""

from .em import OnlineEM
from .model import HMM, Belief, Categorical, Chain, Normal
from .statistics import Exact, Reduced, Sums

__all__ = ["HMM", "Belief", "Categorical", "Chain", "Exact", "Normal", "OnlineEM", "Reduced", "Sums"]
