"""The verbs on real files, in this process and in one of their own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from cameraready.app import run
from cameraready.minmax import METHODS, SolverState, kuhn_poker
from cameraready.minmax.commands import MethodName

KUHN = Path(__file__).parents[2] / "examples" / "kuhn_poker.csv"
GAME = "3,-1,2\n-2,4,1\n0,1,-3\n"  # value .6, x = (.2, 0, .8), y = (.4, .6, 0)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the folder in which commands then run."""
    monkeypatch.chdir(tmp_path)

    def write(name, content):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write


@pytest.fixture
def call(capsys):
    """Run a verb: exit code, what it printed as JSON, standard error."""

    def call(*tokens):
        capsys.readouterr()
        code = run(["minmax", *map(str, tokens)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return call


@pytest.fixture
def refused(call):
    """Run a verb on bad input; its sentence."""

    def refused(*tokens):
        code, out, err = call(*tokens)
        assert (code, out) == (2, None)
        *_, last = err.splitlines()
        assert last.startswith("cameraready: ")
        return last.removeprefix("cameraready: ")

    return refused


def test_the_methods_on_the_command_line_are_those_of_the_library():
    assert get_args(MethodName) == tuple(METHODS)


# game.


def test_kuhn_poker_from_its_file(call):
    code, out, err = call(
        "game", KUHN, "--maximize-rows", "--max-iter", 1500, "--restart", "anchor", "--check"
    )
    assert code == 0
    assert out["status"] == "converged"
    assert abs(out["value"] + 1 / 18) <= 1e-7
    assert out["gap"] <= 1e-6
    assert out["iterations"] <= 1500
    low, high = out["value_bounds"]
    assert low <= -1 / 18 <= high
    assert high - low == pytest.approx(out["gap"])
    assert abs(out["check"]["difference"]) <= 1e-7
    assert sum(out["row_strategy"].values()) == pytest.approx(1.0)
    assert "27 rows, 64 columns" in err


def test_the_example_is_the_librarys_game():
    lines = [line.split(",") for line in KUHN.read_text().splitlines()]
    assert np.array_equal([[float(cell) for cell in line[1:]] for line in lines[1:]], kuhn_poker())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs(method, write, call):
    code, out, _ = call("game", write("g.csv", GAME), "--method", method, "--tol", "0.05")
    assert code == (0 if out["converged"] else 1)
    assert out["converged"] == (method not in ("gda", "alternating-gda"))
    assert out["gap"] <= 0.05 or not out["converged"]


def test_rows_minimise_unless_asked(write, call):
    path = write("g.csv", GAME)
    _, out, _ = call("game", path)
    assert out["value"] == pytest.approx(0.6, abs=1e-6)
    assert out["row_strategy"] == pytest.approx({"1": 0.2, "3": 0.8}, abs=1e-5)
    assert out["column_strategy"] == pytest.approx({"1": 0.4, "2": 0.6}, abs=1e-5)
    _, out, _ = call("game", path, "--maximize-rows", "--check")
    assert out["check"]["difference"] == pytest.approx(0.0, abs=1e-6)
    assert out["value"] == pytest.approx(1.0, abs=1e-6)


def test_out_has_every_strategy(write, call):
    path = write("g.csv", "move,left,mid,right\n" + "".join(
        f"{name},{row}\n" for name, row in zip("ABC", GAME.splitlines(), strict=True)
    ))  # fmt: skip
    _, out, err = call("game", path, "--out", "s.json")
    saved = json.loads(Path("s.json").read_text())
    assert list(out["row_strategy"]) == ["A", "C"]
    assert list(saved["row_strategy"]) == ["A", "B", "C"]
    assert list(saved["column_strategy"]) == ["left", "mid", "right"]
    assert saved["gap"] == out["gap"]
    assert "first row and first column" in err


def test_a_cap_gives_the_result_and_one(call):
    code, out, _ = call("game", KUHN, "--maximize-rows", "--max-iter", 20)
    assert code == 1
    assert out["status"] == "max_iter"
    assert out["iterations"] == 20
    assert out["gap"] > 1e-3


def test_a_baseline_that_does_not_converge_is_reported(write, call):
    code, out, _ = call("game", write("g.csv", GAME), "--method", "gda", "--max-iter", 500)
    assert code == 1
    assert out["status"] == "max_iter"
    assert out["gap"] > 0.1


def test_a_resumed_run_is_the_whole_one(write, call):
    write("unused", "")
    whole = call("game", KUHN, "--maximize-rows", "--tol", "1e-8", "--resume", "whole.npz")[1]
    assert call("game", KUHN, "--maximize-rows", "--max-iter", 300, "--resume", "s.npz")[0] == 1
    code, rest, err = call("game", KUHN, "--maximize-rows", "--tol", "1e-8", "--resume", "s.npz")
    assert code == 0
    assert rest["iterations"] == whole["iterations"] - 300
    assert "going on from s.npz" in err
    states = [SolverState.load(name).state.z for name in ("whole.npz", "s.npz")]
    assert np.array_equal(*states)


def test_a_state_saved_in_between_changes_nothing(write, call, monkeypatch):
    write("unused", "")
    whole = call("game", KUHN, "--maximize-rows")[1]
    monkeypatch.setattr("cameraready.minmax.long_runs._SAVE_EVERY", 0.0)  # after each iteration
    saved = call("game", KUHN, "--maximize-rows", "--resume", "s.npz")[1]
    assert saved == whole
    code, out, _ = call("game", KUHN, "--maximize-rows", "--max-iter", 5, "--resume", "t.npz")
    assert (code, out["status"], out["iterations"]) == (1, "max_iter", 5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_state(number, tmp_path):
    command = [
        sys.executable, "-c", "from cameraready.app import main; main()", "minmax", "game", KUHN,
        "--restart", "none", "--tol", "1e-12", "--max-iter", "100000000", "--resume", "s.npz",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(str(KUHN))
    time.sleep(1.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "interrupted: the state is in s.npz" in err
    found = json.loads(out)
    assert found["status"] == "stopped"
    assert found["iterations"] > 10
    assert SolverState.load(tmp_path / "s.npz").state.k == found["iterations"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "g.csv is empty"),
        ("\n \n", "g.csv is empty"),
        ("a,b\n", "g.csv has a header, but no payoffs"),
        ("1,2\n3\n", "row 2 has 1 columns, but row 1 has 2"),
        ("1,2\n\n3,4,5\n", "row 3 has 3 columns, but row 1 has 2"),
        ("1,2\n3,x\n", "row 2, column 2 is 'x', which is not a number"),
        # With a number beside the corner the first row is no header.
        ("1,x,2\n3,4,5\n", "row 1, column 2 is 'x', which is not a number"),
        ("a,b\n1,2\nx,4\n", "row 3, column 1 is 'x', which is not a number"),
        ("1,2\n3,\n", "row 2, column 2 is empty"),
        ("1,2\n3,nan\n", "row 2, column 2 is 'nan', which is not a finite number"),
        ("1,inf\n3,4\n", "row 1, column 2 is 'inf', which is not a finite number"),
        ("3,4\n1,1_0\n", "row 2, column 2 is '1_0', which is not a number"),
        (",a,a\nr,1,2\n", "two columns are called 'a'"),
        (",a,b\nr,1,2\nr,3,4\n", "two rows are called 'r'"),
        (b"\xff\xfe1,2", "g.csv is not a text file in UTF-8"),
    ],
)
def test_a_wrong_payoff_is_told_with_its_place(content, said, write, refused):
    assert said in refused("game", write("g.csv", content))


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["nowhere.csv"], "nowhere.csv: no such file"),
        (["g.csv", "--method", "sgd"], "sgd"),
        (["g.csv", "--restart", "often"], "often"),
        (["g.csv", "--tol", "0"], "tol must be"),
        (["g.csv", "--tol", "-1"], "tol must be"),
        (["g.csv", "--max-iter", "0"], "max_iter must be"),
        (["g.csv", "--method", "eg", "--restart", "anchor"], "no anchor"),
        (["g.csv", "--out", "g.csv"], "would overwrite"),
        (["g.csv", "--out", "no/where.json"], "no folder no"),
        (["g.csv", "--resume", "no/s.npz"], "no folder no"),
        (["g.csv", "--resume", "g.csv"], "g.csv holds no state"),
        ([], "payoff"),
    ],
)
def test_wrong_options_of_game(tokens, said, write, refused):
    write("g.csv", GAME)
    assert said.lower() in refused("game", *tokens).lower()
    assert Path("g.csv").read_text() == GAME


