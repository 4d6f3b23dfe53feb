"""What running jobs gain and give back: shares, growth, reclaimed devices."""
