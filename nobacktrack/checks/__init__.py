"""What every system, estimator, update and learner must satisfy: run them on your own.

Each check returns what it measured, and raises AssertionError where it fails. Use float64
(`jax.config.update("jax_enable_x64", True)`) for the exact ones. Estimators are compared online, through `advance`:
differentiating a whole sequence would return the gradient of backpropagation for any of them.

`LEARNER_CHECKS` are those that any learner must pass, to be taken one by one, as in

    @pytest.mark.parametrize("check", nbt.checks.LEARNER_CHECKS, ids=lambda check: check.__name__)
    def test_mine(check):
        check(learner, state, stream)
"""

from .comparison import expect_close, same_bits
from .engines import check_engines
from .estimators import (
    along,
    check_one_step,
    check_rtrl,
    check_unbiased,
    estimated_influence,
    exact_influence,
    mean_over_signs,
    step_flops,
    summed_gradients,
    unrolled_gradient,
)
from .learners import LEARNER_CHECKS, check_learner

__all__ = [
    "LEARNER_CHECKS",
    "along",
    "check_engines",
    "check_learner",
    "check_one_step",
    "check_rtrl",
    "check_unbiased",
    "estimated_influence",
    "exact_influence",
    "expect_close",
    "mean_over_signs",
    "same_bits",
    "step_flops",
    "summed_gradients",
    "unrolled_gradient",
]
