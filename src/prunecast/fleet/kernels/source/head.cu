// The head of a pack: mean over pixels, each slot's linear layer, cross entropy, and their gradients.
//
// A block takes IMAGES images and the slots parts[y] to parts[y + 1] - 1: grid (ceil(batch / IMAGES), parts). So
// weights are read once for several images, and gradients of weights are summed over these before they are added to
// memory.
#include "common.cuh"

#ifndef IMAGES
#define IMAGES 4
#endif

struct Head {
    const uint32_t* last;      // (batch, channels / 16, area, 16): bfloat16 pairs
    const uint16_t* weight;    // (slots * classes, channels)
    const uint16_t* bias;      // (slots * classes), or null
    const int* ranges;         // (slots, 2): first channel and number of channels, ascending
    const int* parts;          // (parts + 1): the first slot of each part, ascending
    const int64_t* labels;
    const int* order;          // (1 or slots, positions)
    const int64_t* cursor;
    int positions, order_rows, batch, area, channels, slots, classes;
};

// What a block works on, and its shared memory.
struct Work {
    int image, images, slot, slots, first, width;  // width channels from `first`, both multiples of 8
    int begin, end;                                // the channels whose slope this block writes
    float* pooled;    // [IMAGES][width]
    float* scores;    // [IMAGES][slots][classes]; later their gradients
    float* losses;    // [IMAGES][slots]
    int* wrong;       // [IMAGES][slots]
    int* owner;       // [width]: the part's slot that owns a channel, or -1
    float* partial;   // [lanes][IMAGES * width]
};

__device__ __forceinline__ float bfloat(uint16_t bits) { return as_float(uint32_t(bits) << 16); }

__device__ __forceinline__ Work prepare(const Head& head, unsigned char* memory) {
    Work work;
    work.image = blockIdx.x * IMAGES;
    work.images = min(IMAGES, head.batch - work.image);
    work.slot = head.parts[blockIdx.y];
    work.slots = head.parts[blockIdx.y + 1] - work.slot;
    work.begin = blockIdx.y == 0 ? 0 : head.ranges[2 * work.slot];
    work.end = blockIdx.y == gridDim.y - 1 ? head.channels : head.ranges[2 * (work.slot + work.slots)];
    work.first = work.begin / 8 * 8;
    work.width = (work.end + 7) / 8 * 8 - work.first;
    const int pairs = IMAGES * work.slots;
    work.pooled = reinterpret_cast<float*>(memory);
    work.scores = work.pooled + IMAGES * work.width;
    work.losses = work.scores + pairs * head.classes;
    work.wrong = reinterpret_cast<int*>(work.losses + pairs);
    work.owner = work.wrong + pairs;
    work.partial = reinterpret_cast<float*>(work.owner + work.width);
    for (int c = threadIdx.x; c < work.width; c += blockDim.x) {
        int found = -1, low_slot = 0, high_slot = work.slots;  // the last slot that begins at or before the channel
        while (low_slot < high_slot) {
            const int middle = (low_slot + high_slot) / 2;
            if (head.ranges[2 * (work.slot + middle)] <= work.first + c)
                low_slot = middle + 1;
            else
                high_slot = middle;
        }
        if (low_slot > 0) {
            const int* range = head.ranges + 2 * (work.slot + low_slot - 1);
            if (work.first + c < range[0] + range[1]) found = low_slot - 1;
        }
        work.owner[c] = found;
    }
    return work;
}

