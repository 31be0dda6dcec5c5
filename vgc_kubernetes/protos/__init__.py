"""Messages of the kubelet and of KubeVirt. ``python -m tools.protobufs`` generates them from the .proto files here."""
