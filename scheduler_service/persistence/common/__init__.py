"""What several stores have in common: pages of a list, threads that write, points where tests break them."""
