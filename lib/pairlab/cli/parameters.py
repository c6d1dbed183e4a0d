"""Parameters of experiments on the command line: -p NAME=VALUE, or -p NAME VALUE as papermill has it."""

import re

import click

_WITH_VALUE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


class TakesParameters(click.Command):
    """A command with `parameters_option`: accepts -p NAME=VALUE beside -p NAME VALUE."""

    def parse_args(self, context, args):
        words = []
        for word in args:
            if word.startswith("-p") and _WITH_VALUE.fullmatch(word[2:]):  # -pNAME=VALUE
                words += ["-p", *word[2:].split("=", 1)]
            elif words and words[-1] == "-p" and _WITH_VALUE.fullmatch(word):
                words += word.split("=", 1)
            else:
                words.append(word)
        return super().parse_args(context, words)


def parameters_option(help):
    """The option -p, which may be given several times; its value is a tuple of (name, text)."""
    return click.option("-p", "parameters", nargs=2, multiple=True, metavar="NAME=VALUE", help=help)
