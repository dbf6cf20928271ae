"""Candidates side by side: quality of what they draw, size, cost, speed and memory, and a page that shows it."""
