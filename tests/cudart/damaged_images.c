/* Images that are cut off or damaged: files of modules and inputs of linkers, whose length is known, are refused, and
 * not read further than they go. argv[1]: a file for them. */
#include <elf.h>
#include <nvJitLink.h>

#include "driver_checks.h"

#define FATBIN 0xba55ed50u
#define WRAPPER 0x466243b1u

struct image {
    const char *what;
    size_t size;
    unsigned char bytes[128];
};

/* Appends little endian numbers of 1 to 8 bytes. */
static void put(struct image *image, uint64_t value, size_t bytes)
{
    memcpy(image->bytes + image->size, &value, bytes);
    image->size += bytes;
}

static struct image image_of(const char *what, const char *head, size_t size)
{
    struct image image = {.what = what, .size = size};
    memcpy(image.bytes, head, size);
    return image;
}

static struct image fatbin(const char *what, uint64_t header, uint64_t content)
{
    struct image image = {.what = what};
    put(&image, FATBIN, 4);
    put(&image, 1, 2);
    put(&image, header, 2);
    put(&image, content, 8);
    return image;
}

static struct image elf(const char *what, uint64_t sections, uint64_t segments, uint16_t count)
{
    Elf64_Ehdr header = {.e_shoff = sections, .e_phoff = segments, .e_shnum = count, .e_phnum = count};
    header.e_shentsize = header.e_phentsize = 0xffff;
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    return image_of(what, (const char *)&header, sizeof(header));
}

/* Code in the form that mynvcc writes. */
static struct image blob(const char *what, uint64_t name, uint64_t options, uint64_t text)
{
    struct image image = image_of(what, "VGCUDA1", 8);
    put(&image, 0, 4);
    put(&image, name, 4);
    put(&image, options, 4);
    put(&image, 0, 4);
    put(&image, text, 8);
    return image;
}

static void check(const struct image *image, const char *path)
{
    CUmodule module;
    CUlibrary library;
    CUlinkState state;
    nvJitLinkHandle link;
    const char *options[] = {"-arch=sm_80"};
    printf("%s\n", image->what);
    void *bytes = malloc(image->size); /* of this size, for sanitizers */
    memcpy(bytes, image->bytes, image->size);
    FILE *file = fopen(path, "wbe");
    CHECK(file != NULL && fwrite(bytes, 1, image->size, file) == image->size && fclose(file) == 0);
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&module, path));
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLinkCreate(0, NULL, NULL, &state));
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuLinkAddFile(state, CU_JIT_INPUT_FATBINARY, path, 0, NULL, NULL));
    ENDS(CUDA_ERROR_INVALID_IMAGE,
         cuLinkAddData(state, CU_JIT_INPUT_FATBINARY, bytes, image->size, "it", 0, NULL, NULL));
    OK(cuLinkDestroy(state));
    CHECK(nvJitLinkCreate(&link, 1, options) == NVJITLINK_SUCCESS);
    CHECK(nvJitLinkAddData(link, NVJITLINK_INPUT_ANY, bytes, image->size, "it") == NVJITLINK_ERROR_UNRECOGNIZED_INPUT);
    CHECK(nvJitLinkDestroy(&link) == NVJITLINK_SUCCESS);
    free(bytes);
}

/* A size of which no copy can be made. */
static void check_sizes(void)
{
    CUlinkState state;
    OK(cuLinkCreate(0, NULL, NULL, &state));
    ENDS(CUDA_ERROR_OUT_OF_MEMORY,
         cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)SCALE, SIZE_MAX, "it", 0, NULL, NULL));
    ENDS(CUDA_ERROR_OUT_OF_MEMORY,
         cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)SCALE, SIZE_MAX - 64, "it", 0, NULL, NULL));
    OK(cuLinkDestroy(state));
}

int main(int argc, char **argv)
{
    struct image unpacked = image_of("a pointer", "", 0),
                 linked = image_of("a link's image that is longer", "VGCLINK", 8);
    put(&unpacked, WRAPPER, 4);
    put(&unpacked, 1, 4);
    put(&unpacked, 0x41414141, 8);
    put(&unpacked, 0, 8);
    put(&linked, UINT64_C(1) << 40, 8);
    const struct image images[] = {
        fatbin("a fat binary that is longer", 16, UINT64_C(1) << 40),
        fatbin("a fat binary whose lengths wrap round", 16, UINT64_MAX - 15),
        fatbin("a fat binary without a header", 0, 16),
        image_of("the begin of a fat binary", "\x50\xed\x55\xba", 4),
        elf("a cubin whose sections are missing", UINT64_C(1) << 40, 0, 1),
        elf("a cubin whose segments are missing", 0, 64, 1),
        elf("a cubin whose sections wrap round", UINT64_MAX - 0xffff + 1, UINT64_MAX - 0xffff + 1, 1),
        image_of("the begin of a cubin", ELFMAG, SELFMAG),
        blob("code of mynvcc's that is longer", 0, 0, UINT64_C(1) << 40),
        blob("code of mynvcc's whose lengths wrap round", 0xffffffff, 0xffffffff, UINT64_MAX - 0xffffffff),
        blob("code of mynvcc's with options that are missing", 0, 0xffffffff, 0),
        image_of("the begin of mynvcc's code", "VGCUDA1", 8),
        image_of("the begin of a link's image", "VGCLINK", 8),
        image_of("nothing", "", 0),
        unpacked,
        linked,
    };
    CHECK(argc == 2);
    CUcontext context = begin();
    (void)setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++)
        check(&images[i], argv[1]);
    check_sizes();
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
