"""Scores of texts: how far the residual stream goes along feature vectors."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cameraready.obprop.sites import Place, check_place, norm_at, place_of, read_places
from cameraready.obprop.tokens import Token, check_token, positions_of

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.view import TransformerView

__all__ = ["ScoreRows", "feature_name", "flatten_texts", "score_texts", "stream_scores"]

# Texts are taken so many batches at a time and sorted by length within these, against padding.
BATCHES_IN_CHUNK = 8
# A batch of long windows is made smaller, so that its activations stay within memory.
TOKENS_IN_BATCH = 8192


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Scores of some texts in a row.

    Parameters
    ----------
    texts
        The texts themselves, by line.
    lines
        The number of each row's text.
    tokens
        The token of each row; None for a mean over tokens.
    positions
        Its position; -1 for a mean, or where there is no token.
    scores
        A column for each feature; NaN where there is no token.
    statuses
        ``"ok"``, ``"empty"`` for a text without tokens, ``"no such token"``.
    names
        The features' names.
    """

    texts: dict[int, str]
    lines: Int[np.ndarray, " rows"]
    tokens: list[str | None]
    positions: Int[np.ndarray, " rows"]
    scores: Float[np.ndarray, "rows features"]
    statuses: list[str]
    names: list[str]

    @property
    def found(self) -> Bool[np.ndarray, " rows"]:
        """Whether a row has a score."""
        return np.array([status == "ok" for status in self.statuses], dtype=bool)

    def frame(self) -> "pd.DataFrame":
        """The rows as a table; of several features, below one another within a text's token."""
        import pandas as pd

        k = len(self.names)
        lines = np.repeat(self.lines, k)
        positions = np.repeat(self.positions, k)
        columns: dict[str, Any] = {
            "text": pd.Series([self.texts[line] for line in lines], dtype="str"),
            "token": pd.Series(np.repeat(np.array(self.tokens, dtype=object), k), dtype="str"),
            "position": pd.Series(positions, dtype="Int64").mask(positions < 0),
            "score": self.scores.ravel(),
            "status": pd.Series(np.repeat(np.array(self.statuses, dtype=object), k), dtype="str"),
        }
        if k > 1:
            columns["feature"] = pd.Series(self.names * len(self.lines), dtype="str")
        return pd.DataFrame(columns).set_axis(pd.Index(lines, name="line"))


def score_texts(
    view: "TransformerView",
    features: Any,
    texts: Iterable[Any],
    token: Token | Sequence[Token] = "mean",
    normalized: bool = True,
    batch_size: int = 16,
    stride: int | None = None,
    text_column: str = "text",
) -> "pd.DataFrame":
    """Score texts with feature vectors.

    The score at token t is y·r[t], with r the residual stream where the feature lives. Only the
    layers below that run.

    Parameters
    ----------
    view
        The model.
    features
        One feature vector or several.
    texts
        Strings; rows of a data set, with the text in ``text_column``; or lists of either, as a
        DataLoader gives them. Read once, a few batches at a time.
    token
        ``"mean"`` or ``"max"`` over a text's tokens, ``"last"``, ``"all"`` of them in rows of
        their own, a position (negative from the end), or a string in the text, whose last token
        counts; or a sequence with one of these for each text. Tokens that the tokenizer puts
        around the text have scores only when a position asks for them.
    normalized
        Divide by s(r), which the norm behind the site divides by, so that scores of different
        tokens can be compared.
    batch_size
        Windows that go through the model together.
    stride
        For texts longer than the model's context: how many tokens windows lie apart. Each token
        is scored in the first window that holds it.
    text_column
        The column that holds the text.

    Returns
    -------
    scores
        Columns ``text, token, position, score, status``, and ``feature`` when there are several;
        the index ``line`` counts the texts from 0. A text without tokens has the status ``empty``
        and no score, one in which the token is not to be found ``no such token``.

    Raises
    ------
    ValueError
        If a text is longer than the context and no stride is given, or an activation is not
        finite.
    """
    import pandas as pd

    chunks = stream_scores(
        view, features, texts, token, normalized, batch_size, stride, text_column
    )
    frames = [rows.frame() for rows in chunks]
    if not frames:
        none = ScoreRows({}, np.empty(0, int), [], np.empty(0, int), np.empty((0, 1)), [], [""])
        return none.frame()
    return pd.concat(frames)


