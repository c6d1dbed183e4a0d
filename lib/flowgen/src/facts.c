/* facts: prints what this network namespace looks like to TCP (netfacts.h). */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "errors.h"
#include "json.h"
#include "netfacts.h"
#include "options.h"

int facts_main(char **arguments)
{
    const char *link = NULL;
    struct option options[] = {
        {.name = "--link", .kind = OPTION_TEXT, .value = &link, .required = true},
        {0},
    };
    if (parse_options(arguments, options))
        die_usage("facts takes no command");
    if (strlen(link) >= IFNAMSIZ)
        die_usage("--link '%s' is too long for the name of a link (%d bytes at most)", link, IFNAMSIZ - 1);

    struct json json;
    json_begin(&json, "facts");
    if (!netfacts_add(&json, link))
        die("cannot describe link '%s': %s; `ip link` lists those there are", link, strerror(errno));
    return json_print(&json, stdout) ? 0 : STATUS_FAILED;
}
