"""Everything pairlab raises on purpose.

PairlabError
├── BadInput                 what was asked for cannot be; nothing was built
│   ├── BadSpec              a parameter's name, type or value
│   ├── BadSweep             a sweep file
│   └── UnknownName          no such driver, workload, backend or experiment
├── Unavailable              this host cannot do it as it is; says how to get it
├── HostBusy                 another measurement is running on this host
├── TestbedError             the testbed could not be built, or broke
├── MeasurementFailed        the testbed stood, the measurement did not come off
├── StoreError               runs could not be written or read
│   ├── DamagedRun           a run's directory is not whole
│   └── SchemaMismatch       a run was written by a newer pairlab
└── AnalysisError            the data cannot carry the statement asked of them
    ├── NoRuns               nothing to analyse
    ├── MixedHosts           runs of different hosts would be pooled
    ├── TooFewSamples        fewer values than the estimate needs
    ├── NotMeasured          the runs lack the cells that a statement is about
    └── OutOfDate            a result was made of other runs than there are

Every message says what happened, why, and what to do next.
"""


class PairlabError(Exception):
    """The root: catch this to catch all that pairlab raises on purpose."""


class BadInput(PairlabError): ...


class BadSpec(BadInput): ...


class BadSweep(BadInput): ...


class UnknownName(BadInput): ...


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
    """The class of that name, to raise an error again that crossed a process boundary."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, PairlabError) else TestbedError
