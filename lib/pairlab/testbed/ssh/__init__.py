"""Hosts that are other machines, reached over ssh: the study's hosts.yaml names them."""

#: The sockets that are carried over a host's ssh connection, by number: to the agent, to the relay of its launchers,
#: and to the keeper.
CARRIED = ("agent", "relay", "keeper")
#: A heartbeat follows when nothing was sent for so long; whoever hears nothing for longer takes the other for gone.
BEATS_EVERY_S, SILENT_S = 2.0, 8.0
