"""Known vulnerabilities of the exact versions in lib/requirements/*.lock, as OSV's database has them (https://osv.dev).

One question for all of them, by name and version, to the database that pip-audit and others ask; needs the standard
library only, and installs nothing. Status: 0 none is known; 1 some are; 2 wrong usage; 3 not checked, as no answer came
that can be relied on.
"""

import argparse
import http.client
import json
import re
import sys
import urllib.request
from pathlib import Path

LOCKS = Path(__file__).resolve().parent / "requirements"
DATABASE = "https://api.osv.dev/v1/querybatch"
AT_ONCE = 1000  # the most that it takes in one question
NONE_KNOWN, VULNERABLE, NOT_CHECKED = 0, 1, 3

PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


class NotChecked(Exception):
    """Nothing is known of the lock's packages, good or bad."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("locks", nargs="*", type=Path, default=sorted(LOCKS.glob("*.lock")))
    parser.add_argument("--database", default=DATABASE, help="another address that answers as OSV's querybatch does")
    arguments = parser.parse_args()
    try:
        pinned = sorted({package for lock in arguments.locks for package in packages(lock)})
        found = ask(arguments.database, pinned)
    except NotChecked as error:
        print(f"audit: NOT CHECKED: {error}", file=sys.stderr)
        return NOT_CHECKED
    for (name, version), known in found.items():
        print(f"audit: {name} {version}: {', '.join(f'https://osv.dev/{each}' for each in known)}")
    if found:
        print(f"audit: VULNERABLE: {len(found)} of {len(pinned)} packages; raise them, and write the lock anew")
        return VULNERABLE
    print(f"audit: none of {len(pinned)} packages has a known vulnerability")
    return NONE_KNOWN


def packages(lock):
    """(name, version) of each package that the lock pins, for whichever Python."""
    try:
        found = PINNED.findall(lock.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotChecked(f"{lock} cannot be read: {error}") from None
    if not found:
        raise NotChecked(f"{lock} pins no package: is it a lock file?")
    return found


def ask(database, pinned):
    """The ids of known vulnerabilities by package, of those that have any."""
    found = {}
    for begin in range(0, len(pinned), AT_ONCE):
        part = pinned[begin : begin + AT_ONCE]
        queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in part]
        for package, result in zip(part, _answer(database, {"queries": queries}), strict=True):
            if known := [each["id"] for each in result.get("vulns", ())]:
                found[package] = known
    return found


def _answer(database, question):
    request = urllib.request.Request(
        database, json.dumps(question).encode(), {"Content-Type": "application/json", "User-Agent": "pairlab-audit"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            results = json.load(response)["results"]
        if len(results) != len(question["queries"]):
            raise ValueError(f"{len(results)} answers to {len(question['queries'])} questions")
        for result in results:
            if not all(isinstance(each["id"], str) for each in result.get("vulns", ())):
                raise ValueError("ids that are no text")
        return results
    except OSError as error:  # URLError and timeouts are such
        raise NotChecked(f"no database answers at {database} ({error}): go online, or name another") from None
    except (ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException) as error:
        raise NotChecked(f"what {database} answered is none of OSV's answers ({error!r})") from None


if __name__ == "__main__":
    sys.exit(main())
