"""Points from every format and back, and what is said of files that are wrong."""

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from cameraready.lightsb.anndata_files import read_anndata, write_anndata
from cameraready.lightsb.point_files import (
    check_output,
    read_points,
    write_paths,
    write_samples,
)

POINTS = np.array([[0.1, -2.0], [1 / 3, 4e-17], [5.0, 6.0]])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(name):
    if name.endswith(".npy"):
        np.save(name, POINTS)
    elif name.endswith(".npz"):
        np.savez(name, points=POINTS)
    elif name.endswith(".csv"):
        pd.DataFrame(POINTS, columns=["a", "b"]).to_csv(name, index=False)
    elif name.endswith(".parquet"):
        pd.DataFrame(POINTS, columns=["a", "b"]).to_parquet(name)
    else:
        obs = pd.DataFrame({"mass": [1.0, 2.0, 3.0]}, index=["u", "v", "w"])
        adata = anndata.AnnData(POINTS, obs=obs, var=pd.DataFrame(index=["a", "b"]))
        adata.obsm["X_pca"] = 10 * POINTS
        write_anndata(Path(name), adata)
    return name


@pytest.mark.parametrize("name", ["p.npy", "p.npz", "p.csv", "p.parquet", "p.h5ad", "P.CSV"])
def test_every_format_gives_the_same_points(name, folder):
    make(name.lower())
    (folder / name.lower()).rename(folder / name)
    read = read_points(name)
    np.testing.assert_array_equal(read.points, POINTS)
    assert read.names == (None if "np" in name else ["a", "b"])
    assert read.feature_names == (["x0", "x1"] if "np" in name else ["a", "b"])


def test_columns_are_chosen_and_ordered(folder):
    for name in ("p.csv", "p.parquet", "p.h5ad"):
        read = read_points(make(name), ["b"])
        np.testing.assert_array_equal(read.points, POINTS[:, 1:])
        assert read.names == ["b"]
    read = read_points("p.csv", ["b", "a"])
    np.testing.assert_array_equal(read.points, POINTS[:, ::-1])


def test_weights_are_no_feature(folder):
    (folder / "w.csv").write_text("a,mass,b\n1,5,2\n3,6,4\n")
    read = read_points("w.csv", weights="mass")
    assert read.names == ["a", "b"]
    assert read.weights.tolist() == [5, 6]
    read = read_points(make("p.h5ad"), weights="mass")
    assert read.weights.tolist() == [1, 2, 3]


def test_parts_of_files(folder):
    read = read_points(make("p.h5ad") + ":X_pca")
    np.testing.assert_array_equal(read.points, 10 * POINTS)
    assert (read.names, read.basis, read.rows) == (["X_pca-0", "X_pca-1"], "X_pca", list("uvw"))
    np.savez("two.npz", first=POINTS, second=POINTS + 1)
    np.testing.assert_array_equal(read_points("two.npz:second").points, POINTS + 1)


def test_numbers_of_other_types_are_numbers(folder):
    np.save("whole.npy", np.array([[1, 2]]))
    assert read_points("whole.npy").points.dtype == float
    np.save("single.npy", POINTS.astype(np.float32))
    assert read_points("single.npy").points.dtype == np.float32
    pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": [True, False]}).to_parquet("i.parquet")
    assert read_points("i.parquet").points.tolist() == [[1, 1], [2, 0]]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "a,b\n", "t.csv has a header, but no rows"),
        ("t.csv", "1,2\n3,4\n", "t.csv has no header"),
        ("t.csv", "a,a\n1,2\n", "t.csv: two columns are called 'a'"),
        ("t.csv", "a,b\n1,2\nx,4\n", "t.csv: row 1, column 'a' is 'x', not a finite number"),
        ("t.csv", "a,b\n1,\n3,4\n", "t.csv: row 0, column 'b' is empty"),
        ("t.csv", f"a\n{'x' * 99}\n", f"t.csv: row 0, column 'a' is '{'x' * 39}…, not"),
        ("t.csv", "a,b\n1,2\n3,inf\n", "t.csv: row 1, column 'b' is 'inf'"),
        ("t.csv", "a,b\n1,2\n3,4,5\n", "t.csv cannot be read as .csv"),
        ("t.csv", b"a,b\n\xff,2\n", "t.csv cannot be read as .csv"),
        ("t.npy", "no array", "t.npy cannot be read as .npy"),
        ("t.npz", b"PK\x03\x04 nothing", "t.npz cannot be read as .npz"),
        ("t.parquet", "no table", "t.parquet cannot be read as .parquet"),
        ("t.h5ad", "no cells", "t.h5ad cannot be read as .h5ad"),
        ("t.txt", "a\n1\n", "t.txt must end in .npy, .npz, .csv, .parquet or .h5ad"),
    ],
)
def test_wrong_files_are_named(name, content, said, folder):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"^.") as caught:
        read_points(name)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(3), r"a\.npy must have rows and columns of points, but its shape is \(3,\)"),
        (np.zeros((0, 2)), r"a\.npy must have rows and columns"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), r"a\.npy: row 1, column 1 is nan"),
        (np.array([["1", "2"]]), r"a\.npy must hold numbers, not <U1"),
        (np.array([[1j, 2.0]]), r"a\.npy must hold numbers, not complex"),
    ],
)
def test_wrong_arrays_are_named(array, said, folder):
    np.save("a.npy", array)
    with pytest.raises((ValueError, TypeError), match=said):
        read_points("a.npy")


