import json

import pytest
import torch

from cameraready.obprop.errors import (
    PathError,
    SiteMismatchError,
    TokenizationError,
    UnsupportedArchitectureError,
)
from cameraready.obprop.observable import Observable


def token(tokenizer, string):
    (found,) = tokenizer.encode(string, add_special_tokens=False)
    return found


def test_the_weights_lie_at_the_tokens(tokenizer):
    observable = Observable.from_tokens(
        tokenizer, [" she", " her"], [" he", " him"], weights=[1, 2, 0.5, 2.5]
    )
    wanted = torch.zeros(len(tokenizer))
    for string, weight in ((" she", 1), (" her", 2), (" he", -0.5), (" him", -2.5)):
        wanted[token(tokenizer, string)] = weight
    assert torch.equal(observable.vector, wanted)
    assert observable.name == "she+her-he+him"
    assert observable.weights == (1, 2, 0.5, 2.5)


def test_unequal_lists_balance(tokenizer):
    observable = Observable.from_tokens(
        tokenizer, [" she", " her"], [" he"], normalize="mean", weights=[3, 1, 5]
    )
    assert observable.vector[token(tokenizer, " she")] == 0.75
    assert observable.vector[token(tokenizer, " he")] == -1
    assert observable.vector.sum() == 0
    with pytest.warns(UserWarning, match="sum to 1, not 0.*normalize='mean'"):
        Observable.from_tokens(tokenizer, [" she", " her"], [" he"])


def test_a_string_of_several_tokens_shows_its_pieces(tokenizer):
    with pytest.raises(TokenizationError, match=r"positive .* is 2: \['Mary', ' is'\]"):
        Observable.from_tokens(tokenizer, ["Mary is"], [" he"])
    with pytest.raises(TokenizationError, match=r"negative .* none"):
        Observable.from_tokens(tokenizer, [" she"], [""])
    with pytest.raises(TokenizationError, match=r"' ,' .*',', without the leading space, is one"):
        Observable.from_tokens(tokenizer, [" ,"], [" he"])


def test_the_first_token_can_stand_for_a_string(tokenizer):
    with pytest.warns(UserWarning, match="'Mary is' is 2 tokens .*the first, 'Mary'"):
        observable = Observable.from_tokens(tokenizer, ["Mary is"], [" he"], first_token=True)
    assert observable.positive == ("Mary",)
    assert observable.vector[token(tokenizer, "Mary")] == 1


def test_an_observable_needs_tokens(tokenizer):
    with pytest.raises(ValueError, match="observable has no tokens"):
        Observable.from_tokens(tokenizer, [], [])
    with pytest.raises(ValueError, match="observable has no tokens"):
        Observable.from_tokens(tokenizer, [" she"], [" she"])
    with pytest.raises(ValueError, match="observable has no tokens"):
        Observable(torch.zeros(5), "nothing")
    with pytest.raises(ValueError, match="finite"):
        Observable(torch.tensor([1.0, float("nan")]), "unknown")
    with pytest.raises(TypeError, match="positive must be a list"):
        Observable.from_tokens(tokenizer, " she", [" he"])
    with pytest.raises(ValueError, match="one number for each of the 2 strings"):
        Observable.from_tokens(tokenizer, [" she"], [" he"], weights=[1])
    with pytest.raises(ValueError, match="positive sum on each side"):
        Observable.from_tokens(tokenizer, [" she"], [" he"], weights=[-1, 1], normalize="mean")


def test_a_line_of_text_is_an_observable(tokenizer):
    observable = Observable.parse("+ she,- he", tokenizer)
    assert (observable.positive, observable.negative) == ((" she",), (" he",))
    spaced = Observable.parse("+ she, - he", tokenizer, name="pronoun")
    assert torch.equal(spaced.vector, observable.vector)
    assert spaced.name == "pronoun"
    for text in ("", " she,- he", "+ she,,- he", "+"):
        with pytest.raises(ValueError, match="signs and tokens"):
            Observable.parse(text, tokenizer)


def test_files_are_read_back(tokenizer, tmp_path):
    path = tmp_path / "observable.json"
    observable = Observable.from_tokens(
        tokenizer, [" she", " her"], [" he"], normalize="mean", name="pronoun"
    )
    observable.to_json(path)
    again = Observable.from_json(path, tokenizer)
    assert torch.equal(again.vector, observable.vector)
    assert (again.name, again.positive, again.negative) == ("pronoun", (" she", " her"), (" he",))
    path.write_text('{"positive": [" she"], "negative": [" he"]}')
    assert Observable.from_json(path, tokenizer).name == "observable"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold an object"),
        ('{"positive": [" she"]}', "must hold an object"),
        (json.dumps({"positive": [], "negative": [], "extra": 1}), "must hold an object"),
        (json.dumps({"positive": " she", "negative": []}), "'positive' .* list of strings"),
        (json.dumps({"positive": [], "negative": []}), "no tokens"),
    ],
)
def test_a_file_that_is_no_observable(tokenizer, tmp_path, content, words):
    path = tmp_path / "observable.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=words):
        Observable.from_json(path, tokenizer)


def test_a_vector_alone_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="without its tokens"):
        Observable(torch.tensor([1.0, -1.0]), "difference").to_json(tmp_path / "observable.json")


def test_the_pull_back_is_the_product_with_the_unembedding(tokenizer):
    observable = Observable.from_tokens(tokenizer, [" she", " her"], [" he", " him"])
    unembed = torch.randn(70, 6, generator=torch.Generator().manual_seed(0))  # padded
    wanted = unembed[: len(tokenizer)].T @ observable.vector
    torch.testing.assert_close(observable.pull_back(unembed), wanted)
    assert observable.pull_back(unembed.bfloat16()).dtype == torch.float32
    with pytest.raises(ValueError, match="has only 3"):
        observable.pull_back(unembed[:3])


def test_the_value_is_read_from_the_logits(view):
    observable = Observable.from_tokens(view.tokenizer, [" she"], [" he"])
    text = "So, Mary really is a great friend, isn't"
    ids = view.tokenizer(text)["input_ids"]
    with torch.no_grad():
        logits = view.model(torch.tensor([ids])).logits[0]
    wanted = logits[:, : len(observable.vector)] @ observable.vector
    assert observable.value(view, text) == pytest.approx(float(wanted[-1]), abs=1e-5)
    assert observable.value(view, ids, position=2) == pytest.approx(float(wanted[2]), abs=1e-5)
    found = observable.value(view.model, torch.tensor([ids]), position=-3)
    assert found == pytest.approx(float(wanted[-3]), abs=1e-5)


def test_a_value_needs_a_prompt(llama):
    observable = Observable.from_tokens(llama.tokenizer, [" she"], [" he"])
    with pytest.raises(ValueError, match="needs a tokenizer"):
        observable.value(llama.model, "Mary is")
    with pytest.raises(ValueError, match="position must be one of the 0 tokens"):
        observable.value(llama, "")
    with pytest.raises(ValueError, match="position must be one of the 2 tokens, not 2"):
        observable.value(llama, "Mary is", position=2)


def test_errors_are_value_errors():
    for kind in (PathError, SiteMismatchError, TokenizationError, UnsupportedArchitectureError):
        assert issubclass(kind, ValueError)
    error = UnsupportedArchitectureError("mamba", ["opt", "gpt2"])
    assert "'mamba'" in str(error)
    assert "gpt2, opt" in str(error)
    assert error.supported == ["gpt2", "opt"]
