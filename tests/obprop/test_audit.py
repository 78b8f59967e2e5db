import numpy as np
import pytest
import torch

from cameraready.obprop.audit import AFTER, BEFORE, CONTROL, audit
from cameraready.obprop.coupling import cosine, coupling
from cameraready.obprop.evaluation import observable_values, perplexity
from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import contribution, head_norms
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.report import audit_page
from cameraready.obprop.steering import Steer, mean_score

TEMPLATES = {"she-he": ["So, NAME really is", "NAME was here"], "doctor": ["NAME is a great"]}
NAMES = {"Mary": "female", "John": "male", "Anna": "female", "Peter": "male"}
NEUTRAL = ["The nurse was here today", "So, the doctor is great", "The politician is here"]


@pytest.fixture
def observables(tokenizer):
    return [
        Observable.from_tokens(tokenizer, [" she"], [" he"]),
        Observable.from_tokens(tokenizer, [" doctor"], [" nurse"], name="doctor"),
    ]


@pytest.fixture
def result(llama, observables):
    return audit(llama, observables, TEMPLATES, NAMES, NEUTRAL)


def test_gaps_and_costs_are_those_of_the_model_itself(llama, observables, result):
    mean = mean_score(llama, result.feature, NEUTRAL, skip=1)
    steer = Steer(llama, result.feature, "center", tokens=slice(1, None), mean=mean)
    for condition in (BEFORE, AFTER):
        if condition == AFTER:
            steer.__enter__()
        for observable in observables:
            for template in TEMPLATES[observable.name]:
                values = observable_values(
                    llama, observable, [template.replace("NAME", name) for name in NAMES]
                )[:, 0]
                rows = result.gaps[
                    (result.gaps.observable == observable.name)
                    & (result.gaps.template == template)
                    & (result.gaps.condition == condition)
                ]
                wanted = values[[0, 2]].mean() - values[[1, 3]].mean()
                assert rows.gap.item() == pytest.approx(float(wanted), abs=1e-4)
        cost = perplexity(llama, NEUTRAL)
        assert result.perplexity[condition] == pytest.approx(cost, rel=1e-5)
    steer.__exit__()
    assert set(result.gaps.condition) == {BEFORE, AFTER, CONTROL}
    assert result.cost() == pytest.approx(result.perplexity[AFTER] / result.perplexity[BEFORE] - 1)
    assert result.mean_gaps()[AFTER].keys() == {"she-he", "doctor"}
    own = result.gaps[result.gaps.observable == "she-he"]
    sizes = [own[own.condition == name].gap.abs().mean() for name in (BEFORE, AFTER)]
    assert result.reduction("she-he") == pytest.approx(1 - sizes[1] / sizes[0])


def test_the_parts_are_those_of_the_method(llama, observables, result):
    assert result.groups == ("female", "male")
    for observable in observables:
        norms = head_norms(llama, observable)
        torch.testing.assert_close(result.head_norms[observable.name], norms)
    assert result.pairs["she-he"] == ("So, Mary really is", "So, John really is")
    assert result.feature.token == 2
    assert result.feature.observable == "she-he"


def test_shared_features_are_along_the_best_paths(llama, observables):
    """Without attention in layer 0 the first heads are those of layer 1, and MLP 0 is before."""
    llama.model.model.layers[0].self_attn.o_proj.weight.data.zero_()
    result = audit(llama, observables, TEMPLATES, NAMES, NEUTRAL)
    made, drops = [], []
    for observable in observables:
        pair = PromptPair(llama, *result.pairs[observable.name])
        start = f"@{pair.token}"
        best = next(p for p in result.paths[observable.name]["path"] if start in p.split(":")[0])
        path = f"mlp0@{pair.token}:{best.removeprefix(f'mlp0@{pair.token}:')}"
        made.append(feature_vector(llama, observable, path, pair))
        drops.append(contribution(llama, observable, path, pair))
    assert result.shared_mlp == 0
    assert result.cosines[0, 1] == pytest.approx(cosine(*made), abs=1e-5)
    assert result.couplings[1, 0] == pytest.approx(coupling(made[1], made[0]), rel=1e-4)
    (row,) = result.shared.to_dict("records")
    assert (row["observable"], row["mlp"]) == ("doctor", 0)
    assert row["cosine"] == pytest.approx(cosine(*made), abs=1e-5)
    found = row["contribution_of_audited"], row["contribution"]
    assert found == pytest.approx(drops, rel=1e-4, abs=1e-6)
    assert audit_page(result).count("<img") == 5


def test_the_page_holds_the_figures(result):
    page = audit_page(result)
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").split("<body>")[1]
    for name in ("she-he", "doctor", "So, NAME really is", AFTER.capitalize()):
        assert name in page
    assert page.count("<img") == page.count("data:image/svg+xml") / 2 >= 3
    one = np.round(result.perplexity[BEFORE])
    assert str(int(one)) in page


def test_templates_may_be_for_all_observables(llama, observables):
    seen = []
    result = audit(
        llama, observables[:1], ["NAME is"], NAMES, NEUTRAL, progress=lambda what: seen.append(what)
    )
    assert len(result.gaps) == 3
    assert result.shared_mlp is None
    assert "nothing to compare" in audit_page(result)
    assert len(seen) == 5


def test_what_cannot_be_audited(llama, observables):
    with pytest.raises(ValueError, match="observables must not be empty"):
        audit(llama, [], TEMPLATES, NAMES)
    with pytest.raises(ValueError, match="names of their own"):
        audit(llama, observables[:1] * 2, TEMPLATES, NAMES)
    with pytest.raises(ValueError, match="one for observable 'doctor'"):
        audit(llama, observables, {"she-he": ["NAME is"]}, NAMES)
    with pytest.raises(ValueError, match="must have the word NAME"):
        audit(llama, observables, ["Mary is"], NAMES)
    with pytest.raises(TypeError, match="not one string"):
        audit(llama, observables, "NAME is", NAMES)
    with pytest.raises(ValueError, match="two groups, not 1"):
        audit(llama, observables, TEMPLATES, {"Mary": "female"})
    with pytest.raises(ValueError, match="equally many tokens"):
        audit(llama, observables, TEMPLATES, {"Mary": "female", "the doctor": "male"})
