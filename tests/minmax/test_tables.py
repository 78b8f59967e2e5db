"""Payoffs and data in the forms in which people have them."""

import numpy as np
import pytest

from cameraready.minmax.tables import read_data, read_payoff

NUMBERED = (["1", "2"], ["1", "2"])
NAMED = (["top", "bottom"], ["left", "right"])


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "f.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("content", "rows", "columns", "labels"),
    [
        ("1,2\n3,4\n", *NUMBERED, ""),
        ("1;2\n3;4\n", *NUMBERED, ""),
        ("1\t2\r\n3\t4", *NUMBERED, ""),
        ("\n1, 2\n\n3 ,4\n\n", *NUMBERED, ""),
        (b"\xef\xbb\xbf1,2\n3,4\n", *NUMBERED, ""),
        ("left,right\n1,2\n3,4\n", ["1", "2"], NAMED[1], "first row"),
        ("top,1,2\nbottom,3,4\n", NAMED[0], ["1", "2"], "first column"),
        ("x,left,right\ntop,1,2\nbottom,3,4\n", *NAMED, "first row and first column"),
        (",left,right\ntop,1,2\nbottom,3,4\n", *NAMED, "first row and first column"),
        ('"a;b"\tleft\tright\ntop\t1\t2\nbottom\t3\t4\n', *NAMED, "first row and first column"),
        (',"left, far",right\ntop,1,2\nbottom,3,4\n', NAMED[0], ["left, far", "right"],
         "first row and first column"),
        (",0,1\n0,1,2\n1,3,4\n", ["0", "1"], ["0", "1"], "first row and first column"),
    ],
)  # fmt: skip
def test_names_are_told_from_payoffs(content, rows, columns, labels, write):
    payoff = read_payoff(write(content))
    assert payoff.matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert (payoff.rows, payoff.columns, payoff.labels) == (rows, columns, labels)


@pytest.mark.parametrize(
    ("content", "shape"),
    [("5\n", (1, 1)), ("1,2,3\n", (1, 3)), ("1\n2\n", (2, 1)), ("a\n1\n2\n", (2, 1)),
     ("a,1\nb,2\n", (2, 1)), ("a,b\nr,1\n", (1, 1))],
)  # fmt: skip
def test_small_payoffs(content, shape, write):
    assert read_payoff(write(content)).matrix.shape == shape


@pytest.mark.parametrize(
    ("labels", "predicted"),
    [(("0", "1"), "1"), (("-1", "1"), "1"), (("2", "10"), "10"), (("no", "yes"), "yes")],
)
def test_the_greater_label_is_predicted(labels, predicted, write):
    low, high = labels
    data = read_data(write(f"y;a;b\n{high};1;2\n{low};3;4\n"), "y")
    assert data.labels == (low, high)
    assert data.labels[1] == predicted
    assert data.target.tolist() == [1, 0]
    assert data.names == ["a", "b"]
    assert np.array_equal(data.features, [[1.0, 2.0], [3.0, 4.0]])


def test_a_number_in_the_corner_of_words_is_no_header(write):
    with pytest.raises(ValueError, match="row 1, column 2 is 'x', which is not a number"):
        read_payoff(write("1,x\n2,3\n"))
    named = read_payoff(write("1,x\ntop,3\n"))
    assert (named.rows, named.columns) == (["top"], ["x"])


def test_labels_are_written_as_people_do(write):
    data = read_data(write("a,y\n1,1.000000000000000000e+00\n2,0.0\n3,1\n"), "y")
    assert data.labels == ("0", "1")
    assert data.target.tolist() == [1, 0, 1]


def test_long_names_are_shortened_in_messages(write):
    name = "n" * 500
    for content in (f"{name},y\nx,0\n1,1\n", f"{name},z\n1,0\n", f"{name},{name},y\n1,2,0\n"):
        with pytest.raises(ValueError, match="nnn…") as error:
            read_data(write(content), "y")
        assert name[:50] not in str(error.value)
