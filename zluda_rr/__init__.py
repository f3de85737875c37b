"""zluda-rr: rewrites DLSS Ray Reconstruction PTX for RDNA4 under ZLUDA, with proof."""
