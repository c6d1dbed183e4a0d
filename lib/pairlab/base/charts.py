"""Small charts as SVG text, cheap enough to be drawn twice a second during a measurement, and for each run shown.

Lines, bars and stacked areas, each a single path. Colours are the theme's, except those the caller gives. The caller
also describes the charts in words, for screen readers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pairlab.base import units

#: Colours of texts.
INK, PALE = "var(--jp-ui-font-color1, #222)", "var(--jp-ui-font-color2, #555)"
#: Of a chart, which is as wide on the screen as there is room, up to _MOST_PX; two are side by side from there on.
WIDTH, HEIGHT, _FONT, _LEAST_PX, _MOST_PX = 420, 180, 11, 300, 440
#: Room for a title above, and for numbers and names of the axes.
_TOP, _LEFT, _BOTTOM, _RIGHT = 22, 40, 32, 8
#: Of an axis, about.
TICKS = 4
_RULE = "var(--jp-border-color2, #ddd)"
#: How much white is mixed into the callers' colours: none, except in a dark theme (widgets.css).
_LIFT = "var(--pairlab-lift, 0%)"


@dataclass(frozen=True)
class Axis:
    """From `begin` to `end`. name: quantity and unit; ticks: the values with a number."""

    name: str
    end: float
    ticks: tuple[float, ...]
    begin: float = 0.0


def axis(name: str, most: float, *, end: float | None = None) -> Axis:
    """An axis from 0 to `end`, or else just beyond `most`, with about TICKS round numbers."""
    most = most if math.isfinite(most) and most > 0 else 1.0
    step = _round_step((end or most) / TICKS)
    end = end or step * math.ceil(most / step - 1e-9)
    return Axis(name, end, tuple(step * number for number in range(int(end / step + 1e-9) + 1)))


def counted(name: str, count: int) -> Axis:
    """The axis of so many bars, numbered from 0: a number is below the middle of its bar."""
    step = max(1, round(_round_step(count / TICKS)))
    return Axis(name, count - 0.5, tuple(range(0, count, step)), begin=-0.5)


@dataclass(frozen=True)
class Chart:
    title: str
    x: Axis
    y: Axis

    def picture(self, marks: str) -> str:
        """The SVG of the axes and these marks, for `side_by_side`."""
        return (
            f"<svg aria-hidden='true' viewBox='0 0 {WIDTH} {HEIGHT}' style='width:100%;max-width:{_MOST_PX}px;"
            f"font:{_FONT}px var(--jp-ui-font-family, sans-serif)'>{self._frame()}{marks}</svg>"
        )

    def _frame(self) -> str:
        """The title, the axes with names, units and numbers, and grid lines."""
        left, right = self._x(self.x.begin), self._x(self.x.end)
        rules = "".join(f"M{left:.1f} {self._y(tick):.1f}H{right:.1f}" for tick in self.y.ticks)
        numbers = "".join(
            text(left - 6, self._y(tick) + 4, f"{tick:g}", "end", PALE) for tick in self.y.ticks
        ) + "".join(text(self._x(tick), self._y(0) + 15, f"{tick:g}", "middle", PALE) for tick in self.x.ticks)
        middle = (left + right) / 2
        titles = text(2, 12, f"{self.title} ({self.y.name})", "start", INK, " font-weight='600'")
        return (
            f"<path d='{rules}' stroke='{_RULE}' fill='none'/>{numbers}{titles}"
            f"{text(middle, self._y(0) + 29, self.x.name, 'middle', PALE)}"
        )

    def line(self, xs: Sequence[float], ys: Sequence[float | None], color: str) -> str:
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
        there = "L".join(f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in zip(xs, highs, strict=True))
        back = "L".join(f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in zip(reversed(xs), reversed(lows), strict=True))
        return f"<path d='M{there}L{back}Z' fill='{escape(color)}'/>" if xs else ""

    def bars(self, heights: Sequence[float | None], color: str) -> str:
        """One bar per height, side by side over the whole width; without gaps where there are many."""
        each = (self._x(self.x.end) - self._x(self.x.begin)) / max(1, len(heights))
        gap = min(6.0, 0.2 * each) if each > 3 else 0.0
        left, bottom = self._x(self.x.begin) + gap / 2, self._y(0)
        path = "".join(
            f"M{left + number * each:.1f} {bottom:.1f}V{self._y(height):.1f}h{each - gap:.2f}V{bottom:.1f}Z"
            for number, height in enumerate(heights)
            if height
        )
        return f"<path d='{path}' fill='{escape(color)}'/>"

    def note(self, words: str) -> str:
        """Words in the middle, instead of marks."""
        middle = (self._x(self.x.begin) + self._x(self.x.end)) / 2
        return text(middle, self._y(self.y.end / 2), words, "middle", PALE)

    def legend(self, names: Sequence[tuple[str, str]]) -> str:
        """Names and their colours, above the chart on the right."""
        parts, right = [], WIDTH - _RIGHT
        for name, color in reversed(names):
            right -= 7 * len(name)
            parts.append(text(right, 12, name, "start", PALE))
            parts.append(f"<rect x='{right - 14:.1f}' y='3' width='10' height='10' fill='{escape(color)}'/>")
            right -= 24
        return "".join(parts)

    def _x(self, value: float) -> float:
        share = (value - self.x.begin) / (self.x.end - self.x.begin)
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(share, 1)

    def _y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * min(value / self.y.end, 1)


def side_by_side(words: str, pictures: Sequence[str]) -> str:
    """Charts in as many columns as there is room for, as HTML. words: their text for screen readers."""
    columns = f"repeat(auto-fit, minmax(min(100%, {_LEAST_PX}px), 1fr))"
    style = f"display:grid;grid-template-columns:{columns};gap:4px 12px;max-width:{2 * _MOST_PX + 12}px"
    return f"<div role='img' aria-label='{escape(words)}' style='{style}'>{''.join(pictures)}</div>"


def scaled(values: Sequence[float | None], unit: str) -> tuple[list[float | None], str, float]:
    """The values in the multiple of the unit that suits the largest, that unit, and the largest."""
    most = max((value for value in values if value is not None), default=0.0)
    factor, unit = units.prefix(most, unit)
    return [None if value is None else value / factor for value in values], unit, most / factor


def text(x: float, y: float, words: str, anchor: str = "start", color: str = INK, more: str = "") -> str:
    """Words at a place, escaped, as SVG. more: further attributes."""
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{color}'{more}>{escape(words)}</text>"


def lifted(color: str) -> str:
    """The colour, made lighter in a dark theme. color: #rrggbb."""
    return f"color-mix(in srgb, #fff {_LIFT}, {color})"


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... from there on."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
