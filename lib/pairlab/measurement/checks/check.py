"""One number that a run is judged by, with its bounds, in words."""

from collections.abc import Callable
from typing import NamedTuple

from pairlab.base import units
from pairlab.model.spec import Spec

Value = float | bool | None


class Check(NamedTuple):
    """One number that a run is judged by.

    most, least: its bounds, if any. sentence: the reason for a value out of bounds, a format string over `value`,
    `bound`, `percent` (the value in percent) and `apart` ("1.2 % more"). by_machine: a value out of bounds is due to
    other load or the machine's state, so that measuring again may help.
    """

    unit: str
    meaning: str
    sentence: str = ""
    most: Callable[[Spec], float] | None = None
    least: Callable[[Spec], float] | None = None
    by_machine: bool = False

    def reason(self, value: Value, spec: Spec) -> str | None:
        """Why this value makes a run of that spec invalid, or None."""
        if value is None:
            return None
        if self.most and value > (bound := self.most(spec)):
            return self._reason(value, bound)
        if self.least and value < (bound := self.least(spec)):
            return self._reason(value, bound)
        return None

    def bounds(self, spec: Spec) -> str:
        """The values that are valid for that spec, as text; empty: any."""
        least, most = (bound and bound(spec) for bound in (self.least, self.most))
        if not self.unit:
            return "" if least is None else "yes"
        if least is not None and most is not None:
            return f"{self.shown(least)} to {self.shown(most)}"
        if least is not None:
            return f"at least {self.shown(least)}"
        return "" if most in (None, float("inf")) else f"at most {self.shown(most)}"

    def shown(self, value: Value) -> str:
        """The value with its unit."""
        if value is None:
            return "unknown"
        if not self.unit:
            return "yes" if value else "no"
        if self.unit == "share":
            text = f"{100 * value:.3g} %"
        else:
            text = units.with_prefix(value, "s") if self.unit == "s" else f"{value:g} {self.unit}"
        return text.replace("-", "−")

    def _reason(self, value: float | bool, bound: float) -> str:
        percent = 100 * value
        apart = f"{abs(percent):.1f} % {'less' if value < 0 else 'more'}"
        return self.sentence.format(value=value, bound=bound, percent=percent, apart=apart)
