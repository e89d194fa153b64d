// A convolution of block-diagonal weights, forward or backward, with the batch norms on both sides.
//
// Forward it reads y of the norm before (or an activation), normalises and rectifies on the way, and adds up its output's
// sums for the norm behind. Backward it reads dz and y of the norm behind, makes the gradient of y on the way, and ends
// with dz of the activation it belongs to: rectified, the gradient of a shortcut added, sums for that norm added up.
//
// A block computes ROWS rows of an image for up to TILES tiles of 16 channels; each warp one tile and a share of the
// pixels. Macros: KERNEL 3 or 1, HOP between windows, READ and SPREAD (see load_window), OUT size, ROWS, TILES, BACK.
#include "planes.cuh"

constexpr int TAPS = KERNEL * KERNEL, EXTENT = OUT * HOP, PLANE = OUT * OUT;
constexpr int WINDOW_ROWS = (ROWS - 1) * HOP + KERNEL, WINDOW_COLUMNS = (OUT - 1) * HOP + KERNEL;
constexpr int WINDOW = WINDOW_ROWS * WINDOW_COLUMNS, INPUT_PLANE = (EXTENT * READ / SPREAD) * (EXTENT * READ / SPREAD);
constexpr int SHARES = WARPS / TILES, MATRICES = ROWS * OUT / 16 / SHARES;

// Where a tile of results reads from, and the weights of its block.
struct Item {
    int tile, tiles, source, sources;  // tiles of results, and those that are loaded for them
};
struct Reads {
    int first, many;  // tiles that a tile of results reads
};

// 16 x 16 weights of one tap. Forward rows are results; backward they are what is read, and the pairs of columns are
// dealt so that a lane ends with four neighbouring results.
__device__ __forceinline__ void stage_weights(
    unsigned char* to, const uint4* weight, int result, int source, int in_group, int out_group) {
    for (int i = threadIdx.x; i < TAPS * 32; i += THREADS) {
        int half = i & 1, row = i / 2 % 16, tap = i / 32;
        int output = (BACK ? source : result) * 16 + row, input = (BACK ? result : source) * 16;
        int start = output / out_group * in_group;
        uint4 w = weight[((output * TAPS + tap) * in_group + input - start) / 8 + half];
        int at = tap * 512 + row * 32, turn = (row & 4) << 2;
        if (!BACK) {
            *reinterpret_cast<uint4*>(to + at + ((half << 4) ^ turn)) = w;
        } else {
            *reinterpret_cast<uint2*>(to + at + (0 ^ turn) + half * 8) = make_uint2(w.x, w.z);
            *reinterpret_cast<uint2*>(to + at + (16 ^ turn) + half * 8) = make_uint2(w.y, w.w);
        }
    }
}

__device__ __forceinline__ void load_weights(uint32_t (&b)[4], const unsigned char* weights, int lane) {
    int matrix = lane / 8, row = lane % 8;
    if (!BACK) {
        int result = 4 * (row >> 1) + 2 * (matrix >> 1) + (row & 1);
        load_matrices(b, weights + result * 32 + (((matrix & 1) << 4) ^ ((result & 4) << 2)));
    } else {
        int source = (matrix & 1) * 8 + row;
        load_matrices_transposed(b, weights + source * 32 + (((matrix >> 1) << 4) ^ ((source & 4) << 2)));
    }
}

// What is written, and backward what makes dz of it: a gradient that is added, the activation where it was written down
// (else it is made from y again), y of its norm and of the norm of its shortcut.
struct End {
    uint2* out;
    const uint2* added;
    bool coarse;  // what is added lies on every other pixel
    const uint2* joined;
    const uint2* y;
    const uint2* shortcut_y;
};

__device__ __forceinline__ void add_up(float (&sums)[3][4], int which, const float (&v)[4]) {
    for (int i = 0; i < 4; ++i) sums[which][i] += v[i];
}

__device__ __forceinline__ void spread(uint2 both, float (&v)[4]) {
    v[0] = low(both.x), v[1] = high(both.x), v[2] = low(both.y), v[3] = high(both.y);
}

