# Writes the table of versions.txt.
BEGIN {
    print "#include \"runtime.h\""
    print "const struct rt_driver_version RT_DRIVER_VERSIONS[] = {"
}
/^#/ { next }
{ print "    {\"" $1 "\", " $2 "}," }
END {
    print "};"
    print "const size_t RT_NUM_DRIVER_VERSIONS = sizeof(RT_DRIVER_VERSIONS) / sizeof(RT_DRIVER_VERSIONS[0]);"
}
