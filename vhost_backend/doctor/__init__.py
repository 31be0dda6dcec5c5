"""``vgcd doctor``: features and packages that this host lacks, and how to get them."""
