"""What the pages of networks have from the code: a driver's properties, and the picture of a testbed over it."""

import reference

from pairlab import paths
from pairlab.testbed import registry
from pairlab.testbed.contracts import ISOLATIONS

PICTURES = paths.ROOT / "docs" / "pictures" / "networks"


def network(name: str) -> str:
    """A table of the driver's properties, and how it was built on a machine that has it (lib/pictures.py)."""
    driver = registry.drivers.get(name)
    where = [each for each in registry.backends.names() if each not in driver.absent_in]
    programs = sorted({program.package or f"{program.name} (in none)" for program in driver.programs})
    rows = [
        ("`driver`", f"`{name}`: {driver.summary}"),
        ("backends", ", ".join(where)),
        ("isolation", f"{driver.isolation}: {ISOLATIONS[driver.isolation]}"),
        *([("cannot", driver.cannot)] if driver.cannot else []),
        ("spans hosts", "yes" if driver.spans_hosts else "no"),
        ("subnet for each host", "yes" if driver.routed else "no"),
        ("kinds of link", ", ".join(driver.links) or "none"),
        ("programs, by Debian package", ", ".join(programs) or "none"),
    ]
    rows += [("adds to each packet between hosts", f"{driver.overhead_bytes} bytes")] if driver.overhead_bytes else []
    table = reference.table(("property", "value"), rows)
    there = (PICTURES / f"{name}.svg").exists()
    return f"{table}\n\n![{name}](../pictures/networks/{name}.svg)" if there else table


def isolations() -> str:
    """The words for how far a network isolates, and the drivers that each is said of."""
    known = {name: registry.drivers.get(name).isolation for name in registry.drivers.names()}
    rows = [
        (f"`{word}`", meaning, ", ".join(name for name, isolation in known.items() if isolation == word))
        for word, meaning in ISOLATIONS.items()
    ]
    return reference.table(("isolation", "what each container has", "drivers"), rows)
