"""Which tokens of a text are meant."""

from collections.abc import Sequence
from typing import Any

__all__ = ["Token", "anchor_spans", "check_token", "positions_of"]

# "all", "mean", "last", "max", a position, or a string that stands in the text.
Token = str | int

RULES = ("all", "mean", "last", "max")


def check_token(token: Any) -> Token:
    """``token`` if it can say which tokens of a text are meant.

    Parameters
    ----------
    token
        ``"all"``, ``"mean"``, ``"last"``, ``"max"``, a position, or an anchor.

    Raises
    ------
    TypeError
        If it is neither a string nor a whole number.
    ValueError
        If it is an empty string.
    """
    if isinstance(token, bool) or not isinstance(token, str | int):
        raise TypeError(
            f"token must be 'all', 'mean', 'last', 'max', a position or a string in the text, "
            f"not {token!r}"
        )
    if token == "":
        raise ValueError("token must not be an empty string")
    return token


def anchor_spans(tokenizer: Any, ids: Sequence[int], anchor: str) -> list[range]:
    """Where the tokens of a string stand among those of a text.

    The string is sought with and without a space in front, as tokens: it must start and end where
    tokens do.

    Parameters
    ----------
    tokenizer
        The model's tokenizer.
    ids
        The text's tokens.
    anchor
        The string.

    Returns
    -------
    spans
        The positions of each place where it stands, from left to right.
    """
    bare = anchor.strip()
    forms = {
        tuple(tokenizer.encode(form, add_special_tokens=False))
        for form in (anchor, bare, f" {bare}")
    }
    found = [
        range(start, start + len(form))
        for form in forms - {()}
        for start in range(len(ids) - len(form) + 1)
        if tuple(ids[start : start + len(form)]) == form
    ]
    return sorted(found, key=lambda span: (span.start, span.stop))


def positions_of(
    tokenizer: Any, ids: Sequence[int], special: Sequence[int], token: Token
) -> list[int]:
    """The positions that are meant in a text.

    Parameters
    ----------
    tokenizer
        The model's tokenizer.
    ids
        The text's tokens.
    special
        1 for each token that the tokenizer has added, else 0. These are not meant by "all",
        "mean", "max" and "last".
    token
        A rule, a position, or an anchor, which means the last token of its first occurrence.

    Returns
    -------
    positions
        From left to right; empty if the text has no such token.
    """
    if isinstance(token, int):
        return [token % len(ids)] if -len(ids) <= token < len(ids) else []
    if token in RULES:
        own = [i for i, mark in enumerate(special) if not mark]
        return own[-1:] if token == "last" else own
    spans = anchor_spans(tokenizer, ids, token)
    return [spans[0][-1]] if spans else []
