// The ReLU of the sum of a norm and a shortcut; and its gradient if a mean over all pixels follows.
// Macro: SIZE of the images. A block computes one plane: blockIdx.x is its tile of 16 channels, blockIdx.y its image.
#define LOADERS 0
#include "planes.cuh"

constexpr int PLANE = SIZE * SIZE;

__device__ __forceinline__ void eight(uint4 x, float (&v)[8]) {
    v[0] = low(x.x), v[1] = high(x.x), v[2] = low(x.y), v[3] = high(x.y);
    v[4] = low(x.z), v[5] = high(x.z), v[6] = low(x.w), v[7] = high(x.w);
}

__device__ __forceinline__ uint4 rounded(const float (&v)[8]) {
    return {pair(v[0], v[1]), pair(v[2], v[3]), pair(v[4], v[5]), pair(v[6], v[7])};
}

// out = max(0, norm(y) + other); other is an activation as it is, or a norm of its own, rectified or not.
extern "C" __global__ void __launch_bounds__(THREADS) join(
    uint4* out, const uint4* y, const float* sums, const float* gamma, const float* beta, const uint4* other,
    const float* other_sums, const float* other_gamma, const float* other_beta, int other_rectified, float count,
    float eps, int tiles) {
    const int half = threadIdx.x & 1, channel = blockIdx.x * 16 + half * 8;
    const int64_t plane = (int64_t)(blockIdx.y * tiles + blockIdx.x) * PLANE * 2;
    const Norm norm = {sums, gamma, beta, tiles * 16, count, eps};
    const Norm second = {other_sums, other_gamma, other_beta, tiles * 16, count, eps};
    __shared__ float lines[48], other_lines[48];
    make_lines<NORMED>(lines, norm, blockIdx.x, 1);
    if (other_sums) make_lines<NORMED>(other_lines, second, blockIdx.x, 1);
    __syncthreads();
    const float least = other_rectified ? 0.0f : -3.0e38f;
#pragma unroll 4
    for (int i = threadIdx.x; i < PLANE * 2; i += THREADS) {
        float v[8], w[8];
        eight(y[plane + i], v);
        eight(other[plane + i], w);
        for (int c = 0; c < 8; ++c) {
            int at = channel % 16 + c;
            float added = other_sums ? fmaxf(other_lines[at] * w[c] + other_lines[16 + at], least) : w[c];
            v[c] = fmaxf(lines[at] * v[c] + lines[16 + at] + added, 0.0f);
        }
        out[plane + i] = rounded(v);
    }
}
EXPORT_KERNEL(join)

// dz of the last activation, whose gradient is the same at all pixels: slope (images, channels). It was rectified
// where it is not above zero; sums of dz and dz·y go to its norm and, where there is one, to the norm of its
// shortcut.
extern "C" __global__ void __launch_bounds__(THREADS) join_slope(
    uint4* dz, const uint4* joined, const float* slope, const uint4* y, float* sums, const uint4* shortcut_y,
    float* shortcut_sums, int tiles) {
    const int half = threadIdx.x & 1, channel = blockIdx.x * 16 + half * 8, channels = tiles * 16;
    const int64_t plane = (int64_t)(blockIdx.y * tiles + blockIdx.x) * PLANE * 2;
    float total[3][8] = {}, own[8];
    for (int c = 0; c < 8; ++c) own[c] = slope[blockIdx.y * channels + channel + c];
    for (int i = threadIdx.x; i < PLANE * 2; i += THREADS) {
        float v[8], w[8];
        eight(joined[plane + i], v);
        for (int c = 0; c < 8; ++c) v[c] = v[c] > 0.0f ? own[c] : 0.0f;
        uint4 written = rounded(v);
        dz[plane + i] = written;
        eight(written, v);
        eight(y[plane + i], w);
        for (int c = 0; c < 8; ++c) total[0][c] += v[c], total[1][c] += v[c] * w[c];
        if (!shortcut_y) continue;
        eight(shortcut_y[plane + i], w);
        for (int c = 0; c < 8; ++c) total[2][c] += v[c] * w[c];
    }
    __shared__ float totals[WORKERS][48];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int which = 0; which < 3; ++which)
        for (int c = 0; c < 8; ++c) {
            float sum = sum_lanes(total[which][c], 30);
            if (lane < 2) totals[warp][which * 16 + half * 8 + c] = sum;
        }
    __syncthreads();
    if (threadIdx.x >= 48) return;
    float sum = 0.0f;
    for (int w = 0; w < WORKERS; ++w) sum += totals[w][threadIdx.x];
    int which = threadIdx.x / 16, c = blockIdx.x * 16 + threadIdx.x % 16;
    if (which < 2) atomicAdd(sums + (2 + which) * channels + c, sum);
    if (shortcut_sums && which != 1) atomicAdd(shortcut_sums + (which ? 3 : 2) * channels + c, sum);
}
EXPORT_KERNEL(join_slope)