def test_a_state_of_something_else_is_refused(write, call, refused):
    write("g.csv", GAME)
    write("other.csv", GAME.replace("4", "5"))
    write("larger.csv", "1,2,3,4\n4,3,2,1\n")
    call("game", "g.csv", "--resume", "s.npz")
    assert "another problem" in refused("game", "other.csv", "--resume", "s.npz")
    assert "another problem" in refused("game", "larger.csv", "--resume", "s.npz")
    assert "method 'feg'" in refused("game", "g.csv", "--method", "eg", "--resume", "s.npz")


# lp.

MAXIMUM = """max
 obj: 3 x + 2 y - z + 10
st
 a: x + y + z <= 6
 b: x - y <= 2
 c: x + 3 z = 3
bounds
 z <= 1
 y free
end
"""


def test_a_maximum_with_ranges_agrees_with_highs(write, call):
    import highspy

    highs = highspy.Highs()
    highs.silent()
    highs.readModel(write("m.lp", MAXIMUM))
    highs.changeRowBounds(1, 0.5, 2.5)  # a range, which LP files do not have
    highs.writeModel("m.mps")
    highs.run()
    exact = highs.getSolution()
    code, out, _ = call("lp", "m.mps", "--check", "--tol", "1e-9", "--out", "s.json")
    assert code == 0
    assert out["check"]["status"] == "Optimal"
    assert abs(out["check"]["relative_difference"]) <= 1e-7
    saved = json.loads(Path("s.json").read_text())
    assert list(saved["variables"]) == ["x", "y", "z"]
    assert list(saved["variables"].values()) == pytest.approx(list(exact.col_value), abs=1e-6)
    assert list(saved["row_duals"].values()) == pytest.approx(list(exact.row_dual), abs=1e-6)
    assert saved["dual_objective"] == pytest.approx(saved["objective"], abs=1e-6)


