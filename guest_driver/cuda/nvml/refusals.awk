# Writes the functions of refusals.txt. They take no more of their parameters than they need.
BEGIN {
    print "#include \"refusals.h\""
}
/^#/ || NF == 0 { next }
$2 == "device" {
    print "__attribute__((visibility(\"default\"))) int " $1 "(const void *device);"
    print "int " $1 "(const void *device) { return nv_refuse_device(device); }"
}
$2 == "library" {
    print "__attribute__((visibility(\"default\"))) int " $1 "(void);"
    print "int " $1 "(void) { return nv_refuse(); }"
}
