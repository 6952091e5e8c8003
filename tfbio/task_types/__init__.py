"""What fine-tuning learns: one file for each type of task, and the table of tasks."""