def test_an_mps_file(write, call):
    mps = (
        "NAME T\nROWS\n N COST\n L LIM1\n G LIM2\n E MYEQN\nCOLUMNS\n X COST 1 LIM1 1\n X LIM2 1\n"
        " Y COST 2 LIM1 1\n Y MYEQN -1\n Z COST -1 MYEQN 1\nRHS\n RHS LIM1 4 LIM2 1\n RHS MYEQN 7\n"
        "BOUNDS\n UP BND X 4\n LO BND Y -1\n UP BND Y 1\nENDATA\n"
    )
    code, out, _ = call("lp", write("m.mps", mps), "--check")
    assert code == 0
    assert out["objective"] == pytest.approx(-7.0, abs=1e-4)
    assert max(out["errors"].values()) <= 1e-6


def test_bounds_alone_are_a_program_too(write, call):
    code, out, _ = call(
        "lp", write("m.lp", "min\n obj: x - y\nst\nbounds\n x >= 1\n y <= 3\nend\n")
    )
    assert (code, out["status"]) == (0, "converged")
    assert out["objective"] == pytest.approx(-2.0, abs=1e-5)


@pytest.mark.parametrize(
    ("content", "status", "word"),
    [
        ("min\n obj: x\nst\n a: x >= 2\n b: x <= 1\nend\n", "infeasible", "HiGHS: "),
        ("min\n obj: x - y\nst\n a: x - y <= 1\nend\n", "unbounded", "HiGHS: "),
        ("min\n obj: - y\nst\nend\n", "unbounded", "HiGHS: "),
        ("min\n obj: x\nst\n a: x >= 0\nbounds\n 3 <= x <= 2\nend\n", "infeasible", "HiGHS: "),
        ("", "empty", "HiGHS: Empty"),
    ],
)
def test_a_program_without_a_solution(content, status, word, write, call):
    code, out, _ = call("lp", write("m.lp", content), "--max-iter", 2000)
    assert code == 1
    assert out["status"] == status
    assert out["message"].startswith(word)
    assert "objective" not in out


