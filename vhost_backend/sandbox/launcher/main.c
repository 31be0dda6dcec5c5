/* The launcher as a program. */
#include "launcher.h"

int main(int argc, char **argv)
{
    struct vgc_options options;
    vgc_parse_options(argc, argv, &options);
    if (options.argv[0] == NULL)
        vgc_die("launcher", "no program to run");
    vgc_launch(&options);
    return VGC_EXIT_SETUP; /* never: there is a program */
}
