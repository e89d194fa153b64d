// The layout of activations in memory, and how they are loaded into shared memory.
//
// An activation is (images, channels / 16, size, size, 16) in bfloat16: the plane of one image and one tile of 16
// channels is contiguous. In shared memory a window of a plane is a list of pixels of 32 bytes, 48 bytes apart, so that
// eight neighbouring pixels are in different banks.
#pragma once
#include "common.cuh"

// A block has WORKERS warps that compute, and LOADERS that load the next image meanwhile.
#ifndef WORKERS
#define WORKERS 8
#endif
#ifndef LOADERS
#define LOADERS 4
#endif
#define THREADS ((WORKERS + LOADERS) * 32)

#define PIXEL 48

__device__ __forceinline__ int place(int pixel, int half) { return pixel * PIXEL + half * 16; }

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

// Lines of the norm of `tiles` tiles from `first` on, as a[16], b[16], c[16] for every tile; all threads meet
// afterwards.
template <int SOURCE>
__device__ __forceinline__ void make_lines(float* lines, const Norm& norm, int first, int tiles) {
    if (SOURCE == PLAIN) return;
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
        return rectified_pair(a[0] * low(x) + b[0], a[1] * high(x) + b[1]);
    return pair(a[0] * low(x) + (b[0] * low(y) + c[0]), a[1] * high(x) + (b[1] * high(y) + c[1]));
}

// Zeros, for the parts of windows outside the plane.
__device__ __forceinline__ void clear(unsigned char* to, int bytes) {
    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16) *reinterpret_cast<uint4*>(to + i) = make_uint4(0, 0, 0, 0);
}

// Two or four words of 32 bits at once.
template <int WORDS>
__device__ __forceinline__ void read_words(uint32_t (&to)[WORDS], const uint32_t* from) {
    if constexpr (WORDS == 4) {
        uint4 read = *reinterpret_cast<const uint4*>(from);
        to[0] = read.x, to[1] = read.y, to[2] = read.z, to[3] = read.w;
    } else {
        uint2 read = *reinterpret_cast<const uint2*>(from);
        to[0] = read.x, to[1] = read.y;
    }
}

template <int WORDS>
__device__ __forceinline__ void write_words(void* to, const uint32_t (&from)[WORDS]) {
    if constexpr (WORDS == 4)
        *reinterpret_cast<uint4*>(to) = make_uint4(from[0], from[1], from[2], from[3]);
    else
        *reinterpret_cast<uint2*>(to) = make_uint2(from[0], from[1]);
}

// Rows of some planes that a block reads of every image, and where they go.
struct Planes {
    const uint4 *x, *y;
    int tiles, tile, planes;  // of an image, the first that is read, and how many
    int row, pixels;          // the first row, and pixels from there on
    const float* lines;
    unsigned char* to;  // where the first row lies in the first window, for the first image
    int apart;          // bytes from one window to the next
};

// One of the pieces that a warp loads.
struct Spot {
    int image, piece;
    bool there;
};

// What one warp reads at once of PIXELS pixels of each plane, and keeps in registers until it is time to write it into
// their windows: GROUPS reads of 32 / SHARE pixels. Planes with few pixels come several at once, others in pieces.
template <int SOURCE, int GROUPS, int SHARE, int PIXELS, int WIDTH, int WHOLE, int STEP, int EDGE>
struct Piece {
    static constexpr int WORDS = 8 / SHARE, AT_ONCE = 32 / SHARE, PIECE = GROUPS * AT_ONCE;
    static constexpr int PLANES = PIXELS < PIECE ? PIECE / PIXELS : 1, PIECES = (PIXELS + PIECE - 1) / PIECE;
    static constexpr int GROUPS_A_PLANE = GROUPS / PLANES, IN_MEMORY = WHOLE * WHOLE * STEP * STEP * 8;
    uint32_t u[GROUPS][WORDS], v[GROUPS][WORDS];
    float a[2 * WORDS], b[2 * WORDS], c[2 * WORDS];

