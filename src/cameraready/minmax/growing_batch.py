"""Batches that grow: less noise as an anchored method nears the solution.

With gradients of variance sigma²/size the anchored methods keep their rate only while the noise of
step k falls like 1/k² or faster; a batch of fixed size stops helping at a residual of the noise's
order. Growing it with the square of the step keeps up, for as long as the data last.
"""

import math
from collections.abc import Iterator

import torch
from torch.utils.data import Sampler
from typing_extensions import override

from cameraready.common.checks import check_positive

__all__ = ["GrowingBatchSampler"]


class GrowingBatchSampler(Sampler[list[int]]):
    """Random batches whose size is first · k^power at step k = 1, 2, …, as a ``batch_sampler``.

    Each pass draws every example once, in a new order, and goes on with the size where the last
    one ended. A batch is never larger than the data.

    Parameters
    ----------
    examples : int
        How many examples the data have.
    first : int
        The first batch's size.
    power : float
        How it grows: 2 follows the theory, 1 is gentler.
    most : int, optional
        No batch is larger; all data when not given.
    seed : int, optional
        For the order.

    Attributes
    ----------
    batches_ : int
        Batches drawn so far; set it to resume.

    Raises
    ------
    ValueError
        If an argument is not positive.

    Examples
    --------
    >>> sampler = GrowingBatchSampler(100, first=4, power=1.0, seed=0)
    >>> [len(batch) for batch in sampler]
    [4, 8, 12, 16, 20, 24, 16]
    >>> loader = torch.utils.data.DataLoader(torch.arange(100), batch_sampler=sampler)
    >>> [len(batch) for batch in loader]
    [32, 36, 32]
    """

    def __init__(
        self,
        examples: int,
        first: int = 32,
        power: float = 2.0,
        most: int | None = None,
        seed: int | None = None,
    ) -> None:
        for name, value in (("examples", examples), ("first", first), ("most", most)):
            if name == "most" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 on, not {value!r}")
        self.examples = examples
        self.first = first
        self.power = check_positive("power", power)
        self.most = examples if most is None else min(most, examples)
        self.batches_ = 0
        self._generator = torch.Generator()
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed)

    @override
    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(self.examples, generator=self._generator).tolist()
        start = 0
        while start < self.examples:
            self.batches_ += 1
            size = min(self.most, math.ceil(self.first * self.batches_**self.power))
            yield order[start : start + size]
            start += size
