"""The CUDA engine on a GPU, from a guest's program down to the hardware; what the fake driver can follow runs there too."""
