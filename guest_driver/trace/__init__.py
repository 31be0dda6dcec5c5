"""``vgc trace``: what processes write down (`lines`), as a timeline (`perfetto`) and in numbers (`summary`)."""
