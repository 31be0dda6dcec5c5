"""Messages of the kubelet. ``python -m tools.protobufs`` generates them from the .proto files here."""