def test_pickles_are_not_loaded(folder):
    np.save("a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy cannot be read"):
        read_points("a.npy")


def test_missing_parts_and_columns_are_named(folder):
    make("p.h5ad")
    np.savez("two.npz", first=POINTS, second=POINTS)
    for file, columns, said in (
        (make("p.csv"), ["a", "z"], r"p\.csv has no column 'z'; it has a, b"),
        ("p.csv", ["a", "a"], "twice"),
        ("p.h5ad", ["z"], r"p\.h5ad has no column 'z'"),
        ("p.h5ad:X_umap", None, r"p\.h5ad has no basis 'X_umap' in obsm; it has \['X_pca'\]"),
        ("two.npz", None, r"two\.npz has the arrays first, second: name one as two\.npz:NAME"),
        ("two.npz:third", None, r"two\.npz has no array 'third'; it has first, second"),
    ):
        with pytest.raises(ValueError, match=said):
            read_points(file, columns)
    with pytest.raises(ValueError, match=r"obs of p\.h5ad has no column 'z'"):
        read_points("p.h5ad", weights="z")
    with pytest.raises(ValueError, match="arrays have no named columns"):
        read_points(make("p.npy"), weights="z")
    with pytest.raises(FileNotFoundError):
        read_points("nowhere.csv")


def test_sparse_and_missing_x(folder):
    names = pd.DataFrame(index=["u", "v", "w"]), pd.DataFrame(index=["a", "b"])
    adata = anndata.AnnData(csr_matrix(POINTS), obs=names[0], var=names[1])
    write_anndata(Path("sparse.h5ad"), adata)
    with pytest.raises(TypeError, match=r"X of sparse\.h5ad is a sparse matrix: reduce it first"):
        read_points("sparse.h5ad")
    write_anndata(Path("none.h5ad"), anndata.AnnData(obs=names[0], obsm={"X_pca": POINTS}))
    with pytest.raises(ValueError, match=r"none\.h5ad has no X: name a basis"):
        read_points("none.h5ad")
    np.testing.assert_array_equal(read_points("none.h5ad:X_pca").points, POINTS)


SAMPLES = np.arange(12.0).reshape(3, 2, 2)
ROWS, DRAWS = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_samples_in_tables(kind, folder):
    write_samples(folder / f"s.{kind}", read_points(make("p.csv")), SAMPLES)
    table = pd.read_csv("s.csv") if kind == "csv" else pd.read_parquet("s.parquet")
    assert list(table) == ["row", "sample", "a", "b"]
    assert table["row"].tolist() == ROWS
    assert table["sample"].tolist() == DRAWS
    np.testing.assert_array_equal(table[["a", "b"]], SAMPLES.reshape(6, 2))
    assert sorted(path.name for path in folder.iterdir()) == ["p.csv", f"s.{kind}"]


