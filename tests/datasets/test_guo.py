import sys

import numpy as np
import pandas as pd
import pytest
import rdata
import xarray

from cameraready.common import cache_folder
from cameraready.datasets import guo, guo_embryo

PLACE = "usr/lib/R/site-library/destiny/data"


@pytest.fixture
def read(monkeypatch):
    """Files named guo_norm.rda are read as a set of two genes in three cells; which, is kept."""
    seen = []

    def read_rda(file, *, constructor_dict):
        seen.append(file)
        cells = pd.DataFrame({"Cell": ["2C 1.1", "2C 1.2", "4C 1.1"], "num_cells": [2.0, 2.0, 4.0]})
        expression = xarray.DataArray(
            np.arange(6.0).reshape(2, 3), dims=("gene", "cell"), coords={"gene": ["Actb", "Cdx2"]}
        ).rename(gene="dim_0")
        make = constructor_dict["ExpressionSet"]
        frame = constructor_dict["AnnotatedDataFrame"]({}, {"data": cells})
        return {"guo_norm": make({}, {"assayData": {"exprs": expression}, "phenoData": frame})}

    monkeypatch.setattr(rdata, "read_rda", read_rda)
    return seen


def _put(folder):
    folder.mkdir(parents=True)
    (folder / "guo_norm.rda").touch()
    return folder / "guo_norm.rda"


def test_cells_are_rows(read, tmp_path):
    data = guo_embryo(_put(tmp_path / "here"))
    assert data["cycles"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert data["stage"].tolist() == [2, 2, 4]
    assert data["genes"].tolist() == ["Actb", "Cdx2"]
    assert data["cells"].tolist() == ["2C 1.1", "2C 1.2", "4C 1.1"]
    assert "GPL-3" in data.source


@pytest.mark.parametrize("below", ["", "destiny/data", PLACE])
def test_a_folder_may_be_the_files_own_or_r_s_library_or_an_unpacked_package(read, tmp_path, below):
    file = _put(tmp_path / "root" / below)
    guo_embryo(tmp_path / "root")
    assert read == [file]


def test_the_cache_is_looked_at_before_r(read, tmp_path, monkeypatch):
    monkeypatch.setattr(guo, "_R_LIBRARY", tmp_path / "library")
    in_r = _put(tmp_path / "library" / "destiny" / "data")
    guo_embryo()
    cached = _put(cache_folder("debian", "r-bioc-destiny", PLACE))
    guo_embryo()
    assert read == [in_r, cached]


def test_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(guo, "_R_LIBRARY", tmp_path / "library")
    with pytest.raises(FileNotFoundError, match=r"cameraready.datasets.debian r-bioc-destiny"):
        guo_embryo()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        guo_embryo(tmp_path / "nowhere")


def test_without_rdata(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdata", None)
    with pytest.raises(ImportError, match="pip install rdata"):
        guo_embryo(_put(tmp_path / "here"))


def test_rdata_still_has_what_the_reader_uses():
    constructor = rdata.conversion.DEFAULT_CLASS_MAP["data.frame"]
    assert callable(constructor)
    assert not {"ExpressionSet", "MIAME"} & set(rdata.conversion.DEFAULT_CLASS_MAP)
