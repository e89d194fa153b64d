// Shared by all kernels: bfloat16 pairs in 32 bits, and a warp's matrix instructions.
//
// Activations are bfloat16 in the layout of planes.cuh; channels are a multiple of 16. Sums and gradients of parameters
// are float. All kernels run with one-dimensional blocks of whole warps.
#pragma once

#ifndef PRUNECAST_HOST
#ifdef __CUDACC_RTC__  // which has no headers
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef signed char int8_t;
#else
#include <cstdint>
#endif

#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#define EXPORT_KERNEL(name)

// Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void* row) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// d += a b: a is 16 x 16 (rows first), b is 16 x 8 (columns first), d is 16 x 8 in float. Lane l holds
// d[l / 4][2 (l % 4)], its right neighbour, and the same two eight rows below.
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two floats rounded to the nearest bfloat16, the first in the low half.
__device__ __forceinline__ uint32_t pair(float low, float high) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// The same after a ReLU.
__device__ __forceinline__ uint32_t rectified_pair(float low, float high) {
    uint32_t both;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ float as_float(uint32_t bits) { return __uint_as_float(bits); }
#endif

// Adds to two neighbouring numbers, in one operation if the device can.
__device__ __forceinline__ void add_two(float* to, float first, float second) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "f"(first), "f"(second) : "memory");
#else
    atomicAdd(to, first);
    atomicAdd(to + 1, second);
#endif
}

__device__ __forceinline__ float low(uint32_t both) { return as_float(both << 16); }
__device__ __forceinline__ float high(uint32_t both) { return as_float(both & 0xffff0000u); }

// The sum over lanes that differ in the given bits of their number.
__device__ __forceinline__ float sum_lanes(float value, int bits) {
    for (int bit = 16; bit; bit >>= 1)
        if (bits & bit) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}
