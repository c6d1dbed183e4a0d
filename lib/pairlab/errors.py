"""Everything pairlab raises on purpose.

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
│   ├── DamagedRun           a run's directory is incomplete
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


class PairlabError(Exception):
    """The base class: catch this to catch every error that pairlab raises on purpose."""


class BadInput(PairlabError): ...


class BadSpec(BadInput): ...


class BadSweep(BadInput): ...


class UnknownName(BadInput): ...


def unknown_name(kind: str, name: str, known: collections.abc.Iterable[str]) -> str:
    """The message for a name that is not among the known ones: all of those, and the closest.

    kind: what is named, such as "driver".
    """
    known = list(known)
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"no {kind} {name!r}{hint} (there are: {', '.join(known)})"


class Unavailable(PairlabError): ...


class HostBusy(PairlabError): ...


class TestbedError(PairlabError):
    __test__ = False  # pytest: not a test class


class MeasurementFailed(PairlabError): ...


class StoreError(PairlabError): ...


class DamagedRun(StoreError): ...


class SchemaMismatch(StoreError): ...


class AnalysisError(PairlabError): ...


class NoRuns(AnalysisError): ...


class MixedHosts(AnalysisError): ...


class TooFewSamples(AnalysisError): ...


class NotMeasured(AnalysisError): ...


class OutOfDate(AnalysisError): ...


def by_name(name: str) -> type[PairlabError]:
    """The class of that name, to raise again an error of another process."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, PairlabError) else TestbedError
