/* soft_fma against exact integer arithmetic: ./a.out COUNT [print]. With `print`, triples and results as
 * hexadecimal floats, for a judge outside; without, every result is compared here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef FI_HARDWARE_FMA
#include "fma.h"
#include "splitmix64.h"

typedef unsigned __int128 wide;

static uint64_t state = 1;

/* The sum of significands m * 2^e, |m| < 2^53, exactly as sign and a 53-bit rounding: both terms are brought to
 * one exponent in 320 bits, which the exponents drawn below never exceed. */
enum { WORDS = 6 };
typedef struct {
    uint64_t word[WORDS];
} big;

static void add_shifted(big *sum, wide m, int shift, int subtract) {
    uint64_t parts[WORDS + 1] = {0};
    int at = shift / 64, by = shift % 64;
    uint64_t low = (uint64_t)m, high = (uint64_t)(m >> 64);
    parts[at] = low << by;
    parts[at + 1] = (by ? low >> (64 - by) : 0) | high << by;
    if (by && at + 2 < WORDS) parts[at + 2] = high >> (64 - by);
    uint64_t carry = (uint64_t)subtract;
    for (int i = 0; i < WORDS; i++) {
        wide total = (wide)sum->word[i] + (subtract ? ~parts[i] : parts[i]) + carry;
        sum->word[i] = (uint64_t)total;
        carry = (uint64_t)(total >> 64);
    }
}

static double exact_fma(double a, double b, double c) {
    int ea, eb, ec;
    double fa = frexp(a, &ea), fb = frexp(b, &eb), fc = frexp(c, &ec);
    uint64_t ma = (uint64_t)ldexp(fabs(fa), 53), mb = (uint64_t)ldexp(fabs(fb), 53),
             mc = (uint64_t)ldexp(fabs(fc), 53);
    int ep = ea + eb - 106;
    ec -= 53;
    int base = (c != 0 && ec < ep) ? ec : ep;
    big sum = {{0}};
    add_shifted(&sum, (wide)ma * mb, ep - base, (a < 0) != (b < 0));
    if (c != 0) add_shifted(&sum, mc, ec - base, c < 0);
    int negative = sum.word[WORDS - 1] >> 63;
    if (negative) {
        big zero = {{0}};
        uint64_t borrow = 1;
        for (int i = 0; i < WORDS; i++) {
            wide total = (wide)~sum.word[i] + borrow;
            zero.word[i] = (uint64_t)total;
            borrow = (uint64_t)(total >> 64);
        }
        sum = zero;
    }
    int top = -1;
    for (int i = WORDS * 64 - 1; i >= 0 && top < 0; i--)
        if (sum.word[i / 64] >> (i % 64) & 1) top = i;
    if (top < 0) return 0;
    int shift = top > 52 ? top - 52 : 0;
    uint64_t kept = 0, sticky = 0, half = 0;
    for (int i = top; i >= shift; i--) kept = kept << 1 | (sum.word[i / 64] >> (i % 64) & 1);
    if (shift) half = sum.word[(shift - 1) / 64] >> ((shift - 1) % 64) & 1;
    for (int i = 0; i < shift - 1; i++) sticky |= sum.word[i / 64] >> (i % 64) & 1;
    if (half && (sticky || (kept & 1))) kept++;
    double x = ldexp((double)kept, base + shift);
    return negative ? -x : x;
}

static double drawn(int spread) {
    uint64_t bits = splitmix64_next(&state);
    int kind = (int)(splitmix64_next(&state) % 4);
    if (kind == 1) bits &= ~UINT64_C(0) << (splitmix64_next(&state) % 52); /* few bits: ties */
    if (kind == 2) bits |= (UINT64_C(1) << (splitmix64_next(&state) % 52)) - 1;
    double x = 1 + (double)(bits << 12 >> 12) * 0x1p-52;
    return ldexp(bits >> 63 ? -x : x, (int)(splitmix64_next(&state) % (unsigned)spread) - spread / 2);
}

int main(int count, char **words) {
    long wanted = count > 1 ? atol(words[1]) : 100000;
    int print = count > 2;
    for (long i = 0; i < wanted; i++) {
        double a = drawn(40), b = drawn(40), c = drawn(110);
        switch (splitmix64_next(&state) % 8) {
        case 0: c = -(a * b); break;                                  /* what is left is the rounding */
        case 1: c = -(a * b) * (1 + ldexp(1, -(int)(i % 60))); break; /* a long cancellation */
        case 2: c = ldexp(a * b, 52 + (int)(i % 4)); break;           /* half an ulp of c, about */
        case 3: c = ldexp(a * b, -52 - (int)(i % 4)); break;
        case 4: c = 0; break;
        default: break;
        }
        double found = soft_fma(a, b, c);
        if (print)
            printf("%a %a %a %a\n", a, b, c, found);
        else if (found != exact_fma(a, b, c)) {
            printf("soft_fma(%a, %a, %a) gave %a, not %a\n", a, b, c, found, exact_fma(a, b, c));
            return 1;
        }
    }
    return 0;
}
