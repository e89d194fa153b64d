// A convolution with block-diagonal weights, forward or backward, together with the batch norms before and after it.
//
// Forward, it reads y, the input of the norm before (or an activation), applies norm and ReLU while reading, and sums
// up the statistics of its output for the norm after it. Backward, it reads dz and y of the norm after it, computes
// the gradient of y while reading, and writes dz of its own input: with the gradient of a shortcut added, the gradient
// of the ReLU applied, and sums for that norm added up.
//
// A block computes ROWS rows of an image for up to TILES tiles of 16 channels; each warp one tile and a share of the
// pixels. Other warps load the next image meanwhile.
//
// Macros: KERNEL 3 or 1, HOP between windows (the stride), READ (STEP of Piece), SPREAD 2 for the gradient of a
// convolution with stride 2 (it writes twice as many rows and columns as it reads), OUT size, ROWS, TILES, BACK,
// NORMED_INPUT (forward: else it reads an activation), BLOCKS that should fit a multiprocessor. For the end of a
// backward pass: RECTIFIED (else the gradient is stored unchanged), JOINED if the activation was stored (else it is
// computed again from y), ADDED if a gradient of the same size (1) or on every other pixel (2) is added, SHORTCUT if
// the activation is the sum of two norms.
#include "planes.cuh"

constexpr int TAPS = KERNEL * KERNEL, EXTENT = OUT * HOP / SPREAD, PLANE = OUT * OUT;
// Results between the pixels that are read need these and the next ones, but none before the first.
constexpr int EDGE = SPREAD == 2 ? 0 : KERNEL / 2;
constexpr int WINDOW_ROWS = SPREAD == 2 ? ROWS / 2 + 1 : (ROWS - 1) * HOP + KERNEL;
constexpr int WINDOW_COLUMNS = SPREAD == 2 ? OUT / 2 + 1 : (OUT - 1) * HOP + KERNEL;
constexpr int WINDOW = WINDOW_ROWS * WINDOW_COLUMNS;
constexpr Source INPUT = BACK ? GRADIENT : NORMED_INPUT ? NORMED : PLAIN;
constexpr int SHARES = WORKERS / TILES, MATRICES = ROWS * OUT / 16 / SHARES;
// Matrices of 16 pixels that lie side by side, and how many of them below each other belong to a warp.
constexpr int ACROSS = OUT > 16 ? OUT / 16 : 1, DOWN = MATRICES / ACROSS;
static_assert(SPREAD == 1 || (BACK && KERNEL == 3 && MATRICES == 4 && OUT > 8), "a matrix for each kind of result");

// What loaders load at once. Planes of 8x8 are loaded one by one, so that all loaders have one.
constexpr int INPUT_ROWS = ROWS < OUT ? WINDOW_ROWS - EDGE / HOP : EXTENT, GROUPS = ROWS < OUT ? 9 : OUT == 8 && !BACK ? 4 : 8;
using Inputs = Piece<INPUT, GROUPS, BACK ? 4 : 2, INPUT_ROWS * EXTENT, WINDOW_COLUMNS, EXTENT, READ, EDGE>;
static_assert(OUT <= 2 * ROWS);

// The tiles that a tile of results reads, and the weights of its block.
struct Item {
    int tile, tiles, source, sources;  // tiles of results, and those that are loaded for them
};
struct Reads {
    int first, many;  // tiles that a tile of results reads
};

// 16 x 16 weights of one tap in rows of 32 bytes, whose halves are exchanged in every other group of four rows so
// that eight rows never meet in a bank. Forward rows are results, backward what is read. Results are dealt so that
// a lane ends with four neighbouring ones: first those 0, 1, 4, 5, 8, ..., then 2, 3, 6, 7, 10, ...
constexpr int MATRIX = 512;

__device__ __forceinline__ int weight_place(int row, int half) { return row * 32 + ((half << 4) ^ ((row & 4) << 2)); }

__device__ __forceinline__ void stage_weights(
    unsigned char* to, const uint4* weight, int result, Reads range, int in_group, int out_group) {
#pragma unroll 4
    for (int i = threadIdx.x; i < range.many * TAPS * 32; i += THREADS) {
        int half = i % 2, row = i / 2 % 16, tap = i / 32 % TAPS, source = range.first + i / (32 * TAPS);
        int output = (BACK ? source : result) * 16 + row, input = (BACK ? result : source) * 16;
        int start = output / out_group * in_group;
        uint4 w = weight[((output * TAPS + tap) * in_group + input - start) / 8 + half];
        unsigned char* matrix = to + i / 32 * MATRIX;
        if (!BACK) {
            *reinterpret_cast<uint4*>(matrix + weight_place((row & 2) * 4 + (row >> 2) * 2 + (row & 1), half)) = w;
        } else {
            *reinterpret_cast<uint2*>(matrix + weight_place(row, 0) + half * 8) = make_uint2(w.x, w.z);
            *reinterpret_cast<uint2*>(matrix + weight_place(row, 1) + half * 8) = make_uint2(w.y, w.w);
        }
    }
}