    static __device__ __forceinline__ int pieces(int planes) { return (planes + PLANES - 1) / PLANES * PIECES; }
    static __device__ __forceinline__ int part() { return threadIdx.x % 32 / AT_ONCE * WORDS; }
    static __device__ __forceinline__ int plane(int piece, int group) { return piece / PIECES * PLANES + group / GROUPS_A_PLANE; }
    static __device__ __forceinline__ int pixel(int piece, int group) {
        return piece % PIECES * PIECE + group % GROUPS_A_PLANE * AT_ONCE + threadIdx.x % AT_ONCE;
    }

    // Writes what was read before, and reads what comes next in its place. All is written first: a warp that waits for a
    // read waits for those it has asked for since, too.
    __device__ __forceinline__ void exchange(const Planes& own, Spot now, unsigned char* to, Spot next) {
        const int row = own.row * WHOLE * STEP * STEP * 8;
        const int64_t begin = (int64_t)(next.image * own.tiles + own.tile) * IN_MEMORY + row + part();
        const uint32_t* x = reinterpret_cast<const uint32_t*>(own.x) + begin;
        const uint32_t* y = reinterpret_cast<const uint32_t*>(own.y) + begin;
        if (now.there)
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) write(own, to, now.piece, group);
        if (next.there)
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) read(own, x, y, next.piece, group);
    }

    __device__ __forceinline__ void read(const Planes& own, const uint32_t* x, const uint32_t* y, int piece, int group) {
        int at = pixel(piece, group), in = plane(piece, group);
        if (at >= own.pixels || in >= own.planes) return;
        at = in * IN_MEMORY + (STEP == 1 ? at : (at / WHOLE * STEP * WHOLE + at % WHOLE) * STEP) * 8;
        read_words(u[group], x + at);
        if (SOURCE == GRADIENT) read_words(v[group], y + at);
    }

    // Behind the last plane lines are whatever lies there in shared memory, and nothing is made with them.
    __device__ __forceinline__ void write(const Planes& own, unsigned char* to, int piece, int group) {
        const int at = pixel(piece, group), in = plane(piece, group);
        if (SOURCE != PLAIN && group % GROUPS_A_PLANE == 0)
#pragma unroll
            for (int i = 0; i < 2 * WORDS; ++i) {
                const float* line = own.lines + in * 48 + 2 * part() + i;
                a[i] = line[0], b[i] = line[16], c[i] = SOURCE == GRADIENT ? line[32] : 0.0f;
            }
        if (at >= own.pixels || in >= own.planes) return;
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            u[group][i] = transformed<SOURCE>(u[group][i], v[group][i], a + 2 * i, b + 2 * i, c + 2 * i);
        write_words(to + in * own.apart + (at / WHOLE * WIDTH + at % WHOLE + EDGE) * PIXEL + part() * 4, u[group]);
    }
};

// What one of `warps` loaders does for all images, IMAGES of them at once. It meets the others after each of these. What
// a block prepares once, it does `meanwhile`: while the first images are on their way.
template <class PIECE, int IMAGES, class MEANWHILE>
__device__ __forceinline__ void load_images(
    const Planes& own, int first, int last, int warp, int warps, const MEANWHILE& meanwhile) {
    const int pieces = PIECE::pieces(own.planes), many = IMAGES * pieces, window = own.planes * own.apart;
    auto spot = [&](int image, int at) {
        image += IMAGES == 1 ? 0 : at / pieces;
        return Spot{image, IMAGES == 1 ? at : at % pieces, image < last && at < many};
    };
    PIECE piece;
    piece.exchange(own, {0, 0, false}, own.to, spot(first, warp));
    meanwhile();
    for (int image = first; image < last; image += IMAGES) {
        unsigned char* to = own.to + (image - first) / IMAGES % 2 * IMAGES * window;
        for (int at = warp; at < many; at += warps) {
            const Spot now = spot(image, at);
            const Spot next = at + warps < many ? spot(image, at + warps) : spot(image + IMAGES, warp);
            piece.exchange(own, now, to + (now.image - image) * window, next);
        }
        __syncthreads();
    }
}
