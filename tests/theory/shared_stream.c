/* The exponential numbers of hlmtheory/shared_seed/stream.py. Reads lines "seed position token", prints E_v as %a.
   Compile with -ffp-contract=off: a product that is fused with a sum has other bits. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

static void philox(uint64_t key, uint32_t counter[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int step = 0; step < 10; step++) {
        uint64_t first = (uint64_t)0xD2511F53u * counter[0], second = (uint64_t)0xCD9E8D57u * counter[2];
        uint32_t c1 = counter[1], c3 = counter[3];
        counter[0] = (uint32_t)(second >> 32) ^ c1 ^ k0;
        counter[1] = (uint32_t)second;
        counter[2] = (uint32_t)(first >> 32) ^ c3 ^ k1;
        counter[3] = (uint32_t)first;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static double negative_log(double u) {
    double halvings = 0.0;
    for (int step = 32; step > 0; step /= 2)
        if (u < 1.0 / (double)((uint64_t)1 << step)) {
            u *= (double)((uint64_t)1 << step);
            halvings += step;
        }
    if (u < 0.7071067811865476) {
        u *= 2.0;
        halvings += 1.0;
    }
    double s = (1.0 - u) / (u + 1.0), square = s * s, series = 1.0 / 23.0;
    for (int k = 10; k >= 0; k--) {
        series = series * square;
        series = series + 1.0 / (2 * k + 1);
    }
    double tail = (2.0 * s) * series;
    double whole = halvings * 0.6931471805599453;
    return whole + tail;
}

int main(void) {
    uint64_t seed, position, token;
    while (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &seed, &position, &token) == 3) {
        uint32_t c[4] = {(uint32_t)(token / 2), (uint32_t)position, (uint32_t)(position >> 32), 0};
        philox(seed, c);
        int odd = (int)(token % 2) * 2;
        uint64_t n = ((uint64_t)c[odd] << 20) | (c[odd + 1] >> 12);
        printf("%a\n", negative_log((double)(2 * n + 1) / 9007199254740992.0));
    }
    return 0;
}
