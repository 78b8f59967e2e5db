"""What the verbs of ``cameraready obprop`` have in common: the model, the observable, the pair."""

import contextlib
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cameraready.common import resolve_device, smollm2_folder

if TYPE_CHECKING:
    from rich.console import Console

    from cameraready.obprop.observable import Observable
    from cameraready.obprop.pair_files import PairRow
    from cameraready.obprop.prompts import PromptPair
    from cameraready.obprop.view import TransformerView

__all__ = [
    "SHIPPED",
    "Numbers",
    "Observing",
    "Pairs",
    "Running",
    "Switch",
    "Text",
    "read_observable",
    "run_pairs",
]

SHIPPED = "smollm2"

Switch = Annotated[bool, Parameter(negative="")]
Text = Annotated[str, Parameter(allow_leading_hyphen=True)]
Numbers = Annotated[list[int], Parameter(consume_multiple=True, negative="")]
Pairs = Annotated[list[str], Parameter(consume_multiple=(1, 2), negative="")]


@Parameter(name="*")
@dataclass
class Running:
    """How the model is run.

    Parameters
    ----------
    device
        auto takes the GPUs that are there and spreads the layers over them; or cpu, cuda:1, mps, …
    dtype
        The type in which the weights are held; features are computed in float32 whatever it is.
    batch_size
        Prompts or texts that go through the model together.
    seed
        Of whatever is drawn at random.
    quiet
        Show no progress and no notes.
    """

    device: str = "auto"
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    batch_size: int = 16
    seed: int = 0
    quiet: Switch = False

    def load(self, model: str) -> "TransformerView":
        """The model, with its tokenizer."""
        from cameraready.obprop.view import TransformerView

        if self.batch_size < 1:
            raise ValueError(f"--batch-size must be at least 1, not {self.batch_size}")
        name = resolve_device(self.device)
        spread: Any = "auto" if self.device == "auto" and name == "cuda" else {"": name}
        with self.loading():
            source = _source(model)
            try:
                return TransformerView.from_pretrained(
                    source, self.dtype, None if name == "cpu" else spread
                )
            except OSError as error:
                if isinstance(source, Path):
                    raise
                raise ValueError(
                    f"model {model} is no folder or file here, and the Hugging Face hub did not "
                    f"give it: {str(error).partition('. ')[0]}"
                ) from error
            except (ValueError, TypeError, ImportError):
                raise
            except Exception as error:  # broken files fail in as many ways as there are
                raise ValueError(
                    f"model {model} cannot be loaded ({type(error).__name__}: {error})"
                ) from error

    @contextlib.contextmanager
    def loading(self) -> Generator[None]:
        """Let transformers show its bars where ours would be shown too, and no advice."""
        from huggingface_hub.utils import logging as hub_logging
        from transformers.utils import logging

        verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        hub_verbosity = hub_logging.get_verbosity()
        logging.set_verbosity_error()
        hub_logging.set_verbosity_error()
        if self.hidden:
            logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            hub_logging.set_verbosity(hub_verbosity)
            if bars:
                logging.enable_progress_bar()

    @property
    def hidden(self) -> bool:
        """Whether progress is not to be seen."""
        return self.quiet or not _console().is_terminal

    def note(self, text: str) -> None:
        """Say something on standard error."""
        if not self.quiet:
            _console().print(text, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def noting_warnings(self) -> Generator[None]:
        """Say the library's warnings as notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            self.note(f"warning: {warning.message}")

    def track(self, items: Iterable[Any], what: str, total: int) -> Iterator[Any]:
        """The items, with a bar on a terminal."""
        from rich.progress import Progress

        with Progress(console=_console(), disable=self.hidden, transient=True) as bars:
            yield from bars.track(items, total=total, description=what)


@Parameter(name="*")
@dataclass
class Observing:
    """What is observed.

    Parameters
    ----------
    observable
        A JSON file with positive and negative tokens, or signs and tokens with commas between
        them, such as "+ she,- he": all that follows a sign is the token, its space too.
    normalize
        mean: divide each side by the sum of its weights, so that unequal lists balance. A JSON
        file says this by its own key normalize.
    first_token
        Let the first token stand for a word that has several.
    """

    observable: Text
    normalize: Literal["mean"] | None = None
    first_token: Switch = False

    def read(self, view: "TransformerView", running: Running) -> "Observable":
        """The observable for a model."""
        settings: dict[str, Any] = {}
        if self.normalize is not None:
            settings["normalize"] = self.normalize
        if self.first_token:
            settings["first_token"] = True
        return read_observable(self.observable, view, running, "add --first-token", **settings)


def read_observable(
    text: str,
    view: "TransformerView",
    running: Running,
    hint: str = "name its first token",
    **settings: Any,
) -> "Observable":
    """An observable from a JSON file's name or from signs and tokens.

    Parameters
    ----------
    text
        Which.
    view
        The model.
    running
        Where warnings are said.
    hint
        What else can be done about a word of several tokens on the command line.
    **settings
        For signs and tokens, as for `Observable.from_tokens`.

    Raises
    ------
    ValueError
        If there is no such observable, or settings are given for a file.
    """
    from cameraready.obprop.errors import TokenizationError
    from cameraready.obprop.observable import Observable

    with running.noting_warnings():
        if not text.lower().endswith(".json"):
            try:
                observable = Observable.parse(text, view.tokenizer, **settings)
                _note_missing_spaces(observable, view, running)
                return observable
            except TokenizationError as error:
                message = str(error).replace("pass first_token=True", hint)
                raise TokenizationError(message) from None
        if settings:
            raise ValueError(
                "--normalize and --first-token are for tokens on the command line; the file "
                f"{text} must name single tokens and has a key normalize of its own"
            )
        try:
            return Observable.from_json(text, view.tokenizer)
        except TokenizationError as error:
            message = str(error).replace(", or pass first_token=True", "")
            raise TokenizationError(f"observable file {text}: {message}") from None


def run_pairs(view: "TransformerView", rows: Sequence["PairRow"]) -> list["PromptPair"]:
    """The pairs, run; an error names the pair where there are several."""
    from cameraready.obprop.prompts import PromptPair

    pairs = []
    for number, row in enumerate(rows, 1):
        try:
            pairs.append(PromptPair(view, row.positive, row.negative))
        except ValueError as error:
            if len(rows) == 1:
                raise
            raise ValueError(f"pair {number} of --pair: {error}") from None
    return pairs


def _note_missing_spaces(
    observable: "Observable", view: "TransformerView", running: Running
) -> None:
    """Say which words have another token of their own with a space in front."""
    for word in (*observable.positive, *observable.negative):
        spaced = f" {word}"
        if word[0].isalpha() and len(view.tokenizer.encode(spaced, add_special_tokens=False)) == 1:
            running.note(
                f"note: {word!r} begins a text; within one the token is {spaced!r}, with its space"
            )


def _source(model: str) -> str | Path:
    """What the model's name means: weights that were shipped, a file or folder, or a hub name."""
    path = Path(model).expanduser()
    if model == SHIPPED and not path.exists():
        return smollm2_folder()
    if path.is_file() and path.suffix != ".gguf":
        raise ValueError(
            f"model {model} is a file; name the folder that it is in, with config.json, the "
            "weights and the tokenizer, or a .gguf file"
        )
    if path.exists():
        return path
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or path.suffix == ".gguf":
        raise ValueError(f"model {model} is not there; name a folder or a .gguf file")
    return model


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True)
