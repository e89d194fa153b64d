// The gradient of a convolution's weights.
//
// A block sums up, over ROWS rows of some images, products of dy (computed from dz and y of the norm after the
// convolution) and of the convolution's input (computed again from y of the norm before, or an activation). There is a
// team of warps for each column of the kernel. Each warp takes one pair of tiles of 16 outputs and 16 inputs and a share
// of the pixels; warps of a team with the same pair are added up at the end.
//
// Macros: KERNEL 3 or 1, HOP between windows, READ (STEP of Piece), OUT size, ROWS, NORMED_INPUT (else it reads an
// activation), BUNDLE of images loaded at once, BLOCKS that should fit a multiprocessor.
#if KERNEL == 3
#define WORKERS 12
#endif
#define LOADERS 12
#include "planes.cuh"

constexpr int TAPS = KERNEL * KERNEL, EXTENT = OUT * HOP;
constexpr int WINDOW_ROWS = (ROWS - 1) * HOP + KERNEL, WINDOW_COLUMNS = (OUT - 1) * HOP + KERNEL;
constexpr int WINDOW = WINDOW_ROWS * WINDOW_COLUMNS;
constexpr int TEAM = WORKERS / KERNEL, BLOCK = KERNEL * 256;
// Pixels are dealt in strips of 16 columns, or of all eight in two halves of an image, and DOWN rows.
constexpr int ACROSS = OUT > 16 ? OUT / 16 : 1, STRIPS = BUNDLE * ACROSS, DOWN = ROWS * OUT / 16 / ACROSS;

// Gradients are made of two tensors, so two thirds of the loaders bring these. An image is cut in two at most, so that
// every window leaves it on one side.
constexpr int GRADIENT_LOADERS = LOADERS * 2 / 3, INPUT_ROWS = ROWS < OUT ? WINDOW_ROWS - KERNEL / 2 / HOP : EXTENT;
static_assert(OUT <= 2 * ROWS);
using Gradients = Piece<GRADIENT, 8, 4, ROWS * OUT, OUT, OUT, 1, 0>;
constexpr Source INPUT = NORMED_INPUT ? NORMED : PLAIN;
using Inputs = Piece<INPUT, ROWS < OUT ? 9 : 8, 2, INPUT_ROWS * EXTENT, WINDOW_COLUMNS, EXTENT, READ, KERNEL / 2>;

struct Item {
    int output, outputs, input, inputs;  // tiles that are loaded
    int pair, pairs;                     // which of them are multiplied
};
struct Pair {
    int output, input;
};

// Where a lane finds its part of the matrix that begins in a row and column: pixel `at` of 16. Where a row has eight
// only, the others are those half an image below.
__device__ __forceinline__ int pixel_of(int row, int column, int at, int hop, int columns) {
    return OUT == 8 ? (row + at / 8 * (ROWS / 2)) * hop * columns + at % 8 * hop : row * hop * columns + (column + at) * hop;
}

__device__ __forceinline__ void load_gradients(uint32_t (&g)[4], const unsigned char* plane, int row, int column, int lane) {
    load_matrices_transposed(g, plane + place(pixel_of(row, column, lane / 16 * 8 + lane % 8, 1, OUT), lane / 8 % 2));
}

__device__ __forceinline__ void load_inputs(uint32_t (&x)[4], const unsigned char* window, int row, int column, int lane) {
    load_matrices_transposed(x, window + place(pixel_of(row, column, lane % 16, HOP, WINDOW_COLUMNS), lane / 16));
}

__device__ __forceinline__ void add_product(float (&d)[2][4], const uint32_t (&g)[4], const uint32_t (&x)[4]) {
    multiply(d[0], g, x[0], x[1]);
    multiply(d[1], g, x[2], x[3]);
}

// d[tap][output][input] for the taps of one column, whose `window` begins there, over `rows` rows of 16 pixels. Without
// hops what is read once serves all taps.
__device__ __forceinline__ void add_rows(
    float (&d)[KERNEL][2][4], const unsigned char* plane, const unsigned char* window, int first, int rows, int column,
    int lane) {
    uint32_t g[KERNEL][4], x[4];
    for (int row = 0; row < rows + (HOP == 1 ? KERNEL - 1 : 0); ++row) {
        if (HOP == 1) {
#pragma unroll
            for (int i = 4 * KERNEL - 1; i >= 4; --i) g[i / 4][i % 4] = g[i / 4 - 1][i % 4];
            load_inputs(x, window, first + row, column, lane);
        }
        if (row < rows) load_gradients(g[0], plane, first + row, column, lane);
#pragma unroll
        for (int tap = 0; tap < KERNEL; ++tap)
            if (HOP > 1) {
                load_inputs(x, window + tap * WINDOW_COLUMNS * PIXEL, first + row, column, lane);
                add_product(d[tap], g[0], x);
            } else if (row >= tap && row - tap < rows) {
                add_product(d[tap], g[tap], x);
            }
    }
}

