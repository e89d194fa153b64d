// How activations lie in memory, and how they come into shared memory.
//
// An activation is (images, channels / 16, size, size, 16) in bfloat16: the plane of one image and one tile of 16
// channels lies in one piece. In shared memory a plane is a list of pixels of 32 bytes; the two halves of every other
// group of four pixels are exchanged, so that eight neighbouring pixels never meet in a bank.
#pragma once
#include "common.cuh"

#define THREADS 256
#define WARPS 8

__device__ __forceinline__ int place(int pixel, int half) { return pixel * 32 + ((half << 4) ^ ((pixel & 4) << 2)); }

// A batch norm: sums over the batch of y, y², of the gradient dz of its output and of dz·y, channel by channel.
struct Norm {
    const float* sums;
    const float* gamma;
    const float* beta;
    int channels;
    float count;
    float eps;
};

struct Moments {
    float mean, inverse;
};

__device__ __forceinline__ Moments moments(const Norm& norm, int channel) {
    float mean = norm.sums[channel] / norm.count;
    float variance = fmaxf(norm.sums[norm.channels + channel] / norm.count - mean * mean, 0.0f);
    return {mean, rsqrtf(variance + norm.eps)};
}

// The norm as a y + b.
__device__ __forceinline__ void forward_line(const Norm& norm, int channel, float& a, float& b) {
    Moments m = moments(norm, channel);
    a = norm.gamma[channel] * m.inverse;
    b = norm.beta[channel] - m.mean * a;
}

// The gradient of the norm's input as a dz + b y + c.
__device__ __forceinline__ void backward_line(const Norm& norm, int channel, float& a, float& b, float& c) {
    Moments m = moments(norm, channel);
    float sum = norm.sums[2 * norm.channels + channel];
    float product = m.inverse * (norm.sums[3 * norm.channels + channel] - m.mean * sum);
    a = norm.gamma[channel] * m.inverse;
    b = -a * m.inverse * product / norm.count;
    c = -a * sum / norm.count - b * m.mean;
}

enum Source { PLAIN, NORMED, GRADIENT };  // x; max(0, a x + b); a x + b y + c

// Lines of the norm of `tiles` tiles from `first` on, as a[16], b[16], c[16] for every tile; all threads meet afterwards.
template <int SOURCE>
__device__ __forceinline__ void make_lines(float* lines, const Norm& norm, int first, int tiles) {
    for (int i = threadIdx.x; i < 16 * tiles; i += THREADS) {
        float* line = lines + i / 16 * 48 + i % 16;
        if (SOURCE == NORMED) forward_line(norm, first * 16 + i, line[0], line[16]);
        if (SOURCE == GRADIENT) backward_line(norm, first * 16 + i, line[0], line[16], line[32]);
    }
}

template <int SOURCE>
__device__ __forceinline__ uint32_t transformed(uint32_t x, uint32_t y, const float* a, const float* b, const float* c) {
    if (SOURCE == PLAIN) return x;
    if (SOURCE == NORMED)
        return pair(fmaxf(a[0] * low(x) + b[0], 0.0f), fmaxf(a[1] * high(x) + b[1], 0.0f));
    return pair(a[0] * low(x) + (b[0] * low(y) + c[0]), a[1] * high(x) + (b[1] * high(y) + c[1]));
}

// A window of HEIGHT x WIDTH pixels of a plane, whose upper left corner is (top, left), zero outside of WHOLE x WHOLE.
// STEP: only every STEP-th pixel of the plane counts. GAP: the plane's pixels lie GAP apart with zeros between them.
template <int SOURCE, int HEIGHT, int WIDTH, int WHOLE, int STEP, int GAP>
__device__ __forceinline__ void load_window(
    unsigned char* to, const uint4* x, const uint4* y, const float* lines, int top, int left) {
    constexpr int TOTAL = HEIGHT * WIDTH * 2, AT_ONCE = 4, ACROSS = WHOLE * STEP / GAP;
    const int half = threadIdx.x & 1;
    float a[8], b[8], c[8];
    if (SOURCE != PLAIN)
        for (int i = 0; i < 8; ++i) {
            a[i] = lines[8 * half + i];
            b[i] = lines[16 + 8 * half + i];
            c[i] = SOURCE == GRADIENT ? lines[32 + 8 * half + i] : 0.0f;
        }
    for (int start = threadIdx.x; start < TOTAL; start += THREADS * AT_ONCE) {
        uint4 u[AT_ONCE], v[AT_ONCE];
        bool inside[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            int pixel = (start + j * THREADS) >> 1;
            int row = top + pixel / WIDTH, column = left + pixel % WIDTH;
            inside[j] = start + j * THREADS < TOTAL && row >= 0 && column >= 0 && row < WHOLE && column < WHOLE;
            if (GAP == 2) inside[j] = inside[j] && !((row | column) & 1);
            int at = ((row * STEP / GAP) * ACROSS + column * STEP / GAP) * 2 + half;
            if (inside[j]) {
                u[j] = x[at];
                if (SOURCE == GRADIENT) v[j] = y[at];
            }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            uint4 r = {0, 0, 0, 0};
            if (inside[j]) {
                r.x = transformed<SOURCE>(u[j].x, v[j].x, a, b, c);
                r.y = transformed<SOURCE>(u[j].y, v[j].y, a + 2, b + 2, c + 2);
                r.z = transformed<SOURCE>(u[j].z, v[j].z, a + 4, b + 4, c + 4);
                r.w = transformed<SOURCE>(u[j].w, v[j].w, a + 6, b + 6, c + 6);
            }
            if (start + j * THREADS < TOTAL)
                *reinterpret_cast<uint4*>(to + place((start + j * THREADS) >> 1, half)) = r;
        }
    }
}
