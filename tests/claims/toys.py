"""Toy experiments: one for each way an experiment can go."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from cameraready.claims import AtLeast, AtMost, Claim, Equal, Measurement, Run, Within


def square(number: int) -> int:
    return number * number


def process_id(item: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def die(item: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


def good(run: Run) -> Iterator[Claim]:
    print("what an experiment prints does not disturb the events")
    run.setting("rounds", run.scale(smoke=3, quick=30, full=300))
    squares = run.map(square, range(4), "squaring")
    yield Claim("squares", "squares add up", Measurement(sum(squares)), Equal(14))
    draws = run.generator("draws").normal(size=400)
    error = draws.std(ddof=1) / 20
    mean = Measurement(draws.mean(), "s", standard_error=error, repeats=400)
    yield Claim(
        "mean",
        "the mean is above <zero> & small",
        mean,
        AtLeast(0),
        note="scaled down to 400 draws",
    )
    yield Claim(
        "time",
        "it is at least twice as fast as the peer",
        Measurement(3.2, "s", standard_error=0.1, repeats=5),
        AtMost(factor=0.5),
        baseline=Measurement(4.0, "s", standard_error=0.1, repeats=5),
        baseline_name="peer",
    )
    yield Claim("range", "the value lies in the range", Measurement(0.5), Within(0, 1))
    yield Claim(
        "scale",
        "it holds at the paper's scale",
        None,
        AtLeast(1),
        not_testable="needs a cluster of 64 machines; one machine was tried instead",
    )

    def draw(figure):
        axes = figure.subplots()
        axes.plot(draws.cumsum(), label="ours")
        axes.plot(-draws.cumsum(), label="peer")
        axes.set(xlabel="draw", ylabel="sum", title="Sums")
        axes.legend()

    run.figure("sums", draw, "The sum of the draws, ours and the peer's.")


def raises(run: Run) -> Iterator[Claim]:
    yield Claim("first", "the first part holds", Measurement(1), AtLeast(0))
    raise RuntimeError("the second part broke")


def exits(run: Run) -> Iterator[Claim]:
    yield Claim("first", "the first part holds", Measurement(1), AtLeast(0))
    os._exit(7)


def killed_once(run: Run) -> Iterator[Claim]:
    """Is killed on its second part the first time, and counts how often the first is computed."""
    folder = Path(os.environ["TOY_FOLDER"])

    def first_part() -> int:
        with (folder / "computed").open("a") as file:
            file.write("x")
        return 5

    yield Claim("first", "the first part holds", Measurement(run.cached("1", first_part)), Equal(5))
    if not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield Claim("second", "the second part holds", Measurement(1), AtLeast(0))


def hangs(run: Run) -> Iterator[Claim]:
    yield Claim("first", "the first part holds", Measurement(1), AtLeast(0))
    ids = {os.getpid(), *run.map(process_id, range(8), "starting")}
    Path(os.environ["TOY_FOLDER"], "hanging").write_text(" ".join(map(str, ids)))
    time.sleep(600)


def spread(run: Run) -> Iterator[Claim]:
    ids = run.map(process_id, range(8), "spreading")
    yield Claim(
        "spread",
        "the items run in processes of their own",
        Measurement(len(set(ids) | {os.getpid()})),
        AtLeast(2),
    )
    run.figure("ids", lambda figure: figure.subplots().plot(ids), "Process ids.", size=(3, 2))


def not_a_claim(run: Run) -> Iterator[Claim]:
    yield "a claim"  # type: ignore[misc]


def pool_dies(run: Run) -> Iterator[Claim]:
    run.map(die, range(2), "dying")
    yield Claim("never", "is never settled", Measurement(1), AtLeast(0))
