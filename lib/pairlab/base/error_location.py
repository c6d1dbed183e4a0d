"""Where in the code an unexpected error was raised: for authors of plugins, who see its message only."""

import traceback


def located(error: BaseException, file: str = "") -> str:
    """The error's message, with file and line.

    Where the error passed through `file`, the line in there; else where it was raised. A message of a `raise` statement
    of that file is meant to be read, and stays as it is.
    """
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == file]
    if not frames or (inside and inside[-1] is frames[-1] and (frames[-1].line or "").startswith("raise ")):
        return str(error)
    frame = inside[-1] if inside else frames[-1]
    return f"{error} ({frame.filename}, line {frame.lineno})"