def test_a_capped_program_is_reported(write, call):
    code, out, _ = call("lp", write("m.lp", MAXIMUM), "--max-iter", 5)
    assert (code, out["status"]) == (1, "max_iter")
    assert max(out["errors"].values()) > 1e-6


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("m.lp", "garbage here\n", "m.lp: HiGHS cannot read"),
        ("m.mps", "garbage here\n", "m.mps: HiGHS cannot read"),
        ("m.txt", "min\n x\nend\n", "must be named .mps or .lp"),
        ("m.lp", "min\n obj: x\nst\n a: x >= 0.5\ngeneral\n x\nend\n", "integer variables"),
        ("m.lp", "min\n obj: x + [ x^2 ] / 2\nst\n a: x >= 1\nend\n", "quadratic"),
    ],
)
def test_a_model_that_is_not_one(name, content, said, write, refused):
    assert said in refused("lp", write(name, content))


def test_a_missing_model(refused):
    assert refused("lp", "nowhere.mps") == "nowhere.mps: no such file or directory"


def test_highs_is_silent(write):
    path = write("m.lp", MAXIMUM)
    command = [sys.executable, "-c", "from cameraready.app import main; main()", "minmax", "lp"]
    done = subprocess.run([*command, path], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["converged"]
    assert done.stderr == ""


# vi.

PROBLEMS = """
import numpy as np
import helper
from cameraready.minmax import VI, Box, MinMax, MatrixGame

def rotation():
    a, b = -0.4, 0.84**0.5
    return VI(lambda z: np.array([a * z[0] + b * z[1], a * z[1] - b * z[0]]), np.ones(2))

def box():
    return VI(helper.turn, np.array([1.0, 0.25]), Box(-0.5, 0.5))

def saddle():
    jac = lambda x, y: ({"a": y["b"]}, {"b": x["a"]})
    return MinMax(None, {"a": np.ones(1)}, {"b": np.ones(1)}, jac=jac)

def game():
    return MatrixGame([[0.0, 1.0], [1.0, 0.0]])

def number():
    return 3

def broken():
    return VI(lambda z: z / nothing, np.ones(2))

def late():
    raise KeyError("late")

constant = 4
"""


@pytest.fixture
def problems(write):
    write("helper.py", "import numpy as np\n\ndef turn(z):\n    return np.array([z[1], -z[0]])\n")
    return write("problems.py", PROBLEMS)


@pytest.mark.parametrize("verb", ["vi", "solve"])
def test_a_problem_of_ones_own(verb, problems, call):
    code, out, _ = call(verb, f"{problems}:box", "--tol", "1e-3", "--out", "z.json")
    assert code == 0
    assert out["residual"] <= 1e-3
    assert np.abs(out["z"]).max() <= 0.5
    assert json.loads(Path("z.json").read_text()) == {"z": out["z"]}
    assert "projected" in out["message"]  # the start was outside
    assert not Path("__pycache__").exists()


def test_a_problem_that_is_not_monotone(problems, call):
    code, out, _ = call(
        "vi", f"{problems}:rotation", "--rho", "-0.4", "--lipschitz", "1", "--tol", "1e-2"
    )
    assert (code, out["status"], out["rho"]) == (0, "converged", -0.4)
    code, out, _ = call("vi", f"{problems}:rotation", "--rho", "auto", "--tol", "1e-2")
    assert code == 0
    assert out["rho"] < 0


@pytest.mark.parametrize("method", ["eg", "ogda", "gda", "halpern"])
def test_a_baseline_that_diverges_is_reported(method, problems, call):
    code, out, _ = call(
        "vi", f"{problems}:rotation", "--method", method, "--lipschitz", "1",
    )  # fmt: skip
    assert code == 1
    assert out["status"] == "diverged"
    assert "NaN or infinite" in out["message"]
    assert out["residual"] > 1e100


def test_players_are_written_as_they_are(problems, call):
    code, out, _ = call("vi", f"{problems}:saddle", "--tol", "1e-2", "--out", "z.npz")
    assert code == 0
    with np.load("z.npz", allow_pickle=False) as saved:
        assert sorted(saved) == ["x.a", "y.b"]
        assert saved["x.a"].tolist() == out["x"]["a"]
    code, out, _ = call("vi", f"{problems}:game", "--lipschitz", "power")
    assert (code, out["gap"]) == (0, 0.0)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["problems.py"], "FILE.py:function"),
        (["problems.py:no such"], "FILE.py:function"),
        (["problems.py:nothing"], "problems.py has no function 'nothing'"),
        (["problems.py:constant"], "problems.py has no function 'constant'"),
        (["problems.py:number"], "number() must return a VI"),
        (["problems.py:broken"], "problems.py, line 24: NameError"),
        (["problems.py:late"], "problems.py, line 27: KeyError"),
        (["syntax.py:late"], "syntax.py, line 2: "),
        (["missing.py:late"], "missing.py, line 1: ModuleNotFoundError"),
        (["nowhere.py:late"], "nowhere.py: no such file"),
        (["problems.py:box", "--step", "long"], "--step must be a number or auto"),
        (["problems.py:box", "--rho", "low"], "--rho must be a number or auto"),
        (["problems.py:box", "--lipschitz", "0"], "lipschitz"),
        (["problems.py:box", "--rho", "-0.6", "--lipschitz", "1"], "step + 2·rho > 0"),
        (["problems.py:box", "--step", "2", "--lipschitz", "1"], "step"),
        (["problems.py:box", "--method", "eg", "--rho", "-0.1"], "has no rho"),
        (["problems.py:box", "--method", "pdhg"], "pdhg"),
        (["problems.py:box", "--method", "alternating-gda"], "two players"),
        (["problems.py:box", "--out", "z.pkl"], ".json or .npz"),
    ],
)
def test_wrong_problems(tokens, said, problems, write, refused):
    write("syntax.py", "x = 1\ny = = 2\n")
    write("missing.py", "import no_such_module\n")
    assert said in refused("vi", *tokens)


