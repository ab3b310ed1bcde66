"""Take a few rows through a recurrent layer's convolution, gates and delta rule in one launch."""
