"""Control API: server, authentication, dispatch of verbs, and pushes."""
