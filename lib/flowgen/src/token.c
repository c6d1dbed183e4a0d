#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"

void token_read(struct token *token, const char *path)
{
    *token = (struct token){.given = path};
    if (!path)
        return;
    FILE *file = fopen(path, "re");
    if (!file)
        die("cannot read the token in %s: %s", path, strerror(errno));
    char more;
    bool whole = fread(token->bytes, 1, TOKEN_BYTES, file) == TOKEN_BYTES && fread(&more, 1, 1, file) == 0;
    fclose(file);
    if (!whole)
        die("the token in %s has not %d bytes: make it with head -c %d /dev/urandom", path, TOKEN_BYTES, TOKEN_BYTES);
}
