"""A sweep board: its values, shown as text and, in a notebook, as HTML."""

from dataclasses import dataclass

from pairlab.batch.status import render
from pairlab.batch.status.values import Values


@dataclass(frozen=True)
class Board(Values):
    __doc__ = Values.__doc__

    def __str__(self) -> str:
        return render.text(self)

    def _repr_html_(self) -> str:
        return render.html(self)
