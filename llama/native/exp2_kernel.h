// Shared by the kernels of attention and of sampling, which define AGD_TARGET, vec and veci before they include
// this.

AGD_TARGET static inline vec load(const float * p) {
    vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

// 2^x for x <= 0, 0 below 2^-126 and for NaN; a relative error of 2e-7. The polynomial is
// the Taylor series of 2^f around 0 up to f^6, for |f| <= 0.5.
AGD_TARGET static inline vec exp2_negative(vec x) {
    const vec floor   = vec{} - 126.0f;
    const vec rounder = vec{} + 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    const vec shifted = x + rounder;
    const vec f       = x - (shifted - rounder);
    vec       p       = vec{} + 1.5403530e-4f;
    p                 = p * f + 1.3333558e-3f;
    p                 = p * f + 9.6181291e-3f;
    p                 = p * f + 5.5504109e-2f;
    p                 = p * f + 2.4022651e-1f;
    p                 = p * f + 6.9314718e-1f;
    p                 = p * f + 1.0f;
    veci n;
    __builtin_memcpy(&n, &shifted, sizeof n);
    veci bits;
    __builtin_memcpy(&bits, &p, sizeof bits);
    bits += n << 23; // the low bits of shifted are the integer
    vec y;
    __builtin_memcpy(&y, &bits, sizeof y);
    return x >= floor ? y : vec{}; // below, y is not a number of use
}