# dro.


@pytest.fixture
def table(write):
    """Two overlapping classes, a rare group of which is turned round; one column is constant."""
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, 200)
    x = rng.normal(size=(200, 2)) + np.outer(2 * label - 1, [1.0, 0.5])
    x[:20, 0] *= -1
    rows = zip(x.round(4).tolist(), label, strict=True)
    text = "one,two,same,kind\n" + "".join(
        f"{1000 * a:g},{b},7,{'yes' if k else 'no'}\n" for (a, b), k in rows
    )
    return write("t.csv", text)


@pytest.mark.parametrize("option", [("--cvar", 0.1), ("--kl", 0.1), ("--chi2", 0.5)])
def test_a_robust_fit_is_better_in_the_worst_case(option, table, call):
    code, out, _ = call(
        "dro", table, "--target", "kind", *option, "--tol", "5e-3", "--out", "c.json"
    )
    assert (code, out["status"], out["examples"]) == (0, "converged", 200)
    assert 0 <= out["optimality_gap"] <= 5e-3
    assert out["robust"]["worst_case_loss"] < out["plain"]["worst_case_loss"]
    assert out["predicts"] == "yes"
    saved = json.loads(Path("c.json").read_text())
    assert list(saved["coefficients"]["robust"]) == ["one", "two", "same", "intercept"]


