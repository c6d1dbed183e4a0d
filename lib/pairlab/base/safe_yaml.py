"""YAML files that people write, read without trusting them.

An alias costs a few bytes and stands for all that it names, so a small file can describe a huge tree: nodes are
counted, aliases expanded, before anything is built. A key that a mapping has twice is refused: YAML parsers keep the
last one and drop the others silently. Values are YAML 1.2's: 010 is ten, 1e8 a number, 1:30 and yes are text; by YAML
1.1, PyYAML's own, they are 8, text, 90 and true.
"""

import re
from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1 << 20
MOST_NODES = 100_000
_TAG = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"[-+]?[0-9]+")
#: By tag, which plain text is such a value, and how it may begin. Source: YAML 1.2.2, section 10.3 (core schema).
_PLAIN = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (_WHOLE.pattern, list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}


if yaml.__with_libyaml__:

    class _Parsed(yaml.composer.Composer, yaml.CSafeLoader):
        """libyaml's events, which are there five times as soon, as nodes by PyYAML's own composer: deep nesting is a
        RecursionError there, and the end of the process in libyaml's."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            yaml.composer.Composer.__init__(self)

else:
    _Parsed = yaml.SafeLoader  # type: ignore[assignment, misc]


class _Loader(_Parsed):
    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 - PyYAML's; of its own, as it would be YAML 1.1's else


class _Dumper(yaml.SafeDumper):
    """Quotes text that is a value by YAML 1.1 or 1.2, so that any reader has it as text."""


for _kind, (_pattern, _first) in _PLAIN.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _kind, re.compile(f"^(?:{_pattern})$"), _first)


def _whole_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    if not _WHOLE.fullmatch(text):
        raise _Refused(f"is not YAML: a value does not fit its tag (!!int {text!r})")
    return int(text)


_Loader.add_constructor(_TAG + "int", _whole_number)


def text(content: Any, **layout: Any) -> str:
    """The content as YAML that `read` reads back. layout: options of yaml.dump."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, **layout)


def read(path: Path) -> Any:
    """The content of the file.

    Raises OSError where it cannot be read; ValueError, saying what is wrong, where it is not YAML, is too large, or has
    a key twice.
    """
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)  # a device may have no end
    if len(content) > MOST_BYTES:
        raise ValueError(f"is larger than {MOST_BYTES} bytes: split it")
    try:
        loader = _Loader(content.decode("utf-8-sig"))
        node = loader.get_single_node()
        _count(node, {})
        return None if node is None else loader.construct_document(node)
    except _Refused:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 31st of February; not UTF-8
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None
    except Exception as error:  # PyYAML fails on values that do not fit their tag, such as `!!bool x` and `!!int ''`
        raise ValueError(f"is not YAML: a value does not fit its tag ({error!r})") from None


class _Refused(ValueError): ...


def _count(node: yaml.Node | None, known: dict[int, int]) -> int:
    """The number of nodes below this one, aliases expanded. Refuses keys that a mapping has twice."""
    if id(node) in known:
        if not known[id(node)]:
            raise _Refused("has an alias inside the value that it names, which never ends: write the value out")
        return known[id(node)]
    known[id(node)] = 0
    inner = []
    if isinstance(node, yaml.SequenceNode):
        inner = node.value
    elif isinstance(node, yaml.MappingNode):
        _refuse_duplicates(node)
        inner = [part for pair in node.value for part in pair]
    known[id(node)] = 1 + sum(_count(each, known) for each in inner)
    if known[id(node)] > MOST_NODES:
        raise _Refused(f"has more than {MOST_NODES} values, aliases expanded: split it")
    return known[id(node)]


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        name, line = (key.tag, key.value), key.start_mark.line + 1
        if name in lines:
            raise _Refused(
                f"has the key {key.value!r} twice, in lines {lines[name]} and {line}: keep one, or merge them"
            )
        lines[name] = line
