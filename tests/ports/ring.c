/* Rings as bytes: adds a chain of two descriptors and an indirect one of three, pops and returns both, and prints what
 * lies in the memory of the ring after each step, in hexadecimal. */
#include <stdio.h>
#include <string.h>

#include "vgc_vring.h"

enum { NUM = 4, SIZE = 4096, AVAIL = 64, USED = 128, TABLE = 256 };
static const uint64_t GPA = 0x1122334455667000;

static _Alignas(64) uint8_t region[SIZE];
static struct vgc_vq_driver driver;
static struct vgc_vq_device device;

static void print(const char *part, uint32_t at, uint32_t size)
{
    printf("%s ", part);
    for (uint32_t i = 0; i < size; i++)
        printf("%02x", region[at + i]);
    printf("\n");
}

static int failed(const char *step)
{
    printf("%s failed\n", step);
    return 1;
}

int main(void)
{
    static struct vgc_chain chain;
    const struct vgc_mem mem = {1, {{GPA, GPA, SIZE, region}}};
    const struct vgc_sg direct[] = {{GPA + 0x812, 0x304}, {GPA + 0x834, 0x56}};
    const struct vgc_sg indirect[] = {{GPA + 0x900, 0x11}, {GPA + 0xa00, 0x12}, {GPA + 0xb00, 0x13}};
    struct vgc_ring ring = {(void *)region, (void *)(region + AVAIL), (void *)(region + USED), NUM};
    if (vgc_vq_driver_init(&driver, ring, true) != 0 ||
        vgc_vq_device_init(&device, &mem, NUM, GPA, GPA + AVAIL, GPA + USED, 0, true, true) != 0)
        return failed("init");
    if (vgc_vq_add(&driver, direct, 1, 1, NULL, 0, &driver) != 0 ||
        vgc_vq_add(&driver, indirect, 2, 1, (void *)(region + TABLE), GPA + TABLE, &device) != 2)
        return failed("add");
    print("descriptors", 0, VGC_DESC_BYTES(NUM));
    print("table", TABLE, 48);
    print("avail", AVAIL, VGC_AVAIL_BYTES(NUM));
    for (uint32_t i = 0; i < 2; i++)
        if (vgc_vq_pop(&device, &mem, &chain) != 1 || vgc_vq_push(&device, chain.head, 0x10203 + i) != 0)
            return failed("pop");
    if (chain.num_readable != 2 || chain.num_writable != 1 || chain.spans[2].len != 0x13)
        return failed("walk");
    (void)vgc_vq_enable_kick(&device);
    print("used", USED, VGC_USED_BYTES(NUM));
    void *token;
    uint32_t len;
    if (vgc_vq_take(&driver, &token, &len) != 1 || token != &driver || len != 0x10203 ||
        vgc_vq_take(&driver, &token, &len) != 1 || token != &device || len != 0x10204)
        return failed("take");
    (void)vgc_vq_enable_call(&driver);
    print("event", AVAIL + VGC_AVAIL_BYTES(NUM) - 2, 2);
    return 0;
}
