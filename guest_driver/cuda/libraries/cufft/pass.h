// One launch of cuFFT's only kernel: many transforms ("lines") of one length that fits shared memory. Every plan is a
// list of these: longer lines are split (Bailey's four steps), further dimensions are lines across the earlier ones.
#pragma once

enum vgc_fft_kind { VGC_FFT_COMPLEX, VGC_FFT_REAL, VGC_FFT_HERMITIAN };

// Element i of a line has index digit[0] * q0 + digit[1] * q1 + step * i in the whole transform, and lies at
// index * stride + the sum of line[j] * l_j, where (q0, q1, l0, l1, l2) are the digits of the line's number.
struct vgc_fft_side {
    long long step, digit[2], stride, line[3];
    int valid;        // indices from here on: zero when read, not written
    int kind, narrow; // narrow: of the caller's type where that is narrower than the passes' numbers
};

struct vgc_fft_pass {
    int n, factor_count, factors[14];
    int size; // of the whole transform, for hermitian input
    unsigned lines, counts[5];
    int by_column; // threadIdx.x counts lines rather than elements
    int sign, chirp_sign;
    int twiddle_shift; // of `twiddles`: fine, then coarse
    vgc_fft_side in, out;
    const void *input, *table, *fine, *coarse, *in_factor, *out_factor;
    void *output;
};
