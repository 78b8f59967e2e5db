import pytest

from cameraready.obprop.text_files import TextFile


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("t.txt", "one\n\n two \nthree", ["one", "", " two ", "three"]),
        ("t.txt", b"\xef\xbb\xbfone\r\ntwo\r\n", ["one", "two"]),
        ("t.txt", "", []),
        ("t.TXT", "one\n", ["one"]),
        (
            "t.jsonl",
            '{"text": "one\\ntwo"}\n\n{"text": null}\n"three"\n',
            ["one\ntwo", "", "three"],
        ),
        ("t.csv", 'id,text\n1,"a, ""b"""\n2,"c\nd"\n\n3,\n', ['a, "b"', "c\nd", ""]),
        ("t.tsv", "text\tid\none, two\t1\n", ["one, two"]),
        ("t.csv", "", []),
    ],
)
def test_texts_are_read_as_they_stand(name, content, texts, write):
    file = TextFile(write(name, content))
    assert list(file) == texts
    assert list(file) == texts  # and anew
    assert len(file) == len(texts)


def test_another_column(write):
    assert list(TextFile(write("t.csv", "a,b\n1,2\n"), "b")) == ["2"]
    assert list(TextFile(write("t.jsonl", '{"a": "1", "b": "2"}\n'), "b")) == ["2"]


def test_a_long_field_is_read(write):
    long = "x" * 300_000  # beyond the csv module's own limit
    assert list(TextFile(write("t.csv", f"text\n{long}\n"))) == [long]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "id,body\n1,x\n", r"its header has no 'text', but 'id', 'body'"),
        ("t.csv", "id,text\n1\n", r"line 2 has 1 columns, but the header has 2"),
        ("t.csv", 'text\n"a" b\n', r"line 2: "),
        ("t.jsonl", '{"text": "a"}\n{"text": \n', r"line 2 is not JSON"),
        ("t.jsonl", '{"body": "a"}\n', r"line 1 has no 'text', but 'body'; .* --text-column"),
        ("t.jsonl", '{"text": 3}\n', r"line 1: 'text' is not a text"),
        ("t.jsonl", "[1]\n", r"line 1: 'text' is not a text"),
        ("t.txt", b"\xff\xfeone", r"t\.txt is not a text file in UTF-8"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(name, content, said, write):
    with pytest.raises(ValueError, match=said):
        len(TextFile(write(name, content)))


def test_an_unknown_kind_of_file():
    with pytest.raises(ValueError, match=r"ends in \.txt, \.jsonl, \.csv, \.tsv, not t\.parquet"):
        TextFile("t.parquet")
