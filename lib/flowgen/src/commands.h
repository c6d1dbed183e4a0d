/* The subcommands. Each takes the arguments after its name and returns the exit status. */
#ifndef FLOWGEN_COMMANDS_H
#define FLOWGEN_COMMANDS_H

int server_main(char **arguments);
int client_main(char **arguments);
int traffic_main(char **arguments);
int rr_main(char **arguments);
int rr_server_main(char **arguments);
int all_to_all_main(char **arguments);
int hold_main(char **arguments);
int pause_main(char **arguments);
int busy_main(char **arguments);
int facts_main(char **arguments);

#endif
