import pytest

from cameraready.obprop.audit_files import read_names, read_templates


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "list"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_names_and_groups(write):
    path = write("group,name,note\nf,Mary,\n m , John ,x\n")
    assert read_names(path) == {"Mary": "f", "John": "m"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "columns name and group"),
        ("name\nMary\n", "columns name and group"),
        ("name,group\nMary\n", "line 2 must hold a name and a group"),
        ("name,group\nMary,f\n,m\n", "line 3 must hold a name and a group"),
        ("name,group\nMary,f\nMary,m\n", "'Mary' is in the groups 'f' and 'm'"),
        (b"\xff\xfea", "is not a text file in UTF-8"),
    ],
)
def test_wrong_names(content, said, write):
    with pytest.raises(ValueError, match=said):
        read_names(write(content))


def test_templates_for_all_and_for_one(write):
    path = write("Here is NAME\n\nb\tNAME, isn't\n")
    assert read_templates(path, ["a", "b"]) == {
        "a": ["Here is NAME"],
        "b": ["Here is NAME", "NAME, isn't"],
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Here is NAME\nc\tNAME\n", "line 2: 'c' is none of the observables a, b"),
        ("Here is Mary\n", "line 1: 'Here is Mary' must have the word NAME in it"),
    ],
)
def test_wrong_templates(content, said, write):
    with pytest.raises(ValueError, match=said):
        read_templates(write(content), ["a", "b"])
