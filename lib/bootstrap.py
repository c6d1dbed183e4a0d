"""Sets up everything inside the checkout: .venv from the lock file, its kernel, flowgen, and git's notebook filters.

Runs with the system's python3 and nothing but its standard library; `make run` and `make test` call it first.
It may be repeated: what is in place is left alone, so a second call costs a fraction of a second.
"""

import ast
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = ROOT / "lib" / "requirements"
FLOWGEN = ROOT / "lib" / "flowgen"
PLUGINS = ROOT / "plugins"
COMMAND = VENV / "bin" / "pairlab"
OLDEST = (3, 11)

# Of pip's options, in its files and in PIP_*, those that say how packages are reached. All others are left out: they
# may send packages elsewhere (user, target, prefix, root, python), or refuse them (dry-run, require-hashes).
REACH = "index-url extra-index-url find-links no-index trusted-host proxy cert client-cert keyring-provider use-feature"
REACH += " use-deprecated timeout default-timeout retries resume-retries cache-dir no-cache-dir no-input"
# And uv's.
UV_REACH = re.compile("UV_(.*(INDEX|CACHE|CERT|TLS|HTTP|HOST|KEYRING|CONCURRENT).*|FIND_LINKS|LINK_MODE|OFFLINE)")
# What Jupyter adds to a notebook that it saves, and what differs by the Python that ran it.
ADDED = ("codemirror_mode", "file_extension", "mimetype", "nbconvert_exporter", "pygments_lexer", "version")
# git calls it for each notebook that it looks at. Without the module, which jsonschema does not need, in a fifth of the
# time: importing that builds a grammar.
NBSTRIPOUT = "import sys; sys.modules['rfc3987_syntax'] = None; import nbstripout; nbstripout.main()"
STRIP = ".venv/bin/python -I -c \"%s\" --keep-id --extra-keys '%s'" % (
    NBSTRIPOUT,
    " ".join("metadata.language_info." + key for key in ADDED),
)
# How .venv's Python is called: it reads none of the user's PYTHON*. The quotes hide the second line from Python.
ISOLATED = """#!/bin/sh
'''exec' "%s" -I "$0" "$@"
' '''
"""
# Named in .gitattributes. From the checkout's root, where git runs them.
FILTERS = {"notebook-source": STRIP, "notebook-with-outputs": STRIP + " --keep-output --keep-count"}
# Around them, as git prints the whole of a filter that fails, for each notebook: a worktree without a .venv takes that
# of the clone, and what is no notebook, as after a conflict, stays as it is.
QUIETLY = (
    'p=.venv/bin/python; [ -x $p ] || p=$(git rev-parse --git-common-dir)/../$p; [ -x "$p" ] || exec cat;'
    ' t=$(mktemp) || exec cat; trap \'rm -f "$t"\' EXIT; cat > "$t"; %s < "$t" 2> /dev/null || cat "$t"'
)


def main():
    if sys.version_info < OLDEST:
        fail(
            "pairlab needs Python 3.11 or newer, and python3 here is %d.%d." % sys.version_info[:2],
            "Install a newer one (Debian 12, Ubuntu 24.04 and later have it) and say which: make run PYTHON=python3.12",
        )
    begun = time.monotonic()
    make_venv()
    install_packages()
    isolate_command()
    build_flowgen()
    set_git_filters()
    took_s = time.monotonic() - begun
    if took_s > 2:
        say("set up in %.0f s" % took_s)


def make_venv():
    stamp = VENV / "venv.stamp"
    wanted_stamp = "%s\nPython %d.%d\n" % ((ROOT,) + sys.version_info[:2])
    # A checkout that was moved, and a Python that is gone or another, make the old one useless.
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted_stamp:
        return
    if VENV.is_symlink():
        fail(
            "%s is a link to %s, whose Python is another one or for another checkout." % (VENV, os.readlink(VENV)),
            "It is emptied only by set-up in its own checkout. For one of this checkout: rm .venv, and the same again",
        )
    step(1, "making .venv with Python %d.%d" % sys.version_info[:2], "5 s")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        fail(
            "python3 -m venv failed: " + (done.stdout + done.stderr).strip(),
            "On Debian and Ubuntu: sudo apt-get install python3-venv",
        )
    stamp.write_text(wanted_stamp)  # last, so that an interrupted one is made anew


