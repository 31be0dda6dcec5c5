/* Marks of this process in time, for the host's control system: many to a request, which nobody waits for. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

_Static_assert(sizeof(struct vgc_request) + sizeof(struct vgc_body_marks) + sizeof(((struct vgc_marks *)0)->bytes) <=
                   VGC_SLOT_REQUEST_BYTES,
               "marks fit a slot");

_Static_assert(2 * VGC_MARKS_AT_ONCE <= VGC_MARKS_BURST, "as vgc.h says");

/* ---- texts: the host takes UTF-8 without control characters ----------------------------------- */

/* Bytes of the character at `text`, 0: the host would refuse it. */
static size_t character(const unsigned char *text, size_t left)
{
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0x20 || text[0] == 0x7f || (text[0] >= 0x80 && text[0] < 0xc2) || text[0] > 0xf4 || size > left)
        return 0;
    uint32_t value = size == 1 ? text[0] : text[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (text[i] & 0x3f);
    }
    bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
    bool is_control = value >= 0x80 && value <= 0x9f;
    return value < LEAST[size] || value > 0x10ffff || is_surrogate || is_control ? 0 : size;
}

/* Copies up to `room` bytes; the number of bytes. */
static uint16_t put_text(uint8_t *to, const char *text, size_t room)
{
    size_t left = text != NULL ? strnlen(text, room + 4) : 0;
    const unsigned char *from = (const unsigned char *)text;
    uint16_t done = 0;
    while (left > 0) {
        size_t size = character(from, left);
        size_t step = size != 0 ? size : 1;
        if (done + step > room)
            break;
        if (size != 0)
            memcpy(to + done, from, size);
        else
            to[done] = '?';
        done += (uint16_t)step;
        from += step;
        left -= step;
    }
    return done;
}

/* ---- marks ---------------------------------------------------------------------------------- */

bool vgc_marks_add(struct vgc_marks *marks, const struct vgc_mark_info *mark)
{
    uint8_t one[sizeof(struct vgc_mark) + VGC_MAX_MARK_TEXT + 3 * VGC_MAX_MARK_NAME];
    struct vgc_mark head = {.begin_ns = mark->begin_ns,
                            .end_ns = mark->end_ns,
                            .payload = mark->payload,
                            .kind = mark->kind,
                            .payload_kind = mark->payload_kind,
                            .thread = mark->thread,
                            .category = mark->category,
                            .colour = mark->colour};
    uint8_t *to = one + sizeof(head);
    to += head.text_len = put_text(to, mark->text, VGC_MAX_MARK_TEXT);
    to += head.domain_len = put_text(to, mark->domain, VGC_MAX_MARK_NAME);
    to += head.category_len = put_text(to, mark->category_name, VGC_MAX_MARK_NAME);
    to += head.thread_len = put_text(to, mark->thread_name, VGC_MAX_MARK_NAME);
    memcpy(one, &head, sizeof(head));
    size_t size = (size_t)(to - one);
    if (size > sizeof(marks->bytes) - marks->size || marks->count >= VGC_MAX_MARKS)
        return false;
    memcpy(marks->bytes + marks->size, one, size);
    marks->size += (uint32_t)size;
    marks->count++;
    return true;
}

int vgc_marks_send(struct vgc_device *device, struct vgc_marks *marks)
{
    struct vgc_message message;
    struct vgc_body_marks body = {
        .num_marks = marks->count, .marks_len = marks->size, .dropped = marks->dropped, .process = (uint32_t)getpid()};
    int result = vgc_message_begin(&message, device, VGC_OP_MARKS, 0, false);
    if (result != VGC_OK)
        return result;
    (void)put_text(body.name, vgc_program_name(), sizeof(body.name));
    body.now_ns = vgc_now_ns();
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    (void)vgc_message_put(&message, marks->bytes, marks->size);
    marks->count = marks->size = marks->dropped = 0;
    result = vgc_message_send(&message);
    if (result == VGC_OK)
        vgc_job_drop(message.job); /* whatever the host answers, a program goes on */
    return result;
}
