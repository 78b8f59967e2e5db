import numpy as np
import pytest

from cameraready.datasets import cite_days


def test_one_table_a_day(tmp_path):
    tables = {day: np.full((day, 100), float(day)) for day in (2, 3, 4, 7)}
    for day, table in tables.items():
        np.save(tmp_path / f"full_cite_pcas_100_day_{day}.npy", table)
    data = cite_days(tmp_path, 100)
    assert list(data.arrays) == ["day_2", "day_3", "day_4", "day_7"]
    for day, table in tables.items():
        np.testing.assert_array_equal(data[f"day_{day}"], table)
    assert list(cite_days(tmp_path, 100, days=[7]).arrays) == ["day_7"]


def test_a_missing_day_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"full_cite_pcas_50_day_2.npy is not in"):
        cite_days(tmp_path)


@pytest.mark.parametrize(
    "content", [np.array([{"a": 1}], dtype=object), np.zeros((3, 4)), np.zeros(50), "no numbers"]
)
def test_anything_but_such_a_table_is_refused(tmp_path, content):
    file = tmp_path / "full_cite_pcas_50_day_2.npy"
    if isinstance(content, str):
        file.write_text(content)
    else:
        np.save(file, content, allow_pickle=True)
    with pytest.raises(ValueError, match=r"full_cite_pcas_50_day_2.npy (must hold|is not)"):
        cite_days(tmp_path, days=[2])
