// CUDA's words for a C++ compiler, so that kernels run where there is no GPU: include it before a kernel's source.
//
// Matrix instructions move and multiply exactly the elements the PTX manual names, so an error in a kernel's indices
// shows here. Sums inside one matrix instruction are taken in order; a GPU promises no order.
#pragma once
#include <assert.h>
#include <math.h>

#include <type_traits>
#include <utility>

#include "cuda_fibers.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static  // one block runs at a time; unlike dynamic memory it keeps what the block before left
#define DYNAMIC_SHARED(name) unsigned char* name = ::cuda_on_cpu::dynamic_shared

#define CUDA_ON_CPU_VECTOR(type, name)                                                                    \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                              \
    struct alignas(4 * sizeof(type)) name##4 { type x, y, z, w; };                                        \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                               \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
CUDA_ON_CPU_VECTOR(unsigned, uint)
CUDA_ON_CPU_VECTOR(int, int)
CUDA_ON_CPU_VECTOR(float, float)

namespace cuda_on_cpu {
template <class To, class From>
static inline To bits_of(From from) {
    To to{};
    static_assert(sizeof(From) <= sizeof(To), "no bits may be lost");
    memcpy(&to, &from, sizeof from);
    return to;
}

static inline uint16_t bfloat16(float value) {
    uint32_t bits = bits_of<uint32_t>(value);
    if (value != value) return 0x7fff;
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // to nearest, a tie to the even one
}

static inline void check_mask(unsigned mask) {
    if (mask != 0xffffffffu) fail("uses mask %08x; only whole warps are emulated", mask);
}

// Shared memory that is not dynamic is a static array, which lies in the library's own data.
extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];
static inline void check_row(const void* row) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(row), base = reinterpret_cast<uintptr_t>(dynamic_shared);
    if (at % 16) fail("gives ldmatrix a row at an address that is no multiple of 16 (offset %td)", at - base);
    const bool is_static = at >= reinterpret_cast<uintptr_t>(__bss_start) && at < reinterpret_cast<uintptr_t>(_end);
    if (!is_static && (at < base || at + 16 > base + dynamic_bytes))
        fail("gives ldmatrix a row outside shared memory (offset %td of %zu)", at - base, dynamic_bytes);
}

template <bool transposed>
static void move_matrices(Warp& warp) {
    uint16_t matrix[4][8][8];
    for (int lane = 0; lane < lanes; lane++) memcpy(matrix[lane / 8][lane % 8], warp.brought[lane].in[0], 16);
    for (int lane = 0; lane < lanes; lane++)
        for (int j = 0; j < 4; j++) {
            const int row = lane / 4, column = lane % 4 * 2;
            const uint32_t first = transposed ? matrix[j][column][row] : matrix[j][row][column];
            const uint32_t second = transposed ? matrix[j][column + 1][row] : matrix[j][row][column + 1];
            static_cast<uint32_t*>(warp.brought[lane].out)[j] = first | second << 16;
        }
}

static inline void unpack(uint32_t both, float& first, float& second) {
    first = bits_of<float>(both << 16);
    second = bits_of<float>(both & 0xffff0000u);
}

static void multiply_matrices(Warp& warp) {
    float a[16][16], b[16][8], d[16][8];
    for (int lane = 0; lane < lanes; lane++) {
        const Brought& brought = warp.brought[lane];
        const uint32_t* from_a = static_cast<const uint32_t*>(brought.in[0]);
        const uint32_t* from_b = static_cast<const uint32_t*>(brought.in[1]);
        const float* from_d = static_cast<const float*>(brought.out);
        const int group = lane / 4, two = lane % 4 * 2;
        for (int j = 0; j < 4; j++) {
            const int row = group + j % 2 * 8, k = two + j / 2 * 8;
            unpack(from_a[j], a[row][k], a[row][k + 1]);
            d[group + j / 2 * 8][two + j % 2] = from_d[j];
        }
        for (int j = 0; j < 2; j++) unpack(from_b[j], b[two + j * 8][group], b[two + j * 8 + 1][group]);
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
    for (int lane = 0; lane < lanes; lane++)
        for (int j = 0; j < 4; j++)
            static_cast<float*>(warp.brought[lane].out)[j] = d[lane / 4 + j / 2 * 8][lane % 4 * 2 + j % 2];
}

static const char at_syncwarp[] = "__syncwarp", at_shuffle[] = "a shuffle", at_multiply[] = "mma";
static const char at_ldmatrix[] = "ldmatrix", at_transposed[] = "ldmatrix.trans";

template <class Value>
static Value shuffle(unsigned mask, Value value, int from) {
    check_mask(mask);
    const int me = self;
    meet_warp(at_shuffle, {{}, nullptr, bits_of<uint64_t>(value), from}, [](Warp& warp) {
        for (int lane = 0; lane < lanes; lane++) warp.result[lane] = warp.brought[warp.brought[lane].from].value;
    });
    Value result;
    memcpy(&result, &warps[me / lanes].result[me % lanes], sizeof result);
    return result;
}

// One letter for each parameter of a kernel, so that the caller can hand over what the kernel reads.
template <class Parameter>
constexpr char letter() {
    if (std::is_pointer<Parameter>::value) return 'P';
    if (std::is_floating_point<Parameter>::value) return sizeof(Parameter) == 8 ? 'd' : 'f';
    if (std::is_integral<Parameter>::value) return sizeof(Parameter) == 8 ? 'q' : sizeof(Parameter) == 4 ? 'i' : '?';
    return 's';
}

template <class... Parameters>
static const char* signature(void (*)(Parameters...)) {
    static const char letters[] = {letter<Parameters>()..., 0};
    return letters;
}

template <class... Parameters, size_t... at>
static void call(void (*kernel)(Parameters...), void** args, std::index_sequence<at...>) {
    (void)args;  // a kernel may have no parameters
    kernel(*static_cast<Parameters*>(args[at])...);
}

template <class... Parameters>
static void launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, void** args) {
    auto run = [=] { call(kernel, args, std::index_sequence_for<Parameters...>{}); };
    run_grid(grid, threads, shared_bytes, [](void* data) { (*static_cast<decltype(run)*>(data))(); }, &run);
}
}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_PUBLIC extern "C" __attribute__((visibility("default")))
CUDA_ON_CPU_PUBLIC const char* launch_failure() { return cuda_on_cpu::failed ? cuda_on_cpu::failure : nullptr; }
CUDA_ON_CPU_PUBLIC void* use_stacks(void* given) { return cuda_on_cpu::use_stacks(static_cast<char*>(given)); }
CUDA_ON_CPU_PUBLIC void set_order(unsigned seed) { cuda_on_cpu::order = seed; }

