"""The form: the experiment, the parameters of its notebook, and the number of repetitions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, NamedTuple, get_args

import ipywidgets

from pairlab.apps import doctor
from pairlab.batch import experiments
from pairlab.errors import BadInput
from pairlab.measurement.measure import check
from pairlab.model import flow_sizes
from pairlab.model.spec import Spec
from pairlab.testbed import registry, requirements
from pairlab.widgets import parse
from pairlab.widgets.parse import NO_FIELD, REPETITIONS, SEVERAL, Request
from pairlab.widgets.parts import button, labelled, row, when_changed, with_classes

#: Always above "More parameters", with those whose value in the notebook is not the default of Spec: what it is about.
ALWAYS_FIRST = ("backend", "driver", "pairs", "duration_s")
_LAST_OF_FIRST = (REPETITIONS, "fresh", SEVERAL)
#: Further parameters by what they are about: Spec has them in this order, and a group begins with that one.
_GROUPS = {
    "backend": "Time, and what may count",
    "flow_bytes": "Flows",
    "cores": "CPUs",
    "mtu_bytes": "Links",
    "hosts": "Hosts, and what is between them",
    "background_pairs": "Other load",
    "launches": "Launches",
}
_OTHER_LOAD = ("background_", "interference_")
_OWN = "Of this notebook alone"
#: What an option is called that is no text.
_EMPTY = "–"
_MEANINGS = {
    REPETITIONS: "number of measurements, one after the other",
    "fresh": "measure even if it is stored",
    SEVERAL: "of parameters, all combinations: driver=bridge,macvlan pairs=1,10; a field of numbers takes 1, 5, 10",
}
_OF_FORM = {REPETITIONS: experiments.Parameter(1, ""), SEVERAL: experiments.Parameter("", "")}


class Choice(NamedTuple):
    """An option. missing: what this host lacks for it and how to get it; empty where it is available. title: what it is
    called in the list, in place of its name.
    """

    name: str
    missing: str = ""
    title: str = ""

    @property
    def option(self) -> tuple[str, str]:
        """As a list has it: its text, and its value."""
        return f"{self.name} (not on this host)" if self.missing else self.title or self.name or _EMPTY, self.name


class Choices:
    """Backends, drivers, workloads and pinnings, with the findings of `pairlab doctor` at the last `refresh`; and what
    else Spec takes one of few of.
    """

    def __init__(self, examine=doctor.examine):
        self._examine = examine
        self.refresh()

    def refresh(self) -> None:
        self._backends: Mapping[str, Any] = self._examine()["backends"]

    def of(self, parameter: str, backend: str) -> Sequence[Choice]:
        """The options of that parameter in that backend; empty where it takes any value."""
        found = self._backends.get(backend, {})
        workloads = found.get("workloads", {})
        match parameter:
            case "backend":
                return _choices(self._backends)
            case "pinning":
                return [Choice(name) for name in registry.pinnings.names()]
            case "driver":
                return _choices(found.get("drivers", {}))
            case "background_workload":
                stoppable = [name for name in workloads if registry.workloads.get(name).runs_until_stopped]
                return _choices({name: workloads[name] for name in stoppable})
            case "workload":
                return [Choice("auto"), *_choices(workloads)]
        field = Spec.model_fields.get(parameter)
        return [Choice(each) for each in get_args(field.annotation if field else None) if isinstance(each, str)]

    def suggested(self, parameter: str) -> Sequence[str]:
        """What a field may be filled with that takes other texts, too."""
        if parameter == "congestion_control":
            return requirements.congestion_controls()
        return flow_sizes.names() if parameter == "flow_sizes" else ()


def _choices(findings: Mapping[str, Any]) -> list[Choice]:
    return [
        Choice(name, "; ".join(f"{lack['what']}: {lack['remedy']}" for lack in each["missing"]))
        for name, each in findings.items()
    ]


class Field(ipywidgets.VBox):
    """The field of one parameter, with the CSS classes pairlab-field and pairlab-field-NAME.

    A list where there are choices, a checkbox where the value is a bool, else text. value: its content; error: what is
    wrong with it, shown below; there its meaning is, too, while the field has the pointer or the focus (widgets.css).
    usual: the value that is not marked as changed.
    """

    def __init__(
        self,
        name: str,
        label: str,
        meaning: str,
        value: Any,
        choices: Sequence[Choice] = (),
        suggested: Sequence[str] = (),
        usual: Any = None,
    ):
        self.name, self.meaning, self.usual = name, meaning, usual
        self.input = _input(label, value, choices, suggested)
        self._help = f"<span class='pairlab-help' role='tooltip'>{escape(meaning)}</span>" if meaning else ""
        self._note = ipywidgets.HTML(self._help)
        self._error = ""
        super().__init__([self.input, self._note])
        with_classes(self, "pairlab-field", f"pairlab-field-{name.replace('_', '-')}")
        self.when_changed(self._mark)
        self._mark()

    @property
    def value(self) -> Any:
        return self.input.value

    @value.setter
    def value(self, value: Any) -> None:
        self.input.value = value

    @property
    def error(self) -> str:
        return self._error

    @error.setter
    def error(self, text: str) -> None:
        if text != self._error:
            self._error = text
            self._note.value = _alert(text) + self._help
            (self.add_class if text else self.remove_class)("pairlab-invalid")

    def _mark(self) -> None:
        (self.add_class if self.usual not in (None, self.value) else self.remove_class)("pairlab-changed")

    def offer(self, choices: Sequence[Choice]) -> None:
        """Replaces the choices; keeps the value where it is still one of them."""
        kept = self.value
        self.input.options = [choice.option for choice in choices]
        if kept in [choice.name for choice in choices]:
            self.value = kept

    def when_changed(self, work: Callable[[], None]) -> None:
        when_changed(self.input, work)


class Group(ipywidgets.VBox):
    """Fields of parameters that are about the same, under a heading."""

    def __init__(self, heading: str, fields: Sequence[Field]):
        self.heading, self.fields = heading, fields
        super().__init__(
            [ipywidgets.HTML(f"<h4>{escape(heading)}</h4>"), with_classes(ipywidgets.Box(fields), "pairlab-fields")]
        )

    def find(self, words: Sequence[str]) -> None:
        """Shows those that have all these words, or are wrong; none of it where there are none."""
        shown = False
        for field in self.fields:
            said = f"{field.name} {parse.label(field.name)} {field.meaning}".lower()
            found = all(word in said for word in words) or bool(field.error)
            field.layout.display = "" if found else "none"
            shown |= found
        self.layout.display = "" if shown else "none"


def group_of(parameter: str) -> str:
    """The heading of its group."""
    if parameter not in Spec.model_fields:
        return _OWN
    if parameter.startswith(_OTHER_LOAD):
        return _GROUPS["background_pairs"]
    names = [*Spec.model_fields]
    return next(_GROUPS[name] for name in names[names.index(parameter) :: -1] if name in _GROUPS)


def _input(label: str, value: Any, choices: Sequence[Choice], suggested: Sequence[str]) -> ipywidgets.DOMWidget:
    if choices:
        known = value in [choice.name for choice in choices]
        options = [*(choice.option for choice in choices), *([] if known else [(f"{value} (unknown)", value)])]
        return labelled(ipywidgets.Dropdown, label, options=options, value=value)
    if isinstance(value, bool):
        return labelled(ipywidgets.Checkbox, label, value=value, indent=False)
    if suggested:
        return labelled(ipywidgets.Combobox, label, value=value, options=suggested)
    return labelled(ipywidgets.Text, label, value=value)


def _alert(text: str) -> str:
    return f"<span class='pairlab-error' role='alert'>{escape(text)}</span>" if text else ""


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
        offered = [Choice(each, title=experiments.title(each)) for each in experiments.notebooks()]
        self.experiment = Field(
            "experiment", "Experiment", "the question; the notebook of that name answers it", name, offered
        )
        self.experiment.when_changed(self._fill)
        self._first = with_classes(ipywidgets.Box(), "pairlab-fields")
        self._rest = with_classes(ipywidgets.VBox(), "pairlab-more")
        self.further: list[Field] = []
        self.more = ipywidgets.ToggleButton(value=False, description="More parameters", icon="angle-right")
        self.find = ipywidgets.Text(placeholder="Find a parameter", layout=ipywidgets.Layout(width="180px"))
        self.find.add_class("pairlab-find")
        for each in (self.more, self.find):
            when_changed(each, self._unfold)
        self.reset_button = button("Reset", "undo", "all values as the experiment's notebook has them", self.reset)
        self._general = ipywidgets.HTML()
        super().__init__(
            [
                self.experiment,
                self._first,
                with_classes(row(self.more, self.find, self.reset_button), "pairlab-unfolds"),
                self._rest,
                self._general,
            ]
        )
        with_classes(self, "pairlab-form")
        self._fill()

    def read(self) -> Request:
        """Reads the fields, checks whether the host can do that now, and shows each error beside its field."""
        found = parse.read(self.experiment.value, {name: field.value for name, field in self.fields.items()})
        errors = dict(found.errors)
        if found.spec:
            errors = parse.host_errors(found.spec, self._check)
        errors |= {name: text for name, text in self._missing().items() if name not in found.errors}
        self.request = found._replace(spec=None if errors else found.spec, errors=errors)
        self._show(errors)
        return self.request

    def refresh_and_read(self) -> Request:
        """As `read`, after examining the host again: a driver may have become available, or unavailable."""
        self.choices.refresh()
        self._offer()
        return self.read()

    def reset(self) -> None:
        """Gives every parameter the value that the experiment's notebook has."""
        self._edited.clear()
        self._fill()

    def fill(self, spec: Spec) -> None:
        """Asks for what that spec does. Raises BadInput where there is no such experiment any more."""
        parameters = experiments.parameters(spec.experiment)
        asked = {name: value for name, value in spec.model_dump().items() if name in parameters}
        self._edited = {name: parse.as_text(name, value) for name, value in asked.items()}
        if self.experiment.value == spec.experiment:
            self._fill()
        else:
            self.experiment.value = spec.experiment

    def _fill(self) -> None:
        """Makes the fields of the chosen experiment. Values set by hand are kept where it has that parameter."""
        parameters = experiments.parameters(self.experiment.value)
        backend = self._edited.get("backend", parameters["backend"].default if "backend" in parameters else "")
        made = {}
        for name, parameter in {**parameters, **_OF_FORM}.items():
            usual = parse.as_text(name, parameter.default)
            meaning = _MEANINGS.get(name) or _of_spec(name) or parameter.meaning
            choices, suggested = self.choices.of(name, backend), self.choices.suggested(name)
            value = self._edited.get(name, usual)
            made[name] = Field(name, parse.label(name), meaning, value, choices, suggested, usual)
            made[name].when_changed(partial(self._change, name))
        made[SEVERAL].input.placeholder = "driver=bridge,macvlan pairs=1,10"
        self.fields = made
        own = [name for name, each in parameters.items() if _differs_from_spec(name, each.default)]
        first = [name for name in dict.fromkeys((*ALWAYS_FIRST, *own, *_LAST_OF_FIRST)) if name in made]
        self._first.children = [made[name] for name in first]
        self.further = [field for name, field in made.items() if name not in first]
        self._rest.children = [
            Group(heading, found)
            for heading in (*_GROUPS.values(), _OWN)
            if (found := [field for field in self.further if group_of(field.name) == heading])
        ]
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
        self._general.value = _alert(errors.get(NO_FIELD, ""))
        if any(field.error for field in self.further):
            self.more.value = True  # so that the error is visible

    def _unfold(self) -> None:
        """Shows the further parameters, of which those that have all the words that are looked for."""
        words = self.find.value.lower().split()
        self.more.icon = "angle-down" if self.more.value else "angle-right"
        self._rest.layout.display = "" if self.more.value or words else "none"
        for group in self._rest.children:
            group.find(words)


def _of_spec(name: str) -> str:
    """The meaning of a field of Spec, whose unit its label has; empty for what is none."""
    return Spec.model_fields[name].description or "" if name in Spec.model_fields else ""


def _differs_from_spec(name: str, value: Any) -> bool:
    return name in Spec.model_fields and value != Spec.model_fields[name].default


def _refuse_unknown(experiment: str, preset: Mapping[str, Any]) -> None:
    repetitions = preset.get(REPETITIONS, 1)
    if not isinstance(repetitions, int):
        raise BadInput(f"{REPETITIONS}: must be a whole number, not {repetitions!r}")
    experiments.spec_of(experiment, {name: value for name, value in preset.items() if name != REPETITIONS})
