"""`pairlab scheduler` and `pairlab worker`: several machines share a sweep, over Dask."""

import click

from pairlab.base.credentials import file as file_of
from pairlab.cli.terminal import out

CREDENTIALS = click.option(
    "--credentials",
    type=click.Path(dir_okay=False),
    help="Key and certificate that the scheduler makes, by default in ~/.config/pairlab/scheduler.pem.",
)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8786, show_default=True, help="Port to listen at.")
@click.option("--dashboard-port", default=8787, show_default=True, help="Port of Dask's dashboard.")
@CREDENTIALS
def scheduler(host, port, dashboard_port, credentials):
    """Start a Dask scheduler, to which workers and sweeps connect; Ctrl-C ends it.

    Whoever has its file of credentials, and nobody else, can connect, and can run commands as the workers' users: copy
    it to the hosts of workers only. It listens at this host only, unless you give --host.
    """
    from pairlab.batch.executors import processes

    processes.serve_scheduler(
        host, port, dashboard_port, file_of(credentials), say=lambda text: out.print(text, markup=False)
    )


@click.command()
@click.option("--scheduler", "address", required=True, help="The scheduler, such as tls://127.0.0.1:8786.")
@click.option("--host", help="Address to listen at; by default the one that reaches the scheduler.")
@click.option("--wait-s", default=300.0, show_default=True, help="Wait so long for a scheduler that is gone.")
@CREDENTIALS
def worker(address, host, wait_s, credentials):
    """Measure cells of sweeps on this host, for `pairlab sweep FILE --scheduler`; Ctrl-C ends it.

    One worker a host: it measures one cell at a time, as this user, in a store of its own that is emptied when the run
    has been sent. It needs neither the sweep's file nor its store.
    """
    from pairlab.batch.executors import processes

    processes.serve_worker(address, host, wait_s, file_of(credentials), say=lambda text: out.print(text, markup=False))
