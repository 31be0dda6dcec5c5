"""The vhost-user protocol, backend side: messages, connection, memory, vrings, session."""
