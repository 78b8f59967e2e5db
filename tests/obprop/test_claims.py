"""The claims experiment, end to end at the smoke budget."""

import math

import numpy as np
import pytest

from cameraready.claims import Run, Verdict
from cameraready.obprop import claims

KEYS = {
    *("heads-top", "heads-overlap", "heads-ranks", "heads-sizes", "heads-objects"),
    *("norms-paths", "norms-layernorm", "norms-rmsnorm", "norms-bound"),
    *("coupling-slope", "coupling-line", "coupling-others"),
    *(
        "few-level",
        "few-propagated",
        "few-ridge",
        "few-mean",
        "few-das-2",
        "few-gradient",
        "few-gradients",
    ),
    *("few-crossing", "shared-cosine", "shared-control", "shared-bias", "shared-pronoun"),
    *("party-ridge-2", "party-ridge-4", "party-mean-2", "party-mean-4", "party-gradient"),
    "party-propagated",
    *("code-two", "code-four", "code-ten"),
    *(
        "debias-gap",
        "debias-random",
        "debias-mean",
        "debias-gradient",
        "debias-perplexity",
        "debias-propagated",
    ),
    *("layernorm-paths", "layernorm-heads"),
}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    events = []
    parts = tmp_path_factory.mktemp("parts")
    with Run("obprop", "smoke", parts=parts, emit=events.append) as run:
        found = list(claims.experiment(run))
    return {claim.key: claim for claim in found}, events


def test_every_claim_is_settled(smoke):
    found, _ = smoke
    assert set(found) == KEYS
    assert all(claim.verdict in Verdict for claim in found.values())
    assert all(math.isfinite(claim.measured.value) for claim in found.values())


def test_the_angles_agree_with_the_closed_form(smoke):
    found, _ = smoke
    for key in ("norms-layernorm", "norms-rmsnorm"):
        measured = found[key].measured
        assert abs(measured.value - 1) < 4 * measured.standard_error
    assert found["norms-bound"].verdict is Verdict.HOLDS


def test_figures_are_drawn(smoke):
    _, events = smoke
    assert {e["name"] for e in events if e["event"] == "figure"} == {
        *("heads", "coupling", "few-labels", "parties", "debiasing"),
    }


def test_a_comparison_is_judged_by_its_pairs():
    ours, rival = [0.50, 0.60, 0.70], [0.45, 0.54, 0.66]
    claim = claims.against("key", "ours is larger", ours, rival, "rival")
    assert claim.verdict is Verdict.HOLDS
    assert claim.paired_standard_error == pytest.approx(np.std([0.05, 0.06, 0.04], ddof=1) / 3**0.5)
    # Each alone spreads more than that.
    assert claim.measured.standard_error > 5 * claim.paired_standard_error
    assert claims.against("key", "ours", rival, ours, "rival").verdict is Verdict.DOES_NOT_HOLD


def test_the_best_layer_is_that_of_the_mean():
    assert claims.best_layer([{"1": 0.9, "4": 0.5}, {"1": 0.1, "4": 0.6}]) == "4"


def test_a_gap_is_female_less_male_with_its_error():
    values = np.array([3.0, 5.0, 1.0, 1.0])
    assert claims.gap(values) == 3.0
    assert claims.gap_error(values) == pytest.approx(1.0)


def test_the_error_of_one_value_is_unknown():
    assert claims.standard_error([1.0]) is None
    assert claims.measured_mean([1.0], "r²").standard_error is None