def test_the_plain_fit_is_scikit_learns(table, call):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    _, out, _ = call(
        "dro", table, "--target", "kind", "--cvar", 0.5, "--tol", 0.1, "--out", "c.json"
    )
    cells = [line.split(",") for line in Path(table).read_text().splitlines()[1:]]
    x = np.array([[float(cell) for cell in line[:2]] for line in cells])
    kind = np.array([line[3] == "yes" for line in cells])
    standard = (x - x.mean(0)) / x.std(0)
    model = LogisticRegression(tol=1e-8).fit(standard, kind)
    assert out["plain"]["average_loss"] == pytest.approx(
        log_loss(kind, model.predict_proba(standard)), rel=1e-6
    )
    plain = json.loads(Path("c.json").read_text())["coefficients"]["plain"]
    slopes = np.array([plain["one"], plain["two"]])
    assert slopes == pytest.approx(model.coef_[0] / x.std(0), rel=1e-4)
    assert x @ slopes + plain["intercept"] == pytest.approx(
        model.decision_function(standard), abs=1e-4
    )


def test_the_worst_tenth_is_the_mean_of_the_largest_losses(table, call):
    _, out, _ = call("dro", table, "--target", "kind", "--cvar", 0.1, "--tol", 1, "--out", "c.json")
    plain = json.loads(Path("c.json").read_text())["coefficients"]["plain"]
    cells = [line.split(",") for line in Path(table).read_text().splitlines()[1:]]
    x = np.array([[float(cell) for cell in line[:3]] for line in cells])
    sign = np.array([1.0 if line[3] == "yes" else -1.0 for line in cells])
    score = x @ [plain["one"], plain["two"], plain["same"]] + plain["intercept"]
    losses = np.sort(np.logaddexp(0, -sign * score))
    assert out["plain"]["worst_case_loss"] == pytest.approx(losses[-20:].mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("content", "tokens", "said"),
    [
        ("a,y\n1,0\n2,1\n", ["--target", "z", "--cvar", "0.1"], "no column 'z'; it has a, y"),
        ("a,y\n1,0\n2,1\n", ["--target", "y"], "one of --cvar, --kl and --chi2"),
        ("a,y\n1,0\n2,1\n", ["--target", "y", "--cvar", "0.1", "--kl", "1"], "one of --cvar"),
        ("a,y\n1,0\n2,1\n", ["--target", "y", "--cvar", "2"], "at most 1"),
        ("a,y\n1,0\n2,1\n", ["--target", "y", "--kl", "-1"], "radius must be"),
        ("a,y\n1,0\n2,1\n", ["--target", "y", "--kl", "1", "--l2", "0"], "l2 must be"),
        ("a,y\n1,0\nx,1\n", ["--target", "y", "--kl", "1"], "row 3, column 'a' is 'x'"),
        ("a,y\n1,0\n,1\n", ["--target", "y", "--kl", "1"], "row 3, column 'a' is empty"),
        ("a,y\n1,0\nnan,1\n", ["--target", "y", "--kl", "1"], "row 3, column 'a' is 'nan'"),
        ("a,y\n1,0\n2,\n", ["--target", "y", "--kl", "1"], "row 3 has no value in column 'y'"),
        ("a,y\n1,0\n2,0\n", ["--target", "y", "--kl", "1"], "two labels, but it holds 1: '0'"),
        ("a,y\n1,0\n2,1\n3,2\n", ["--target", "y", "--kl", "1"], "two labels, but it holds 3"),
        ("a,y\n", ["--target", "y", "--kl", "1"], "has a header, but no rows"),
        ("y\n1\n0\n", ["--target", "y", "--kl", "1"], "no column beside"),
        ("a,a,y\n1,1,0\n", ["--target", "y", "--kl", "1"], "two columns are called 'a'"),
        ("", ["--target", "y", "--kl", "1"], "t.csv is empty"),
    ],
)
def test_wrong_tables(content, tokens, said, write, refused):
    assert said in refused("dro", write("t.csv", content), *tokens)


