/* Names and texts of errors. */
#include "fake.h"

static const struct {
    int number;
    const char *name, *text;
} errors[] = {
#define FAKE_ERROR(name, number, text) {number, #name, text},
#include "errors.h"
#undef FAKE_ERROR
};

enum { NUM_ERRORS = sizeof errors / sizeof errors[0] };

const char *fake_error_name(CUresult error)
{
    for (int i = 0; i < NUM_ERRORS; i++)
        if (errors[i].number == (int)error)
            return errors[i].name;
    return "CUDA_ERROR_UNRECOGNISED";
}

static CUresult look_up(CUresult error, const char **found, bool name)
{
    *found = NULL;
    for (int i = 0; i < NUM_ERRORS; i++)
        if (errors[i].number == (int)error)
            *found = name ? errors[i].name : errors[i].text;
    return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult cuGetErrorName(CUresult error, const char **name)
{
    return look_up(error, name, true);
}

FAKE_API CUresult cuGetErrorString(CUresult error, const char **text)
{
    return look_up(error, text, false);
}
