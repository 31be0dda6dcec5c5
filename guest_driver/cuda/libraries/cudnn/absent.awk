# Writes functions that refuse by name: those of absent.txt.
BEGIN { print "#include \"absent.h\"" }
{ print "ABSENT(" $1 ")" }