// Eight channels a thread; where there are threads left, several share the pixels of an image.
__device__ __forceinline__ void pool(const Head& head, const Work& work) {
    const int vectors = work.width / 8, items = IMAGES * vectors, threads = blockDim.x;
    const int lanes = max(1, min(threads / items, head.area));
    const int at_once = threads / lanes, lane = threadIdx.x / at_once;
    for (int item = threadIdx.x - lane * at_once; lane < lanes && item < items; item += at_once) {
        const int image = item / vectors, vector = item - image * vectors;
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (image < work.images) {
            const int eighth = work.first / 8 + vector;
            const uint4* from = reinterpret_cast<const uint4*>(head.last) + eighth % 2 +
                                (int64_t(work.image + image) * (head.channels / 16) + eighth / 2) * head.area * 2;
#pragma unroll 8
            for (int p = lane; p < head.area; p += lanes) {
                const uint4 eight = from[p * 2];
                sum[0] += low(eight.x), sum[1] += high(eight.x), sum[2] += low(eight.y), sum[3] += high(eight.y);
                sum[4] += low(eight.z), sum[5] += high(eight.z), sum[6] += low(eight.w), sum[7] += high(eight.w);
            }
        }
        for (int j = 0; j < 8; j++) work.partial[(lane * items + item) * 8 + j] = sum[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < items * 8; i += threads) {
        float sum = 0.0f;
        for (int other = 0; other < lanes; other++) sum += work.partial[other * items * 8 + i];
        work.pooled[i] = sum / head.area;
    }
    __syncthreads();
}

// Some lanes of a warp share the channels of one score; each reads a weight once for all images.
__device__ __forceinline__ void score(const Head& head, const Work& work) {
    int group = 1;
    while (group < 32 && group * work.slots < work.width) group *= 2;
    const int tasks = work.slots * head.classes, at_once = blockDim.x / group, lane = threadIdx.x % group;
    for (int base = 0; base < tasks; base += at_once) {
        const int task = base + threadIdx.x / group;
        const bool active = task < tasks;
        const int slot = active ? task / head.classes : 0;
        const int first = head.ranges[2 * (work.slot + slot)], count = head.ranges[2 * (work.slot + slot) + 1];
        const int64_t row = int64_t(work.slot) * head.classes + task;
        const float* pooled = work.pooled + first - work.first;
        float sum[IMAGES];
        for (int i = 0; i < IMAGES; i++) sum[i] = 0.0f;
        for (int c = lane; active && c < count; c += group) {
            const float weight = bfloat(head.weight[row * head.channels + first + c]);
            for (int i = 0; i < IMAGES; i++) sum[i] += weight * pooled[i * work.width + c];
        }
        const float bias = active && head.bias ? bfloat(head.bias[row]) : 0.0f;
        for (int i = 0; i < IMAGES; i++) {
            const float whole = sum_lanes(sum[i], group - 1);
            if (active && lane == 0) work.scores[i * tasks + task] = whole + bias;
        }
    }
    __syncthreads();
}

// Losses and whether a slot is wrong; with `slopes`, scores become the gradient of the mean loss. Images at positions
// from `count` on do not count.
template <bool slopes>
__device__ __forceinline__ void judge(const Head& head, const Work& work, int count) {
    for (int i = threadIdx.x; i < IMAGES * work.slots; i += blockDim.x) {
        const int image = i / work.slots, slot = work.slot + i - image * work.slots;
        const int64_t position = *head.cursor * head.batch + work.image + image;
        float* scores = work.scores + i * head.classes;
        work.losses[i] = 0.0f;
        work.wrong[i] = 0;
        if (image >= work.images || position >= count) {
            for (int k = 0; k < head.classes; k++) scores[k] = 0.0f;
            continue;
        }
        const int64_t row = head.order_rows == 1 ? 0 : slot;
        const int label = int(head.labels[head.order[row * head.positions + position]]);
        int best = 0;
        for (int k = 1; k < head.classes; k++)
            if (scores[k] > scores[best]) best = k;
        const float most = scores[best];
        float sum = 0.0f;
        for (int k = 0; k < head.classes; k++) sum += expf(scores[k] - most);
        work.losses[i] = logf(sum) - (scores[label] - most);
        work.wrong[i] = best != label;
        if (slopes)
            for (int k = 0; k < head.classes; k++)
                scores[k] = (expf(scores[k] - most) / sum - (k == label ? 1.0f : 0.0f)) / head.batch;
    }
    __syncthreads();
}

__device__ __forceinline__ float loss_of(const Work& work, int slot) {
    float sum = 0.0f;
    for (int i = 0; i < IMAGES; i++) sum += work.losses[i * work.slots + slot];
    return sum;
}

// Adds to losses (slots) the mean losses, and to the gradients of weight and bias; writes slope (batch, channels),
// the gradient of the sum over slots of their mean losses with respect to each pixel of a channel.
extern "C" __global__ void __launch_bounds__(256)
    head(const uint32_t* __restrict__ last, const uint16_t* __restrict__ weight, const uint16_t* __restrict__ bias,
         const int* __restrict__ ranges, const int* __restrict__ parts, const int64_t* __restrict__ labels,
         const int* __restrict__ order, const int64_t* __restrict__ cursor, float* __restrict__ losses,
         float* __restrict__ slope, float* __restrict__ weight_gradient, float* __restrict__ bias_gradient,
         int positions, int order_rows, int batch, int area, int channels, int slots, int classes) {
    DYNAMIC_SHARED(memory);
    const Head given = {last,  weight,    bias,       ranges, parts, labels,   order, cursor,
                        positions, order_rows, batch,  area,  channels, slots, classes};
    const Work work = prepare(given, memory);
    pool(given, work);
    score(given, work);
    judge<true>(given, work, positions);

    const int tasks = work.slots * classes;
    for (int s = threadIdx.x; s < work.slots; s += blockDim.x)
        atomicAdd(losses + work.slot + s, loss_of(work, s) / batch);
    for (int task = threadIdx.x; bias && task < tasks; task += blockDim.x) {
        float sum = 0.0f;
        for (int i = 0; i < IMAGES; i++) sum += work.scores[i * tasks + task];
        atomicAdd(bias_gradient + work.slot * classes + task, sum);
    }
    for (int i = threadIdx.x; i < work.images * work.width; i += blockDim.x) {
        const int image = i / work.width, c = i - image * work.width, channel = work.first + c;
        if (channel < work.begin || channel >= work.end) continue;
        const int owner = work.owner[c];
        float sum = 0.0f;
        for (int k = 0; owner >= 0 && k < classes; k++)
            sum += work.scores[image * tasks + owner * classes + k] *
                   bfloat(weight[(int64_t(work.slot + owner) * classes + k) * channels + channel]);
        slope[int64_t(work.image + image) * channels + channel] = sum / area;
    }
    for (int i = threadIdx.x; i < classes * work.width; i += blockDim.x) {
        const int k = i / work.width, c = i - k * work.width, owner = work.owner[c];
        if (owner < 0) continue;
        float sum = 0.0f;
        for (int image = 0; image < IMAGES; image++)
            sum += work.scores[image * tasks + owner * classes + k] * work.pooled[image * work.width + c];
        const int64_t row = int64_t(work.slot + owner) * classes + k;
        atomicAdd(weight_gradient + row * channels + work.first + c, sum);
    }
}
EXPORT_KERNEL(head)

// Adds to wrong (slots) the images whose best score is not their label's, and to total (slots) the losses, of
// images at positions below *count.
extern "C" __global__ void __launch_bounds__(256)
    head_scores(const uint32_t* __restrict__ last, const uint16_t* __restrict__ weight,
                const uint16_t* __restrict__ bias, const int* __restrict__ ranges, const int* __restrict__ parts,
                const int64_t* __restrict__ labels, const int* __restrict__ order,
                const int64_t* __restrict__ cursor, int* __restrict__ wrong, float* __restrict__ total, int positions,
                int order_rows, int batch, int area, int channels, int slots, int classes,
                const int* __restrict__ count) {
    DYNAMIC_SHARED(memory);
    const Head given = {last,  weight,    bias,       ranges, parts, labels,   order, cursor,
                        positions, order_rows, batch,  area,  channels, slots, classes};
    const Work work = prepare(given, memory);
    pool(given, work);
    score(given, work);
    judge<false>(given, work, min(*count, positions));
    for (int s = threadIdx.x; s < work.slots; s += blockDim.x) {
        int bad = 0;
        for (int i = 0; i < IMAGES; i++) bad += work.wrong[i * work.slots + s];
        if (bad) atomicAdd(wrong + work.slot + s, bad);
        atomicAdd(total + work.slot + s, loss_of(work, s));
    }
}
EXPORT_KERNEL(head_scores)
