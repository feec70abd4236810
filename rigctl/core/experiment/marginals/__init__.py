"""How variables vary when they are left alone, and when that changes."""
