"""`pairlab scheduler` and `pairlab worker`: several machines share a sweep, over Dask."""

import click

from pairlab.cli.terminal import out

#: As Dask's own commands name them.
TLS = (
    click.option("--tls-ca-file", type=click.Path(exists=True, dir_okay=False), help="Certificate of the authority."),
    click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate of this end."),
    click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Key of this end."),
)


def tls_options(command):
    """Adds the options of TLS to a command, which gets them as tls_ca_file, tls_cert and tls_key."""
    for option in reversed(TLS):
        command = option(command)
    return command


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at, of a trusted network.")
@click.option("--port", default=8786, show_default=True, help="Port to listen at.")
@click.option("--dashboard-port", default=8787, show_default=True, help="Port of Dask's dashboard.")
@tls_options
def scheduler(host, port, dashboard_port, **tls):
    """Start a Dask scheduler, to which workers and sweeps connect; Ctrl-C ends it.

    Whoever can connect to it can run commands as the workers' users. So it listens at this host only, unless you give
    --host; then use a network that you trust, or TLS.
    """
    from pairlab.batch.executors import processes

    processes.serve_scheduler(host, port, dashboard_port, tls, say=lambda text: out.print(text, markup=False))


@click.command()
@click.option("--scheduler", "address", required=True, help="The scheduler, such as tcp://127.0.0.1:8786.")
@click.option("--host", help="Address to listen at; by default the one that reaches the scheduler.")
@click.option("--wait-s", default=300.0, show_default=True, help="Wait so long for a scheduler that is gone.")
@tls_options
def worker(address, host, wait_s, **tls):
    """Measure cells of sweeps on this host, for `pairlab sweep FILE --scheduler`; Ctrl-C ends it.

    One worker a host: it measures one cell at a time, as this user, in a store of its own that is emptied when the run
    has been sent. It needs neither the sweep's file nor its store.
    """
    from pairlab.batch.executors import processes

    processes.serve_worker(address, host, wait_s, tls, say=lambda text: out.print(text, markup=False))
