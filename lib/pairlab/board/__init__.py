"""The sweep board: how far a sweep has come, read from the store alone.

So it works beside a sweep that another process measures, also on another host that shares the store, and after one that
was killed. Nothing is measured, and no lock is taken.

standing: what a Board tells. watching: a Watcher, which gives one Board after another, and reads for each only what
came since the one before. wording: values, differences and reasons in words. layout: a board as text and as HTML.
"""

from pairlab.board.standing import Board, Count, Part, Result, Trouble
from pairlab.board.watching import Watcher

__all__ = ["Board", "Count", "Part", "Result", "Trouble", "Watcher"]
