/* The floating-point environment every stored bit is computed in: round to nearest, subnormals kept,
 * no traps. A host process may run with flush-to-zero or another rounding mode (some libraries set
 * them when loaded); fp_enter() puts the default in place and fp_leave() restores the host's, exception
 * flags included. Arithmetic between the two must go through memory (a callee that writes its result
 * through a pointer), or the compiler may move it out of the guard.
 */
#ifndef FI_FPENV_H
#define FI_FPENV_H

#include <float.h>

/* What the compiler does to arithmetic cannot be undone at run time. setup.py switches all of this off after a
 * user's flags; who compiles these files in another way meets an error here, or where no macro tells, a self-test
 * that fails. */
#if defined(__FAST_MATH__) || defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ || \
    defined(__RECIPROCAL_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "fastinit promises bits: compile it without -ffast-math, the flags it consists of, and -Ofast"
#endif
_Static_assert(sizeof 1.0 == sizeof(double),
               "fastinit promises bits: compile it without -fsingle-precision-constant");
/* 1 (s390x) widens float arithmetic to double: there is none here. 2 (x87) widens double. */
#if !defined(FLT_EVAL_METHOD) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1)
#error "fastinit promises bits: float64 arithmetic must not be wider (on x86 use -msse2 -mfpmath=sse)"
#endif

#if defined(__SSE2__) || defined(_M_X64)

#include <xmmintrin.h>
typedef unsigned int fp_state;
static inline fp_state fp_enter(void) {
    fp_state host = _mm_getcsr();
    _mm_setcsr(0x1F80);
    __asm__ volatile("" ::: "memory");
    return host;
}
static inline void fp_leave(fp_state host) {
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(host);
}

#elif defined(__aarch64__)

#include <stdint.h>
typedef struct {
    uint64_t control, status;
} fp_state;
static inline fp_state fp_enter(void) {
    fp_state host;
    uint64_t nearest = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(host.control)::"memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(host.status)::"memory");
    __asm__ volatile("msr fpcr, %0\n\tisb" ::"r"(nearest) : "memory");
    return host;
}
static inline void fp_leave(fp_state host) {
    __asm__ volatile("msr fpsr, %0" ::"r"(host.status) : "memory");
    __asm__ volatile("msr fpcr, %0\n\tisb" ::"r"(host.control) : "memory");
}

#else

#include <fenv.h>
typedef fenv_t fp_state;
static inline fp_state fp_enter(void) {
    fp_state host;
    fegetenv(&host);
    fesetenv(FE_DFL_ENV);
    __asm__ volatile("" ::: "memory");
    return host;
}
static inline void fp_leave(fp_state host) {
    __asm__ volatile("" ::: "memory");
    fesetenv(&host);
}

#endif
#endif
