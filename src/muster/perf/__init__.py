"""How fast would it run?"""