#define EXPORT_KERNEL(name) CUDA_ON_CPU_EXPORT(name)
#define CUDA_ON_CPU_EXPORT(name)                                                                          \
    CUDA_ON_CPU_PUBLIC const char* signature_##name() { return cuda_on_cpu::signature(&name); }           \
    CUDA_ON_CPU_PUBLIC void launch_##name(int gx, int gy, int gz, int threads, int shared, void** args) { \
        cuda_on_cpu::launch(&name, {unsigned(gx), unsigned(gy), unsigned(gz)}, threads, shared, args);    \
    }

static inline void __syncthreads() { cuda_on_cpu::meet_block(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    cuda_on_cpu::check_mask(mask);
    cuda_on_cpu::meet_warp(cuda_on_cpu::at_syncwarp, {}, [](cuda_on_cpu::Warp&) {});
}

template <class Value>
static inline Value __shfl_xor_sync(unsigned mask, Value value, int bits) {
    return cuda_on_cpu::shuffle(mask, value, (cuda_on_cpu::self ^ bits) & 31);
}
template <class Value>
static inline Value __shfl_sync(unsigned mask, Value value, int from) {
    return cuda_on_cpu::shuffle(mask, value, from & 31);
}
template <class Value>
static inline Value __shfl_down_sync(unsigned mask, Value value, int by) {
    const int lane = cuda_on_cpu::self & 31;
    return cuda_on_cpu::shuffle(mask, value, lane + by < 32 ? lane + by : lane);
}

static inline void load_matrices(uint32_t (&r)[4], const void* row) {
    cuda_on_cpu::check_row(row);
    cuda_on_cpu::meet_warp(cuda_on_cpu::at_ldmatrix, {{row}, r, 0, 0}, cuda_on_cpu::move_matrices<false>);
}
static inline void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
    cuda_on_cpu::check_row(row);
    cuda_on_cpu::meet_warp(cuda_on_cpu::at_transposed, {{row}, r, 0, 0}, cuda_on_cpu::move_matrices<true>);
}
static inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    const uint32_t b[2] = {b0, b1};
    cuda_on_cpu::meet_warp(cuda_on_cpu::at_multiply, {{a, b}, d, 0, 0}, cuda_on_cpu::multiply_matrices);
}

static inline uint32_t pair(float low, float high) {
    return cuda_on_cpu::bfloat16(low) | uint32_t(cuda_on_cpu::bfloat16(high)) << 16;
}

static inline uint32_t rectified_pair(float low, float high) { return pair(std::max(low, 0.0f), std::max(high, 0.0f)); }
static inline float as_float(uint32_t bits) { return cuda_on_cpu::bits_of<float>(bits); }
static inline float __uint_as_float(uint32_t bits) { return as_float(bits); }
static inline uint32_t __float_as_uint(float value) { return cuda_on_cpu::bits_of<uint32_t>(value); }

template <class Value>
static inline Value atomicAdd(Value* at, typename std::common_type<Value>::type value) {
    const Value before = *at;
    *at = before + value;
    return before;
}
template <class Value>
static inline Value __ldg(const Value* at) {
    return *at;
}
template <class A, class B>
static constexpr typename std::common_type<A, B>::type min(A a, B b) {
    return b < a ? b : a;
}
template <class A, class B>
static constexpr typename std::common_type<A, B>::type max(A a, B b) {
    return a < b ? b : a;
}
static inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
#define __expf(value) expf(value)  // functions of these names are declared, not defined, by the C library
#define __logf(value) logf(value)
