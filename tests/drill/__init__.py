"""The fault drill: processes of a host are killed, stopped and slowed down while three guests compute."""
