/* The tables of quantile.h, once. */
#include "quantile.h"

#include "quantile_table.h"
