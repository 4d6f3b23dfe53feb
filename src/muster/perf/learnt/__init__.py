"""What jobs and their like have shown, turned into what is believed of them: speed, worth, length."""
