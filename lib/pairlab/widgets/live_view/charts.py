"""Small charts as SVG text, cheap enough to be drawn twice a second during a measurement.

Lines, bars and stacked areas, each a single path. Colours are the theme's, except those the caller gives. The caller
also describes the chart in words, for screen readers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

#: Room for a title above, and for numbers and names of the axes.
_TOP, _LEFT, _BOTTOM, _RIGHT = 24, 46, 34, 10
_INK = "var(--jp-ui-font-color1, #222)"
_PALE = "var(--jp-ui-font-color2, #555)"
_RULE = "var(--jp-border-color2, #ddd)"
#: How much white is mixed into the callers' colours: none, except in a dark theme (style.py).
_LIFT = "var(--pairlab-lift, 0%)"


@dataclass(frozen=True)
class Axis:
    """From 0 to `end`. name: quantity and unit; ticks: the values with a number."""

    name: str
    end: float
    ticks: tuple[float, ...]


def axis(name: str, most: float, *, ticks: int = 4, end: float | None = None) -> Axis:
    """An axis from 0 to `end`, or else just beyond `most`, with about `ticks` round numbers."""
    most = most if math.isfinite(most) and most > 0 else 1.0
    step = _round_step((end or most) / ticks)
    end = end or step * math.ceil(most / step - 1e-9)
    return Axis(name, end, tuple(step * number for number in range(int(end / step + 1e-9) + 1)))


@dataclass(frozen=True)
class Chart:
    """A chart's place in its picture, and its axes."""

    left: float
    top: float
    width: float
    height: float
    title: str
    x: Axis
    y: Axis

    def frame(self) -> str:
        """The title, the axes with names, units and numbers, and grid lines."""
        rules = "".join(f"M{self._x(0):.1f} {self._y(tick):.1f}H{self._x(self.x.end):.1f}" for tick in self.y.ticks)
        numbers = "".join(
            _text(self._x(0) - 6, self._y(tick) + 4, f"{tick:g}", "end", _PALE) for tick in self.y.ticks
        ) + "".join(_text(self._x(tick), self._y(0) + 15, f"{tick:g}", "middle", _PALE) for tick in self.x.ticks)
        middle = (self._x(0) + self._x(self.x.end)) / 2
        titles = _text(
            self.left + 2, self.top + 13, f"{self.title} ({self.y.name})", "start", _INK, " font-weight='600'"
        )
        return (
            f"<path d='{rules}' stroke='{_RULE}' fill='none'/>{numbers}{titles}"
            f"{_text(middle, self._y(0) + 29, self.x.name, 'middle', _PALE)}"
        )

    def line(self, xs: Sequence[float], ys: Sequence[float | None], color: str) -> str:
        """A line through the points, interrupted at missing values."""
        path, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if y is None or y != y:
                pen = "M"
                continue
            path.append(f"{pen}{self._x(x):.1f} {self._y(y):.1f}")
            pen = "L"
        return (
            f"<path d='{''.join(path)}' stroke='{escape(color)}' stroke-width='2' fill='none' stroke-linejoin='round'/>"
        )

    def area(self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], color: str) -> str:
        """The area between two lines."""
        there = "L".join(f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in zip(xs, highs, strict=True))
        back = "L".join(f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in zip(reversed(xs), reversed(lows), strict=True))
        return f"<path d='M{there}L{back}Z' fill='{escape(color)}'/>" if xs else ""

    def bars(self, heights: Sequence[float | None], color: str) -> str:
        """One bar per height, side by side over the whole width; without gaps where there are many."""
        each = (self._x(self.x.end) - self._x(0)) / max(1, len(heights))
        gap = min(6.0, 0.2 * each) if each > 3 else 0.0
        left, bottom = self._x(0) + gap / 2, self._y(0)
        path = "".join(
            f"M{left + number * each:.1f} {bottom:.1f}V{self._y(height):.1f}h{each - gap:.2f}V{bottom:.1f}Z"
            for number, height in enumerate(heights)
            if height
        )
        return f"<path d='{path}' fill='{escape(color)}'/>"

    def note(self, words: str) -> str:
        """Words in the middle, instead of marks."""
        middle = (self._x(0) + self._x(self.x.end)) / 2
        return _text(middle, self._y(self.y.end / 2), words, "middle", _PALE)

    def legend(self, names: Sequence[tuple[str, str]]) -> str:
        """Names and their colours, above the chart on the right."""
        parts, right = [], self.left + self.width - _RIGHT
        for name, color in reversed(names):
            right -= 7 * len(name)
            parts.append(_text(right, self.top + 13, name, "start", _PALE))
            parts.append(
                f"<rect x='{right - 14:.1f}' y='{self.top + 4:.1f}' width='10' height='10' fill='{escape(color)}'/>"
            )
            right -= 24
        return "".join(parts)

    def _x(self, value: float) -> float:
        return self.left + _LEFT + (self.width - _LEFT - _RIGHT) * min(value / self.x.end, 1)

    def _y(self, value: float) -> float:
        return self.top + self.height - _BOTTOM - (self.height - _TOP - _BOTTOM) * min(value / self.y.end, 1)


def picture(width: float, height: float, words: str, parts: Sequence[str]) -> str:
    """The SVG of these parts, as wide as there is room. words: its text for screen readers."""
    return (
        f"<svg role='img' aria-label='{escape(words)}' viewBox='0 0 {width:g} {height:g}' width='100%'"
        f" style='max-width:{width:g}px;display:block;font:12px var(--jp-ui-font-family, sans-serif)'>"
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str, color: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{color}'{more}>{escape(words)}</text>"


def lifted(color: str) -> str:
    """The colour, made lighter in a dark theme. color: #rrggbb."""
    return f"color-mix(in srgb, #fff {_LIFT}, {color})"


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... from there on."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