// Adds the sums of a team's warps with the same pair to those of the first of them, by halves.
__device__ __forceinline__ void gather_shares(float (&d)[KERNEL][2][4], float* room, int team, int place, int pairs, int lane) {
    const int share = place / pairs;
    for (int half = TEAM / pairs / 2; half; half /= 2) {
        __syncthreads();
        float* own = room + ((team * half + share % half) * pairs + place % pairs) * BLOCK + lane;
        if (share >= half && share < 2 * half)
#pragma unroll
            for (int i = 0; i < KERNEL * 8; ++i) own[i * 32] = d[i / 8][i / 4 % 2][i % 4];
        __syncthreads();
        if (share < half)
#pragma unroll
            for (int i = 0; i < KERNEL * 8; ++i) d[i / 8][i / 4 % 2][i % 4] += own[i * 32];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) slopes(
    const Item* items, const Pair* pairs, const uint4* dz, const uint4* y, int output_tiles, const float* norm_sums,
    const float* norm_gamma, const float* norm_beta, float norm_count, const uint4* x, int input_tiles,
    const float* before_sums, const float* before_gamma, const float* before_beta, float before_count, float eps,
    float* gradient, int in_group, int out_group, int images, int images_a_block) {
    DYNAMIC_SHARED(shared);
    const Item item = items[blockIdx.x];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = blockIdx.z;
    const int wide = item.pairs > 4 ? 8 : item.pairs > 2 ? 4 : item.pairs, sharing = TEAM / wide;
    const int team = warp / TEAM, place_in_team = warp % TEAM, share = place_in_team / wide;
    const bool loads = warp >= WORKERS, working = !loads && place_in_team % wide < item.pairs;
    float* lines = reinterpret_cast<float*>(shared);
    float* before_lines = lines + item.outputs * 48;
    unsigned char* gradients = reinterpret_cast<unsigned char*>(before_lines + item.inputs * 48);
    unsigned char* windows = gradients + 2 * BUNDLE * item.outputs * ROWS * OUT * PIXEL;
    const Norm norm = {norm_sums, norm_gamma, norm_beta, output_tiles * 16, norm_count, eps};
    const Norm before = {before_sums, before_gamma, before_beta, input_tiles * 16, before_count, eps};
    auto prepare = [&] {
        make_lines<GRADIENT>(lines, norm, item.output, item.outputs);
        make_lines<INPUT>(before_lines, before, item.input, item.inputs);
        clear(windows, 2 * BUNDLE * item.inputs * WINDOW * PIXEL);
        __syncthreads();
    };
    const int first = blockIdx.y * images_a_block, last = min(images, first + images_a_block);
    if (loads) {  // and synchronise as often as the other warps
        const int top = part * ROWS * HOP - KERNEL / 2, row = max(top, 0);
        const Planes of_gradients = {dz, y, output_tiles, item.output, item.outputs, part * ROWS, ROWS * OUT, lines, gradients,
                                     ROWS * OUT * PIXEL};
        const Planes of_inputs = {x, x, input_tiles, item.input, item.inputs, row,
                                  (min(top + WINDOW_ROWS, EXTENT) - row) * EXTENT, before_lines,
                                  windows + (row - top) * WINDOW_COLUMNS * PIXEL, WINDOW * PIXEL};
        if (warp - WORKERS < GRADIENT_LOADERS)
            load_images<Gradients, BUNDLE>(of_gradients, first, last, warp - WORKERS, GRADIENT_LOADERS, prepare);
        else
            load_images<Inputs, BUNDLE>(
                of_inputs, first, last, warp - WORKERS - GRADIENT_LOADERS, LOADERS - GRADIENT_LOADERS, prepare);
        __syncthreads();
        for (int half = sharing / 2; half; half /= 2) {
            __syncthreads();
            __syncthreads();
        }
        return;
    }
    prepare();
    const Pair own = working ? pairs[item.pair + place_in_team % wide] : Pair{item.output, item.input};
    __syncthreads();
    float d[KERNEL][2][4] = {};
    const int rows = sharing > STRIPS ? max(DOWN * STRIPS / sharing, 1) : DOWN, row = share / STRIPS * rows;
    for (int image = first; image < last; image += BUNDLE) {
        const int buffer = (image - first) / BUNDLE % 2;
        for (int strip = share % STRIPS; working && row < DOWN && strip < STRIPS && image + strip / ACROSS < last;
             strip += sharing) {
            const int at = buffer * BUNDLE + strip / ACROSS;
            add_rows(d, gradients + (at * item.outputs + own.output - item.output) * ROWS * OUT * PIXEL,
                     windows + ((at * item.inputs + own.input - item.input) * WINDOW + team) * PIXEL, row, rows,
                     strip % ACROSS * 16, lane);
        }
        __syncthreads();
    }

    gather_shares(d, reinterpret_cast<float*>(gradients), team, place_in_team, wide, lane);
    if (share || !working) return;
#pragma unroll
    for (int i = 0; i < KERNEL * 4; ++i) {
        int tap = i / 4 * KERNEL + team, output = own.output * 16 + lane / 4 + 8 * (i % 2);
        int input = own.input * 16 + 8 * (i / 2 % 2) + 2 * (lane % 4), start = output / out_group * in_group;
        const float(&two)[4] = d[i / 4][i / 2 % 2];
        add_two(gradient + (int64_t)(output * TAPS + tap) * in_group + input - start, two[i % 2 * 2], two[i % 2 * 2 + 1]);
    }
}
EXPORT_KERNEL(slopes)
