"""The claims experiment at its smallest."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from cameraready.change_detection import claims
from cameraready.claims import Run
from cameraready.claims.claim import Claim, Verdict


def smoke(folder, seed=0):
    events = []
    with Run("change_detection", "smoke", seed, parts=folder, emit=events.append) as run:
        found = list(claims.experiment(run))
    return SimpleNamespace(claims=found, events=events, folder=folder)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    return smoke(tmp_path_factory.mktemp("parts"))


def of(event, kind):
    return [e for e in event.events if e["event"] == kind]


STREAMS = ("Gaussian", "Bernoulli(.3)", "Beta", "dependent")
# What the section "Claims experiment" of the specification and the definition of done ask for.
ROWS = {
    "1 run lengths": {
        f"arl-{detector}-{stream}"
        for detector in (
            "composite SR",
            "composite CUSUM",
            "repeated EB",
            "repeated sub-Gaussian",
        )
        for stream in STREAMS
    },
    "2 delays": {
        "delay-sr-0.4-0.6",
        "delay-sr-0.3-0.5",
        *(
            f"delay-sr-{kind}-{a}-{b}"
            for kind in ("default", "calibrated")
            for a, b in ((0.4, 0.6), (0.3, 0.5), (0.4, 0.45))
        ),
        "delay-order-repeated betting",
        "delay-order-repeated EB",
        "delay-eb",
    },
    "3 threshold detectors": {
        "rare-SR, 1/alpha = 10000",
        "rare-CUSUM, 1/alpha = 1000",
        "rare-EB, 1/alpha = 1000",
        "rare-sr-used-up",
    },
    "4 classifier": {
        "digits-noise",
        "digits-dimming",
        "digits-shift by a pixel",
        "digits-best-noise",
        "digits-best-dimming",
        "digits-best-shift by a pixel",
        "digits-false-alarms",
    },
    "5 Nile": {"nile-alarm", "nile-interval"},
    "6 functionals": {
        *(f"functional-{n}" for n in ("distribution", "quantile", "regression", "two-sample")),
        "functional-mean-silent",
    },
    "7 parallel": {"pathwise"},
    "done 5": {"engine-delay", "engine-active"},
    "done 10": {"place-0", "place-1"},
}


def test_every_row_of_the_specification_is_there_once(once):
    keys = [claim.key for claim in once.claims]
    assert len(keys) == len(set(keys))
    for row, wanted in ROWS.items():
        assert wanted <= set(keys), row
    assert set(keys) - set().union(*ROWS.values()) == {"functional-mean"}


def test_every_claim_has_its_verdict_and_survives_json(once):
    for claim in once.claims:
        assert isinstance(claim.verdict, Verdict)
        assert claim.verdict is not Verdict.NOT_TESTABLE, claim.key
        assert claim.statement
        assert not math.isnan(claim.measured.value), claim.key
        again = Claim.from_json(claim.to_json())
        assert again == claim
        assert again.verdict == claim.verdict


@pytest.mark.parametrize(
    "key", ["pathwise", "nile-alarm", "nile-interval", "engine-active", "delay-sr-0.4-0.6"]
)
def test_what_does_not_depend_on_the_budget_holds(once, key):
    (claim,) = (claim for claim in once.claims if claim.key == key)
    assert claim.verdict is Verdict.HOLDS, claim


def test_the_bounds_of_the_theorem_are_finite_and_kept(once):
    for claim in once.claims:
        if claim.key.startswith("functional-") and claim.key != "functional-mean-silent":
            assert math.isfinite(claim.criterion.bound), claim.key
            assert claim.verdict in (Verdict.HOLDS, Verdict.WITHIN_NOISE), claim


@pytest.mark.parametrize("name", claims.WORDS)
@pytest.mark.parametrize("arl", [100.0, 1000.0])
def test_a_bound_of_the_theorem(name, arl):
    before = claims.WORDS[name][1]
    bound = claims.theorem(name, arl, before)
    u = (bound * (1 - 1 / arl) - 2) / 1.2
    assert u == pytest.approx(round(u))
    assert 1 <= u < 4000  # what the streams have after the change
    assert claims.theorem(name, arl, 2 * before) <= bound


def test_the_bound_for_means_is_that_of_plan():
    from cameraready.change_detection import cs, plan

    found = plan(1000, 1.0, cs.Gaussian(), before=2000)
    assert claims.theorem("mean", 1000.0, 2000) == pytest.approx(found.delay_bound)


def test_baselines_are_rivers_at_default_and_calibrated(once):
    by_key = {claim.key: claim for claim in once.claims}
    for kind in ("default", "calibrated"):
        name = by_key[f"delay-sr-{kind}-0.4-0.6"].baseline_name
        peers = claims.DEFAULTS if kind == "default" else claims.CALIBRATED
        assert name in {f"{peer} ({kind})" for peer in peers}
    for key in ("rare-SR, 1/alpha = 10000", "digits-false-alarms"):
        assert "DDM" in by_key[key].baseline_name
    assert "ADWIN" in by_key["digits-noise"].baseline_name
    names = [event["name"] for event in of(once, "setting")]
    for peer in claims.CALIBRATED:
        for mean in (0.3, 0.4):
            assert f"{peer}, calibrated at mean {mean}" in names


def test_the_figures_are_drawn_for_both_pages(once):
    figures = {event["name"]: event for event in of(once, "figure")}
    assert set(figures) == {"run-lengths", "delays", "nile"}
    for figure in figures.values():
        assert figure["caption"]
        assert set(figure["files"]) == {"light.svg", "dark.svg", "light.png"}
        assert all(figure["files"].values())


def test_progress_is_told(once):
    progress = of(once, "progress")
    assert {event["description"] for event in progress} >= {
        "run lengths without a change",
        "delays after a change",
        "digits monitor",
        "any functional",
    }
    for event in progress:
        assert 0 <= event["done"] <= event["total"]


def test_the_same_seed_gives_the_same_figures(once, tmp_path):
    again = smoke(tmp_path)
    assert [c.to_json() for c in again.claims] == [c.to_json() for c in once.claims]
    for one, other in zip(of(once, "figure"), of(again, "figure"), strict=True):
        assert one["files"]["light.png"] == other["files"]["light.png"]


def test_kept_parts_are_not_computed_again(once, monkeypatch):
    def never(*arguments):
        raise AssertionError("was computed again")

    for name in ("run_length_task", "delay_task", "classifier_task", "functional_task"):
        monkeypatch.setattr(claims, name, never)
    again = smoke(once.folder)
    assert [c.to_json() for c in again.claims] == [c.to_json() for c in once.claims]


# The data and the peers.


@pytest.mark.parametrize("name", STREAMS)
def test_unchanged_streams_stay_in_range_with_their_mean(name):
    x = claims.unchanged(name, np.random.default_rng(0), 20_000)
    assert x.shape == (20_000,)
    assert x.min() >= 0
    assert x.max() <= 1
    assert abs(x.mean() - claims.MEANS[name]) < 5 * x.std() / math.sqrt(len(x))


def test_the_dependent_stream_depends_on_its_past_in_spread_alone():
    x = claims.unchanged("dependent", np.random.default_rng(0), 20_000) - 0.5
    size = np.abs(x)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(size[:-1], size[1:])[0, 1]) > 0.1
    for wide in (size[:-1] > 0.08, size[:-1] <= 0.08):
        assert abs(x[1:][wide].mean()) < 5 * x.std() / math.sqrt(wide.sum())


def test_a_changed_distribution_keeps_its_mean_and_variance():
    x = claims.functional_stream("distribution", np.random.default_rng(0), 20_000, 20_000)
    for part in np.split(x, 2):
        assert abs(part.mean()) < 0.04
        assert abs(part.var() - 1) < 0.06


@pytest.mark.parametrize("name", ["ADWIN", "PageHinkley", "DDM"])
def test_peers_count_from_one(name):
    stream = np.repeat([0.0, 1.0], [300, 300])
    alarm = claims.peer_alarm(name, None, stream)
    assert 300 < alarm <= 400
    assert claims.peer_alarm(name, None, stream[: alarm - 1]) is None
    assert claims.peer_alarm(name, None, stream[:alarm]) == alarm
