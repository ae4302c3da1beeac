/* Copies and fills: marked as operations of their stream, and done in its turn (queue.h). */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#include "queue.h"

enum { HOST = 1, DEVICE = 2, UNIFIED = 4 };
static const size_t MAX_PITCH = 0x7fffffff;

/* A box of bytes: `depth` slices of `rows` rows of `width` bytes. */
typedef struct {
    uintptr_t base;
    size_t pitch, slice; /* bytes from row to row and from slice to slice */
    bool device;         /* the address must be one that the driver knows */
} side;

typedef struct {
    size_t width, rows, depth;
} box;

static size_t reach(const side *at, const box *of)
{
    return (of->depth - 1) * at->slice + (of->rows - 1) * at->pitch + of->width;
}

static bool lies_in_one(uintptr_t address, size_t size)
{
    const fm_memory *memory = fm_memory_at(address);
    return memory && address - memory->base + size <= memory->size;
}

/* A device pointer must lie in one allocation; one of another device is noted. */
static int check(const side *at, const box *of, const fm_stream *stream)
{
    if (at->device && !lies_in_one(at->base, reach(at, of)))
        return INVALID_VALUE;
    const fm_memory *memory = fm_memory_at(at->base);
    if (memory && memory->kind != FM_PINNED && memory->domain->device != stream->domain->device)
        fm_log("PEER m%u stream=%s", memory->number, stream->name);
    return OK;
}

/* The stream must belong to the current context. */
static int stream_here(CUstream handle, fm_stream **stream)
{
    int rc = find_stream(handle, stream);
    if (rc == OK && (*stream)->domain != current_context())
        return INVALID_HANDLE;
    return rc;
}

typedef struct {
    side to, from;
    box of;
    void *staged; /* memory of the program, as it was when the copy was issued; or NULL */
} copying;

static void copy(void *argument)
{
    const copying *it = argument;
    for (size_t k = 0; k < it->of.depth; k++)
        for (size_t j = 0; j < it->of.rows; j++)
            fm_move((void *)(it->to.base + k * it->to.slice + j * it->to.pitch),
                    (void *)(it->from.base + k * it->from.slice + j * it->from.pitch),
                    it->of.width);
    free(it->staged);
}

/* Memory that the driver does not know may be changed as soon as the call returns.  Of a capture
 * it is read when the graph runs. */
static void stage(copying *it)
{
    size_t size = reach(&it->from, &it->of);
    it->staged = fm_allocate(size);
    memcpy(it->staged, (void *)it->from.base, size);
    it->from.base = (uintptr_t)it->staged;
}

static int move(CUstream handle, const side *to, const side *from, box of)
{
    fm_stream *stream;
    int rc = stream_here(handle, &stream);
    if (rc != OK || !of.width || !of.rows || !of.depth)
        return rc;
    rc = check(to, &of, stream);
    if (rc == OK)
        rc = check(from, &of, stream);
    if (rc == OK)
        rc = front_error(
            fm_touch_copy(stream, to->base, reach(to, &of), from->base, reach(from, &of)));
    if (rc != OK)
        return rc;
    copying it = {*to, *from, of, NULL};
    if (fm_is_asynchronous() && !stream->capture && !fm_memory_at(from->base))
        stage(&it);
    fm_queue_run(stream, copy, &it, sizeof it);
    return OK;
}

static side at(uintptr_t base, bool device)
{
    return (side){base, 0, 0, device};
}

static int move_flat(CUstream handle, side to, side from, size_t size)
{
    return move(handle, &to, &from, (box){size, 1, 1});
}

static int then_wait(CUstream handle, int rc)
{
    fm_stream *stream;
    if (rc == OK)
        rc = find_stream(handle, &stream);
    return rc == OK ? front_error(fm_stream_sync(stream)) : rc;
}

static bool is_pinned(const void *address)
{
    const fm_memory *memory = fm_memory_at((uintptr_t)address);
    return memory && memory->kind == FM_PINNED;
}

#define LEGACY ((CUstream)1)
#define DEV(address) at((uintptr_t)(address), true)
#define ANY(address) at((uintptr_t)(address), false)

/* ---- flat copies ---- */

FM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s from=%s bytes=%zu stream=%s", M(to), M(from), size, S(stream));
    LEAVE(move_flat(stream, ANY(to), DEV(from), size));
}

FM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size,
                                        CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s from=%s bytes=%zu stream=%s", M(to), M(from), size, S(stream));
    LEAVE(move_flat(stream, DEV(to), ANY(from), size));
}

FM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size,
                                        CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s from=%s bytes=%zu stream=%s", M(to), M(from), size, S(stream));
    LEAVE(move_flat(stream, DEV(to), DEV(from), size));
}

FM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s from=%s bytes=%zu stream=%s", M(to), M(from), size, S(stream));
    LEAVE(move_flat(stream, ANY(to), ANY(from), size));
}

FM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                     CUcontext from_context, size_t size, CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s in=%s from=%s in=%s bytes=%zu stream=%s", M(to), X(to_context),
          M(from), X(from_context), size, S(stream));
    LEAVE(move_flat(stream, DEV(to), DEV(from), size));
}

/* The host waits for what comes to it; what it sends is only staged when the call returns. */
FM_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "to=%s from=%s bytes=%zu", M(to), M(from), size);
    LEAVE(then_wait(LEGACY, move_flat(LEGACY, ANY(to), DEV(from), size)));
}

