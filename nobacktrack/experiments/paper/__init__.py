"""The experiments of the paper, section 3: six figures, and what it says of them."""
