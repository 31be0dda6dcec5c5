/* Functions that frameworks link and that this cuDNN does not have. Their parameters do not matter. */
#ifndef VGC_CUDNN_ABSENT_H
#define VGC_CUDNN_ABSENT_H

#include <stdio.h>

#include "dnn.h"

#define ABSENT(name)                                                                                                   \
    API dnn_status name(void);                                                                                         \
    API dnn_status name(void)                                                                                          \
    {                                                                                                                  \
        static bool is_told;                                                                                           \
        if (!__atomic_exchange_n(&is_told, true, __ATOMIC_RELAXED))                                                    \
            (void)fprintf(stderr,                                                                                      \
                          "virtio-gpu-compute: this program uses " #name "(), which this cuDNN does not have; "        \
                          "in PyTorch, torch.backends.cudnn.enabled = False does without cuDNN\n");                    \
        return dnn_fail(DNN_NOT_SUPPORTED, #name "() is not there");                                                   \
    }

#endif
