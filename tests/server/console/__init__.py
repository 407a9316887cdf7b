"""Who may see and who may change, over real HTTP."""
