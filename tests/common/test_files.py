import stat

import pytest

from cameraready.common import atomic_write


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "results.json"
    path.write_text("old")
    with atomic_write(path) as file:
        file.write("new é\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "new é\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


def test_an_error_leaves_nothing_behind(tmp_path):
    path = tmp_path / "results.json"
    path.write_text("old")

    def fail():
        with atomic_write(path, "wb") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


def test_the_file_has_the_usual_mode(tmp_path):
    with atomic_write(tmp_path / "ours"):
        pass
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")}
    assert len(modes) == 1


def test_a_folder_that_is_not_there_is_told_with_the_name_that_was_asked_for(tmp_path):
    wanted = tmp_path / "none" / "report.csv"
    with pytest.raises(FileNotFoundError) as caught, atomic_write(wanted):
        pass
    assert caught.value.filename == str(wanted)
