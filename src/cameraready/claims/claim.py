"""A claim, what was measured, and the verdict that follows from the two."""

import math
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral, Real
from typing import Any

__all__ = [
    "AtLeast",
    "AtMost",
    "Claim",
    "Criterion",
    "Equal",
    "Measurement",
    "Verdict",
    "Within",
]


class Verdict(Enum):
    """What the measurement says about a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    WITHIN_NOISE = "within noise"
    NOT_TESTABLE = "not testable here"


@dataclass(frozen=True)
class Measurement:
    """A measured number.

    Parameters
    ----------
    value
        The number; NaN says that the measurement failed.
    unit
        Its unit.
    standard_error
        Its standard error, where there is one.
    repeats
        How many repeats it comes from.

    Examples
    --------
    >>> print(Measurement(29.2, "observations", standard_error=0.4, repeats=500))
    29.20 ± 0.40 observations
    """

    value: float
    unit: str = ""
    standard_error: float | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        _keep(self, value=_number("value", self.value))
        if not isinstance(self.unit, str):
            raise ValueError(f"unit must be text, not {self.unit!r}")
        _keep(self, standard_error=_standard_error("standard_error", self.standard_error))
        if self.repeats is not None:
            if not isinstance(self.repeats, Integral) or self.repeats < 1:
                raise ValueError(f"repeats must be a whole number from 1 on, not {self.repeats!r}")
            _keep(self, repeats=int(self.repeats))

    def __str__(self) -> str:
        """The value with its standard error and unit."""
        error = self.standard_error
        if error is None:
            return _with_unit(format_number(self.value), self.unit)
        if not (math.isfinite(self.value) and math.isfinite(error) and 1e-6 < error < 1e9):
            text = f"{format_number(self.value)} ± {format_number(error, digits=2)}"
        else:
            # The error has two digits, the value ends where the error does.
            places = max(0, 1 - math.floor(math.log10(error)))
            text = f"{self.value:,.{places}f} ± {error:,.{places}f}"
        return _with_unit(text, self.unit)

    def to_json(self) -> dict[str, Any]:
        """The measurement as JSON holds it."""
        return {
            "value": _to_json(self.value),
            "unit": self.unit,
            "standard_error": _to_json(self.standard_error),
            "repeats": self.repeats,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Measurement":
        """The measurement that ``data`` holds."""
        return cls(
            _from_json(data["value"]),
            data["unit"],
            _from_json(data["standard_error"]),
            data["repeats"],
        )


@dataclass(frozen=True)
class AtLeast:
    """The measured value is at least a bound.

    Parameters
    ----------
    bound
        The bound; None takes ``factor`` times the baseline's value.
    factor
        What the baseline is multiplied by.
    """

    bound: float | None = None
    factor: float = 1.0

    def __post_init__(self) -> None:
        _check_bound_and_factor(self)

    def judge(self, measured: float, baseline: float | None) -> tuple[bool, float]:
        """Whether the criterion is met, and how far the value is from where that changes."""
        bound = _bound(self.bound, self.factor, baseline)
        return measured >= bound, abs(measured - bound)

    def words(self, baseline: str, unit: str) -> str:
        """The criterion in words."""
        return f"at least {_bound_words(self.bound, self.factor, baseline, unit)}"


@dataclass(frozen=True)
class AtMost:
    """The measured value is at most a bound.

    Parameters
    ----------
    bound
        The bound; None takes ``factor`` times the baseline's value.
    factor
        What the baseline is multiplied by.
    """

    bound: float | None = None
    factor: float = 1.0

    def __post_init__(self) -> None:
        _check_bound_and_factor(self)

    def judge(self, measured: float, baseline: float | None) -> tuple[bool, float]:
        """Whether the criterion is met, and how far the value is from where that changes."""
        bound = _bound(self.bound, self.factor, baseline)
        return measured <= bound, abs(measured - bound)

    def words(self, baseline: str, unit: str) -> str:
        """The criterion in words."""
        return f"at most {_bound_words(self.bound, self.factor, baseline, unit)}"


@dataclass(frozen=True)
class Within:
    """The measured value lies between two numbers, ends included.

    Parameters
    ----------
    low, high
        The two numbers.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        _keep(self, low=_number("low", self.low), high=_number("high", self.high))
        if not self.low <= self.high:
            raise ValueError(f"low must not exceed high, but {self.low:g} > {self.high:g}")

    def judge(self, measured: float, baseline: float | None) -> tuple[bool, float]:
        """Whether the criterion is met, and how far the value is from where that changes."""
        margin = min(abs(measured - self.low), abs(measured - self.high))
        return self.low <= measured <= self.high, margin

    def words(self, baseline: str, unit: str) -> str:
        """The criterion in words."""
        low, high = format_number(self.low), format_number(self.high)
        return f"between {low} and {_with_unit(high, unit)}"


