"""The form: which experiment, with which of its notebook's parameters, and how often."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import ipywidgets

from pairlab import experiments
from pairlab.errors import BadInput
from pairlab.measurement import check
from pairlab.spec import Spec
from pairlab.widgets import asking
from pairlab.widgets.asking import REPETITIONS, WHOLE, Asked
from pairlab.widgets.choosing import Choice, Choices
from pairlab.widgets.fields import Field
from pairlab.widgets.style import dressed

#: What is asked first, where the experiment has it; the rest stands below "More".
MAIN = ("backend", "driver", "pairs", "duration_s", "flow_bytes", "message_bytes", "pinning")
_AFTER_MAIN = (REPETITIONS, "fresh")
_MEANINGS = {REPETITIONS: "how often this is measured, one after the other", "fresh": "measure even what is stored"}


class Form(ipywidgets.VBox):
    """Fields of an experiment's parameters. asked: what they say; on_change is called when that is another.

    preset: the experiment, repetitions, and parameters of its notebook, as their values. Raises BadInput where there
    is no such parameter. check: says what this host cannot do, as measurement.check.
    """

    def __init__(
        self,
        preset: Mapping[str, Any],
        *,
        choices: Choices | None = None,
        check: Callable[[Spec], None] = check,
        on_change: Callable[[], None] = lambda: None,
    ):
        preset = dict(preset)
        name = preset.pop("experiment", "throughput")
        experiments.notebook_of(name)
        _refuse_unknown(name, preset)
        self.choices = choices or Choices()
        self.on_change = on_change
        self._check = check
        self._touched = {each: asking.shown(each, value) for each, value in preset.items()}
        self._filling = False
        self.fields: dict[str, Field] = {}
        self.asked = Asked(None)
        self.experiment = Field("experiment", "Experiment", "which notebook measures", name, _experiments())
        self.experiment.when_changed(self._fill)
        self._first = dressed(ipywidgets.Box(), "pairlab-fields")
        self._rest = dressed(ipywidgets.Box(), "pairlab-fields", "pairlab-more")
        self.more = ipywidgets.ToggleButton(value=False, description="More parameters", icon="angle-right")
        self.more.observe(lambda change: self._unfold(), names="value")
        self._trouble = ipywidgets.HTML()
        super().__init__(
            [self._first, dressed(ipywidgets.HBox([self.more]), "pairlab-actions"), self._rest, self._trouble]
        )
        dressed(self, "pairlab-form")
        self._fill()

    def look(self) -> Asked:
        """Reads the fields, asks the host whether it can do that now, and shows at each field what is wrong."""
        told = {name: field.told for name, field in self.fields.items()}
        found = asking.asked(self.experiment.told, told)
        errors = dict(found.errors)
        if found.spec:
            errors = asking.lacking(found.spec, self._check)
        errors |= {name: words for name, words in self._missing().items() if name not in found.errors}
        self.asked = found._replace(spec=None if errors else found.spec, errors=errors)
        self._show(errors)
        return self.asked

    def look_again(self) -> Asked:
        """As `look`, with what can be chosen found out anew: a driver may have gone since, or come."""
        self.choices.look()
        self._offer()
        return self.look()

    def _fill(self) -> None:
        """The fields of the experiment that is chosen; what was set by hand stays where it has that parameter, too."""
        parameters = experiments.parameters(self.experiment.told)
        backend = self._touched.get("backend", parameters["backend"].default if "backend" in parameters else "")
        made = {}
        for name, parameter in {**parameters, REPETITIONS: experiments.Parameter(1, "")}.items():
            value = self._touched.get(name, asking.shown(name, parameter.default))
            meaning = _MEANINGS.get(name, parameter.meaning)
            made[name] = Field(name, asking.label(name), meaning, value, self.choices.of(name, backend))
            made[name].when_changed(lambda name=name: self._change(name))
        self.fields = made
        first = [name for name in (*MAIN, *_AFTER_MAIN) if name in made]
        self._first.children = [self.experiment, *(made[name] for name in first)]
        self._rest.children = [field for name, field in made.items() if name not in first]
        self._unfold()
        self.on_change()

    def _change(self, name: str) -> None:
        if self._filling:
            return
        self._touched[name] = self.fields[name].told
        if name == "backend":
            self._offer()
        self.on_change()

    def _offer(self) -> None:
        """The choices of the backend that is chosen."""
        self._filling = True
        try:
            for name, field in self.fields.items():
                if choices := self.choices.of(name, self._backend):
                    field.offer(choices)
        finally:
            self._filling = False

    @property
    def _backend(self) -> str:
        return self.fields["backend"].told if "backend" in self.fields else ""

    def _missing(self) -> dict[str, str]:
        """Of what is chosen, what this host does not have, and how to get it, by field."""
        found = {}
        for name, field in self.fields.items():
            chosen = {choice.name: choice for choice in self.choices.of(name, self._backend)}.get(field.told)
            if chosen and chosen.missing:
                found[name] = f"{chosen.name} is not on this host: {chosen.missing}"
        # Where the backend is not there, neither is what it would have: once is enough.
        return {"backend": found["backend"]} if "backend" in found else found

    def _show(self, errors: Mapping[str, str]) -> None:
        for name, field in self.fields.items():
            field.error = errors.get(name, "")
        whole = errors.get(WHOLE, "")
        self._trouble.value = f"<span class='pairlab-error' role='alert'>{escape(whole)}</span>" if whole else ""
        if any(field.error for field in self._rest.children):
            self.more.value = True  # an error that nobody sees cannot be mended

    def _unfold(self) -> None:
        self.more.icon = "angle-down" if self.more.value else "angle-right"
        self._rest.layout.display = "" if self.more.value else "none"


def _experiments() -> list[Choice]:
    return [Choice(name, path.stem) for name, path in experiments.notebooks().items()]


def _refuse_unknown(experiment: str, preset: Mapping[str, Any]) -> None:
    repetitions = preset.get(REPETITIONS, 1)
    if not isinstance(repetitions, int):
        raise BadInput(f"{REPETITIONS}: must be a whole number, not {repetitions!r}")
    experiments.spec_of(experiment, {name: value for name, value in preset.items() if name != REPETITIONS})
