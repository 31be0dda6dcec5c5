/* Descriptors of textures and surfaces: written by the CPU engine into the VM's memory, read by kernels and by the runtime
 * (vhost_backend/engines/cpu/texture.c). A texture or surface object is the address of its descriptor. C and CUDA C++. */
#ifndef VGC_TEXTURE_LAYOUT_H
#define VGC_TEXTURE_LAYOUT_H

enum {
    VGC_TEXTURE_MAGIC = 0x58455456,
    VGC_SURFACE_MAGIC = 0x46525356,
    VGC_DESCRIPTOR_BYTES = 128,
};

/* Sampling that kernels do themselves; the runtime does the rest. */
enum {
    VGC_SAMPLE_OTHER = 0,
    VGC_SAMPLE_NEAREST = 1, /* nearest texel, clamped */
    VGC_SAMPLE_LINEAR = 2,  /* linear filter over texels of 32-bit floats, clamped */
};

enum {
    VGC_READ_NORMALISED = 1, /* coordinates run from 0 to 1 */
    VGC_READ_AS_FLOAT = 2,   /* 8- and 16-bit integers are read as floats */
    VGC_READ_SRGB = 4,
    VGC_READ_LINEAR = 8,
    VGC_READ_LINEAR_LEVELS = 16,
};

/* Values of the CUDA interface. */
enum { VGC_ADDRESS_WRAP = 0, VGC_ADDRESS_CLAMP = 1, VGC_ADDRESS_MIRROR = 2, VGC_ADDRESS_BORDER = 3 };
enum { VGC_TEXEL_SIGNED = 0, VGC_TEXEL_UNSIGNED = 1, VGC_TEXEL_FLOAT = 2 };
enum { VGC_BOUNDARY_ZERO = 0, VGC_BOUNDARY_CLAMP = 1, VGC_BOUNDARY_TRAP = 2 };

struct vgc_texture {
    unsigned magic;
    unsigned char raw;    /* bytes of a texel if kernels get it as it is in memory; else 0 */
    unsigned char sample; /* VGC_SAMPLE_* */
    unsigned char kind;   /* VGC_TEXEL_* */
    unsigned char bits;   /* of a channel: 8, 16, 32 */
    unsigned long long data;
    unsigned width; /* texels of level 0; at least 1, like the next three */
    unsigned height;
    unsigned depth;
    unsigned layers;          /* a cubemap has 6 for each of its own */
    unsigned long long pitch; /* bytes from row to row */
    unsigned long long slice; /* bytes from slice to slice, or from layer to layer */
    float scale[3];           /* texels per unit of a coordinate */
    unsigned char channels;   /* 1, 2, 4 */
    unsigned char flags;      /* VGC_READ_* */
    unsigned char address[3]; /* VGC_ADDRESS_* along x, y, z */
    unsigned char reserved[3];
    float border[4];
    float bias;
    float min_level;
    float max_level;
    unsigned levels;       /* level n + 1 follows level n; sizes are halved, and rows lie close together */
    unsigned level_layers; /* layers between one level and the next; at least 1 */
    unsigned char rest[24];
};

enum vgc_sample_shape { VGC_SAMPLE_1D = 1, VGC_SAMPLE_2D = 2, VGC_SAMPLE_3D = 3, VGC_SAMPLE_CUBE = 4 };
enum vgc_sample_how {
    VGC_SAMPLE_PLAIN = 0,
    VGC_SAMPLE_LOD = 1,
    VGC_SAMPLE_GRADIENT = 2,
    VGC_SAMPLE_FETCH = 3,  /* texel number `layer` of linear memory */
    VGC_SAMPLE_GATHER = 4, /* channel `layer` of the four texels that a linear filter would use */
};

/* Arguments of the runtime's sampling function, and its result: floats, or the bits of 32-bit integers. */
struct vgc_sample {
    int shape; /* enum vgc_sample_shape */
    int how;   /* enum vgc_sample_how */
    float at[3];
    int layer; /* a cubemap's: 6 faces belong to one */
    float detail;
    float dx[3]; /* derivatives of `at` */
    float dy[3];
};
struct vgc_channels {
    float value[4];
};

#endif
