"""Rows of files: how they are told apart, where reading stands, files that grow."""

import io
import json
import math
import sys
import zlib
from types import SimpleNamespace

import pytest

from cameraready.change_detection.records import Place, Record, Source, column_name, number


def rows(path, **options):
    return [record.fields for record in Source(str(path), **options).records()]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.csv"

    def write(content):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n2,y\n",
        "a;b\n1;x\n2;y\n",
        "a\tb\n1\tx\n2\ty\n",
        "a,b\r\n1,x\r\n2,y\r\n",
        "\ufeffa,b\n1,x\n2,y\n",
        "\ufeffa;b\r\n1;x\r\n2;y",
        '"a","b"\n"1","x"\n2,"y"\n',
        " a , b\n1,x\n2,y\n",
        "\n\na,b\n\n1,x\n\n2,y\n\n",
        "a,b\n1,x\n2,y",
    ],
)
def test_what_a_csv_file_may_look_like(file, content):
    assert rows(file(content)) == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]


def test_a_quoted_header_may_hold_the_separator(file):
    assert rows(file('"latency, ms",b\n1,2\n')) == [{"latency, ms": "1", "b": "2"}]
    assert rows(file('"say ""hi""",b\n1,2\n')) == [{'say "hi"': "1", "b": "2"}]


def test_a_separator_within_quotes_does_not_decide_which_it_is(file):
    assert rows(file('"latency, ms";b\n1;2\n')) == [{"latency, ms": "1", "b": "2"}]


def test_a_quoted_field_may_hold_line_ends(file):
    source = Source(str(file('a,b\n1,"x\ny"\n2,z\n')))
    found = list(source.records())
    assert [record.fields for record in found] == [{"a": "1", "b": "x\ny"}, {"a": "2", "b": "z"}]
    assert [record.row for record in found] == [1, 2]


def test_json_lines_keep_their_types(file):
    content = '{"a": 1, "b": [1]}\n\n {"a": null, "b": "x"}'
    assert rows(file(content)) == [{"a": 1, "b": [1]}, {"a": None, "b": "x"}]
    assert rows(file("\ufeff" + content))[0] == {"a": 1, "b": [1]}


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a,b\n1,2\n3,4")))
    source = Source("-")
    assert source.shown == "standard input"
    assert [r.fields for r in source.records()] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n1,2\n3\n", "row 2 has 1 field, but the header names 2"),
        ("a,b\n1,2,3\n", "row 1 has 3 fields, but the header names 2"),
        ("a,a\n1,2\n", "two columns of the same name"),
        (b"a\n1\n\xe9\n", "row 2: not UTF-8"),
        (b"\xe9\n1\n", "not UTF-8"),
        ('{"a": 1}\n{"a": 2\n{"a": 3}\n', "row 2: not a complete JSON object"),
        ('{"a": 1}\n[1]\n', "row 2: not a JSON object"),
        ('{"a": 1}\n3\n', "row 2: not a JSON object"),
    ],
)
def test_what_cannot_be_understood_names_file_and_row(file, content, words):
    path = file(content)
    with pytest.raises(ValueError, match=r"data\.csv") as caught:
        rows(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("content", ['a\n"' + "x" * 200_000 + '"\n', "a\r0.1\r0.2\r"])
def test_what_the_csv_module_refuses_is_a_value_error_too(file, content):
    path = file(content)
    with pytest.raises(ValueError, match=r"data\.csv"):
        rows(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        rows(tmp_path / "none.csv")


# Columns and numbers.


def test_the_column_to_read():
    source, record = Source("data.csv"), Record(1, {"a": "1", "b": "2"})
    assert column_name(source, record, "b", "--column") == "b"
    assert column_name(source, Record(1, {"b": "2"}), None, "--column") == "b"
    with pytest.raises(ValueError, match=r"several columns: name one with --column: a, b"):
        column_name(source, record, None, "--column")
    with pytest.raises(ValueError, match=r"no column 'c'; its columns are: a, b$"):
        column_name(source, record, "c", "--column")
    source.columns = ["0.5", "2"]
    with pytest.raises(ValueError, match="must be a header"):
        column_name(source, Record(1, {"0.5": "1", "2": "2"}), "c", "--column")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1.5", 1.5), (" 1e-3 ", 0.001), (2, 2.0), (True, 1.0), ("-inf", -math.inf), ("+4", 4.0)],
)
def test_fields_that_are_numbers(value, expected):
    assert number(Source("f"), Record(1, {"a": value}), "a") == expected


@pytest.mark.parametrize("value", [None, "", "  ", "nan", "NaN", math.nan])
def test_fields_that_are_missing(value):
    assert math.isnan(number(Source("f"), Record(1, {"a": value}), "a"))


@pytest.mark.parametrize("value", ["foo", "1,5", [1], {}, "1 2"])
def test_fields_that_are_something_else(value):
    with pytest.raises(ValueError, match=r"f, row 7: column 'a' holds .*, not a number"):
        number(Source("f"), Record(7, {"a": value}), "a")


# Where reading stands.


def test_the_place_counts_rows_and_bytes(file):
    content = b"\xef\xbb\xbfa\r\n\r\n1\r\n2\r\n"
    source = Source(str(file(content)))
    places = [source.place for _ in source.records()]
    assert places == [
        Place(1, len(content) - 3, zlib.crc32(content[:-3])),
        Place(2, len(content), zlib.crc32(content)),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["a,b", "1,x", "2,y", '3,"z', 'w"', "4,v"],
        ["a;b", "", "1;x", "2;y", "", "4;v"],
        ['{"a": 1}', '{"a": 2}', '{"b": 3}', '{"a": 4}'],
        ["\ufeff{}", '{"a": 2}', "", '{"b": 3}'],
    ],
)
def test_resuming_anywhere_gives_the_rest(file, lines):
    path = file("\n".join(lines) + "\n")
    source = Source(str(path))
    seen = [(record, source.place) for record in source.records()]
    for taken, (_, place) in enumerate(seen, start=1):
        again = Source(str(path))
        assert again.resume(Place(*json.loads(json.dumps(place))))
        assert again.rows == taken
        assert list(again.records()) == [record for record, _ in seen[taken:]]


