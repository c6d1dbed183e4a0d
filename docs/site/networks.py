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
        ("spans hosts", "yes" if driver.spans_hosts else "no"),
        ("subnet for each host", "yes" if driver.routed else "no"),
        ("kinds of link", ", ".join(driver.links) or "none"),
        ("programs, by Debian package", ", ".join(programs) or "none"),
    ]
    rows += [("adds to each packet between hosts", f"{driver.overhead_bytes} bytes")] if driver.overhead_bytes else []
    picture = PICTURES / f"{name}.svg"
    drawn = " ".join(picture.read_text(encoding="utf-8").split()) if picture.exists() else ""
    return "\n\n".join(filter(None, [reference.table(("property", "value"), rows), drawn]))


def isolations() -> str:
    """The words for how far a network isolates, and the drivers that each is said of."""
    known = {name: registry.drivers.get(name).isolation for name in registry.drivers.names()}
    rows = [
        (f"`{word}`", meaning, ", ".join(name for name, isolation in known.items() if isolation == word))
        for word, meaning in ISOLATIONS.items()
    ]
    return reference.table(("isolation", "what each container has", "drivers"), rows)
