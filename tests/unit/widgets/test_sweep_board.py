"""The sweep board as a widget: it keeps itself up to date, and is cheap, also where things go wrong."""

import asyncio
import functools

import pytest

from pairlab import store
from pairlab.errors import BadInput, BadSweep
from pairlab.widgets.sweep_board import board, sweep
from tests.support import sweeps
from tests.support.sweeps import end

#: How long anything here may take, in seconds.
SOON_S = 30.0


@pytest.fixture
def begin(runs_dir, tmp_path):
    """Starts a sweep as sweeps.begin, in a store of the test's own."""
    return functools.partial(sweeps.begin, tmp_path)


@pytest.fixture
def shown(begin):
    """Runs a coroutine with the board of a sweep that has begun, its cells, and a wait for words in it."""

    def shown(work, *, begun=True):
        async def main():
            todo = begin() if begun else []
            its = board("small", every_s=0.01)

            async def until(words):
                async with asyncio.timeout(SOON_S):
                    while words not in its.shown.value:
                        await asyncio.sleep(0.01)

            try:
                await work(its, todo, until)
            finally:
                its.close()

        asyncio.run(main())

    return shown


def test_it_shows_what_comes_into_the_store_and_ends_with_the_sweep(shown):
    async def work(its, todo, until):
        await until("0 of 8 cells ended")
        end(todo[0])
        await until("1 of 8 cells ended")
        for number, spec in enumerate(todo):
            end(spec, after_s=number)
        await until("8 of 8 cells ended")
        async with asyncio.timeout(SOON_S):
            await its.task

    shown(work)


def test_it_waits_for_a_sweep_that_has_not_begun(shown, begin):
    async def work(its, todo, until):
        await until("no sweep &#x27;small&#x27; was started")
        begin()
        await until("0 of 8 cells ended")

    shown(work, begun=False)


def test_a_sweep_that_was_just_begun_is_starting(shown, begin):
    async def work(its, todo, until):
        its.starting = True
        await until("starting")
        begin()
        await until("0 of 8 cells ended")

    shown(work, begun=False)


def test_it_survives_errors_that_nobody_knows_and_shows_them(shown, monkeypatch):
    def breaks(*arguments):
        raise RuntimeError("<b>no idea</b>")

    async def work(its, todo, until):
        await until("0 of 8 cells ended")
        with monkeypatch.context() as broken:
            broken.setattr(store, "starts_of_sweep", breaks)
            await until("RuntimeError: &lt;b&gt;no idea&lt;/b&gt;")
        await until("0 of 8 cells ended")

    shown(work)


def test_closed_it_reads_no_more(shown):
    async def work(its, todo, until):
        await until("0 of 8 cells ended")
        its.close()
        with pytest.raises(asyncio.CancelledError):
            await its.task

    shown(work)


def test_in_a_script_it_shows_what_there_is(begin):
    end(begin()[0])
    its = board("small")
    assert "1 of 8 cells ended" in its.shown.value
    assert its.task is None


def test_a_plan_that_is_no_sweep_or_has_no_event_loop_is_refused():
    with pytest.raises(BadInput, match="in a script, call `pairlab sweep FILE`"):
        sweep("smoke")

    async def use():
        with pytest.raises(BadSweep, match="experiments"):
            sweep({"name": "nothing"})

    asyncio.run(use())
