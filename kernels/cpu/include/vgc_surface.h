/* Reads and writes of surfaces, for objects and references. x is in bytes, the other coordinates count rows, slices, layers. */
#pragma once
#include "texture_types.h"
#include "vgc_texture_layout.h"

/* Address for an access outside of the surface: where it is clamped to, 0 if it has no effect. Ends the launch if it traps. */
extern "C" __device__ unsigned long long __vgc_surface_outside(unsigned long long surface, int x, int y, int z, unsigned size, int mode);

template <class T> __VGC_FN__ T *__vgc_surface(cudaSurfaceObject_t object, int x, int y, int z, int mode) {
    const auto *s = (const struct vgc_texture *)object;
    if (s->magic == VGC_SURFACE_MAGIC && x >= 0 && x + (long long)sizeof(T) <= (long long)s->width * s->raw && (unsigned)y < s->height &&
        (unsigned)z < s->layers)
        return (T *)(s->data + (unsigned)x + (unsigned)y * s->pitch + (unsigned)z * s->slice);
    return (T *)__vgc_surface_outside(object, x, y, z, sizeof(T), mode);
}
template <class T> __VGC_FN__ T __vgc_surface_read(cudaSurfaceObject_t object, int x, int y, int z, int mode) {
    const T *from = __vgc_surface<T>(object, x, y, z, mode);
    return from ? *from : T{};
}
template <class T> __VGC_FN__ void __vgc_surface_write(T value, cudaSurfaceObject_t object, int x, int y, int z, int mode) {
    if (T *to = __vgc_surface<T>(object, x, y, z, mode))
        *to = value;
}

#define __VGC_MODE enum cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap
#define __VGC_SURFACE(name, dimensions, y, z, ...)                                                                                     \
    template <class T> __VGC_FN__ T name##read(cudaSurfaceObject_t s, __VA_ARGS__, __VGC_MODE) { return __vgc_surface_read<T>(s, x, y, z, mode); } \
    template <class T> __VGC_FN__ void name##read(T *to, cudaSurfaceObject_t s, __VA_ARGS__, __VGC_MODE) {                              \
        *to = __vgc_surface_read<T>(s, x, y, z, mode);                                                                                 \
    }                                                                                                                                  \
    template <class T> __VGC_FN__ void name##write(T value, cudaSurfaceObject_t s, __VA_ARGS__, __VGC_MODE) {                           \
        __vgc_surface_write<T>(value, s, x, y, z, mode);                                                                               \
    }                                                                                                                                  \
    template <class T> __VGC_FN__ T name##read(const surface<void, dimensions> &s, __VA_ARGS__, __VGC_MODE) {                           \
        return __vgc_surface_read<T>(s.__vgc_reference.object, x, y, z, mode);                                                         \
    }                                                                                                                                  \
    template <class T> __VGC_FN__ void name##read(T *to, const surface<void, dimensions> &s, __VA_ARGS__, __VGC_MODE) {                 \
        *to = __vgc_surface_read<T>(s.__vgc_reference.object, x, y, z, mode);                                                          \
    }                                                                                                                                  \
    template <class T> __VGC_FN__ void name##write(T value, const surface<void, dimensions> &s, __VA_ARGS__, __VGC_MODE) {              \
        __vgc_surface_write<T>(value, s.__vgc_reference.object, x, y, z, mode);                                                        \
    }
__VGC_SURFACE(surf1D, cudaSurfaceType1D, 0, 0, int x)
__VGC_SURFACE(surf2D, cudaSurfaceType2D, y, 0, int x, int y)
__VGC_SURFACE(surf3D, cudaSurfaceType3D, y, z, int x, int y, int z)
__VGC_SURFACE(surf1DLayered, cudaSurfaceType1DLayered, 0, layer, int x, int layer)
__VGC_SURFACE(surf2DLayered, cudaSurfaceType2DLayered, y, layer, int x, int y, int layer)
__VGC_SURFACE(surfCubemap, cudaSurfaceTypeCubemap, y, face, int x, int y, int face)
__VGC_SURFACE(surfCubemapLayered, cudaSurfaceTypeCubemapLayered, y, layerFace, int x, int y, int layerFace)
#undef __VGC_SURFACE
#undef __VGC_MODE
