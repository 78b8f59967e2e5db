"""The claims experiment, end to end at the smoke budget."""

import math

import numpy as np
import pytest

from cameraready.claims import Run, Verdict
from cameraready.minmax import claims

GAMES = ("Kuhn poker", "Gaussian 15×15")
KEYS = {
    *("rate-slope", "rate-bound", "rate-eg", "rate-ogda", "rate-pdhg", "rate-eag"),
    *(f"game-{game}-{part}" for game in GAMES for part in ("early", "late", "restarts")),
    *("game-value", "negative-slope", "negative-bound", "negative-others", "negative-diverge"),
    *("certificate-0", "certificate--0.2", "certificate--0.4"),
    *(
        "nearest-feg",
        "nearest-eag",
        "robust-auto",
        "least-squares",
        "linear-programs",
        "learners",
        "gan",
    ),
}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    events = []
    parts = tmp_path_factory.mktemp("parts")
    with Run("minmax", "smoke", parts=parts, emit=events.append) as run:
        found = list(claims.experiment(run))
    return {claim.key: claim for claim in found}, events


def test_every_claim_is_settled(smoke):
    found, _ = smoke
    assert set(found) == KEYS
    assert all(claim.verdict in Verdict for claim in found.values())
    assert all(math.isfinite(claim.measured.value) for claim in found.values())


def test_what_theory_promises_at_any_size_holds(smoke):
    found, _ = smoke
    for key in (
        "rate-bound",
        "negative-bound",
        "negative-diverge",
        "certificate-0",
        "certificate--0.2",
        "certificate--0.4",
        "nearest-feg",
        "nearest-eag",
        "game-value",
        "least-squares",
        "linear-programs",
    ):
        assert found[key].verdict is Verdict.HOLDS, found[key]


def test_figures_are_drawn(smoke):
    _, events = smoke
    assert {e["name"] for e in events if e["event"] == "figure"} == {
        "rates",
        "games",
        "negative",
        "trajectories",
    }


def test_the_box_problem_is_what_its_words_say():
    problem, distance = claims.box_problem(0, 20)
    values = np.linalg.svd(problem.A, compute_uv=False)
    assert values.max() == pytest.approx(1.0)
    assert values.min() == pytest.approx(1e-3)
    assert distance == pytest.approx(np.linalg.norm(problem.z0))


def test_the_rotation_is_comonotone_with_the_rho_that_is_said():
    a, b = claims.RHO, math.sqrt(1 - claims.RHO**2)
    inverse = np.linalg.inv(np.array([[a, b], [-b, a]]))
    assert np.linalg.eigvalsh((inverse + inverse.T) / 2).min() == pytest.approx(claims.RHO)


def test_the_robust_problems_constant_is_one():
    problem, constant = claims.cancer()
    generator = np.random.default_rng(0)
    n = problem.split
    for _ in range(20):
        u, v = (
            np.concatenate(
                [generator.normal(size=n), generator.dirichlet(np.ones(len(problem.z0) - n))]
            )
            for _ in range(2)
        )
        change = np.linalg.norm(problem.operator(u) - problem.operator(v))
        assert change <= constant * np.linalg.norm(u - v)
