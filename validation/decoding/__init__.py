"""The parts of the generation loop: its lanes and caches, its noise, its messages, and the methods by kind."""
