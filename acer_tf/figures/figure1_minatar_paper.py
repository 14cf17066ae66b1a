"""Figure 1's design on MinAtar with preset `paper`, whose learning rate was not chosen there.

python -m acer_tf figure1_minatar_paper --processes=2
python -m acer_tf figure1_minatar_paper --games=breakout --agents=replay0_trust,replay4_trust --seeds=1
"""

from acer_tf.figures.figure1_minatar import figure_of

FIGURE = figure_of(__name__, "paper")
