"""Draws a testbed over each driver as it is built here, into docs/pictures/networks; others stay as they are."""

from pairlab import Spec, open_testbed, paths
from pairlab.errors import Unavailable
from pairlab.model import topology
from pairlab.testbed import registry

PLACE = paths.ROOT / "docs" / "pictures" / "networks"


def draw(name: str) -> str:
    """The SVG. Raises Unavailable where this machine cannot build it."""
    driver = registry.drivers.get(name)
    spec = Spec(driver=name, pairs=2, backend="docker" if "netns" in driver.absent_in else "netns")
    two = spec.replace(hosts=2, placement="across")
    if driver.spans_hosts and not driver.lacks_to_span():
        spec = two
    with open_testbed(spec) as bed:
        return topology.picture(bed.site.facts())


if __name__ == "__main__":
    PLACE.mkdir(parents=True, exist_ok=True)
    for each in registry.drivers.names():
        try:
            (PLACE / f"{each}.svg").write_text(draw(each) + "\n", encoding="utf-8")
            print(each)
        except Unavailable as error:
            print(f"{each}: {error}")
