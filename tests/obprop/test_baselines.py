import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from cameraready.obprop.baselines import DAS1d, Gradient, LinearProbe, MeanDifference
from cameraready.obprop.coupling import cosine
from cameraready.obprop.observable import Observable
from cameraready.obprop.scoring import score_texts
from cameraready.obprop.sites import editing
from cameraready.obprop.steering import Steer

TEXTS = [
    f"So, {name} really is {rest}"
    for name in ("Mary", "John", "Anna", "Peter")
    for rest in ("a friend", "the nurse", "great here")
]
LABELS = [1, 1, 1, 0, 0, 0] * 2


@pytest.fixture
def observable(tokenizer):
    return Observable.from_tokens(tokenizer, [" she"], [" he"])


def activations(view, site="resid_pre", at=2):
    return torch.stack([view.run(text).site(site, 1)[0, at] for text in TEXTS])


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid"])
def test_the_difference_of_means(llama, site):
    found = MeanDifference(llama, 1, site, token=2).fit(TEXTS, LABELS)
    x, chosen = activations(llama, site), torch.tensor(LABELS) == 1
    torch.testing.assert_close(found.vector, x[chosen].mean(0) - x[~chosen].mean(0))
    anchors = ["Mary", "Mary", "Mary", "John", "John", "John"]
    anchors += ["Anna", "Anna", "Anna", "Peter", "Peter", "Peter"]
    again = MeanDifference(llama, 1, site, token=anchors).fit(TEXTS, LABELS)
    torch.testing.assert_close(again.vector, found.vector)


