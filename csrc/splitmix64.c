/* One draw at a time, in the shape numpy's bit generators have. */
#include "splitmix64.h"

#include "fastinit.h"

uint64_t fi_advance(uint64_t state, uint64_t draws) { return state + draws * FI_GAMMA; }

uint64_t fi_next_u64(void *state) { return splitmix64_next(state); }

uint32_t fi_next_u32(void *state) { return (uint32_t)(splitmix64_next(state) >> 32); }

double fi_next_unit(void *state) { return unit_closed_open(splitmix64_next(state)); }
