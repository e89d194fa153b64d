"""The emulator of CUDA kernels follows the PTX manual, and reports kernels that are wrong."""

from pathlib import Path

import pytest
import torch
from cuda_on_cpu import HAS_COMPILER, HostKernels, KernelError

pytestmark = pytest.mark.skipif(
    not HAS_COMPILER, reason="g++, which compiles the kernels for the CPU, is missing"
)

SOURCE = r"""
#include "common.cuh"

__device__ void fetch(uint16_t* to, const uint16_t* from, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
    __syncthreads();
}

// out (16 x 16) = a (16 x 16) b, with b as rows of columns [n][k] or, TRANSPOSED, as rows [k][n].
extern "C" __global__ void __launch_bounds__(32)
    product(const uint16_t* __restrict__ a, const uint16_t* __restrict__ b, float* __restrict__ out) {
    DYNAMIC_SHARED(memory);
    uint16_t* rows = reinterpret_cast<uint16_t*>(memory);
    uint16_t* columns = rows + 256;
    fetch(rows, a, 256);
    fetch(columns, b, 256);
    const int lane = threadIdx.x, eight = lane % 8, quarter = lane / 8;
    uint32_t left[4], right[4];
    load_matrices(left, rows + (eight + quarter % 2 * 8) * 16 + quarter / 2 * 8);
#if TRANSPOSED
    load_matrices_transposed(right, columns + (eight + quarter % 2 * 8) * 16 + quarter / 2 * 8);
#else
    load_matrices(right, columns + (eight + quarter / 2 * 8) * 16 + quarter % 2 * 8);
#endif
    for (int half = 0; half < 2; half++) {
        float sum[4] = {1, 1, 1, 1};
        multiply(sum, left, right[half * 2], right[half * 2 + 1]);
        float* at = out + lane / 4 * 16 + half * 8 + lane % 4 * 2;
        at[0] = sum[0], at[1] = sum[1], at[128] = sum[2], at[129] = sum[3];
    }
}
EXPORT_KERNEL(product)

extern "C" __global__ void sums(const float* in, float* out, int* counts, float scale, long long offset) {
    __shared__ float of_warp[32];
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    const float sum = sum_lanes(in[offset + at], 31);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    const int warps = blockDim.x / 32;
    float total = 0;
    for (int warp = 0; warp < warps; warp++) total += of_warp[(warp + threadIdx.x / 32) % warps];
    if (threadIdx.x == 0) atomicAdd(out, scale * total);
    atomicAdd(counts + threadIdx.x % 3, 1);
}
EXPORT_KERNEL(sums)

extern "C" __global__ void reversed(const float* in, float* out) {
    DYNAMIC_SHARED(memory);
    float* row = reinterpret_cast<float*>(memory);
    if (in) row[threadIdx.x] = in[blockIdx.y * blockDim.x + threadIdx.x];
    __syncthreads();
    out[blockIdx.y * blockDim.x + threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}
EXPORT_KERNEL(reversed)

extern "C" __global__ void wrong(int how) {
    DYNAMIC_SHARED(memory);
    const int thread = threadIdx.x;
    uint32_t r[4];
    if (how == 0 && thread == 40) __syncwarp();
    if (how == 1 && thread == 40) return;
    if (how == 2) load_matrices(r, memory + thread * 8);
    if (how == 3) load_matrices(r, memory + thread % 32 * 32);
    if (how == 4 && thread < 32) return;
    if (how == 5) __syncwarp(0xff);
    if (how == 6) load_matrices(r, thread == 40 ? reinterpret_cast<unsigned char*>(r) : memory);
    __syncthreads();
}
EXPORT_KERNEL(wrong)

// Each warp reads what its left neighbour wrote, without a barrier between.
extern "C" __global__ void race(int* out) {
    DYNAMIC_SHARED(memory);
    int* written = reinterpret_cast<int*>(memory);
    written[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = written[(threadIdx.x + blockDim.x - 32) % blockDim.x];
}
EXPORT_KERNEL(race)

extern "C" __global__ void rounded(const float2* in, uint32_t* out) {
    const float2 both = __ldg(in + threadIdx.x);
    out[threadIdx.x] = pair(both.x, both.y);
}
EXPORT_KERNEL(rounded)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "sample.cu"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def kernels(source: Path) -> HostKernels:
    return HostKernels(source, {"TRANSPOSED": 0})


def _product(kernels: HostKernels, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.full((16, 16), torch.nan)
    kernels.launch("product", threads=32, shared=1024, args=[a, b, out])
    return out


def test_matrix_instructions_multiply_matrices(source: Path, kernels: HostKernels) -> None:
    """Whole numbers make every sum exact, so an element in the wrong place cannot hide in a tolerance."""
    torch.manual_seed(0)
    a, b = (torch.randint(-100, 100, (16, 16)).bfloat16() for _ in "ab")
    want = a.float() @ b.float() + 1
    assert torch.equal(_product(kernels, a, b.T.contiguous()), want)
    assert torch.equal(_product(HostKernels([source], {"TRANSPOSED": 1}), a, b), want)


def test_pairs_round_to_the_nearest_bfloat16(kernels: HostKernels) -> None:
    """Ties go to the even one, and what lies beyond the largest number becomes infinite."""
    special = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, -torch.inf, 1e-40, -0.0]
    values = torch.cat([torch.tensor(special), torch.randn(120)])
    out = torch.zeros(128, dtype=torch.bfloat16)
    kernels.launch("rounded", threads=64, args=[values, out])
    assert torch.equal(out.view(torch.int16), values.bfloat16().view(torch.int16))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_warps_sum_and_blocks_add_up(kernels: HostKernels, order: int) -> None:
    values = torch.arange(5 + 3 * 256, dtype=torch.float32)
    out, counts = torch.zeros(1), torch.zeros(3, dtype=torch.int32)
    kernels.launch("sums", grid=(3, 1, 1), args=[values, out, counts, 0.5, 5], order=order)
    assert out.item() == values[5:].sum().item() / 2
    assert counts.tolist() == [258, 255, 255]


@pytest.mark.parametrize("order", [0, 1, 2])
def test_barrier_lets_threads_read_what_others_wrote(kernels: HostKernels, order: int) -> None:
    values = torch.randn(4, 1024)
    out = torch.zeros_like(values)
    kernels.launch("reversed", grid=(1, 4, 1), threads=1024, shared=4096, args=[values, out], order=order)
    assert torch.equal(out, values.flip(1))


def test_shared_memory_starts_as_nan(kernels: HostKernels) -> None:
    out = torch.zeros(2, 64)
    kernels.launch("reversed", grid=(1, 2, 1), threads=64, shared=256, args=[None, out])
    assert out.isnan().all()


def test_some_order_shows_a_missing_barrier(kernels: HostKernels) -> None:
    want = torch.arange(256, dtype=torch.int32).roll(32)
    outs = [torch.zeros(256, dtype=torch.int32) for _ in range(8)]
    for order, out in enumerate(outs):
        kernels.launch("race", shared=1024, args=[out], order=order)
    assert not all(torch.equal(out, want) for out in outs)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (0, "thread 40: reaches __syncwarp while 8 lanes of its warp wait at __syncthreads"),
        (1, "thread 40: ends while 8 lanes of its warp wait at __syncthreads"),
        (2, "thread 1: gives ldmatrix a row at an address that is no multiple of 16"),
        (3, r"thread 16: gives ldmatrix a row outside shared memory \(offset 512 of 512\)"),
        (4, "thread 32: reaches __syncthreads after 32 threads of its block ended"),
        (5, "thread 0: uses mask 000000ff; only whole warps are emulated"),
        (6, "thread 40: gives ldmatrix a row outside shared memory"),
    ],
)
def test_undefined_behaviour_is_named(kernels: HostKernels, how: int, sentence: str) -> None:
    with pytest.raises(KernelError, match=sentence):
        kernels.launch("wrong", threads=64, shared=512, args=[how])
    kernels.launch("wrong", threads=64, shared=512, args=[9])


def test_arguments_are_checked(kernels: HostKernels) -> None:
    with pytest.raises(KernelError, match="has 1 parameters, 2 were given"):
        kernels.launch("wrong", args=[1, 2])
    with pytest.raises(KernelError, match="parameter 0: a float was given for a parameter of kind 'i'"):
        kernels.launch("wrong", args=[1.0])
    with pytest.raises(KernelError, match="whole warps"):
        kernels.launch("wrong", threads=33, args=[9])
    with pytest.raises(KernelError, match="no source exports it"):
        kernels.launch("absent")


@pytest.mark.parametrize(
    ("value", "sentence"), [(torch.zeros(2, 3).T, "contiguous and on the CPU"), (3, "a int was given")]
)
def test_pointers_are_checked(kernels: HostKernels, value: torch.Tensor | int, sentence: str) -> None:
    with pytest.raises(KernelError, match=sentence):
        kernels.launch("race", shared=1024, args=[value])
