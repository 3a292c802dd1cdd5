"""A small logistic regression: enough to weigh a dozen features of a thousand questions. Pure, but for numpy."""

from typing import Any

import numpy as np

__all__ = ["auroc", "logistic", "logits"]

Array = np.ndarray[Any, Any]
RIDGE = 3.0


def logistic(inputs: Array, told: Array) -> Array:
    """Weights by Newton's method with a ridge, for `inputs` [n, features] of like spread; the intercept comes first and
    is free."""
    design = np.column_stack([np.ones(len(inputs)), inputs])
    ridge = RIDGE * np.eye(design.shape[1])
    ridge[0, 0] = 0.0
    weights = np.zeros(design.shape[1])
    for _ in range(30):
        likely = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (likely - told) + ridge @ weights
        curve = (design * (likely * (1 - likely))[:, None]).T @ design + ridge
        weights = weights - np.linalg.solve(curve, slope)
    return weights


def logits(inputs: Array, weights: Array) -> Array:
    """What `weights` make of `inputs`, before the sigmoid."""
    made: Array = np.column_stack([np.ones(len(inputs)), inputs]) @ weights
    return made


def auroc(yes: Array, no: Array) -> float:
    """The chance that one of `yes` is above one of `no`; ties count half."""
    return float((yes[:, None] > no[None, :]).mean() + 0.5 * (yes[:, None] == no[None, :]).mean())
