/* The self-test of every level that runs here: ./a.out names the first one that fails, and exits with 1. */
#include <stdio.h>

#include "fastinit.h"

int main(void) {
    for (int i = fi_level_count() - 1; i >= 0; i--) { /* portable first */
        if (!fi_level_supported(i)) continue;
        if (fi_level_select(fi_level_at(i)) != FI_OK) return 2;
        if (fi_self_test()) continue;
        printf("level %s gives wrong bits\n", fi_level_at(i));
        return 1;
    }
    puts("every level gives the right bits");
    return 0;
}
