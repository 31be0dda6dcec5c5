/* The file that `vgc last-error` shows. libcudart and libnvidia-ml write it. */
#ifndef VGC_CUDART_ERROR_FILE_H
#define VGC_CUDART_ERROR_FILE_H

/* Replaces the file's text. */
void rt_write_error_file(const char *text);

#endif
