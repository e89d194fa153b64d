// The gradient of a convolution's weights.
//
// A block adds up, over ROWS rows of some images, products of dy (made of dz and y of the norm behind) and of what the
// convolution read (made again from y of the norm before, or an activation). Each warp takes one pair of tiles of 16
// outputs and 16 inputs and a share of the pixels; warps with the same pair are added up at the end.
// Macros: KERNEL 3 or 1, HOP between windows, READ (see load_window), OUT size, ROWS.
#include "planes.cuh"

constexpr int TAPS = KERNEL * KERNEL, EXTENT = OUT * HOP, PLANE = OUT * OUT;
constexpr int WINDOW_ROWS = (ROWS - 1) * HOP + KERNEL, WINDOW_COLUMNS = (OUT - 1) * HOP + KERNEL;
constexpr int WINDOW = WINDOW_ROWS * WINDOW_COLUMNS, INPUT_PLANE = (EXTENT * READ) * (EXTENT * READ);
constexpr int CHUNKS = ROWS * OUT / 16, BLOCK = TAPS * 256;

struct Item {
    int output, outputs, input, inputs;  // tiles that are loaded
    int pair, pairs;                     // which of them are multiplied
};
struct Pair {
    int output, input;
};

// d[output][input] for one chunk of 16 pixels and all taps.
__device__ __forceinline__ void add_products(
    float (&d)[TAPS][2][4], const unsigned char* gradients, const unsigned char* window, int chunk, int lane) {
    int matrix = lane / 8, row = lane % 8;
    uint32_t g[4];
    load_matrices_transposed(g, gradients + place(chunk * 16 + (matrix >> 1) * 8 + row, matrix & 1));
    int pixel = chunk * 16 + (matrix & 1) * 8 + row;
    int corner = (pixel / OUT * HOP) * WINDOW_COLUMNS + pixel % OUT * HOP;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
        uint32_t w[4];
        load_matrices_transposed(w, window + place(corner + tap / KERNEL * WINDOW_COLUMNS + tap % KERNEL, matrix >> 1));
        multiply(d[tap][0], g, w[0], w[1]);
        multiply(d[tap][1], g, w[2], w[3]);
    }
}

// Adds the sums of warps with the same pair to those of the first of them, by halves.
__device__ __forceinline__ void gather_shares(float (&d)[TAPS][2][4], float* room, int warp, int pairs, int shares, int lane) {
    for (int half = shares / 2; half; half /= 2) {
        int share = warp / pairs;
        __syncthreads();
        float* own = room + (share % half * pairs + warp % pairs) * BLOCK + lane;
        if (share >= half && share < 2 * half)
            for (int i = 0; i < TAPS * 8; ++i) own[i * 32] = d[i / 8][i / 4 % 2][i % 4];
        __syncthreads();
        if (share < half)
            for (int i = 0; i < TAPS * 8; ++i) d[i / 8][i / 4 % 2][i % 4] += own[i * 32];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) slopes(
    const Item* items, const Pair* pairs, const uint4* dz, const uint4* y, int output_tiles, const float* norm_sums,
    const float* norm_gamma, const float* norm_beta, float norm_count, const uint4* x, int input_tiles,
    const float* before_sums, const float* before_gamma, const float* before_beta, float before_count, float eps,
    float* gradient, int in_group, int out_group, int images, int images_a_block) {
    DYNAMIC_SHARED(shared);
    const Item item = items[blockIdx.x];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = blockIdx.z;
    const int wide = item.pairs > 4 ? 8 : item.pairs > 2 ? 4 : item.pairs, sharing = WARPS / wide, share = warp / wide;
    const bool working = warp % wide < item.pairs;
    float* lines = reinterpret_cast<float*>(shared);
    float* before_lines = lines + item.outputs * 48;
    unsigned char* gradients = reinterpret_cast<unsigned char*>(before_lines + item.inputs * 48);
    unsigned char* windows = gradients + item.outputs * ROWS * OUT * 32;
    const Norm norm = {norm_sums, norm_gamma, norm_beta, output_tiles * 16, norm_count, eps};
    const Norm before = {before_sums, before_gamma, before_beta, input_tiles * 16, before_count, eps};
    make_lines<GRADIENT>(lines, norm, item.output, item.outputs);
    if (before_sums) make_lines<NORMED>(before_lines, before, item.input, item.inputs);
    const Pair own = working ? pairs[item.pair + warp % wide] : Pair{item.output, item.input};
    float d[TAPS][2][4] = {};
    __syncthreads();

    const int first = blockIdx.y * images_a_block;
    for (int image = first; image < images && image < first + images_a_block; ++image) {
        for (int t = 0; t < item.outputs; ++t) {
            int64_t plane = (int64_t)(image * output_tiles + item.output + t) * PLANE * 2;
            load_window<GRADIENT, ROWS, OUT, OUT, 1, 1>(
                gradients + t * ROWS * OUT * 32, dz + plane, y + plane, lines + t * 48, part * ROWS, 0);
        }
        for (int t = 0; t < item.inputs; ++t) {
            int64_t plane = (int64_t)(image * input_tiles + item.input + t) * INPUT_PLANE * 2;
            unsigned char* to = windows + t * WINDOW * 32;
            const float* line = before_lines + t * 48;
            const int top = part * ROWS * HOP - KERNEL / 2;
            if (before_sums)
                load_window<NORMED, WINDOW_ROWS, WINDOW_COLUMNS, EXTENT, READ, 1>(to, x + plane, x, line, top, -(KERNEL / 2));
            else
                load_window<PLAIN, WINDOW_ROWS, WINDOW_COLUMNS, EXTENT, READ, 1>(to, x + plane, x, line, top, -(KERNEL / 2));
        }
        __syncthreads();
        if (working)
            for (int chunk = share; chunk < CHUNKS; chunk += sharing)
                add_products(d, gradients + (own.output - item.output) * ROWS * OUT * 32,
                             windows + (own.input - item.input) * WINDOW * 32, chunk, lane);
        __syncthreads();
    }

    gather_shares(d, reinterpret_cast<float*>(gradients), warp, wide, sharing, lane);
    if (share || !working) return;
    for (int i = 0; i < TAPS * 8; ++i) {
        int tap = i / 8, output = own.output * 16 + lane / 4 + 8 * (i / 2 % 2);
        int input = own.input * 16 + 8 * (i / 4 % 2) + 2 * (lane % 4) + i % 2;
        int start = output / out_group * in_group;
        atomicAdd(gradient + (int64_t)(output * TAPS + tap) * in_group + input - start, d[tap][i / 4 % 2][i % 4]);
    }
}
EXPORT_KERNEL(slopes)
