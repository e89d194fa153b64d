// The optimizer step for all tensors of a pack in one launch, and everything else that happens once per step.
//
// A table in device memory has one row of ROW numbers of 64 bits per tensor, or per batch norm with all its tensors;
// the address of a missing tensor is 0:
//
//   kind TENSOR: kind, count, clear, parameter, momentum, mask, copy in bfloat16, gradient
//   kind NORM:   kind, channels, clear, scale, momentum, mask, shift, momentum, mask, running mean, running variance,
//                sums, values per channel, eps, momentum of the statistics (both as the bits of a float)
//
// With `clear`, gradients and sums are set to zero after they were read. The sums of a norm, over its inputs y and the
// gradients dz of its outputs, are [y | y^2 | dz | dz y], each for all channels.
#include "common.cuh"

enum { ROW = 16, TENSOR = 0, NORM = 1 };

template <class T>
__device__ __forceinline__ T* address(const int64_t* row, int column) {
    return reinterpret_cast<T*>(row[column]);
}

struct Optimizer {
    float rate, momentum, decay;
};

// v <- momentum v + mask (gradient + decay w), w <- w - rate v
__device__ __forceinline__ void move(const Optimizer& by, float& w, float& v, float gradient, float mask) {
    v = by.momentum * v + mask * (gradient + by.decay * w);
    w -= by.rate * v;
}

__device__ __forceinline__ void move_at(const Optimizer& by, const int64_t* row, int column, int at, float gradient) {
    float *w = address<float>(row, column), *v = address<float>(row, column + 1);
    const float* mask = address<const float>(row, column + 2);
    move(by, w[at], v[at], gradient, mask ? mask[at] : 1.0f);
}

// If all four are masked, weights and momenta are zero and stay zero. Most of a block-diagonal weight is masked and need
// not be read.
__device__ __forceinline__ void move_four(const Optimizer& by, const int64_t* row, int64_t four) {
    const float4* masks = address<const float4>(row, 5);
    const float4 mask = masks ? masks[four] : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    float4* gradients = address<float4>(row, 7) + four;
    if (mask.x != 0.0f || mask.y != 0.0f || mask.z != 0.0f || mask.w != 0.0f) {
        float4* ws = address<float4>(row, 3) + four;
        float4* vs = address<float4>(row, 4) + four;
        uint2* copies = address<uint2>(row, 6);
        float4 w = *ws, v = *vs;
        const float4 gradient = *gradients;
        move(by, w.x, v.x, gradient.x, mask.x);
        move(by, w.y, v.y, gradient.y, mask.y);
        move(by, w.z, v.z, gradient.z, mask.z);
        move(by, w.w, v.w, gradient.w, mask.w);
        *ws = w;
        *vs = v;
        if (copies) copies[four] = make_uint2(pair(w.x, w.y), pair(w.z, w.w));
    }
    if (row[2]) *gradients = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

__device__ __forceinline__ void move_one(const Optimizer& by, const int64_t* row, int64_t at) {
    float* gradient = address<float>(row, 7) + at;
    float &w = address<float>(row, 3)[at], &v = address<float>(row, 4)[at];
    const float* masks = address<const float>(row, 5);
    uint16_t* copies = address<uint16_t>(row, 6);
    move(by, w, v, *gradient, masks ? masks[at] : 1.0f);
    if (copies) copies[at] = uint16_t(pair(w, 0.0f));
    if (row[2]) *gradient = 0.0f;
}

__device__ __forceinline__ void move_tensor(const Optimizer& by, const int64_t* row, int64_t begin, int64_t end) {
    const bool by_fours = ((row[3] | row[4] | row[5] | row[7] | begin * 4) & 15) == 0 && (row[6] & 7) == 0;
    const int64_t fours = by_fours ? end / 4 : begin / 4;
    for (int64_t four = begin / 4 + threadIdx.x; four < fours; four += blockDim.x) move_four(by, row, four);
    for (int64_t at = (by_fours ? max(begin, fours * 4) : begin) + threadIdx.x; at < end; at += blockDim.x)
        move_one(by, row, at);
}

__device__ __forceinline__ void move_norm(const Optimizer& by, const int64_t* row, int begin, int end) {
    const int channels = int(row[1]);
    const float values = float(row[12]), eps = as_float(uint32_t(row[13])), share = as_float(uint32_t(row[14]));
    float *means = address<float>(row, 9), *variances = address<float>(row, 10), *sums = address<float>(row, 11);
    for (int c = begin + threadIdx.x; c < end; c += blockDim.x) {
        const float mean = sums[c] / values, variance = max(sums[channels + c] / values - mean * mean, 0.0f);
        const float slope = sums[2 * channels + c], product = sums[3 * channels + c];
        move_at(by, row, 3, c, rsqrtf(variance + eps) * (product - mean * slope));
        move_at(by, row, 6, c, slope);
        means[c] += share * (mean - means[c]);
        variances[c] += share * (variance * (values / max(values - 1.0f, 1.0f)) - variances[c]);
        if (row[2])
            for (int i = 0; i < 4; i++) sums[i * channels + c] = 0.0f;
    }
}

// Block b updates elements blocks[b][1] to blocks[b][1] + step - 1 (a multiple of 4) of row blocks[b][0].
extern "C" __global__ void __launch_bounds__(256)
    update(const int64_t* __restrict__ table, const int* __restrict__ blocks, const float* __restrict__ rates,
           const int64_t* __restrict__ cursor, float momentum, float decay, int step) {
    const int64_t* row = table + int64_t(blocks[2 * blockIdx.x]) * ROW;
    const int64_t begin = blocks[2 * blockIdx.x + 1];
    const int64_t end = min(row[1], begin + step);
    const Optimizer by = {rates[*cursor], momentum, decay};
    if (row[0] == TENSOR)
        move_tensor(by, row, begin, end);
    else
        move_norm(by, row, int(begin), int(end));
}
EXPORT_KERNEL(update)

// Counts a step for each slot whose sum of losses is finite, and moves the cursor to the next step; one block.
extern "C" __global__ void finish(const float* __restrict__ losses, int* __restrict__ healthy,
                                  int64_t* __restrict__ cursor, int slots) {
    for (int s = threadIdx.x; s < slots; s += blockDim.x)
        healthy[s] += (__float_as_uint(losses[s]) & 0x7f800000u) != 0x7f800000u;
    if (threadIdx.x == 0) *cursor += 1;
}
EXPORT_KERNEL(finish)

// Writes sums as of one value per channel, so that mean and variance are the running ones; one block per row.
extern "C" __global__ void still(const int64_t* __restrict__ table) {
    const int64_t* row = table + int64_t(blockIdx.x) * ROW;
    if (row[0] != NORM) return;
    const int channels = int(row[1]);
    const float *means = address<const float>(row, 9), *variances = address<const float>(row, 10);
    float* sums = address<float>(row, 11);
    for (int c = threadIdx.x; c < channels; c += blockDim.x) {
        sums[c] = means[c];
        sums[channels + c] = variances[c] + means[c] * means[c];
    }
}
EXPORT_KERNEL(still)