def install_packages():
    lock = LOCKS / "pairlab.lock"
    ours = [ROOT / "pyproject.toml", *sorted(PLUGINS.glob("*/pyproject.toml"))]
    if COMMAND.exists() and stamp_matches("packages", lock, *ours):
        return
    step(2, "installing the packages of lib/requirements/pairlab.lock", "half a minute")
    uv = install_uv()
    ways = [pip_install("--require-hashes", "-r", str(lock))]
    if uv:
        ways.insert(
            0,
            [
                uv,
                "pip",
                "sync",
                "--quiet",
                "--compile-bytecode",
                "--require-hashes",
                "--python",
                str(PYTHON),
                str(lock),
            ],
        )
    for way in ways:
        done = subprocess.run(way, env=environment())
        if done.returncode == 0:
            break
    else:
        fail(
            "the packages could not be installed (the reason stands above).",
            "Is PyPI reachable? Then: make run",
        )
    editable = [word for project in ours for word in ("--editable", str(project.parent))]
    run(
        pip_install("--no-deps", "--no-index", "--no-build-isolation", *editable),
        "pairlab itself could not be installed into .venv.",
        {"LC_ALL": "C.UTF-8"},  # else a checkout whose path is not ASCII cannot be written down
    )
    if not COMMAND.exists():
        fail(
            "pip ended without an error, and %s is not there: it installed pairlab elsewhere, or not at all." % COMMAND,
            "Does pip work here? Then: rm -r .venv; make run",
        )
    point_at_library()
    write_stamp("packages", lock, *ours)


def point_at_library():
    """Has .venv find all of ours by relative paths: Python before 3.13 reads absolute ones by the locale, C too."""
    for file in VENV.glob("lib/python*/site-packages/__editable__.pairlab*.pth"):
        source = file.read_text(encoding="utf-8").strip()
        file.write_text(os.path.relpath(source, str(file.parent)) + "\n")


def pip_install(*words):
    return [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]


@functools.lru_cache(maxsize=1)
def environment():
    """The environment of pip, uv and make: none of the user's PYTHON*, and of pip's and uv's settings REACH only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "UV_"))}
    asked = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Else a setting has another Python answer; or, of one kind of file only, as these are also options of `pip config`.
    asked.update({"PIP_PYTHON": str(PYTHON), "PIP_USER": "0", "PIP_GLOBAL": "0", "PIP_SITE": "0"})
    listed = ""
    if PYTHON.exists():
        done = subprocess.run([str(PYTHON), "-m", "pip", "config", "list"], env=asked, capture_output=True, text=True)
        listed = done.stdout
    for section in ("global", "install", ":env:"):  # what is said later counts more
        for option, value in re.findall("^%s\\.([a-z-]+)=(.*)" % section, listed, re.MULTILINE):
            if option in REACH.split():
                kept["PIP_" + option.upper().replace("-", "_")] = ast.literal_eval(value)
    kept.update({name: value for name, value in os.environ.items() if UV_REACH.fullmatch(name)})
    # uv: the system's certificates, as pip uses them, since a proxy's are often only there.
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "UV_NATIVE_TLS": "1", "UV_NO_CONFIG": "1"}


def install_uv():
    """uv takes seconds where pip takes a minute; without it pip does as well. Kept out of what it syncs."""
    home = VENV / "uv"
    uv = home / "bin" / "uv"
    if not uv.exists():
        way = pip_install("--require-hashes", "--target", str(home), "-r", str(LOCKS / "uv.lock"))
        subprocess.run(way, env=environment())
    return str(uv) if uv.exists() else None


def isolate_command():
    """Has .venv/bin/pairlab read none of the user's PYTHON*, such as another numpy on PYTHONPATH."""
    script, head = COMMAND.read_text(encoding="utf-8"), ISOLATED % PYTHON
    if not script.startswith(head):
        COMMAND.write_text(head + script[script.index("\nimport ") + 1 :], encoding="utf-8")