def test_probes_are_those_of_scikit_learn(llama):
    x = activations(llama).double().numpy()
    y = np.random.default_rng(0).normal(size=len(TEXTS))
    shortest = LinearProbe(llama, 1, token=2).fit(TEXTS, y)
    np.testing.assert_allclose(
        shortest.vector, LinearRegression().fit(x, y).coef_, rtol=1e-3, atol=1e-4
    )
    alpha = 0.1 * np.square(x - x.mean(0)).sum() / len(x)
    ridge = LinearProbe(llama, 1, token=2, penalty=0.1).fit(TEXTS, y)
    np.testing.assert_allclose(ridge.vector, Ridge(alpha).fit(x, y).coef_, rtol=1e-3, atol=1e-5)
    logistic = LinearProbe(llama, 1, "logistic", token=2, penalty=0.5).fit(TEXTS, LABELS)
    wanted = LogisticRegression(C=2.0, max_iter=10_000).fit(x, LABELS).coef_[0]
    np.testing.assert_allclose(logistic.vector, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid"])
def test_the_gradient_is_that_of_finite_differences(view, observable, site):
    view.model.double()
    found = Gradient(view, observable, 1, site, token=2).fit([TEXTS[0]])
    along = torch.randn(view.D, generator=torch.Generator().manual_seed(0))

    def moved(stream, size):
        stream = stream.clone()
        stream[:, 2] += size * along
        return stream

    def value(size):
        with editing(view, {(site, 1): lambda stream: moved(stream, size)}):
            logits = view.model(view.encode(TEXTS[0])[None]).logits[0, -1].detach()
        tokens = observable.vector.nonzero()[:, 0]
        return float(logits[tokens] @ observable.vector[tokens].double())

    # Some models compute parts in float32 whatever their type: a long step, to fourth order.
    h = 0.02
    near, far = (value(h) - value(-h)) / (2 * h), (value(2 * h) - value(-2 * h)) / (4 * h)
    wanted = (4 * near - far) / 3
    assert float(found.vector @ along) == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    assert all(weight.grad is None for weight in view.model.parameters())


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid"])
def test_an_interchange_makes_the_answer_follow_the_source(llama, observable, site):
    """The direction beats random ones at what it is trained for, checked by whole runs."""
    texts = [
        "So, Mary really is",
        "So, John really is",
        "So, Anna really is",
        "So, Peter really is",
    ]
    values = np.array([observable.value(llama, text) for text in texts])
    centred = values - np.median(values)
    das = DAS1d(llama, observable, 1, site, token="last", steps=60, learning_rate=0.1)
    found = das.fit(texts, centred)

    def follows(direction):
        unit = direction.vector / direction.vector.norm()
        streams = [llama.run(text).site(site, 1)[0, -1] for text in texts]
        moved = 0.0
        for i, base in enumerate(texts):
            for j, source in enumerate(streams):
                if (centred[i] > 0) != (centred[j] > 0):
                    with Steer(llama, direction, "center", tokens=[-1], mean=float(source @ unit)):
                        moved += np.sign(centred[j]) * observable.value(llama, base)
        return moved

    assert found.vector.norm() == pytest.approx(1.0, abs=1e-5)
    score = follows(found)
    for seed in range(5):
        random = MeanDifference(llama, 1, site, token=2)
        random._vector = torch.randn(llama.D, generator=torch.Generator().manual_seed(seed))
        assert score > follows(random)
    again = DAS1d(llama, observable, 1, site, token="last", steps=60, learning_rate=0.1)
    assert torch.equal(again.fit(texts, centred).vector, found.vector)


def test_the_search_leaves_the_model_as_it_is(view, observable):
    texts = ["So, Mary really is", "So, John really is"]
    before = {name: weight.clone() for name, weight in view.model.state_dict().items()}
    DAS1d(view, observable, 1, token=2, steps=2).fit(texts, [1, -1])
    assert all(
        torch.equal(weight, before[name]) for name, weight in view.model.state_dict().items()
    )
    assert all(weight.grad is None for weight in view.model.parameters())
    assert not any(module._forward_pre_hooks for module in view.model.modules())


def test_a_search_of_no_steps_up_the_layers_gives_the_models_own_answers(view, observable):
    from cameraready.obprop.baselines import _Upper

    texts = ["So, Mary really is", "So, John really is", "So, Anna really is"]
    ids = torch.stack([view.encode(text) for text in texts])
    for site in ("resid_pre", "resid_mid"):
        upper = _Upper(view, site, 1, ids, observable)
        rows = torch.tensor([2, 0, 1, 2])
        same = upper(rows, torch.zeros_like(upper.stream[rows])).detach()
        torch.testing.assert_close(same, upper.values[rows], rtol=1e-4, atol=1e-4)
        wanted = [observable.value(view, texts[i]) for i in rows]
        torch.testing.assert_close(upper.values[rows], torch.tensor(wanted), rtol=1e-4, atol=1e-4)


def test_fitted_directions_serve_as_features(llama, observable):
    first = MeanDifference(llama, 1, token=2).fit(TEXTS, LABELS)
    second = LinearProbe(llama, 1, token=2).fit(TEXTS, LABELS)
    frame = score_texts(llama, [first, second], TEXTS, token=2)
    assert set(frame.feature) == {"MeanDifference", "LinearProbe(ridge)"}
    assert -1 <= cosine(first, second) <= 1


def test_what_cannot_be_fitted(llama, observable):
    with pytest.raises(AttributeError, match="before it is fitted"):
        _ = MeanDifference(llama, 1).vector
    with pytest.raises(ValueError, match="positive and other ones"):
        MeanDifference(llama, 1).fit(TEXTS, [1] * len(TEXTS))
    with pytest.raises(ValueError, match="one finite number for each of the 12 texts"):
        MeanDifference(llama, 1).fit(TEXTS, [1, 0])
    with pytest.raises(ValueError, match="targets must differ"):
        LinearProbe(llama, 1).fit(TEXTS, [2.0] * len(TEXTS))
    with pytest.raises(ValueError, match="kind must be one of"):
        LinearProbe(llama, 1, "lasso")
    with pytest.raises(ValueError, match="penalty must not be"):
        LinearProbe(llama, 1, penalty=-1)
    with pytest.raises(ValueError, match="'Mary' is not in the prompt"):
        MeanDifference(llama, 1, token="Mary").fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="one token of each prompt"):
        MeanDifference(llama, 1, token="mean").fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="one entry for each of the 12"):
        MeanDifference(llama, 1, token=[1]).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="same number of tokens"):
        DAS1d(llama, observable, 1).fit(["Mary is", "John is a"], [1, 0])
    with pytest.raises(ValueError, match="both answers"):
        DAS1d(llama, observable, 1).fit(["Mary is", "John is"], [1, 1])
    with pytest.raises(ValueError, match="layer must be"):
        Gradient(llama, observable, 2)
    with pytest.raises(ValueError, match="steps and batch_size"):
        DAS1d(llama, observable, 1, steps=0)
