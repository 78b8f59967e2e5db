"""The results as one self-contained page."""

import base64
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from cameraready.claims.claim import Measurement, Verdict
from cameraready.claims.results import FigureFiles, Results, SystemResult
from cameraready.common.files import atomic_write

__all__ = ["render", "write_report"]

# A verdict is told by its sign and its words; the colour only repeats it.
SIGNS = {
    Verdict.HOLDS: "✓",
    Verdict.DOES_NOT_HOLD: "✗",
    Verdict.WITHIN_NOISE: "≈",
    Verdict.NOT_TESTABLE: "–",
}
BUDGET_WORDS = {
    "smoke": "Smoke budget: a trial of the machinery. The figures are far too noisy to judge a "
    "claim by.",
    "quick": "Quick budget: scaled down to about a minute a system. What that costs is said beside "
    "the claims.",
    "full": "Full budget: the paper's protocol as far as this hardware allows.",
}


def write_report(results: Results, folder: Path) -> Path:
    """Write ``report.html`` beside the results' figures.

    Parameters
    ----------
    results
        What to show.
    folder
        The folder that holds the figures.

    Returns
    -------
    path
        The page.
    """
    path = folder / "report.html"
    page = render(results, folder)
    with atomic_write(path) as file:
        file.write(page)
    return path


def render(results: Results, folder: Path) -> str:
    """The page as text: no script, nothing loaded from anywhere.

    Parameters
    ----------
    results
        What to show.
    folder
        The folder that holds the figures.
    """
    environment = Environment(
        loader=PackageLoader("cameraready", "claims"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["duration"] = duration
    environment.filters["moment"] = moment
    environment.filters["repeats"] = repeats
    environment.filters["typeset"] = typeset
    template = environment.get_template("report.html.jinja")
    return template.render(
        results=results,
        Verdict=Verdict,
        signs=SIGNS,
        budget_words=BUDGET_WORDS.get(results.budget, ""),
        again=lambda system: run_again(results, system),
        image=lambda name: _data_address(folder, name),
        has_figure=lambda figure: _is_there(folder, figure),
    )


def run_again(results: Results, system: SystemResult) -> str:
    """The command that runs one system's experiment again."""
    command = f"cameraready claims {system.slug.replace('_', '-')} --budget {results.budget}"
    return f"{command} --seed {results.seed} --again"


def duration(seconds: float) -> str:
    """A time span in words.

    Examples
    --------
    >>> duration(4.2), duration(75), duration(7300)
    ('4.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def moment(started: str) -> str:
    """A moment as a person writes it, in UTC."""
    try:
        return f"{datetime.fromisoformat(started):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return "not known"


def repeats(measurement: Measurement) -> str:
    """How many repeats a measurement comes from, in words; empty if it does not say."""
    if measurement.repeats is None:
        return ""
    return f"{measurement.repeats:,} repeat{'s' if measurement.repeats > 1 else ''}"


def typeset(measurement: Measurement) -> str:
    """A measurement as text that does not break within the number or before a short unit."""
    text = str(measurement).replace(" ± ", "\u00a0±\u00a0")
    return text if len(measurement.unit) > 3 else text.replace(" ", "\u00a0")


def _is_there(folder: Path, figure: FigureFiles) -> bool:
    # Names come from a file that someone may have passed on: only figures below the folder count.
    root = folder.resolve()
    paths = [(root / name).resolve() for name in (figure.light, figure.dark)]
    return all(path.is_relative_to(root) and path.is_file() for path in paths)


def _data_address(folder: Path, name: str) -> str:
    content = base64.b64encode((folder / name).read_bytes()).decode()
    return f"data:image/svg+xml;base64,{content}"
