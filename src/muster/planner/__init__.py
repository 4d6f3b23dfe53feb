"""How is a job laid out?"""
