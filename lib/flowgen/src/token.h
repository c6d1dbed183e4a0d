/* The token: by it a server knows its own clients from others who reach its port. It is part of the payload: of TCP its
   first bytes, or all of it where that is shorter; of UDP it is in each datagram's header. */
#ifndef FLOWGEN_TOKEN_H
#define FLOWGEN_TOKEN_H

#include <stdbool.h>

enum { TOKEN_BYTES = 16 };

struct token {
    bool given;                 /* else a server takes what comes, and all bytes are 0 */
    char bytes[TOKEN_BYTES];
};

/* From a file, which others must not be able to read; NULL: none is given. Ends the program where it cannot. */
void token_read(struct token *token, const char *path);

#endif
