#!/usr/bin/python3
"""Draws the field that heat_2d has written, as a PNG beside it.

    python3 plot_field.py heat.npy
"""
import os
import sys

try:
    import matplotlib
    import numpy
except ImportError as error:
    print(f"skipped: {error} (apt-get install python3-matplotlib)")
    sys.exit(77)
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

if len(sys.argv) != 2:
    sys.exit("usage: plot_field.py FILE.npy")
field = numpy.load(sys.argv[1])
png = os.path.splitext(sys.argv[1])[0] + ".png"
figure, axes = pyplot.subplots()
figure.colorbar(axes.imshow(field, cmap="inferno", vmin=0, vmax=1), label="temperature")
figure.savefig(png, dpi=150)
print(f"{field.shape[0]} x {field.shape[1]} points are drawn in {png}")
