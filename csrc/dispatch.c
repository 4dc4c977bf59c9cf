/* The only file that knows CPUs: a named table of levels, best first, and the one in use. */
#include <string.h>

#include "kernels.h"

static const fi_level *const levels[] = {&fi_level_portable};
enum { LEVELS = sizeof levels / sizeof *levels };

static const fi_level *current = &fi_level_portable;

const fi_level *fi_level_current(void) { return current; }
const char *fi_level_name(void) { return current->name; }
int fi_level_count(void) { return LEVELS; }
const char *fi_level_at(int i) { return levels[i]->name; }
bool fi_level_supported(int i) { return levels[i]->supported(); }

fi_status fi_level_select(const char *name) {
    for (int i = 0; i < LEVELS; i++) {
        if (name ? strcmp(name, levels[i]->name) != 0 : !levels[i]->supported()) continue;
        if (!levels[i]->supported()) return FI_UNSUPPORTED_LEVEL;
        current = levels[i];
        return FI_OK;
    }
    return FI_UNKNOWN_LEVEL;
}
