import pytest

from cameraready.obprop.tokens import anchor_spans, check_token, positions_of

TEXT = "Mary, John is a friend, Mary"


@pytest.fixture
def ids(tokenizer):
    return tokenizer(TEXT)["input_ids"]


def test_a_string_is_found_with_and_without_its_space(tokenizer, ids):
    assert len(ids) == 8
    assert anchor_spans(tokenizer, ids, "Mary") == [range(0, 1), range(7, 8)]
    assert anchor_spans(tokenizer, ids, " Mary") == [range(0, 1), range(7, 8)]
    assert anchor_spans(tokenizer, ids, "John is a") == [range(2, 5)]
    assert anchor_spans(tokenizer, ids, "Peter") == []


@pytest.mark.parametrize(
    ("token", "positions"),
    [
        ("all", [1, 2, 3, 4, 5, 6]),
        ("mean", [1, 2, 3, 4, 5, 6]),
        ("max", [1, 2, 3, 4, 5, 6]),
        ("last", [6]),
        (0, [0]),
        (-1, [7]),
        (8, []),
        (-9, []),
        ("John is", [3]),
        ("Peter", []),
    ],
)
def test_what_is_meant(tokenizer, ids, token, positions):
    special = [1, 0, 0, 0, 0, 0, 0, 1]
    assert positions_of(tokenizer, ids, special, token) == positions


def test_what_means_nothing():
    with pytest.raises(TypeError, match="token must be"):
        check_token(1.0)
    with pytest.raises(TypeError, match="token must be"):
        check_token(True)
    with pytest.raises(ValueError, match="empty string"):
        check_token("")
