/* The privileges of what is launched (capabilities(7)): a traffic tool needs none. */
#ifndef FLOWGEN_PRIVILEGES_H
#define FLOWGEN_PRIVILEGES_H

#include <stdbool.h>

/* In the child: what it execs has no capability, also as root, and no program that it runs ever gives it one
   (PR_SET_NO_NEW_PRIVS). Until its exec the child keeps the ones it has, if it can: it finds programs that only root
   may. False, with errno. */
bool privileges_drop(void);

#endif
