"""Names, templates and texts to try the method on: nothing is downloaded.

Names and parties are public facts. Texts and code are read from the installed Python and numpy.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

__all__ = [
    "DEMOCRATS",
    "FEMALE_NAMES",
    "MALE_NAMES",
    "OCCUPATION_TEMPLATES",
    "PARTY_TEMPLATE",
    "PRONOUN_TEMPLATES",
    "REPUBLICANS",
    "code_windows",
    "fill",
    "reference_sentences",
    "single_tokens",
]

_FEMALE = """
    Mary Anna Sarah Emma Lisa Karen Susan Linda Laura Emily Julia Alice Jennifer Jessica
    Elizabeth Margaret Nancy Maria Rachel Helen Kate Ruth Barbara Amy Jane Rebecca Anne Katherine
    Michelle Patricia Sandra Carol Diana Grace Sophie Lucy Hannah Victoria Sophia Olivia Ella Lily
    Clara Rose Ann Ellen Martha Catherine Caroline Julie Betty Dorothy Charlotte Molly Amanda Nicole
    Angela Melissa Stephanie Donna
"""
FEMALE_NAMES: tuple[str, ...] = tuple(_FEMALE.split())
_MALE = """
    John James Robert Michael David William Richard Thomas Charles Daniel Matthew Anthony Mark
    Paul Steven Andrew Kevin Brian George Edward Peter Henry Jack Frank Scott Eric Stephen Jason
    Ryan Jacob Gary Larry Adam Joseph Christopher Benjamin Samuel Alexander Patrick Simon Martin
    Philip Roger Arthur Albert Walter Harry Joe Tom Bob Bill Jim Mike Steve Dan Tim Ben Luke Nathan
    Alan
"""
MALE_NAMES: tuple[str, ...] = tuple(_MALE.split())

PRONOUN_TEMPLATES: tuple[str, ...] = (
    "So, NAME really is a great friend, isn't",
    "Well, NAME really did enjoy the party, didn't",
    "Yes, NAME really can play the piano, can't",
)
OCCUPATION_TEMPLATES: tuple[str, ...] = (
    "My friend NAME is an excellent",
    "At the office NAME works as a",
    "Everyone knows that NAME wants to become a",
)
PARTY_TEMPLATE = "The politician NAME is a member of the"

DEMOCRATS: tuple[str, ...] = (
    "Bill Clinton",
    "Barack Obama",
    "Joe Biden",
    "Hillary Clinton",
    "Kamala Harris",
    "Nancy Pelosi",
    "Chuck Schumer",
    "Elizabeth Warren",
    "Al Gore",
    "John Kerry",
    "Jimmy Carter",
    "Lyndon Johnson",
    "John Kennedy",
    "Harry Truman",
    "Franklin Roosevelt",
    "Robert Kennedy",
    "Ted Kennedy",
    "Walter Mondale",
    "Michael Dukakis",
    "Cory Booker",
    "Amy Klobuchar",
    "Pete Buttigieg",
    "Gavin Newsom",
    "Andrew Cuomo",
    "Dianne Feinstein",
)
REPUBLICANS: tuple[str, ...] = (
    "George Bush",
    "Donald Trump",
    "Ronald Reagan",
    "Richard Nixon",
    "Gerald Ford",
    "Dwight Eisenhower",
    "Mitt Romney",
    "John McCain",
    "Bob Dole",
    "Mike Pence",
    "Dick Cheney",
    "Dan Quayle",
    "Sarah Palin",
    "Paul Ryan",
    "Mitch McConnell",
    "Kevin McCarthy",
    "Newt Gingrich",
    "John Boehner",
    "Ted Cruz",
    "Marco Rubio",
    "Lindsey Graham",
    "Rand Paul",
    "Nikki Haley",
    "Chris Christie",
    "Barry Goldwater",
)


def single_tokens(tokenizer: Any, names: Iterable[str]) -> list[str]:
    """The names that are one token with a space in front of them.

    Parameters
    ----------
    tokenizer
        The model's tokenizer.
    names
        Names.
    """
    return [
        name for name in names if len(tokenizer.encode(f" {name}", add_special_tokens=False)) == 1
    ]


def fill(templates: Sequence[str], names: Sequence[str]) -> list[str]:
    """Every template with every name in the place of NAME, a template after the other.

    Parameters
    ----------
    templates
        Texts with the word NAME in them.
    names
        What to put there.

    Raises
    ------
    ValueError
        If a template has no NAME.

    Examples
    --------
    >>> fill(["Here is NAME", "NAME is here"], ["Mary", "John"])
    ['Here is Mary', 'Here is John', 'Mary is here', 'John is here']
    """
    for template in templates:
        if "NAME" not in template:
            raise ValueError(f"template {template!r} must have the word NAME where names go")
    return [template.replace("NAME", name) for template in templates for name in names]


def reference_sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences of the Python language reference, which every Python carries for its help.

    Parameters
    ----------
    count
        How many.
    seed
        Which.

    Raises
    ------
    ValueError
        If there are not so many.
    """
    from pydoc_data.topics import topics

    # Paragraphs of prose only: no code, tables, headings or lists.
    sentences: dict[str, None] = {}
    for text in topics.values():
        for paragraph in re.split(r"\n\s*\n", text):
            if re.match(r"[A-Z]", paragraph) and not re.search(r"[|=>*`\\_]|--|\n ", paragraph):
                joined = " ".join(paragraph.split())
                for sentence in re.findall(r"[A-Z][^.:;()]{30,160}\.(?=\s|$)", joined):
                    sentences[sentence] = None
    if count > len(sentences):
        raise ValueError(f"count must be at most {len(sentences)}, not {count}")
    return random.Random(seed).sample(list(sentences), count)


def code_windows(
    tokenizer: Any,
    language: Literal["c", "python"],
    count: int,
    length: int = 48,
    seed: int = 0,
) -> list[str]:
    """Windows of the installed numpy's own code: its C headers, or its Python files.

    Parameters
    ----------
    tokenizer
        Counts the tokens.
    language
        Of the files.
    count
        How many windows, of different places.
    length
        Tokens of each.
    seed
        Which.

    Raises
    ------
    ValueError
        If there is too little code.
    """
    folder, pattern = _CODE[language]()
    generator = random.Random(seed)
    files = sorted(folder.rglob(pattern))
    generator.shuffle(files)
    windows: list[str] = []
    for file in files:
        # A few windows of each file, so that no file stands for its language.
        for window in list(_windows(tokenizer, file.read_text(errors="ignore"), length))[:3]:
            windows.append(window)
            if len(windows) == count:
                return windows
    raise ValueError(f"count must be at most {len(windows)}, not {count}")


def _windows(tokenizer: Any, text: str, length: int) -> Iterator[str]:
    lines = text.splitlines(keepends=True)
    # The head of a file is its licence or docstring.
    body = "".join(lines[len(lines) // 4 :])[:20_000]
    ids = tokenizer.encode(body, add_special_tokens=False, verbose=False)
    for start in range(0, len(ids) - length, 4 * length):
        yield tokenizer.decode(ids[start : start + length])


def _c_headers() -> tuple[Path, str]:
    import numpy as np

    return Path(np.get_include()), "*.h"


def _python_files() -> tuple[Path, str]:
    import numpy as np

    return Path(np.__file__).parent, "*.py"


_CODE: dict[str, Callable[[], tuple[Path, str]]] = {"c": _c_headers, "python": _python_files}