def stream_scores(
    view: "TransformerView",
    features: Any,
    texts: Iterable[Any],
    token: Token | Sequence[Token] = "mean",
    normalized: bool = True,
    batch_size: int = 16,
    stride: int | None = None,
    text_column: str = "text",
    skip: int = 0,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[ScoreRows]:
    """What `score_texts` gives, a few batches of texts at a time.

    Parameters
    ----------
    view, features, texts, token, normalized, batch_size, stride, text_column
        As for `score_texts`.
    skip
        Texts before this line are passed over; a multiple of the texts in a chunk, so that texts
        go through the model in the same company as without.
    shard
        (i, n) takes every n-th chunk, from the i-th on.

    Yields
    ------
    rows
        Of at most eight batches of texts.
    """
    scorer = _Scorer(view, features, token, normalized, batch_size, stride)
    size = chunk_size(batch_size)
    numbered = enumerate(flatten_texts(texts, text_column))
    for i in itertools.count():
        chunk = dict(itertools.islice(numbered, size))
        if not chunk:
            return
        if i % shard[1] == shard[0] and i * size >= skip:
            yield scorer.score(chunk)


def chunk_size(batch_size: int) -> int:
    """How many texts are taken at a time."""
    return BATCHES_IN_CHUNK * batch_size


def flatten_texts(texts: Iterable[Any], text_column: str = "text") -> Iterator[str]:
    """The single texts of what holds texts.

    Parameters
    ----------
    texts
        Strings, mappings with a text or a list of texts in ``text_column``, or lists of these.
        None is a text without a word.
    text_column
        The column.

    Raises
    ------
    TypeError
        If ``texts`` is one string, or something in it is no text.
    ValueError
        If a row has no such column.
    """
    if isinstance(texts, str):
        raise TypeError("texts must be several texts, such as a list, not one string")
    for item in texts:
        if isinstance(item, Mapping):
            if text_column not in item:
                raise ValueError(
                    f"text_column {text_column!r} is not among the columns {sorted(item)}"
                )
            item = item[text_column]
        if item is None:
            yield ""
        elif isinstance(item, str):
            yield item
        elif isinstance(item, list | tuple):
            yield from flatten_texts(item, text_column)
        else:
            raise TypeError(f"texts must hold strings, not {type(item).__name__}")


def feature_name(feature: Any) -> str:
    """What to call a feature in a table."""
    name = getattr(feature, "name", None)
    if name is not None:
        return str(name)
    observable, path = getattr(feature, "observable", None), getattr(feature, "path", None)
    known = [getattr(observable, "name", observable), path]
    said = " ".join(str(part) for part in known if part is not None)
    return said or f"{feature.site}[{feature.layer}]"


def as_list(features: Any) -> list[Any]:
    """One feature or several as a list."""
    features = list(features) if isinstance(features, Sequence) else [features]
    if not features:
        raise ValueError("features must not be empty")
    return features


@dataclass(frozen=True)
class _Window:
    line: int
    start: int  # the window's first token
    first: int  # the first token that is scored in it
    ids: list[int]


class _Scorer:
    """Scores chunks of texts."""

    def __init__(
        self,
        view: "TransformerView",
        features: Any,
        token: Token | Sequence[Token],
        normalized: bool,
        batch_size: int,
        stride: int | None,
    ) -> None:
        self.view, self.normalized, self.batch_size = view, normalized, batch_size
        features = as_list(features)
        self.names = [feature_name(feature) for feature in features]
        self.columns: dict[Place, list[int]] = {}
        for i, feature in enumerate(features):
            place = check_place(view, *place_of(feature))
            self.columns.setdefault(place, []).append(i)
        self.vectors = {
            place: torch.stack([features[i].vector.detach().float() for i in columns], dim=1)
            for place, columns in self.columns.items()
        }
        self.norms = {place: norm_at(view, place) for place in self.columns}
        self.tokens: Sequence[Token] | None = None
        if isinstance(token, str | int):
            self.token = check_token(token)
        else:
            self.tokens = [check_token(each) for each in token]
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.context = view.context
        if stride is not None and not 1 <= stride <= (self.context or stride):
            raise ValueError(
                f"stride must be from 1 to the context's {self.context} tokens, not {stride}"
            )
        self.stride = stride

    def score(self, texts: dict[int, str]) -> ScoreRows:
        encoded = self.view.tokenizer(
            list(texts.values()), return_special_tokens_mask=True, verbose=False
        )
        ids = dict(zip(texts, encoded["input_ids"], strict=True))
        special = dict(zip(texts, encoded["special_tokens_mask"], strict=True))
        scores = self._token_scores(ids, texts)
        lines, tokens, positions, statuses = [], [], [], []
        rows: list[np.ndarray] = []
        for line in texts:
            rule = self._token_of(line)
            wanted = positions_of(self.view.tokenizer, ids[line], special[line], rule)
            own = scores.get(line, np.empty((0, len(self.names))))[wanted]
            status = "ok"
            if not wanted:
                status = "empty" if all(special[line]) else "no such token"
                wanted, own = [-1], np.full((1, len(self.names)), np.nan)
            elif rule == "mean":
                wanted, own = [-1], own.mean(axis=0, keepdims=True)
            elif rule == "max":
                # With several features each has its own greatest token: the first one's is named.
                wanted = [wanted[int(own[:, 0].argmax())]]
                own = own.max(axis=0, keepdims=True)
            for position, row in zip(wanted, own, strict=True):
                lines.append(line)
                positions.append(position)
                tokens.append(None if position < 0 else self._said(ids[line][position]))
                statuses.append(status)
                rows.append(row)
        return ScoreRows(
            texts,
            np.array(lines),
            tokens,
            np.array(positions),
            np.array(rows),
            statuses,
            self.names,
        )

    def _token_of(self, line: int) -> Token:
        if self.tokens is None:
            return self.token
        if line >= len(self.tokens):
            raise ValueError(
                f"token must hold one entry for each text, but has {len(self.tokens)} and there "
                "are more texts"
            )
        return self.tokens[line]

    def _said(self, token: int) -> str:
        return self.view.tokenizer.decode([token])

    def _token_scores(
        self, ids: dict[int, list[int]], texts: dict[int, str]
    ) -> dict[int, Float[np.ndarray, "tokens features"]]:
        """The scores of all tokens."""
        scores = {
            line: np.empty((len(row), len(self.names)), dtype=np.float32)
            for line, row in ids.items()
            if row
        }
        windows = [window for line, row in ids.items() for window in self._windows(line, row)]
        windows.sort(key=lambda window: len(window.ids))
        for batch in self._batches(windows):
            found = self._run([window.ids for window in batch])
            for window, own in zip(batch, found, strict=True):
                scored = own[window.first - window.start : len(window.ids)]
                if not np.isfinite(scored).all():
                    raise ValueError(
                        f"activations on text {window.line} ({texts[window.line][:60]!r}) are NaN "
                        f"or infinite at or below {self._deepest()}"
                    )
                scores[window.line][window.first : window.start + len(window.ids)] = scored
        return scores

    def _deepest(self) -> str:
        site, layer = max(self.columns, key=lambda place: (place[1], place[0] == "resid_mid"))
        return f"{site}[{layer}]"

    def _windows(self, line: int, ids: list[int]) -> Iterator[_Window]:
        context = self.context or len(ids)
        if len(ids) <= context:
            if ids:
                yield _Window(line, 0, 0, ids)
            return
        if self.stride is None:
            raise ValueError(
                f"text {line} has {len(ids)} tokens, more than the context of {context}; give a "
                "stride to score it in windows"
            )
        start = done = 0
        while done < len(ids):
            yield _Window(line, start, done, ids[start : start + context])
            done = start + context
            start = min(start + self.stride, len(ids) - context)

    def _batches(self, windows: list[_Window]) -> Iterator[list[_Window]]:
        batch: list[_Window] = []
        for window in windows:  # sorted: the newest is the longest
            if batch and (
                len(batch) == self.batch_size
                or (len(batch) + 1) * len(window.ids) > TOKENS_IN_BATCH
            ):
                yield batch
                batch = []
            batch.append(window)
        if batch:
            yield batch

    def _run(self, rows: list[list[int]]) -> Float[np.ndarray, "windows tokens features"]:
        """The scores of a batch of windows, padded on the right."""
        longest = max(map(len, rows))
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for padded, row in zip(ids, rows, strict=True):
            padded[: len(row)] = torch.tensor(row)
        streams = read_places(self.view, ids, self.columns)
        scores = np.empty((len(rows), longest, len(self.names)), dtype=np.float32)
        for place, columns in self.columns.items():
            scores[..., columns] = self._project(place, streams[place]).cpu().numpy()
        return scores

    def _project(
        self, place: Place, stream: Float[Tensor, "windows tokens width"]
    ) -> Float[Tensor, "windows tokens features"]:
        stream = stream.float()
        along = stream @ self.vectors[place].to(stream.device)
        if not self.normalized:
            return along
        return along / self.norms[place].to(stream.device).scale(stream)[..., None]
