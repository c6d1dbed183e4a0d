"""An unexpected error of a plugin says where in its code it was raised."""

from pathlib import Path

from pairlab.errors import located

HERE = str(Path(__file__))


def caught(call):
    try:
        call()
    except Exception as error:
        return error


def parse():
    return int("eleven")


def refuse():
    raise ValueError("the tool reported no transfer")


def test_an_error_raised_below_a_plugin_names_the_plugins_line():
    line = parse.__code__.co_firstlineno + 1
    assert located(caught(parse), HERE) == (f"invalid literal for int() with base 10: 'eleven' ({HERE}, line {line})")


def test_an_error_that_a_plugin_raises_itself_stays_as_it_is():
    assert located(caught(refuse), HERE) == "the tool reported no transfer"


def test_an_error_of_elsewhere_names_where_it_was_raised():
    assert located(caught(refuse), "plugin.py").startswith("the tool reported no transfer (")
    assert located(caught(refuse), "plugin.py").endswith(f"line {refuse.__code__.co_firstlineno + 1})")
