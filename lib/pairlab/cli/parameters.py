"""Parameters of experiments, as they are written on the command line."""


def value_of(text):
    """A parameter's value as papermill's -p reads it, so that both give the same run."""
    words = {"True": True, "False": False, "true": True, "false": False}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
