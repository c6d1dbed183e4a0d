"""The form: the experiment, the parameters of its notebook, and the number of repetitions."""

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any

import ipywidgets

from pairlab.batch import experiments
from pairlab.errors import BadInput
from pairlab.measurement.measure import check
from pairlab.model.spec import Spec
from pairlab.widgets.form import parse
from pairlab.widgets.form.choices import Choice, Choices
from pairlab.widgets.form.fields import Field
from pairlab.widgets.form.parse import NO_FIELD, REPETITIONS, Request
from pairlab.widgets.style import with_classes

#: Always above "More parameters", with those whose value in the notebook is not the default of Spec: what it is about.
ALWAYS_FIRST = ("backend", "driver", "pairs", "duration_s")
_LAST_OF_FIRST = (REPETITIONS, "fresh")
_MEANINGS = {REPETITIONS: "number of measurements, one after the other", "fresh": "measure even if it is stored"}


class Form(ipywidgets.VBox):
    """Fields of an experiment's parameters. request: their content as last read; on_change: called on every edit.

    preset: values of the experiment, of repetitions, and of parameters of its notebook. Raises BadInput for an unknown
    parameter. check: raises for what this host cannot do, as measurement.measure.check does.
    """

    def __init__(
        self,
        preset: Mapping[str, Any],
        *,
        choices: Choices | None = None,
        check: Callable[[Spec], object] = check,
        on_change: Callable[[], None] = lambda: None,
    ):
        preset = dict(preset)
        name = preset.pop("experiment", "throughput")
        experiments.notebook_of(name)
        _refuse_unknown(name, preset)
        self.choices = choices or Choices()
        self.on_change = on_change
        self._check = check
        self._edited = {each: parse.as_text(each, value) for each, value in preset.items()}
        self._filling = False
        self.fields: dict[str, Field] = {}
        self.request = Request(None)
        self.experiment = Field("experiment", "Experiment", "which notebook measures", name, _experiments())
        self.experiment.when_changed(self._fill)
        self._first = with_classes(ipywidgets.Box(), "pairlab-fields")
        self._rest = with_classes(ipywidgets.Box(), "pairlab-fields", "pairlab-more")
        self.more = ipywidgets.ToggleButton(value=False, description="More parameters", icon="angle-right")
        self.more.observe(lambda change: self._unfold(), names="value")
        self._general = ipywidgets.HTML()
        super().__init__(
            [self._first, with_classes(ipywidgets.HBox([self.more]), "pairlab-actions"), self._rest, self._general]
        )
        with_classes(self, "pairlab-form")
        self._fill()

    def read(self) -> Request:
        """Reads the fields, checks whether the host can do that now, and shows each error beside its field."""
        found = parse.read(self.experiment.value, {name: field.value for name, field in self.fields.items()})
        errors = dict(found.errors)
        if found.spec:
            errors = parse.host_errors(found.spec, self._check)
        errors |= {name: words for name, words in self._missing().items() if name not in found.errors}
        self.request = found._replace(spec=None if errors else found.spec, errors=errors)
        self._show(errors)
        return self.request

    def refresh_and_read(self) -> Request:
        """As `read`, after examining the host again: a driver may have become available, or unavailable."""
        self.choices.refresh()
        self._offer()
        return self.read()

    def _fill(self) -> None:
        """Makes the fields of the chosen experiment. Values set by hand are kept where it has that parameter."""
        parameters = experiments.parameters(self.experiment.value)
        backend = self._edited.get("backend", parameters["backend"].default if "backend" in parameters else "")
        made = {}
        for name, parameter in {**parameters, REPETITIONS: experiments.Parameter(1, "")}.items():
            value = self._edited.get(name, parse.as_text(name, parameter.default))
            meaning = _MEANINGS.get(name, parameter.meaning)
            made[name] = Field(name, parse.label(name), meaning, value, self.choices.of(name, backend))
            made[name].when_changed(partial(self._change, name))
        self.fields = made
        own = [name for name, each in parameters.items() if _differs_from_spec(name, each.default)]
        first = [name for name in dict.fromkeys((*ALWAYS_FIRST, *own, *_LAST_OF_FIRST)) if name in made]
        self._first.children = [self.experiment, *(made[name] for name in first)]
        self._rest.children = [field for name, field in made.items() if name not in first]
        self._unfold()
        self.on_change()

    def _change(self, name: str) -> None:
        if self._filling:
            return
        self._edited[name] = self.fields[name].value
        if name == "backend":
            self._offer()
        self.on_change()

    def _offer(self) -> None:
        """Updates the choices to those of the chosen backend."""
        self._filling = True
        try:
            for name, field in self.fields.items():
                if choices := self.choices.of(name, self._backend):
                    field.offer(choices)
        finally:
            self._filling = False

    @property
    def _backend(self) -> str:
        return self.fields["backend"].value if "backend" in self.fields else ""

    def _missing(self) -> dict[str, str]:
        """By field: which chosen option this host lacks, and how to get it."""
        found = {}
        for name, field in self.fields.items():
            chosen = {choice.name: choice for choice in self.choices.of(name, self._backend)}.get(field.value)
            if chosen and chosen.missing:
                found[name] = f"{chosen.name} is not on this host: {chosen.missing}"
        # Without the backend, its drivers and workloads are missing too: one message is enough.
        return {"backend": found["backend"]} if "backend" in found else found

    def _show(self, errors: Mapping[str, str]) -> None:
        for name, field in self.fields.items():
            field.error = errors.get(name, "")
        general = errors.get(NO_FIELD, "")
        self._general.value = f"<span class='pairlab-error' role='alert'>{escape(general)}</span>" if general else ""
        if any(field.error for field in self._rest.children):
            self.more.value = True  # so that the error is visible

    def _unfold(self) -> None:
        self.more.icon = "angle-down" if self.more.value else "angle-right"
        self._rest.layout.display = "" if self.more.value else "none"


def _differs_from_spec(name: str, value: Any) -> bool:
    return name in Spec.model_fields and value != Spec.model_fields[name].default


def _experiments() -> list[Choice]:
    return [Choice(name, path.stem) for name, path in experiments.notebooks().items()]


def _refuse_unknown(experiment: str, preset: Mapping[str, Any]) -> None:
    repetitions = preset.get(REPETITIONS, 1)
    if not isinstance(repetitions, int):
        raise BadInput(f"{REPETITIONS}: must be a whole number, not {repetitions!r}")
    experiments.spec_of(experiment, {name: value for name, value in preset.items() if name != REPETITIONS})
