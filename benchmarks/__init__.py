"""How fast is it, and beside whom? Each script prints ratios against a peer measured in the same run."""