__device__ __forceinline__ void load_weights(uint32_t (&b)[4], const unsigned char* matrix, int lane) {
    int quarter = lane / 8, row = lane % 8;
    if (!BACK)
        load_matrices(b, matrix + weight_place((quarter >> 1) * 8 + row, quarter & 1));
    else
        load_matrices_transposed(b, matrix + weight_place((quarter & 1) * 8 + row, quarter >> 1));
}

// Where eight of the 16 pixels of a warp's matrix begin. Where a row has eight only, the others are those half an image
// below, so that a row further down there is a whole matrix, too. With SPREAD 2 every other pixel belongs to a matrix: a
// warp's four have the even and odd rows and columns of the same piece.
__device__ __forceinline__ int first_pixel(int share, int matrix, int half) {
    if (SPREAD == 2) return share * 64 + half * (OUT == 16 ? 2 * OUT : 16) + matrix / 2 * OUT + matrix % 2;
    int at = share * MATRICES + matrix;
    return OUT == 8 ? (at + half * (ROWS / 2)) * 8 : at * 16 + half * 8;
}

__device__ __forceinline__ int window_place(int share, int matrix, int lane) {
    int pixel = first_pixel(share, matrix, lane / 8 % 2) + lane % 8 * SPREAD;
    return place((pixel / OUT * HOP / SPREAD) * WINDOW_COLUMNS + pixel % OUT * HOP / SPREAD, lane / 16);
}

// d += window * weights for one tile of what is read, tap by tap.
__device__ __forceinline__ void add_taps(
    float (&d)[MATRICES][2][4], const unsigned char* window, const unsigned char* block, int share, int lane) {
    int corner[MATRICES];
    for (int m = 0; m < MATRICES; ++m) corner[m] = window_place(share, m, lane);
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
        uint32_t w[4];
        load_weights(w, block + (BACK ? TAPS - 1 - tap : tap) * MATRIX, lane);
#pragma unroll
        for (int m = 0; m < MATRICES; ++m) {
            uint32_t pixels[4];
            load_matrices(pixels, window + corner[m] + (tap / KERNEL * WINDOW_COLUMNS + tap % KERNEL) * PIXEL);
            multiply(d[m][0], pixels, w[0], w[1]);
            multiply(d[m][1], pixels, w[2], w[3]);
        }
    }
}

// The same without hops, where a matrix of pixels serves up to three rows of results.
__device__ __forceinline__ void add_columns(
    float (&d)[MATRICES][2][4], const unsigned char* window, const unsigned char* block, int share, int lane) {
    window += window_place(share, 0, lane);
#pragma unroll
    for (int column = 0; column < KERNEL; ++column) {
        uint32_t w[KERNEL][4];
#pragma unroll
        for (int row = 0; row < KERNEL; ++row) {
            int tap = row * KERNEL + column;
            load_weights(w[row], block + (BACK ? TAPS - 1 - tap : tap) * MATRIX, lane);
        }
#pragma unroll
        for (int m = 0; m < (DOWN + KERNEL - 1) * ACROSS; ++m) {
            uint32_t pixels[4];
            load_matrices(pixels, window + (m / ACROSS * WINDOW_COLUMNS + m % ACROSS * 16 + column) * PIXEL);
#pragma unroll
            for (int row = 0; row < KERNEL; ++row) {
                int result = m - row * ACROSS;
                if (result < 0 || result >= MATRICES) continue;
                multiply(d[result][0], pixels, w[row][0], w[row][1]);
                multiply(d[result][1], pixels, w[row][2], w[row][3]);
            }
        }
    }
}

// The same with SPREAD 2, where four matrices of pixels serve all results. A result on an even row gets the middle tap
// of the pixel it lies on; between two rows the last tap of the upper and the first of the lower. So it is with columns.
__device__ __forceinline__ void add_between(
    float (&d)[MATRICES][2][4], const unsigned char* window, const unsigned char* block, int share, int lane) {
    window += window_place(share, 0, lane);
#pragma unroll
    for (int read = 0; read < 4; ++read) {
        const int down = read / 2, right = read % 2;
        uint32_t pixels[4];
        load_matrices(pixels, window + (down * WINDOW_COLUMNS + right) * PIXEL);
#pragma unroll
        for (int m = 0; m < MATRICES; ++m) {
            const int row = m / 2 ? 2 - 2 * down : 1, column = m % 2 ? 2 - 2 * right : 1;
            if (down > m / 2 || right > m % 2) continue;
            uint32_t w[4];
            load_weights(w, block + (row * KERNEL + column) * MATRIX, lane);
            multiply(d[m][0], pixels, w[0], w[1]);
            multiply(d[m][1], pixels, w[2], w[3]);
        }
    }
}

