"""What several stores use: pagination, packed values, the write thread, fault points of tests."""
