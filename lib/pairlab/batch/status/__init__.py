"""The sweep board: how far a sweep has come, read from the store alone.

So it works beside a sweep that another process measures, also on another host that shares the store, and after one that
was killed. Nothing is measured, and no lock is taken.

values: what a board consists of. render: a board as text and as HTML. board: both together. sentences: results and
differences in words. watcher: a Watcher, which gives one Board after another, and reads only what is new for each.
"""

from pairlab.batch.status.board import Board
from pairlab.batch.status.values import Count, Part, Result, Values
from pairlab.batch.status.watcher import Watcher

__all__ = ["Board", "Count", "Part", "Result", "Values", "Watcher"]