// Where results are written, and what is needed to compute dz from them.
struct End {
    uint2* out;
    const uint2* added;
    const uint2* joined;
    const uint2* y;
    const uint2* shortcut_y;
    const float* lines;  // a[4], and b[4] sixteen numbers further: the norm of the lane's channels
};

__device__ __forceinline__ void spread(uint2 both, float (&v)[4]) {
    v[0] = low(both.x), v[1] = high(both.x), v[2] = low(both.y), v[3] = high(both.y);
}

__device__ __forceinline__ void add_products(float (&sums)[4], const float (&v)[4], const float (&w)[4]) {
    for (int i = 0; i < 4; ++i) sums[i] += v[i] * w[i];
}

// What a backward pass needs to finish four results of one pixel.
struct Ending {
    uint2 y, added, joined, shortcut_y;
};

// Unsigned, so that the compiler knows whether a row is even wherever first_pixel tells, and keeps no room for nothing.
__device__ __forceinline__ bool gets_more(uint32_t pixel) {
    return ADDED == 1 || (ADDED == 2 && !((pixel / OUT | pixel) & 1));
}

__device__ __forceinline__ void read_ending(const End& end, Ending& read, int64_t plane, int pixel, int quarter) {
    int64_t at = (plane * PLANE + pixel) * 4 + quarter;
    read.y = end.y[at];
    if (ADDED == 1) read.added = end.added[at];
    if (ADDED == 2 && gets_more(pixel))
        read.added = end.added[(plane * (PLANE / 4) + pixel / OUT / 2 * (OUT / 2) + pixel % OUT / 2) * 4 + quarter];
    if (JOINED) read.joined = end.joined[at];
    if (SHORTCUT) read.shortcut_y = end.shortcut_y[at];
}

// Adds the gradient of another path, sets it to zero where the ReLU did, writes it, and adds to the sums.
__device__ __forceinline__ void finish_gradient(
    const End& end, const Ending& read, float (&v)[4], int64_t plane, int pixel, int quarter,
    float (&sums)[2 + SHORTCUT][4]) {
    float y[4], other[4];
    if (gets_more(pixel)) {
        spread(read.added, other);
        for (int i = 0; i < 4; ++i) v[i] += other[i];
    }
    spread(read.y, y);
    if (JOINED) spread(read.joined, other);
    for (int i = 0; i < 4; ++i) {
        bool on = JOINED ? other[i] > 0.0f : end.lines[i] * y[i] + end.lines[16 + i] > 0.0f;
        v[i] = on ? v[i] : 0.0f;
    }
    uint2 rounded = make_uint2(pair(v[0], v[1]), pair(v[2], v[3]));
    end.out[(plane * PLANE + pixel) * 4 + quarter] = rounded;
    spread(rounded, v);
    for (int i = 0; i < 4; ++i) sums[0][i] += v[i];
    add_products(sums[1], v, y);
    if (SHORTCUT) {
        spread(read.shortcut_y, y);
        add_products(sums[1 + SHORTCUT], v, y);
    }
}

