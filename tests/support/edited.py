"""Values of JSON with one part replaced: what a file that somebody edited may hold."""

import copy


def places(value, path=()):
    """Where each part of it is, those that have parts of their own included."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def edited(value, path, part):
    """The same value with that part in that place."""
    changed = copy.deepcopy(value)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = part
    return changed
