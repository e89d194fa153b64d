// The images of one step: looked up, mirrored, shifted, scaled and joined along channels.
//
// A block computes some rows of one image for some tiles of 16 channels: grid (parts of the height, batch, parts of the
// tiles). It first loads the rows of bytes it needs into shared memory, many bytes at a time, because neighbouring
// channels belong to different images. Then each warp writes one row of one tile after another, four pixels at once.
// Images are written in the layout of activations (planes.cuh): (batch, channels / 16, height, width, 16).
#include "common.cuh"

struct Place {
    int example;
    int down;
    int across;
    int flip;
};

__device__ __forceinline__ void put(unsigned char* line, int unit, uint4 value) {
    uint32_t* words = reinterpret_cast<uint32_t*>(line) + 4 * unit;  // lines are aligned to words only
    words[0] = value.x, words[1] = value.y, words[2] = value.z, words[3] = value.w;
}
__device__ __forceinline__ void put(unsigned char* line, int unit, uint32_t value) {
    reinterpret_cast<uint32_t*>(line)[unit] = value;
}
__device__ __forceinline__ void put(unsigned char* line, int unit, uint8_t value) { line[unit] = value; }

// Rows `top` and the following of every member's image, moved by its shift, into lines [row][member][stride].
template <class Unit>
__device__ __forceinline__ void bring(unsigned char* lines, const uint8_t* __restrict__ pixels, const Place* places,
                                      int members, int rows, int top, int height, int bytes, int stride) {
    const int units = bytes / int(sizeof(Unit)), total = rows * members * units;
#pragma unroll 4
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        const int line = i / units, unit = i - line * units;
        const int row = line / members;
        const Place place = places[line - row * members];
        const int y = top + row + place.down;
        Unit value = Unit();
        if (y >= 0 && y < height)
            value = reinterpret_cast<const Unit*>(pixels + (int64_t(place.example) * height + y) * bytes)[unit];
        put(lines + line * stride, unit, value);
    }
}

// Channel s * colours + k of pixel (y, x) is (byte - mean[k]) * scale[k]; byte = pixels[example, y + down, x' +
// across, k], or 0 outside, and x' is x or its mirror. Channels that no slot owns are 0. Image b stands at position
// *cursor * batch + b, the last one again where there are no more. `order` has one row for all slots or one for
// each; flip and shift have one for each, or are null.
extern "C" __global__ void __launch_bounds__(256)
    images(const uint8_t* __restrict__ pixels, const float* __restrict__ mean, const float* __restrict__ scale,
           const int* __restrict__ order, const uint8_t* __restrict__ flip, const int8_t* __restrict__ shift,
           const int64_t* __restrict__ cursor, uint32_t* __restrict__ out, int positions, int batch, int slots,
           int height, int width, int colours, int channels, int order_rows) {
    DYNAMIC_SHARED(memory);
    const int tiles = channels / 16;
    const int most_rows = (height + gridDim.x - 1) / gridDim.x, top = blockIdx.x * most_rows;
    const int most_tiles = (tiles + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * most_tiles;
    const int rows = min(most_rows, height - top), own = min(most_tiles, tiles - begin);
    if (own <= 0 || rows <= 0) return;
    const int first = 16 * begin / colours;
    const int members = max(0, min(slots, (16 * (begin + own) - 1) / colours + 1) - first);
    const int bytes = width * colours;
    const int stride = ((bytes + 3) / 4 | 1) * 4;  // an odd number of words, so that slots lie in different banks
    Place* places = reinterpret_cast<Place*>(memory);
    unsigned char* lines = memory + members * sizeof(Place);

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
    if (bytes % 16 == 0)
        bring<uint4>(lines, pixels, places, members, rows, top, height, bytes, stride);
    else if (bytes % 4 == 0)
        bring<uint32_t>(lines, pixels, places, members, rows, top, height, bytes, stride);
    else
        bring<uint8_t>(lines, pixels, places, members, rows, top, height, bytes, stride);
    __syncthreads();

    const int lane = threadIdx.x % 32, two = lane % 8, ahead = lane / 8;
    for (int task = threadIdx.x / 32; task < own * rows; task += blockDim.x / 32) {
        const int row = task / own, tile = begin + task - row * own;
        const unsigned char* from[2];
        int column[2], step[2];
        float minus[2], times[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int channel = 16 * tile + 2 * two + half, slot = channel / colours, m = slot - first;
            const int colour = channel - slot * colours;
            const bool owned = m < members;
            const Place place = owned ? places[m] : Place{0, 0, -width, 0};  // outside for every pixel
            column[half] = place.across + (place.flip ? width - 1 - ahead : ahead);
            step[half] = place.flip ? -4 : 4;
            from[half] = lines + (row * members + (owned ? m : 0)) * stride + colour;
            minus[half] = owned ? mean[colour] : 0.0f;
            times[half] = owned ? scale[colour] : 0.0f;
        }
        uint32_t* to = out + ((int64_t(image) * tiles + tile) * height + top + row) * width * 8 + two;
#pragma unroll 4
        for (int x = ahead; x < width; x += 4) {
            float value[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const bool inside = uint32_t(column[half]) < uint32_t(width);
                const int byte = inside ? from[half][column[half] * colours] : 0;
                value[half] = (float(byte) - minus[half]) * times[half];
                column[half] += step[half];
            }
            to[x * 8] = pair(value[0], value[1]);
        }
    }
}
EXPORT_KERNEL(images)