@dataclass(frozen=True)
class Equal:
    """The measured value equals a number, up to a tolerance.

    Parameters
    ----------
    value
        The number; None takes the baseline's value.
    tolerance
        The largest difference that still counts as equal.
    """

    value: float | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if self.value is not None:
            _keep(self, value=_number("value", self.value))
        _keep(self, tolerance=_number("tolerance", self.tolerance))
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must not be negative, but it is {self.tolerance:g}")

    def judge(self, measured: float, baseline: float | None) -> tuple[bool, float]:
        """Whether the criterion is met, and how far the value is from where that changes."""
        difference = abs(measured - _bound(self.value, 1.0, baseline))
        return difference <= self.tolerance, abs(difference - self.tolerance)

    def words(self, baseline: str, unit: str) -> str:
        """The criterion in words."""
        text = f"equal to {_bound_words(self.value, 1.0, baseline, unit)}"
        if self.tolerance:
            text += f", give or take {_with_unit(format_number(self.tolerance), unit)}"
        return text


Criterion = AtLeast | AtMost | Within | Equal
_CRITERIA: dict[str, type[Criterion]] = {
    "at least": AtLeast,
    "at most": AtMost,
    "within": Within,
    "equal": Equal,
}


@dataclass(frozen=True)
class Claim:
    """A claim of a paper beside what was measured here.

    Parameters
    ----------
    key
        A stable name, unique within the system.
    statement
        The claim in plain words.
    measured
        Our measurement; None only when the claim is not testable here.
    criterion
        When the claim holds.
    baseline
        What we compare with.
    baseline_name
        What the baseline is called; needed with a baseline.
    paired_standard_error
        Standard error of the difference between our value and the bound when the two come from the
        same data. Without it the two standard errors are taken as independent.
    note
        What is scaled down, or why the claim fails.
    not_testable
        Why the claim cannot be tested here and what was done instead; empty when it can.

    Raises
    ------
    ValueError
        If the parts do not fit together.

    Examples
    --------
    >>> claim = Claim(
    ...     "run-length",
    ...     "the mean run length without a change is at least 1/alpha",
    ...     Measurement(29.2, "observations", standard_error=0.4, repeats=500),
    ...     AtLeast(bound=20),
    ... )
    >>> claim.verdict
    <Verdict.HOLDS: 'holds'>
    """

    key: str
    statement: str
    measured: Measurement | None
    criterion: Criterion
    baseline: Measurement | None = field(default=None, kw_only=True)
    baseline_name: str = field(default="", kw_only=True)
    paired_standard_error: float | None = field(default=None, kw_only=True)
    note: str = field(default="", kw_only=True)
    not_testable: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        for name in ("key", "statement"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"a claim's {name} must be text and not empty, not {value!r}")
        where = f"claim {self.key!r}"
        if not isinstance(self.criterion, Criterion):
            raise ValueError(
                f"{where}: criterion must be AtLeast, AtMost, Within or Equal, "
                f"not {self.criterion!r}"
            )
        for name in ("measured", "baseline"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Measurement):
                raise ValueError(f"{where}: {name} must be a Measurement or None, not {value!r}")
        paired = _standard_error("paired_standard_error", self.paired_standard_error)
        _keep(self, paired_standard_error=paired)
        if self.not_testable:
            return
        if self.measured is None:
            raise ValueError(
                f"{where} has no measurement; say in not_testable why, or pass measured"
            )
        if self.baseline is None and _compares_with_baseline(self.criterion):
            raise ValueError(
                f"{where} is compared with a baseline that it has not; "
                "pass baseline, or a bound in the criterion"
            )
        if self.baseline is not None and not self.baseline_name:
            raise ValueError(f"{where} has a baseline without a name; pass baseline_name")

    @property
    def verdict(self) -> Verdict:
        """What the measurement says; computed, never written down."""
        if self.not_testable or self.measured is None:
            return Verdict.NOT_TESTABLE
        measured = self.measured.value
        if math.isnan(measured):
            return Verdict.DOES_NOT_HOLD
        baseline = None if self.baseline is None else self.baseline.value
        met, margin = self.criterion.judge(measured, baseline)
        if margin < 2 * self.standard_error_of_margin:
            return Verdict.WITHIN_NOISE
        return Verdict.HOLDS if met else Verdict.DOES_NOT_HOLD

    @property
    def standard_error_of_margin(self) -> float:
        """Standard error of the distance between our value and the bound."""
        if self.paired_standard_error is not None:
            return self.paired_standard_error
        ours = 0.0 if self.measured is None else self.measured.standard_error or 0.0
        if self.baseline is None or not _compares_with_baseline(self.criterion):
            return ours
        factor = getattr(self.criterion, "factor", 1.0)
        return math.hypot(ours, factor * (self.baseline.standard_error or 0.0))

    @property
    def criterion_in_words(self) -> str:
        """The criterion in words, with the baseline's name and our unit."""
        unit = "" if self.measured is None else self.measured.unit
        return self.criterion.words(self.baseline_name or "the baseline", unit)

    def to_json(self) -> dict[str, Any]:
        """The claim as JSON holds it, with the verdict for the reader."""
        kind = next(kind for kind, cls in _CRITERIA.items() if isinstance(self.criterion, cls))
        parts = {name: _to_json(value) for name, value in vars(self.criterion).items()}
        return {
            "key": self.key,
            "statement": self.statement,
            "measured": None if self.measured is None else self.measured.to_json(),
            "criterion": {"kind": kind, **parts},
            "baseline": None if self.baseline is None else self.baseline.to_json(),
            "baseline_name": self.baseline_name,
            "paired_standard_error": _to_json(self.paired_standard_error),
            "note": self.note,
            "not_testable": self.not_testable,
            "verdict": self.verdict.value,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Claim":
        """The claim that ``data`` holds; its verdict is computed anew.

        Raises
        ------
        ValueError
            If ``data`` does not hold a claim.
        """
        try:
            parts = {name: _from_json(value) for name, value in data["criterion"].items()}
            criterion = _CRITERIA[parts.pop("kind")](**parts)
            measured, baseline = data["measured"], data["baseline"]
            return cls(
                data["key"],
                data["statement"],
                None if measured is None else Measurement.from_json(measured),
                criterion,
                baseline=None if baseline is None else Measurement.from_json(baseline),
                baseline_name=data["baseline_name"],
                paired_standard_error=_from_json(data["paired_standard_error"]),
                note=data["note"],
                not_testable=data["not_testable"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a claim: {error!r}") from error


def format_number(value: float, digits: int = 4) -> str:
    """A number to ``digits`` significant digits, as a person would write it.

    Parameters
    ----------
    value
        The number.
    digits
        Significant digits.

    Examples
    --------
    >>> format_number(12345.6), format_number(0.000012), format_number(2.0)
    ('12,346', '1.2e-05', '2')
    """
    if not math.isfinite(value):
        return "no number" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if abs(value) >= 10**digits and abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _with_unit(text: str, unit: str) -> str:
    if not unit:
        return text
    return f"{text}{unit}" if unit in ("%", "×") else f"{text} {unit}"


def _bound_words(bound: float | None, factor: float, baseline: str, unit: str) -> str:
    if bound is not None:
        return _with_unit(format_number(bound), unit)
    return baseline if factor == 1.0 else f"{format_number(factor)} times {baseline}"


def _bound(bound: float | None, factor: float, baseline: float | None) -> float:
    if bound is not None:
        return bound
    assert baseline is not None  # a claim without its baseline is not made
    return factor * baseline


def _compares_with_baseline(criterion: Criterion) -> bool:
    if isinstance(criterion, Within):
        return False
    bound = criterion.value if isinstance(criterion, Equal) else criterion.bound
    return bound is None


def _check_bound_and_factor(criterion: AtLeast | AtMost) -> None:
    if criterion.bound is not None:
        _keep(criterion, bound=_number("bound", criterion.bound))
    factor = _number("factor", criterion.factor)
    _keep(criterion, factor=factor)
    if not (math.isfinite(factor) and factor > 0):
        raise ValueError(f"factor must be a positive number, not {factor:g}")
    if criterion.bound is not None and factor != 1.0:
        raise ValueError("factor multiplies the baseline; leave it out when a bound is given")


def _standard_error(name: str, value: Any) -> float | None:
    if value is None:
        return None
    number = _number(name, value)
    if not number >= 0:
        raise ValueError(f"{name} must not be negative or NaN, but it is {number:g}; pass None")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, not {value!r}")
    return float(value)


def _keep(instance: Any, **values: Any) -> None:
    # NumPy's scalars become plain numbers, so that the frozen dataclasses compare and write well.
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _to_json(value: Any) -> Any:
    # JSON has no NaN and no infinity: they are written as text.
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _from_json(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
