"""Catalogue rows for the toy experiments, as the runner takes them."""

from cameraready.catalogue import System


def toy(name: str) -> System:
    return System(
        slug=name,
        name=f"Toy {name}",
        line=f"a toy experiment: {name}",
        paper="Nobody, On toys, ICML 2024",
        extra="toys",
        modules=(),
        claims_modules=(),
        commands="",
        experiment=f"toys:{name}",
    )


def toy_rows(*names: str) -> list[System]:
    return [toy(name) for name in names]
