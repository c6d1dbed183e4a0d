"""The errors that pairlab raises on purpose.

PairlabError
├── BadInput                 the request is wrong; nothing was built
│   ├── BadSpec              a parameter's name, type or value, or the name of a plugin in one
│   ├── BadSweep             a sweep file
│   └── UnknownName          no such driver, workload, backend or experiment
├── Unavailable              this host lacks something; says how to get it
├── HostBusy                 another measurement is running on this host
├── TestbedError             the testbed could not be built, or broke
├── MeasurementFailed        the testbed came up; the measurement failed
├── StoreError               runs could not be written or read
│   ├── RunRescued           the store could not take a run, which is whole elsewhere
│   ├── DamagedRun           a run's directory or pack is damaged or incomplete
│   └── SchemaMismatch       a run was written by a newer pairlab
└── AnalysisError            the data do not support the analysis
    ├── NoRuns               there are no runs to analyse
    ├── MixedHosts           the runs come from different hosts
    ├── TooFewSamples        fewer values than the estimate needs
    ├── NotMeasured          cells that the statement is about were not measured
    └── OutOfDate            a result was made from other runs than are stored now

Every message says what happened, why, and what to do next.
"""

import collections.abc
import difflib
import traceback


class PairlabError(Exception):
    """The base class of all errors that pairlab raises on purpose."""


class BadInput(PairlabError): ...


class BadSpec(BadInput): ...


class BadSweep(BadInput): ...


class UnknownName(BadInput): ...


def unknown_name(kind: str, name: str, known: collections.abc.Iterable[str]) -> str:
    """The message for an unknown name, with all known names and the closest one.

    kind: of the named thing, such as "driver".
    """
    return f"no {kind} {name!r}{hint(name, known := list(known))} (there are: {', '.join(known)})"


def hint(name: str, known: collections.abc.Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the closest known one; empty if none is close."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Unavailable(PairlabError): ...


class HostBusy(PairlabError): ...


class TestbedError(PairlabError):
    __test__ = False  # pytest: not a test class


class MeasurementFailed(PairlabError): ...


class StoreError(PairlabError): ...


class RunRescued(StoreError):
    """The store could not take a run, which is whole elsewhere: the message says where."""


class DamagedRun(StoreError): ...


class SchemaMismatch(StoreError): ...


class AnalysisError(PairlabError): ...


class NoRuns(AnalysisError): ...


class MixedHosts(AnalysisError): ...


class TooFewSamples(AnalysisError): ...


class NotMeasured(AnalysisError): ...


class OutOfDate(AnalysisError): ...


def by_name(name: str) -> type[PairlabError]:
    """The error class of that name, to raise an error of another process again."""
    value = globals().get(name)
    return value if isinstance(value, type) and issubclass(value, PairlabError) else TestbedError


def located(error: BaseException, file: str = "") -> str:
    """An unexpected error's message with file and line, for authors of plugins, who do not see the traceback.

    The line is in `file` if the error passed through it, else the place of the `raise`. A message that `file` itself
    raises is written for readers, and stays as it is.
    """
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == file]
    if not frames or (inside and inside[-1] is frames[-1] and (frames[-1].line or "").startswith("raise ")):
        return str(error)
    frame = inside[-1] if inside else frames[-1]
    return f"{error} ({frame.filename}, line {frame.lineno})"