// The end of four results of one pixel: written, and added up.
__device__ __forceinline__ void finish_pixel(
    const End& end, float (&v)[4], int64_t plane, int pixel, int quarter, const float (&a)[4], const float (&b)[4],
    float (&sums)[3][4]) {
    int64_t at = (plane * PLANE + pixel) * 4 + quarter;
    if (BACK) {
        float other[4];
        if (end.added && !(end.coarse && ((pixel / OUT | pixel) & 1))) {
            int64_t where = end.coarse ? (plane * (PLANE / 4) + pixel / OUT / 2 * (OUT / 2) + pixel % OUT / 2) * 4 + quarter : at;
            spread(end.added[where], other);
            for (int i = 0; i < 4; ++i) v[i] += other[i];
        }
        if (end.y) {
            float y[4];
            spread(end.y[at], y);
            if (end.joined) spread(end.joined[at], other);
            for (int i = 0; i < 4; ++i) {
                bool on = end.joined ? other[i] > 0.0f : a[i] * y[i] + b[i] > 0.0f;
                v[i] = on ? v[i] : 0.0f;
            }
            uint2 rounded = make_uint2(pair(v[0], v[1]), pair(v[2], v[3]));
            end.out[at] = rounded;
            spread(rounded, v);
            add_up(sums, 0, v);
            for (int i = 0; i < 4; ++i) sums[1][i] += v[i] * y[i];
            if (end.shortcut_y) {
                spread(end.shortcut_y[at], y);
                for (int i = 0; i < 4; ++i) sums[2][i] += v[i] * y[i];
            }
            return;
        }
    }
    uint2 rounded = make_uint2(pair(v[0], v[1]), pair(v[2], v[3]));
    end.out[at] = rounded;
    if (!BACK) {
        spread(rounded, v);
        add_up(sums, 0, v);
        for (int i = 0; i < 4; ++i) sums[1][i] += v[i] * v[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) convolve(
    const Item* items, const Reads* reads, int most_reads, const uint4* weight, int in_group, int out_group,
    const uint4* x, const uint4* y, int source_tiles, const float* norm_sums, const float* norm_gamma,
    const float* norm_beta, float norm_count, float eps, uint2* out, float* out_sums, int result_tiles,
    const uint2* added, int coarse, const uint2* joined, const uint2* own_y, const float* own_gamma,
    const float* own_beta, float own_count, const uint2* shortcut_y, float* shortcut_sums, int images,
    int images_a_block) {
    DYNAMIC_SHARED(shared);
    const Item item = items[blockIdx.x];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = warp % TILES, share = warp / TILES;
    const int part = blockIdx.z, top = part * ROWS * HOP - KERNEL / 2;
    float* lines = reinterpret_cast<float*>(shared);
    float* totals = lines + item.sources * 48;  // (warps, 3, 16)
    unsigned char* weights = reinterpret_cast<unsigned char*>(totals + WARPS * 48);
    unsigned char* windows = weights + TILES * most_reads * TAPS * 512;
    const Norm norm = {norm_sums, norm_gamma, norm_beta, source_tiles * 16, norm_count, eps};
    const Norm own = {out_sums, own_gamma, own_beta, result_tiles * 16, own_count, eps};

    if (BACK) make_lines<GRADIENT>(lines, norm, item.source, item.sources);
    else if (norm_sums) make_lines<NORMED>(lines, norm, item.source, item.sources);
    for (int t = 0; t < item.tiles; ++t) {
        Reads range = reads[item.tile + t];
        for (int k = 0; k < range.many; ++k)
            stage_weights(weights + (t * most_reads + k) * TAPS * 512, weight, item.tile + t, range.first + k, in_group,
                          out_group);
    }
    const bool working = mine < item.tiles;
    const int tile = item.tile + mine, quarter = lane % 4, channel = tile * 16 + 4 * quarter;
    const Reads range = working ? reads[tile] : Reads{0, 0};
    float a[4] = {0, 0, 0, 0}, b[4] = {0, 0, 0, 0}, sums[3][4] = {};
    if (BACK && working && own_y && !joined)
        for (int i = 0; i < 4; ++i) forward_line(own, channel + i, a[i], b[i]);
    const End end = {out, added, coarse != 0, joined, own_y, shortcut_y};
    __syncthreads();

    const int first = blockIdx.y * images_a_block;
    for (int image = first; image < images && image < first + images_a_block; ++image) {
        for (int k = 0; k < item.sources; ++k) {
            int64_t plane = (int64_t)(image * source_tiles + item.source + k) * INPUT_PLANE * 2;
            unsigned char* to = windows + k * WINDOW * 32;
            const float* line = lines + k * 48;
            if (BACK)
                load_window<GRADIENT, WINDOW_ROWS, WINDOW_COLUMNS, EXTENT, READ, SPREAD>(to, x + plane, y + plane, line, top, -(KERNEL / 2));
            else if (norm_sums)
                load_window<NORMED, WINDOW_ROWS, WINDOW_COLUMNS, EXTENT, READ, SPREAD>(to, x + plane, x, line, top, -(KERNEL / 2));
            else
                load_window<PLAIN, WINDOW_ROWS, WINDOW_COLUMNS, EXTENT, READ, SPREAD>(to, x + plane, x, line, top, -(KERNEL / 2));
        }
        __syncthreads();
        if (working) {
            float d[MATRICES][2][4] = {};
            int corner[MATRICES];
            for (int m = 0; m < MATRICES; ++m) {
                int pixel = (share * MATRICES + m) * 16 + lane % 16;
                corner[m] = (pixel / OUT * HOP) * WINDOW_COLUMNS + pixel % OUT * HOP;
            }
            for (int k = 0; k < range.many; ++k) {
                const unsigned char* window = windows + (range.first + k - item.source) * WINDOW * 32;
                const unsigned char* block = weights + (mine * most_reads + k) * TAPS * 512;
#pragma unroll
                for (int tap = 0; tap < TAPS; ++tap) {
                    uint32_t w[4];
                    load_weights(w, block + (BACK ? TAPS - 1 - tap : tap) * 512, lane);
#pragma unroll
                    for (int m = 0; m < MATRICES; ++m) {
                        uint32_t pixels[4];
                        load_matrices(pixels, window + place(corner[m] + tap / KERNEL * WINDOW_COLUMNS + tap % KERNEL, lane / 16));
                        multiply(d[m][0], pixels, w[0], w[1]);
                        multiply(d[m][1], pixels, w[2], w[3]);
                    }
                }
            }
            int64_t plane = (int64_t)image * result_tiles + tile;
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
                for (int lower = 0; lower < 2; ++lower) {
                    float v[4] = {d[m][0][2 * lower], d[m][0][2 * lower + 1], d[m][1][2 * lower], d[m][1][2 * lower + 1]};
                    int pixel = part * ROWS * OUT + (share * MATRICES + m) * 16 + lane / 4 + 8 * lower;
                    finish_pixel(end, v, plane, pixel, quarter, a, b, sums);
                }
        }
        __syncthreads();
    }

    if (!out_sums) return;
    for (int which = 0; which < 3; ++which)
        for (int i = 0; i < 4; ++i) {
            float sum = sum_lanes(sums[which][i], 28);
            if (lane < 4) totals[warp * 48 + which * 16 + 4 * lane + i] = sum;
        }
    __syncthreads();
    for (int i = threadIdx.x; i < item.tiles * 48; i += THREADS) {
        int t = i / 48, which = i / 16 % 3, c = (item.tile + t) * 16 + i % 16, channels = result_tiles * 16;
        float sum = 0.0f;
        for (int s = 0; s < SHARES; ++s) sum += totals[(s * TILES + t) * 48 + i % 48];
        if (!BACK && which < 2) atomicAdd(out_sums + which * channels + c, sum);
        if (BACK && which < 2) atomicAdd(out_sums + (2 + which) * channels + c, sum);
        if (BACK && shortcut_sums && which != 1) atomicAdd(shortcut_sums + (which ? 3 : 2) * channels + c, sum);
    }
}
EXPORT_KERNEL(convolve)