FM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "to=%s from=%s bytes=%zu", M(to), M(from), size);
    int rc = move_flat(LEGACY, DEV(to), ANY(from), size);
    LEAVE(is_pinned(from) ? then_wait(LEGACY, rc) : rc);
}

FM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "to=%s from=%s bytes=%zu", M(to), M(from), size);
    LEAVE(move_flat(LEGACY, DEV(to), DEV(from), size));
}

FM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "to=%s from=%s bytes=%zu", M(to), M(from), size);
    LEAVE(then_wait(LEGACY, move_flat(LEGACY, ANY(to), ANY(from), size)));
}

/* ---- boxes ---- */

static int side_of(side *made, int type, const void *host, CUdeviceptr device, size_t x, size_t y,
                   size_t z, size_t pitch, size_t height, const box *of)
{
    if (type != HOST && type != DEVICE && type != UNIFIED)
        return NOT_SUPPORTED; /* arrays */
    if (pitch > MAX_PITCH || (pitch && pitch < x + of->width))
        return INVALID_VALUE;
    if ((!pitch && of->rows > 1) || (of->depth > 1 && height < y + of->rows))
        return INVALID_VALUE;
    uintptr_t base = type == HOST ? (uintptr_t)host : (uintptr_t)device;
    *made = (side){base + z * height * pitch + y * pitch + x, pitch, height * pitch,
                   type == DEVICE};
    return OK;
}

static int move_2d(CUstream stream, const CUDA_MEMCPY2D *it)
{
    box of = {it->WidthInBytes, it->Height, 1};
    side to, from;
    int rc = side_of(&to, (int)it->dstMemoryType, it->dstHost, it->dstDevice, it->dstXInBytes,
                     it->dstY, 0, it->dstPitch, 0, &of);
    if (rc == OK)
        rc = side_of(&from, (int)it->srcMemoryType, it->srcHost, it->srcDevice, it->srcXInBytes,
                     it->srcY, 0, it->srcPitch, 0, &of);
    return rc == OK ? move(stream, &to, &from, of) : rc;
}

static int move_3d(CUstream stream, const CUDA_MEMCPY3D *it)
{
    box of = {it->WidthInBytes, it->Height, it->Depth};
    side to, from;
    if (it->srcLOD || it->dstLOD)
        return INVALID_VALUE;
    int rc = side_of(&to, (int)it->dstMemoryType, it->dstHost, it->dstDevice, it->dstXInBytes,
                     it->dstY, it->dstZ, it->dstPitch, it->dstHeight, &of);
    if (rc == OK)
        rc = side_of(&from, (int)it->srcMemoryType, it->srcHost, it->srcDevice, it->srcXInBytes,
                     it->srcY, it->srcZ, it->srcPitch, it->srcHeight, &of);
    return rc == OK ? move(stream, &to, &from, of) : rc;
}

FM_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *it, CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "width=%zu rows=%zu stream=%s", it->WidthInBytes, it->Height,
          S(stream));
    LEAVE(move_2d(stream, it));
}

FM_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *it, CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "width=%zu rows=%zu depth=%zu stream=%s", it->WidthInBytes, it->Height,
          it->Depth, S(stream));
    LEAVE(move_3d(stream, it));
}

FM_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *it)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "width=%zu rows=%zu", it->WidthInBytes, it->Height);
    LEAVE(then_wait(LEGACY, move_2d(LEGACY, it)));
}

/* ---- fills ---- */

typedef struct {
    char *base;
    size_t item, count;
    char value[4];
} filling;

static void set_items(void *argument)
{
    const filling *it = argument;
    for (size_t i = 0; i < it->count; i++)
        memcpy(it->base + i * it->item, it->value, it->item);
}

static int fill(CUstream handle, CUdeviceptr to, const void *value, size_t item, size_t count)
{
    fm_stream *stream;
    side it = DEV(to);
    box of = {item * count, 1, 1};
    int rc = stream_here(handle, &stream);
    if (rc != OK || !count)
        return rc;
    rc = check(&it, &of, stream);
    bool racy = false;
    if (rc == OK)
        rc = front_error(fm_touch(stream, it.base, of.width, true, &racy));
    if (rc != OK)
        return rc;
    filling made = {(char *)it.base, item, count, {0}};
    memcpy(made.value, value, item);
    fm_queue_run(stream, set_items, &made, sizeof made);
    return OK;
}

FM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                   CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s count=%zu stream=%s", M(to), count, S(stream));
    LEAVE(fill(stream, to, &value, sizeof value, count));
}

FM_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                    CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s count=%zu stream=%s", M(to), count, S(stream));
    LEAVE(fill(stream, to, &value, sizeof value, count));
}

FM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                    CUstream stream)
{
    ENTER(CONTEXT | BLOCKS, "to=%s count=%zu stream=%s", M(to), count, S(stream));
    LEAVE(fill(stream, to, &value, sizeof value, count));
}

FM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "to=%s count=%zu", M(to), count);
    LEAVE(fill(LEGACY, to, &value, sizeof value, count));
}

FM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "to=%s count=%zu", M(to), count);
    LEAVE(fill(LEGACY, to, &value, sizeof value, count));
}