def test_samples_in_arrays(folder):
    source = read_points(make("p.csv"))
    write_samples(folder / "s.npy", source, SAMPLES)
    np.testing.assert_array_equal(np.load("s.npy"), SAMPLES)
    write_samples(folder / "s.npy", source, SAMPLES[:, :1])
    np.testing.assert_array_equal(np.load("s.npy"), SAMPLES[:, 0])
    write_samples(folder / "s.npz", source, SAMPLES)
    with np.load("s.npz") as saved:
        assert (saved["row"].tolist(), saved["sample"].tolist()) == (ROWS, DRAWS)
        assert saved["features"].tolist() == ["a", "b"]
        np.testing.assert_array_equal(saved["X"], SAMPLES.reshape(6, 2))


def test_samples_in_anndata(folder):
    write_samples(folder / "s.h5ad", read_points(make("p.h5ad") + ":X_pca"), SAMPLES)
    saved = read_anndata(folder / "s.h5ad")
    assert saved.obs["source_cell"].tolist() == ["u", "u", "v", "v", "w", "w"]
    assert saved.obs["sample"].tolist() == DRAWS
    np.testing.assert_array_equal(saved.X, SAMPLES.reshape(6, 2))
    np.testing.assert_array_equal(saved.obsm["X_pca"], SAMPLES.reshape(6, 2))


def test_a_feature_that_is_called_row(folder):
    (folder / "p.csv").write_text("row,b\n1,2\n")
    with pytest.raises(ValueError, match="two columns 'row'"):
        write_samples(folder / "s.csv", read_points("p.csv"), SAMPLES[:1])
    assert not (folder / "s.csv").exists()


def test_paths_in_every_format(folder):
    source, times = read_points(make("p.csv")), np.array([0.0, 1.0])
    for kind in ("csv", "parquet", "npy", "npz"):
        write_paths(folder / f"s.{kind}", source, times, SAMPLES)
    for table in (pd.read_csv("s.csv"), pd.read_parquet("s.parquet")):
        assert list(table) == ["row", "time", "a", "b"]
        assert table["time"].tolist() == [0, 1, 0, 1, 0, 1]
        np.testing.assert_array_equal(table[["a", "b"]], SAMPLES.reshape(6, 2))
    np.testing.assert_array_equal(np.load("s.npy"), SAMPLES)
    with np.load("s.npz") as saved:
        np.testing.assert_array_equal(saved["paths"], SAMPLES)
        np.testing.assert_array_equal(saved["times"], times)


def test_outputs_are_checked_before(folder):
    (folder / "p.h5ad").touch()
    check_output(folder / "new.csv", "--out", (".csv",), "p.h5ad")
    for path, said in (
        ("new.txt", r"--out must end in \.csv or \.h5ad, not 'new\.txt'"),
        ("nowhere/new.csv", "--out: there is no folder nowhere"),
        ("p.h5ad", r"--out would overwrite p\.h5ad:X_pca: name another file"),
    ):
        with pytest.raises(ValueError, match=said):
            check_output(Path(path), "--out", (".csv", ".h5ad"), "p.h5ad:X_pca")


def test_what_is_text_survives_a_file(folder):
    obs = pd.DataFrame(
        {"word": ["one", None, "two"], "kind": pd.Categorical(["a", "b", "a"]), "n": [1, 2, 3]},
        index=["u", "v", "w"],
    )
    write_anndata(folder / "a.h5ad", anndata.AnnData(obs=obs, obsm={"X_pca": POINTS}))
    # What was read can be written again.
    write_anndata(folder / "b.h5ad", read_anndata(folder / "a.h5ad"))
    again = read_anndata(folder / "b.h5ad")
    assert again.obs["word"].tolist()[::2] == ["one", "two"]
    assert again.obs["kind"].tolist() == ["a", "b", "a"]
    assert again.obs_names.tolist() == ["u", "v", "w"]
    with pytest.raises(ValueError, match=r"must be an \.h5ad"):
        read_anndata(folder / "a.csv")


def test_a_failed_write_leaves_nothing(folder):
    adata = anndata.AnnData(obs=pd.DataFrame(index=["u"]), obsm={"X_pca": POINTS[:1]})
    adata.uns["what"] = object()
    with pytest.raises(Exception, match="No method registered"):
        write_anndata(folder / "a.h5ad", adata)
    assert list(folder.iterdir()) == []
