from pathlib import Path

import numpy as np
import pytest
import torch

from cameraready.claims import Claim, Run
from cameraready.lightsb.baselines import SF2M, SinkhornBridge, bridge_correlation
from cameraready.lightsb.claims import (
    experiment,
    fitted_correlation,
    n_parameters,
    opposed,
    principal_components,
)


def test_the_experiment_runs_from_end_to_end(tmp_path: Path) -> None:
    events: list[dict] = []
    with Run("lightsb", "smoke", parts=tmp_path, emit=events.append) as run:
        claims = list(experiment(run))
    assert all(isinstance(claim, Claim) for claim in claims)
    keys = [claim.key for claim in claims]
    assert len(set(keys)) == len(keys)
    for key in (
        "projection-independent",
        "projection-ordinary",
        "objectives-gradients",
        "mixture-2-1-energy",
        "light-2-1-dsbm",
        "muscle-24-72-0.1-10-all-copy",
        "digits-class",
    ):
        assert key in keys
    # The package with the embryos is not in the test's own cache.
    embryo = next(claim for claim in claims if claim.key.startswith("embryo"))
    assert "r-bioc-destiny" in embryo.not_testable
    figures = [event["name"] for event in events if event["event"] == "figure"]
    assert figures == ["one projection", "known plans", "cells", "digits", "swiss roll"]


def test_the_smallest_budget_keeps_torch_threads(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    with Run("lightsb", "smoke", parts=tmp_path) as run:
        claims = experiment(run)
        next(claims)
        claims.close()
    assert torch.get_num_threads() == before


def test_opposed_pairs_the_smallest_with_the_largest() -> None:
    x0, x1 = np.array([[2.0], [0.0], [1.0]]), np.array([[5.0], [7.0], [6.0]])
    i, j = opposed(x0, x1, np.random.default_rng(0))
    assert x0[i, 0].tolist() == [0.0, 1.0, 2.0]
    assert x1[j, 0].tolist() == [7.0, 6.0, 5.0]


@pytest.mark.parametrize("plan", ["independent", "true"])
def test_the_fitted_correlation_is_near_the_bridges(plan: str) -> None:
    found = fitted_correlation((plan, 0, 0, 20_000, 600))
    assert abs(found - bridge_correlation(1.0)) < 0.02


def test_principal_components_have_unit_spread_over_the_rows_they_are_fitted_to() -> None:
    table = np.random.default_rng(0).normal(size=(40, 15)) * np.arange(1, 16)
    fitted = np.arange(40) < 25
    points = principal_components(table, fitted)
    assert points.shape == (40, 10)
    assert points[fitted].std(0).mean() == pytest.approx(1.0)
    assert abs(points[fitted].mean(0)).max() < 1e-12


def test_parameters_are_those_of_the_networks() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    network = SF2M(hidden=(4,), max_iter=1, random_state=0).fit(x, x)
    assert n_parameters(network) == 2 * ((5 * 4 + 4) + (4 * 2 + 2))
    assert n_parameters(SinkhornBridge(1.0, random_state=0).fit(x, x)) == 0