def build_flowgen():
    sources = sorted([*FLOWGEN.glob("src/*.[ch]"), *FLOWGEN.glob("uml/*.c"), FLOWGEN / "Makefile"])
    if (FLOWGEN / "build" / "flowgen").exists() and stamp_matches("flowgen", *sources):
        return
    if not shutil.which("make"):
        fail("flowgen is built with make, which is not installed.", "On Debian and Ubuntu: sudo apt-get install make")
    if has_static_compiler():
        compiler = "cc"
        step(3, "building flowgen with the system's C compiler", "5 s")
    else:
        step(3, "building flowgen with PyPI's ziglang, as no C compiler here links statically", "a minute")
        run(
            pip_install("--require-hashes", "-r", str(LOCKS / "cc.lock")),
            "ziglang could not be installed. With root: sudo apt-get install gcc libc6-dev make",
        )
        compiler = "%s -m ziglang cc -target %s-linux-musl" % (PYTHON, os.uname().machine)
    cache = {"ZIG_GLOBAL_CACHE_DIR": str(VENV / "zig-cache"), "ZIG_LOCAL_CACHE_DIR": str(VENV / "zig-cache")}
    run(["make", "-s", "-C", str(FLOWGEN), "clean"], "flowgen could not be cleaned.")
    run(["make", "-s", "-C", str(FLOWGEN), "CC=" + compiler], "flowgen could not be built.", env=cache)
    write_stamp("flowgen", *sources)


def set_git_filters():
    """In this clone, notebooks that were only run are no change to git. Not required: without .venv it adds all."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        return
    git = ["git", "-C", str(ROOT), "config", "--local"]
    configured = subprocess.run(git + ["--get-regexp", r"^filter\.notebook-.*\.clean$"], capture_output=True, text=True)
    filters = {name: QUIETLY % command.replace(".venv/bin/python", '"$p"') for name, command in FILTERS.items()}
    wanted = ["filter.%s.clean %s" % each for each in sorted(filters.items())]
    if sorted(configured.stdout.splitlines()) == wanted:
        return
    for name, command in filters.items():
        # Git that does not trust the owner of the folder says so itself, whenever it is called.
        subprocess.run(git + ["filter.%s.clean" % name, command], capture_output=True)


def has_static_compiler():
    if not shutil.which("cc"):
        return False
    trial = "int main(void) { return 0; }"
    done = subprocess.run(
        ["cc", "-static", "-x", "c", "-", "-o", "/dev/null"], input=trial, text=True, capture_output=True
    )
    return done.returncode == 0


def digest(paths):
    found = hashlib.sha256(str(ROOT).encode())
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def stamp_matches(name, *paths):
    stamp = VENV / (name + ".stamp")
    return stamp.exists() and stamp.read_text() == digest(paths)


def write_stamp(name, *paths):
    (VENV / (name + ".stamp")).write_text(digest(paths))


def run(argv, why, env=None):
    if subprocess.run(argv, env={**environment(), **(env or {})}).returncode:
        fail(why, "The reason stands above.")


def step(number, what, expected):
    """Says which step of the set-up begins; there is no library yet that could draw a bar."""
    say("set-up, step %d of 3: %s (about %s)" % (number, what, expected))


def say(text):
    print("pairlab: " + text, flush=True)


def fail(why, next_step):
    sys.exit("pairlab: " + why + "\n         " + next_step)


if __name__ == "__main__":
    main()