// Finishes four results of one pixel that are stored unchanged; forward, adds them to the sums, too.
__device__ __forceinline__ void finish_pixel(
    const End& end, float (&v)[4], int64_t plane, int pixel, int quarter, float (&sums)[2 + SHORTCUT][4]) {
    uint2 rounded = make_uint2(pair(v[0], v[1]), pair(v[2], v[3]));
    end.out[(plane * PLANE + pixel) * 4 + quarter] = rounded;
    if (BACK) return;
    spread(rounded, v);
    for (int i = 0; i < 4; ++i) sums[0][i] += v[i];
    add_products(sums[1], v, v);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) convolve(
    const Item* items, const Reads* reads, int most_reads, const uint4* weight, int in_group, int out_group,
    const uint4* x, const uint4* y, int source_tiles, const float* norm_sums, const float* norm_gamma,
    const float* norm_beta, float norm_count, float eps, uint2* out, float* out_sums, int result_tiles,
    const uint2* added, const uint2* joined, const uint2* own_y, const float* own_gamma,
    const float* own_beta, float own_count, const uint2* shortcut_y, float* shortcut_sums, int images,
    int images_a_block) {
    DYNAMIC_SHARED(shared);
    const Item item = items[blockIdx.x];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = warp % TILES, share = warp / TILES;
    const int part = blockIdx.z, top = part * ROWS * HOP / SPREAD - EDGE;
    float* lines = reinterpret_cast<float*>(shared);
    float* own_lines = lines + item.sources * 48;
    float* totals = own_lines + TILES * 48;  // (warps, 3, 16)
    unsigned char* weights = reinterpret_cast<unsigned char*>(totals + WORKERS * 48);
    unsigned char* windows = weights + TILES * most_reads * TAPS * MATRIX;
    const Norm norm = {norm_sums, norm_gamma, norm_beta, source_tiles * 16, norm_count, eps};
    const Norm own = {out_sums, own_gamma, own_beta, result_tiles * 16, own_count, eps};

    auto prepare = [&] {
        make_lines<INPUT>(lines, norm, item.source, item.sources);
        if (BACK && RECTIFIED && !JOINED) make_lines<NORMED>(own_lines, own, item.tile, item.tiles);
        for (int t = 0; t < item.tiles; ++t) {
            unsigned char* to = weights + t * most_reads * TAPS * MATRIX;
            stage_weights(to, weight, item.tile + t, reads[item.tile + t], in_group, out_group);
        }
        clear(windows, 2 * item.sources * WINDOW * PIXEL);
        __syncthreads();
    };
    const bool loads = warp >= WORKERS, working = !loads && mine < item.tiles;
    const int first = blockIdx.y * images_a_block, last = min(images, first + images_a_block);
    if (loads) {  // and synchronise as often as the other warps
        const int row = max(top, 0);
        const Planes planes = {x, y, source_tiles, item.source, item.sources, row,
                               (min(top + WINDOW_ROWS, EXTENT) - row) * EXTENT, lines,
                               windows + (row - top) * WINDOW_COLUMNS * PIXEL, WINDOW * PIXEL};
        load_images<Inputs, 1>(planes, first, last, warp - WORKERS, LOADERS, prepare);
    } else {
        prepare();
    }
    const int tile = item.tile + mine, quarter = lane % 4;
    const Reads range = working ? reads[tile] : Reads{0, 0};
    float sums[2 + SHORTCUT][4] = {};
    const End end = {out, added, joined, own_y, shortcut_y, own_lines + mine * 48 + 4 * quarter};
    __syncthreads();
    for (int image = first; !loads && image < last; ++image) {
        const unsigned char* loaded = windows + (image - first) % 2 * item.sources * WINDOW * PIXEL;
        if (working) {
            float d[MATRICES][2][4] = {};
            for (int k = 0; k < range.many; ++k) {
                const unsigned char* window = loaded + (range.first + k - item.source) * WINDOW * PIXEL;
                const unsigned char* block = weights + (mine * most_reads + k) * TAPS * MATRIX;
                if (SPREAD == 2)
                    add_between(d, window, block, share, lane);
                else if (HOP == 1)
                    add_columns(d, window, block, share, lane);
                else
                    add_taps(d, window, block, share, lane);
            }
            int64_t plane = (int64_t)image * result_tiles + tile;
            const int corner_pixel = part * ROWS * OUT + lane / 4 * SPREAD;
#pragma unroll
            for (int m = 0; m < MATRICES; m += 2) {  // several reads in flight
                Ending read[4];
                int pixel[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    pixel[i] = corner_pixel + first_pixel(share, m + i / 2, i % 2);
                    if (BACK && RECTIFIED) read_ending(end, read[i], plane, pixel[i], quarter);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float(&own)[2][4] = d[m + i / 2];
                    float v[4] = {own[0][i % 2 * 2], own[0][i % 2 * 2 + 1], own[1][i % 2 * 2], own[1][i % 2 * 2 + 1]};
                    if (BACK && RECTIFIED)
                        finish_gradient(end, read[i], v, plane, pixel[i], quarter, sums);
                    else
                        finish_pixel(end, v, plane, pixel[i], quarter, sums);
                }
            }
        }
        __syncthreads();
    }

    if (BACK ? !RECTIFIED : !out_sums) return;
#pragma unroll
    for (int which = 0; which < 2 + SHORTCUT; ++which)
        for (int i = 0; i < 4; ++i) {
            float sum = sum_lanes(sums[which][i], 28);
            if (lane < 4 && !loads) totals[warp * 48 + which * 16 + 4 * lane + i] = sum;
        }
    __syncthreads();
    for (int i = threadIdx.x; i < item.tiles * 48; i += THREADS) {
        int t = i / 48, which = i / 16 % 3, c = (item.tile + t) * 16 + i % 16, channels = result_tiles * 16;
        if (which == 2 && !SHORTCUT) continue;
        float sum = 0.0f;
        for (int s = 0; s < SHARES; ++s) sum += totals[(s * TILES + t) * 48 + i % 48];
        if (which < 2) atomicAdd(out_sums + (BACK * 2 + which) * channels + c, sum);
        if (SHORTCUT && which != 1) atomicAdd(shortcut_sums + (which ? 3 : 2) * channels + c, sum);
    }
}
EXPORT_KERNEL(convolve)