def test_a_capped_fit_is_reported(table, call):
    code, out, _ = call("dro", table, "--target", "kind", "--cvar", 0.1, "--max-iter", 3)
    assert (code, out["status"]) == (1, "max_iter")


# certify.


def test_a_certificate_equals_the_theory(call):
    pytest.importorskip("PEPit")
    code, out, _ = call("certify", "--method", "feg", "--N", 2, "--L", 1, "--rho", "-0.2")
    assert code == 0
    assert out["normalised"] == pytest.approx(11.111, rel=1e-3)
    assert out["theory"] == pytest.approx(out["normalised"], rel=1e-3)
    code, out, _ = call("certify", "--method", "eag", "--N", 2, "--step", "0.577")
    assert out["normalised"] == pytest.approx(15.1, rel=1e-2)
    assert "theory" not in out


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--N", "0"], "N must be"),
        (["--L", "-1"], "L must be"),
        (["--rho", "-0.6"], "step + 2·rho > 0"),
        (["--step", "0"], "step must be"),
        (["--method", "eg"], "eg"),
        (["--method", "eag2", "--rho", "-0.1"], "rho must be 0"),
    ],
)
def test_wrong_options_of_certify(tokens, said, refused):
    assert said in refused("certify", *tokens)


def test_certify_without_its_extra_says_how_to_install_it(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "PEPit", None)
    assert "pip install 'cameraready[certify]'" in refused("certify", "--N", 1)


# compare.


def test_all_methods_at_equal_evaluations(write, call):
    write("unused", "")
    code, rows, err = call("compare", KUHN, "--maximize-rows", "--budget", 2000, "--plot", "p.png")
    assert code == 0
    found = {(row["method"], row["restart"]): row for row in rows}
    assert {method for method, _ in found} == set(METHODS)
    assert all(2000 <= row["evaluations"] <= 2003 for row in rows)
    assert found["feg", "anchor"]["gap"] < 1e-5 < found["feg", "none"]["gap"] < 0.01
    assert found["feg", "none"]["gap"] < found["eg", "none"]["gap"]
    assert "feg, restart" in err
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")


def test_compare_stops_where_nothing_is_left_to_gain(write, call):
    code, rows, _ = call("compare", write("g.csv", "0,0\n0,0\n"), "--budget", 50, "--plot", "p.svg")
    assert code == 0
    assert all(row["gap"] == 0.0 for row in rows)
    assert "<svg" in Path("p.svg").read_text()


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["g.csv", "--plot", "p.bmp"], ".png, .svg or .pdf"),
        (["g.csv", "--budget", "3"], "--budget must be at least 10"),
        (["g.csv", "--plot", "no/p.png"], "no folder no"),
        (["nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_wrong_options_of_compare(tokens, said, write, refused):
    write("g.csv", GAME)
    assert said in refused("compare", *tokens)


def test_a_first_row_of_numbers_is_said_to_be_payoffs(write, call):
    said = "the first row is all numbers and was taken as payoffs"
    assert said in call("game", write("g.csv", GAME))[2]
    assert said not in call("game", write("h.csv", "a,b\n1,2\n3,1\n"))[2]


def test_a_first_row_of_a_number_and_a_word_is_refused(write, refused):
    assert "row 1, column 2 is 'x'" in refused("game", write("g.csv", "1,x\n2,3\n"))


def test_going_on_keeps_rho(problems, call):
    run = ("vi", f"{problems}:rotation", "--tol", "1e-12", "--resume", "s.npz", "--max-iter", "5")
    call(*run, "--rho", "-0.4", "--lipschitz", "1")
    _, out, _ = call(*run)
    assert (out["rho"], out["step"], out["resets"]) == (-0.4, 1.0, 0)


def test_a_certificate_that_was_not_found_is_told(call, monkeypatch):
    def fail(*_):
        raise RuntimeError("no certificate: the semidefinite solver ended otherwise")

    monkeypatch.setattr("cameraready.minmax.certificates.certify", fail)
    code, out, err = call("certify", "--N", 1)
    assert (code, out) == (1, None)
    assert "no certificate" in err
