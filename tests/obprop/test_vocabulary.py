from pathlib import Path

import pytest

from cameraready.obprop import vocabulary
from cameraready.obprop.vocabulary import (
    DEMOCRATS,
    FEMALE_NAMES,
    MALE_NAMES,
    REPUBLICANS,
    code_windows,
    fill,
    reference_sentences,
    single_tokens,
)


def test_nobody_is_named_twice():
    for first, second in ((FEMALE_NAMES, MALE_NAMES), (DEMOCRATS, REPUBLICANS)):
        assert len(set(first) | set(second)) == len(first) + len(second)
    assert len(FEMALE_NAMES) == len(MALE_NAMES) == 60
    assert len(DEMOCRATS) == len(REPUBLICANS) == 25


def test_names_of_one_token_are_told(tokenizer):
    assert single_tokens(tokenizer, ["Mary", "Mary is"]) == ["Mary"]


def test_templates_have_a_place_for_names():
    for templates in (vocabulary.PRONOUN_TEMPLATES, vocabulary.OCCUPATION_TEMPLATES):
        assert len(fill(templates, ["Mary", "John"])) == 2 * len(templates)
    with pytest.raises(ValueError, match="must have the word NAME"):
        fill(["Here is Mary"], ["John"])


def test_sentences_of_the_reference_are_prose():
    sentences = reference_sentences(200)
    assert len(set(sentences)) == 200
    assert sentences == reference_sentences(200)
    assert sentences != reference_sentences(200, seed=1)
    assert all(s[0].isupper() and s.endswith(".") and "\n" not in s for s in sentences)
    with pytest.raises(ValueError, match="count must be at most"):
        reference_sentences(10**6)


@pytest.mark.parametrize("language", ["c", "python"])
def test_windows_of_code(tokenizer, language):
    windows = code_windows(tokenizer, language, 20, length=30)
    assert len(windows) == 20
    assert windows == code_windows(tokenizer, language, 20, length=30)
    with pytest.raises(ValueError, match="count must be at most"):
        code_windows(tokenizer, language, 10**6)


def test_the_examples_hold_the_same_words():
    folder = Path(__file__).parents[2] / "examples" / "obprop"
    lines = (folder / "templates.txt").read_text().splitlines()
    templates = [line.split("\t")[1] for line in lines]
    assert templates == [*vocabulary.PRONOUN_TEMPLATES, *vocabulary.OCCUPATION_TEMPLATES]
    rows = [line.split(",") for line in (folder / "names.csv").read_text().splitlines()[1:]]
    assert [name for name, group in rows if group == "female"] == list(FEMALE_NAMES[:20])
    assert [name for name, group in rows if group == "male"] == list(MALE_NAMES[:20])
