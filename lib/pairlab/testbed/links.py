"""How each endpoint's link of a Spec is to be shaped."""

from pairlab.errors import BadSpec
from pairlab.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.contracts import Link
from pairlab.testbed.shaping import LEAST_RATE_BPS, MOST_RATE_BPS


def links_of(spec: Spec) -> dict[str, Link]:
    """Each shaped link by its endpoint's name; empty where the spec shapes none.

    A client's has the rate, a server's the loss. Raises BadSpec where the driver gives endpoints no links of their
    own, or the rate is out of reach, UnknownName for a driver there is not.
    """
    asked = {"client": Link(rate_bps=spec.link_rate_bps), "server": Link(loss=spec.link_loss)}
    shaped = {side: link for side, link in asked.items() if link != Link()}
    if shaped and not registry.drivers.get(spec.driver).isolated:
        raise BadSpec(
            f"link_rate_bps, link_loss: driver {spec.driver!r} gives endpoints no links of their own that could be"
            " shaped: take another driver"
        )
    if spec.link_rate_bps and not LEAST_RATE_BPS <= spec.link_rate_bps <= MOST_RATE_BPS:
        raise BadSpec(
            f"link_rate_bps: must be from {LEAST_RATE_BPS:g} to {MOST_RATE_BPS:g} (or 0), not {spec.link_rate_bps:g}"
        )
    return {f"{side}-{index}": link for index in range(spec.pairs) for side, link in shaped.items()}
