/* Fan arithmetic: + - * / sqrt in float64 and nothing else, inside the kernels' environment, so that a
 * host's rounding mode cannot move a limit. Source: Glorot and Bengio (2010), eq. 16; He et al. (2015). */
#include <math.h>

#include "fastinit.h"
#include "fpenv.h"

/* Results go through memory so that no arithmetic leaves the guard (fpenv.h). */
static __attribute__((noinline)) void compute(fi_scale_result *result, double scale, double fan,
                                              fi_fan kind, double gain) {
    double n = kind == FI_FAN_SUM ? fan / 2 : kind == FI_FAN_PRODUCT ? sqrt(fan) : fan;
    result->variance = scale / n;
    result->std = sqrt(scale / n) * gain;
    result->limit = sqrt((3 * scale) / n) * gain;
}

void fi_scale(fi_scale_result *result, double scale, double fan, fi_fan kind, double gain) {
    fp_state host = fp_enter();
    compute(result, scale, fan, kind, gain);
    fp_leave(host);
}
