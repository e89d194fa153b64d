// The images of one step: looked up, mirrored, moved, scaled and joined side by side along channels.
//
// A block makes some rows of one image for some channels: grid (parts of the height, batch, parts of the channels).
// It first brings the rows of bytes it needs into shared memory, whole words at a time, because neighbouring
// channels belong to different images; then neighbouring threads write neighbouring pairs of channels.
#include "common.cuh"

struct Place {
    int example;
    int down;
    int across;
    int flip;
};

// out[b, y, x, s * colours + k] = (byte - mean[k]) * scale[k], byte = pixels[example, y + down, x' + across, k] or 0
// outside, x' = x or its mirror; 0 in channels that no slot owns. Image b stands at position *cursor * batch + b, the
// last one again where there are no more. `order` has one row for all slots or one for each; the others have one each.
extern "C" __global__ void __launch_bounds__(256)
    images(const uint8_t* __restrict__ pixels, const float* __restrict__ mean, const float* __restrict__ scale,
           const int* __restrict__ order, const uint8_t* __restrict__ flip, const int8_t* __restrict__ shift,
           const int64_t* __restrict__ cursor, uint32_t* __restrict__ out, int positions, int batch, int slots,
           int height, int width, int colours, int channels, int order_rows) {
    DYNAMIC_SHARED(memory);
    const int pairs = channels / 2;
    const int rows = (height + gridDim.x - 1) / gridDim.x, top = blockIdx.x * rows;
    const int share = (pairs + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * share;
    const int own = min(share, pairs - begin);
    if (own <= 0 || top >= height) return;
    const int first = 2 * begin / colours;
    const int members = max(0, min(slots, (2 * (begin + own) - 1) / colours + 1) - first);
    const int bytes = width * colours;
    const int stride = ((bytes + 3) / 4 | 1) * 4;  // an odd number of words, so that slots lie in different banks
    Place* places = reinterpret_cast<Place*>(memory);
    unsigned char* lines = memory + members * sizeof(Place);  // [row][member][stride]

    const int image = blockIdx.y;
    const int64_t wanted = *cursor * batch + image;
    const int64_t position = wanted < positions ? wanted : positions - 1;
    for (int m = threadIdx.x; m < members; m += blockDim.x) {
        const int64_t at = int64_t(first + m) * positions + position;
        Place place;
        place.example = order[order_rows == 1 ? position : at];
        place.down = shift ? shift[2 * at] : 0;
        place.across = shift ? shift[2 * at + 1] : 0;
        place.flip = flip ? flip[at] : 0;
        places[m] = place;
    }
    __syncthreads();

    const bool by_words = bytes % 4 == 0;
    const int units = by_words ? bytes / 4 : bytes;
    const int total = min(rows, height - top) * members * units;
#pragma unroll 4
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        const int line = i / units, unit = i - line * units;
        const int row = line / members, m = line - row * members;
        const int y = top + row + places[m].down;
        const bool inside = y >= 0 && y < height;
        const uint8_t* from = pixels + (int64_t(places[m].example) * height + y) * bytes;
        unsigned char* to = lines + line * stride;
        if (by_words)
            reinterpret_cast<uint32_t*>(to)[unit] = inside ? reinterpret_cast<const uint32_t*>(from)[unit] : 0u;
        else
            to[unit] = inside ? from[unit] : 0;
    }
    __syncthreads();

    const int lanes = blockDim.x / own;  // pixels at a time
    const int lane = threadIdx.x / own, pair_number = begin + threadIdx.x - lane * own;
    if (lane >= lanes) return;
    int start[2], step[2], left[2];
    float minus[2], times[2];
    for (int half = 0; half < 2; half++) {
        const int channel = 2 * pair_number + half, m = channel / colours - first, colour = channel % colours;
        const bool owned = m < members;
        left[half] = !owned ? -width : places[m].flip ? width - 1 + places[m].across : places[m].across;
        step[half] = owned && places[m].flip ? -1 : 1;
        start[half] = owned ? m * stride + colour : 0;
        minus[half] = owned ? mean[colour] : 0.0f;
        times[half] = owned ? scale[colour] : 0.0f;  // so padding is 0, like everything outside times 0
    }
    const int row_bytes = members * stride;
    const int pixels_here = min(rows, height - top) * width;
    uint32_t* to = out + (int64_t(image) * height + top) * width * pairs + pair_number;
#pragma unroll 4
    for (int i = lane; i < pixels_here; i += lanes) {
        const int row = i / width, x = i - row * width;
        float value[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int column = left[half] + step[half] * x;
            const bool inside = column >= 0 && column < width;
            const int byte = inside ? lines[row * row_bytes + start[half] + column * colours] : 0;
            value[half] = (float(byte) - minus[half]) * times[half];
        }
        to[int64_t(i) * pairs] = pair(value[0], value[1]);
    }
}
EXPORT_KERNEL(images)
