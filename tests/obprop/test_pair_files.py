import pytest

from cameraready.obprop.pair_files import PairRow, read_pairs


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "pairs.tsv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_pairs(path)

    return read


def test_two_prompts_in_a_line(read):
    assert read('a "b"\tc\'s, d\n\n e\tf \n') == [PairRow('a "b"', "c's, d"), PairRow(" e", "f ")]


def test_a_header_and_positions(read):
    assert read("positive\tnegative\ttokens\na\tb\t2, 8\nc\td\t-3,-1\n") == [
        PairRow("a", "b", (2, 8)),
        PairRow("c", "d", (-3, -1)),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds no prompt pairs"),
        ("positive\tnegative\n", "holds no prompt pairs"),
        ("a\tb\na b\n", "line 2 must hold a positive prompt, a tab and a negative prompt"),
        ("a\tb\t1\tc\n", "line 1 must hold"),
        ("a\tb\t1\nc\td\n", "in all of its lines or in none"),
        ("a\tb\tx\n", "line 1: 'x' must be positions of tokens, such as 2,8"),
        (b"\xff\xfea", "is not a text file in UTF-8"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(content, said, read):
    with pytest.raises(ValueError, match=said):
        read(content)
