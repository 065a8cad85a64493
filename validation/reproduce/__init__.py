"""Make all published figures and tables again: the tasks, their steps and the engine that runs them."""