def test_only_the_same_file_is_resumed(file):
    path = file("a\n1\n2\n")
    source = Source(str(path))
    for _ in source.records():
        pass
    place = source.place
    file("a\n1\n2\n3\n")
    assert Source(str(path)).resume(place)
    for other in ("a\n1\n3\n3\n", "a\n1\n", "b\n1\n2\n", ""):
        file(other)
        assert not Source(str(path)).resume(place)
    assert not Source("-").resume(place)
    assert not Source(str(path)).resume(Place(0, 0, 0))


def test_a_last_line_that_was_still_being_written_is_not_read_again_from_its_middle(file):
    path = file("a\n0.1\n0.5")
    source = Source(str(path))
    assert [r.fields["a"] for r in source.records()] == ["0.1", "0.5"]
    file("a\n0.1\n0.57\n0.2\n")
    again = Source(str(path))
    # That 0.5 was taken in cannot be undone; "7" was never in the file.
    read = [r.fields["a"] for r in again.records()] if again.resume(source.place) else []
    assert "7" not in read


def test_a_last_line_that_only_lacked_its_end_is_not_read_twice(file):
    path = file("a\n0.1\n0.5")
    source = Source(str(path))
    for _ in source.records():
        pass
    file("a\n0.1\n0.5\n0.2\n")
    again = Source(str(path))
    assert again.resume(source.place)
    assert [(r.row, r.fields["a"]) for r in again.records()] == [(3, "0.2")]


# Files that grow.


class Over(Exception):  # noqa: N818
    pass


def stop():
    raise Over


def followed(path, parts):
    """Rows of a file to which each of `parts` is added when there is nothing new to read."""
    parts = list(parts)
    source = Source(str(path), follow=True, poll=1e-9)

    def waiting():
        if not parts:
            raise Over
        with path.open("ab") as file:
            file.write(parts.pop(0))

    source.waiting = waiting
    found = []
    with pytest.raises(Over):
        found.extend((len(parts), r.fields, source.place) for r in source.records())
    return found


def test_a_followed_file_is_read_line_by_whole_line(tmp_path):
    path = tmp_path / "grows.csv"
    path.write_bytes(b"a,b\n1,")
    parts = [b"", b"2", b"0\n3,", b"4\r", b"\n5,6\n7,8\n", b"9,10"]
    found = followed(path, parts)
    assert [(left, fields["b"]) for left, fields, _ in found] == [
        (3, "20"),
        (1, "4"),
        (1, "6"),
        (1, "8"),
    ]
    whole = b"a,b\n1,20\n3,4\r\n5,6\n7,8\n"
    assert found[-1][2] == Place(4, len(whole), zlib.crc32(whole))


def test_a_followed_file_may_begin_empty_or_within_its_header(tmp_path):
    path = tmp_path / "grows.csv"
    path.write_bytes(b"")
    found = followed(path, [b"\xef\xbb", b"\xbfa", b";b\n", b"1;2", b"\n"])
    assert [fields for _, fields, _ in found] == [{"a": "1", "b": "2"}]


def test_a_followed_character_may_come_in_two_halves(tmp_path):
    path = tmp_path / "grows.csv"
    path.write_bytes(b"a\n")
    found = followed(path, ["é".encode()[:1], "é".encode()[1:], b"\n"])
    assert [fields["a"] for _, fields, _ in found] == ["é"]


def test_followed_json_lines(tmp_path):
    path = tmp_path / "grows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a"')
    found = followed(path, [b": 2}", b'\n{"a": 3}\n{"a": 4}'])
    assert [fields["a"] for _, fields, _ in found] == [1, 2, 3]


def test_a_followed_file_is_resumed_behind_its_last_whole_line(tmp_path):
    path = tmp_path / "grows.csv"
    path.write_bytes(b"a\n1\n2")
    place = followed(path, [])[-1][2]
    with path.open("ab") as file:
        file.write(b"2\n3\n")
    again = Source(str(path), follow=True, poll=1e-9)
    assert again.resume(place)
    again.waiting = stop
    found = []
    with pytest.raises(Over):
        found.extend(record.fields["a"] for record in again.records())
    assert found == ["22", "3"]
