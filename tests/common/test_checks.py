import math

import numpy as np
import pytest

from cameraready.common import (
    check_choice,
    check_greater,
    check_interval,
    check_positive,
    check_writable_folder,
)


def test_good_values_come_back():
    assert check_positive("sigma", np.float32(0.5)) == 0.5
    assert check_greater("arl", 2, 1) == 2.0
    assert check_choice("kind", "sr", ("sr", "cusum")) == "sr"
    assert check_interval("range", [0, np.int64(1)]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: check_positive("sigma", 0), ValueError, "sigma must be a finite number greater"),
        (lambda: check_positive("sigma", math.inf), ValueError, "sigma"),
        (lambda: check_positive("sigma", math.nan), ValueError, "sigma"),
        (lambda: check_positive("sigma", "1"), TypeError, "sigma must be a number, not '1'"),
        (lambda: check_positive("sigma", True), TypeError, "sigma"),
        (lambda: check_greater("arl", 1, 1), ValueError, r"arl .* greater than 1, not 1"),
        (lambda: check_choice("kind", "x", ("sr",)), ValueError, "kind must be one of 'sr'"),
        (lambda: check_interval("range", (1, 0)), ValueError, r"range .* lower one first"),
        (lambda: check_interval("range", (0, math.inf)), ValueError, "range"),
        (lambda: check_interval("range", 3), TypeError, "range must be a pair"),
        (lambda: check_interval("range", (0, 1, 2)), TypeError, "range must be a pair"),
        (lambda: check_interval("range", ("a", 1)), TypeError, r"range\[0\]"),
    ],
)
def test_bad_values_are_named(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_writable_folder(tmp_path):
    assert check_writable_folder(tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match=r"cannot write to the folder .*name another one"):
        check_writable_folder(file / "below")
    with pytest.raises(ValueError, match="cannot write to the folder"):
        check_writable_folder(file)
